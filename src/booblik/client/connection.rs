//! One connection: many requests in flight, answered in order.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::error::{Ended, Fate};
use super::fifo::{Fifo, Match};
use super::stats::Counters;
use crate::booblik::wire::{self, ErrorCode, Frames, WireError};

/// Bytes of requests that may wait for the socket; a single larger request passes alone.
const MAX_UNSENT_BYTES: usize = 4 << 20;
/// A write buffer that has grown beyond this is not kept.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// What becomes of a request: the body of its answer, or why there is none.
pub(super) type Reply = Result<Bytes, Unanswered>;

/// Why a request has no body for an answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    Refused(ErrorCode),
    Lost { ended: Ended, fate: Fate },
    Unwritable(WireError),
}

/// A request as a connection needs it: how to write it, as often as it takes.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// Writes it whole, or not at all.
    pub(super) encode: &'a (dyn Fn(&mut BytesMut, i32) -> Result<(), WireError> + Sync),
    /// About its size.
    pub(super) frame_bytes: usize,
    pub(super) answer: Answer,
}

/// Whether a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Due,
    /// Only by a refusal, if at all: its reply is an empty body as soon as it is written.
    None,
}

/// A connection that two tasks serve until it ends, for whatever reason, or is dropped.
///
/// A request takes its place in the queue and its bytes their place in the stream in one step. Whoever waits for the
/// answer may go away: the place stays until the answer has come, and then the answer is thrown away.
pub(super) struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// There is something to write.
    unsent: Notify,
    /// There is room for requests.
    room: Notify,
    /// One permit for each request that may be in flight; closed with the connection.
    slots: Semaphore,
    ended: CancellationToken,
    has_answered: AtomicBool,
    counters: Arc<Counters>,
}

struct State {
    out: BytesMut,
    /// Where `out` begins in the stream of all requests.
    out_start: u64,
    fifo: Fifo<Slot>,
    /// Unanswered requests whose bytes are in `out`.
    unwritten: Vec<oneshot::Sender<Reply>>,
    ended: Option<Ended>,
}

struct Slot {
    reply: oneshot::Sender<Reply>,
    /// Where the request begins in the stream of all requests.
    start: u64,
}

impl State {
    fn end_of_out(&self) -> u64 {
        self.out_start + self.out.len() as u64
    }

    /// Writes a request into the buffer and queues up for its answer.
    fn push(&mut self, ask: &Ask<'_>) -> Result<oneshot::Receiver<Reply>, Unanswered> {
        let start = self.end_of_out();
        (ask.encode)(&mut self.out, self.fifo.next_id()).map_err(Unanswered::Unwritable)?;
        let (reply, receiver) = oneshot::channel();
        match ask.answer {
            Answer::Due => self.fifo.push(Slot { reply, start }),
            Answer::None => {
                self.fifo.push_silent();
                self.unwritten.push(reply);
            }
        }
        Ok(receiver)
    }
}

impl Connection {
    /// Starts to serve a stream.
    pub(super) fn start(stream: TcpStream, max_in_flight: usize, counters: Arc<Counters>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        let peer = stream.peer_addr()?;
        let (read, write) = stream.into_split();
        let state = State { out: BytesMut::new(), out_start: 0, fifo: Fifo::new(), unwritten: Vec::new(), ended: None };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            unsent: Notify::new(),
            room: Notify::new(),
            slots: Semaphore::new(max_in_flight),
            ended: CancellationToken::new(),
            has_answered: AtomicBool::new(false),
            counters,
        });
        tokio::spawn(write_requests(Arc::clone(&shared), write, peer));
        tokio::spawn(read_answers(Arc::clone(&shared), read, peer));
        Ok(Self { shared })
    }

    /// Sends a request if there is room for it at once; `None` otherwise, also when the connection has ended.
    pub(super) fn try_submit(&self, ask: &Ask<'_>) -> Option<Result<oneshot::Receiver<Reply>, Unanswered>> {
        let slot = self.shared.slots.try_acquire().ok()?;
        let pushed = self.shared.try_push(ask)?;
        if pushed.is_ok() {
            slot.forget();
        }
        Some(pushed)
    }

    /// Sends a request as soon as there is room for it, and returns where its reply will be.
    ///
    /// Requests of one task are sent in the order of its calls. A call that is dropped before it returns has sent nothing.
    pub(super) async fn submit(&self, ask: &Ask<'_>) -> Result<oneshot::Receiver<Reply>, Unanswered> {
        let Ok(slot) = self.shared.slots.acquire().await else { return Err(self.shared.not_sent()) };
        loop {
            let room = self.shared.room.notified();
            let mut room = std::pin::pin!(room);
            room.as_mut().enable();
            if let Some(pushed) = self.shared.try_push(ask) {
                let receiver = pushed?;
                // Given back when the answer has come, whether anyone still waits for it or not.
                slot.forget();
                return Ok(receiver);
            }
            room.await;
        }
    }

    /// Ends it: whatever is pending fails.
    pub(super) fn close(&self, ended: &Ended) {
        self.shared.close(ended);
    }

    /// Why it ended, or will.
    pub(super) fn ended(&self) -> Ended {
        self.shared.lock().ended.clone().unwrap_or(Ended::ByClient)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    /// Whether the broker has answered anything: what has accepted a connection need not be one.
    pub(super) fn has_answered(&self) -> bool {
        self.shared.has_answered.load(Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.close(&Ended::ByClient);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_sent(&self) -> Unanswered {
        let ended = self.lock().ended.clone().unwrap_or(Ended::ByClient);
        Unanswered::Lost { ended, fate: Fate::NotSent }
    }

    /// `None` when there is no room for its bytes.
    fn try_push(&self, ask: &Ask<'_>) -> Option<Result<oneshot::Receiver<Reply>, Unanswered>> {
        let mut state = self.lock();
        if let Some(ended) = &state.ended {
            return Some(Err(Unanswered::Lost { ended: ended.clone(), fate: Fate::NotSent }));
        }
        let was_empty = state.out.is_empty();
        if !was_empty && state.out.len() + ask.frame_bytes > MAX_UNSENT_BYTES {
            return None;
        }
        let pushed = state.push(ask);
        drop(state);
        if was_empty {
            self.unsent.notify_one();
        }
        Some(pushed)
    }

    /// Swaps what is to be written with `out`, which is empty.
    fn take_unsent(&self, out: &mut BytesMut, unanswered: &mut Vec<oneshot::Sender<Reply>>) {
        let mut state = self.lock();
        state.out_start = state.end_of_out();
        std::mem::swap(&mut state.out, out);
        std::mem::swap(&mut state.unwritten, unanswered);
        drop(state);
        self.room.notify_waiters();
    }

    fn close(&self, ended: &Ended) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(ended.clone());
        let taken = state.out_start;
        let slots: Vec<Slot> = state.fifo.drain().collect();
        let unwritten = std::mem::take(&mut state.unwritten);
        state.out = BytesMut::new();
        drop(state);
        self.slots.close();
        self.ended.cancel();
        self.room.notify_waiters();
        for slot in slots {
            let fate = if slot.start < taken { Fate::Unknown } else { Fate::NotSent };
            // Nobody may be waiting any more.
            slot.reply.send(Err(Unanswered::Lost { ended: ended.clone(), fate })).ok();
        }
        for reply in unwritten {
            reply.send(Err(Unanswered::Lost { ended: ended.clone(), fate: Fate::NotSent })).ok();
        }
    }

    /// Finds whom the whole frames of `frames` answer.
    fn sort(&self, frames: &mut Frames, replies: &mut Vec<(Slot, Reply)>) -> Result<(), Ended> {
        let mut state = self.lock();
        while let Some(frame) = frames.next().map_err(Ended::Malformed)? {
            let response = wire::decode_response(frame).map_err(Ended::Malformed)?;
            match state.fifo.accept(response.correlation_id, response.result.is_err()) {
                Match::Answer(slot) => replies.push((slot, response.result.map_err(Unanswered::Refused))),
                Match::SilentRefusal => self.counters.refused_silent(response.result.err()),
                Match::OutOfTurn => return Err(Ended::OutOfTurn { found: response.correlation_id }),
            }
        }
        Ok(())
    }

    fn deliver(&self, replies: &mut Vec<(Slot, Reply)>) {
        if replies.is_empty() {
            return;
        }
        self.has_answered.store(true, Relaxed);
        self.slots.add_permits(replies.len());
        for (slot, reply) in replies.drain(..) {
            slot.reply.send(reply).ok();
        }
    }
}

async fn write_requests(shared: Arc<Shared>, mut socket: OwnedWriteHalf, peer: SocketAddr) {
    let written = async {
        let (mut out, mut unanswered) = (BytesMut::new(), Vec::new());
        loop {
            shared.unsent.notified().await;
            shared.take_unsent(&mut out, &mut unanswered);
            let written = socket.write_all(&out).await.map_err(Arc::new);
            shared.slots.add_permits(unanswered.len());
            for reply in unanswered.drain(..) {
                let lost = |error| Unanswered::Lost { ended: Ended::Io(error), fate: Fate::Unknown };
                reply.send(written.clone().map(|()| Bytes::new()).map_err(lost)).ok();
            }
            if let Err(error) = written {
                return Ended::Io(error);
            }
            out = if out.capacity() > MAX_KEPT_BYTES { BytesMut::new() } else { emptied(out) };
        }
    };
    if let Some(ended) = shared.ended.run_until_cancelled(written).await {
        tracing::debug!(%peer, %ended, "connection to a booblik broker ended while writing");
        shared.close(&ended);
    }
}

fn emptied(mut buffer: BytesMut) -> BytesMut {
    buffer.clear();
    buffer
}

async fn read_answers(shared: Arc<Shared>, mut socket: OwnedReadHalf, peer: SocketAddr) {
    let read = async {
        let (mut frames, mut replies) = (Frames::of_responses(), Vec::new());
        loop {
            match socket.read_buf(frames.space()).await {
                Ok(0) => return Ended::ByBroker,
                Ok(_) => {}
                Err(error) => return Ended::Io(Arc::new(error)),
            }
            let sorted = shared.sort(&mut frames, &mut replies);
            shared.deliver(&mut replies);
            if let Err(ended) = sorted {
                return ended;
            }
        }
    };
    if let Some(ended) = shared.ended.run_until_cancelled(read).await {
        tracing::debug!(%peer, %ended, "connection to a booblik broker ended");
        shared.close(&ended);
    }
}

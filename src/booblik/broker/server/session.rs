//! One connection: requests in, answers out, in the same order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::time::{Instant, sleep_until, timeout};

use crate::booblik::wire::{Call, ErrorCode, Frames, Refusal, Request, WireError, decode_request};

use super::super::partition::Partition;
use super::Shared;
use super::answers::Answers;
use super::counts::count;
use super::partial::{FREE_BYTES, Partial};
use super::socket::Socket;

/// How long a connection keeps its buffers when nothing happens.
const KEEP_BUFFERS: Duration = Duration::from_secs(1);

/// Answers that a client has not taken before nothing more is read from it; less than one read brings in requests.
const MAX_UNREAD_BYTES: usize = 64 << 10;

/// How long a client that was told of the end may be silent before it is left.
const LINGER: Duration = Duration::from_secs(1);

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The client left between two requests.
    Clean,
    /// The server stops. So many bytes of requests came too late.
    Stopped(u64),
    /// Anything else, and why.
    Dropped(String),
}

/// A request that cannot be served yet. Nothing is read meanwhile.
pub(super) enum Waiting {
    /// Until everything before it is answered.
    Turn(Bytes),
    /// Until the partition's queue has room.
    Room(Bytes, Partition),
}

pub(super) struct Session {
    pub(super) socket: Socket,
    pub(super) shared: Arc<Shared>,
    pub(super) frames: Frames,
    pub(super) answers: Arc<Answers>,
    pub(super) waiting: Option<Waiting>,
    /// The partition that was asked for last.
    pub(super) known: Option<Partition>,
    /// Partitions that records were handed to and that are not yet told to write.
    pub(super) touched: Vec<Partition>,
    /// Encoded answers.
    pub(super) out: BytesMut,
    /// When the client last did something, or was last answered.
    pub(super) active: Instant,
    partial: Partial,
    /// When the request that is not complete yet began.
    begun: Option<Instant>,
    /// When the socket last took something of an answer that it does not take as a whole.
    write_blocked: Option<Instant>,
    /// The client will send nothing more, or what it sends cannot be understood.
    closed: Option<End>,
    stopping: bool,
    has_buffers: bool,
    /// Requests that have arrived were left, because too many were under way.
    left_some: bool,
}

impl End {
    pub(super) fn dropped(reason: impl Into<String>) -> Self {
        Self::Dropped(reason.into())
    }

    pub(super) fn lost(error: &io::Error) -> Self {
        Self::Dropped(format!("the connection is lost: {error}"))
    }

    pub(super) fn stalled(limit: Duration) -> Self {
        Self::Dropped(format!("it has not read its answers for {limit:?}"))
    }
}

impl Session {
    pub(super) fn new(stream: tokio::net::TcpStream, shared: Arc<Shared>) -> Self {
        Self {
            socket: Socket::new(stream, shared.options.write_stall),
            partial: Partial::new(Arc::clone(&shared.partial)),
            begun: None,
            shared,
            frames: Frames::of_requests(),
            answers: Arc::default(),
            waiting: None,
            known: None,
            touched: Vec::new(),
            out: BytesMut::new(),
            active: Instant::now(),
            write_blocked: None,
            closed: None,
            stopping: false,
            has_buffers: false,
            left_some: false,
        }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self) -> End {
        match self.serve().await {
            End::Stopped(_) => self.linger().await,
            end => end,
        }
    }

    /// Says that nothing more comes and takes in what the client still sends. A socket that is closed with something
    /// unread in it, or is sent something afterwards, throws away the answers that the client has not taken yet.
    async fn linger(self) -> End {
        let mut late = self.frames.buffered_bytes() as u64;
        let quiet = LINGER.saturating_sub(self.active.elapsed());
        let socket = &self.socket;
        if socket.finish().is_err() {
            return End::Stopped(late);
        }
        let mut sink = BytesMut::with_capacity(FREE_BYTES);
        // Without end only for a client that sends without end: the server waits for its drain time.
        let mut wait = quiet;
        while let Ok(Ok(())) = timeout(wait, socket.stream.readable()).await {
            sink.clear();
            match socket.stream.try_read_buf(&mut sink) {
                Ok(0) => break,
                Ok(read) => (late, wait) = (late + read as u64, LINGER),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            if self.active.elapsed() > self.shared.options.drain.max(LINGER) {
                break;
            }
        }
        End::Stopped(late)
    }

    async fn serve(&mut self) -> End {
        loop {
            self.take_requests();
            if let Err(end) = self.write_answers() {
                return end;
            }
            if self.left_some && self.has_window() {
                continue;
            }
            if self.is_quiet() {
                match self.waiting.take() {
                    Some(Waiting::Turn(frame)) => {
                        if let Err(end) = self.answer_now(&frame).await {
                            return end;
                        }
                        self.active = Instant::now();
                        continue;
                    }
                    other => self.waiting = other,
                }
                if let Some(end) = self.end() {
                    return end;
                }
            }
            if let Err(end) = self.wait().await {
                return end;
            }
        }
    }

    /// Whether every request that was taken is answered, except for one that waits.
    fn is_quiet(&self) -> bool {
        self.out.is_empty() && self.answers.len() == 0
    }

    /// Whether nothing more is to be done.
    fn end(&mut self) -> Option<End> {
        if self.waiting.is_some() {
            return None;
        }
        if self.stopping {
            return Some(End::Stopped(0));
        }
        self.closed.take()
    }

    /// Takes the requests that have arrived, as far as they can be served now.
    fn take_requests(&mut self) {
        if let Some(Waiting::Room(frame, _)) = self.waiting.take_if(|waiting| matches!(waiting, Waiting::Room(..))) {
            self.request(&frame);
        }
        self.left_some = true;
        let before = self.frames.buffered_bytes();
        while self.waiting.is_none() && self.has_window() {
            match self.frames.next() {
                Ok(Some(frame)) if frame.len() > self.shared.options.max_frame_bytes => {
                    self.close(format!("a request of {} bytes", frame.len()));
                    break;
                }
                Ok(Some(frame)) => self.request(&frame),
                Ok(None) => {
                    self.left_some = false;
                    break;
                }
                Err(WireError::FrameLength(length)) => {
                    self.close(format!("a request whose length is said to be {length}"));
                    break;
                }
                Err(error) => {
                    self.close(error.to_string());
                    break;
                }
            }
        }
        self.left_some &= self.waiting.is_none();
        if self.waiting.is_none() {
            self.partial.reserve(self.frames.frame_bytes());
        }
        if self.frames.buffered_bytes() < before {
            self.begun = None;
        }
        self.touched.drain(..).for_each(|partition| partition.hurry());
    }

    /// What was taken is answered; nothing more is read.
    fn close(&mut self, reason: String) {
        self.frames = Frames::of_requests();
        self.left_some = false;
        self.closed = Some(End::Dropped(reason));
    }

    fn request(&mut self, frame: &Bytes) {
        match decode_request(frame) {
            Ok(Request { correlation_id, call: Call::Produce(produce) }) => {
                self.produce(frame, correlation_id, &produce);
            }
            Ok(_) => self.waiting = Some(Waiting::Turn(frame.clone())),
            Err(refusal) => self.refuse_undecoded(refusal),
        }
    }

    fn refuse_undecoded(&mut self, refusal: Refusal) {
        tracing::debug!("a request is refused: {}", refusal.reason);
        self.refuse(refusal.correlation_id, refusal.code, refusal.is_silent);
    }

    /// Answers with an error in its turn; not at all if the client wants no answer, since it would take it for another.
    pub(super) fn refuse(&mut self, correlation_id: i32, code: ErrorCode, is_silent: bool) {
        if is_silent {
            count(&self.shared.counts.silent_errors);
        } else {
            self.answers.refuse(correlation_id, code);
        }
    }

    /// Serves a request whose turn it is.
    async fn answer_now(&mut self, frame: &Bytes) -> Result<(), End> {
        match decode_request(frame) {
            Ok(Request { correlation_id, call: Call::Fetch(fetch) }) => self.fetch(correlation_id, &fetch).await,
            Ok(Request { correlation_id, call: Call::Metadata(names) }) => {
                self.metadata(correlation_id, names);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Finds a partition, the last one without looking.
    pub(super) fn find(&mut self, topic: &str, number: i32) -> Option<Partition> {
        if !self.known.as_ref().is_some_and(|known| known.number() == number && known.topic() == topic) {
            self.known = self.shared.broker.find(topic, number);
        }
        self.known.clone()
    }

    /// Gives the answers that are due to the socket, as far as it takes them.
    fn write_answers(&mut self) -> Result<(), End> {
        let refusals = self.answers.write(&mut self.out);
        self.shared.counts.errors.fetch_add(refusals, std::sync::atomic::Ordering::Relaxed);
        if self.out.is_empty() {
            return Ok(());
        }
        let progress = self.socket.write_some(&mut self.out)?;
        if self.out.is_empty() {
            self.write_blocked = None;
            self.active = Instant::now();
        } else if progress || self.write_blocked.is_none() {
            self.write_blocked = Some(Instant::now());
        }
        Ok(())
    }

    /// Waits until something can be done.
    async fn wait(&mut self) -> Result<(), End> {
        if self.frames.has_partial() {
            self.begun.get_or_insert_with(Instant::now);
        }
        let shared = Arc::clone(&self.shared);
        let (answers, room) = (Arc::clone(&self.answers), self.room());
        let may_read = self.may_read();
        let is_crowded = may_read && self.partial.is_waiting();
        let (until, expired) = self.patience();
        tokio::select! {
            biased;
            () = shared.stop.cancelled(), if !self.stopping => self.stopping = true,
            () = answers.ready(), if answers.len() > 0 => {}
            () = room, if self.waiting.is_some() => {}
            readable = self.socket.stream.readable(), if may_read && !is_crowded => {
                readable.map_err(|error| End::lost(&error))?;
                self.read()?;
            }
            () = self.partial.granted(), if is_crowded => (self.active, self.begun) = (Instant::now(), None),
            writable = self.socket.stream.writable(), if !self.out.is_empty() => {
                writable.map_err(|error| End::lost(&error))?;
            }
            () = sleep_until(until) => return self.expire(expired),
        }
        Ok(())
    }

    fn may_read(&self) -> bool {
        self.closed.is_none() && !self.stopping && self.waiting.is_none() && self.has_window()
    }

    /// Whether another request may be taken.
    fn has_window(&self) -> bool {
        self.answers.len() < self.shared.options.max_pipelined && self.out.len() < MAX_UNREAD_BYTES
    }

    fn room(&self) -> impl Future<Output = ()> + use<> {
        let partition = match &self.waiting {
            Some(Waiting::Room(_, partition)) => Some(partition.clone()),
            _ => None,
        };
        async move {
            match partition {
                Some(partition) => partition.room().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Takes in what has arrived.
    pub(super) fn read(&mut self) -> Result<(), End> {
        self.has_buffers = true;
        let most = self.frames.frame_bytes().saturating_sub(self.frames.buffered_bytes()).max(FREE_BYTES);
        match self.socket.stream.try_read_buf(&mut self.frames.space().limit(most)) {
            Ok(0) if self.frames.has_partial() => self.closed = Some(End::dropped("it left within a request")),
            Ok(0) => self.closed = Some(End::Clean),
            Ok(_) => self.active = Instant::now(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(End::lost(&error)),
        }
        Ok(())
    }

    /// Until when to wait, and for what.
    fn patience(&self) -> (Instant, Expired) {
        let options = &self.shared.options;
        if let Some(since) = self.write_blocked {
            return (since + options.write_stall, Expired::Write);
        }
        if !self.is_quiet() || self.waiting.is_some() || self.partial.is_waiting() {
            // It is the disk's turn, and the disk says when it fails; or that of another client, who has a limit.
            return (Instant::now() + options.idle, Expired::Nothing);
        }
        if self.frames.has_partial() {
            let stalled = (self.active + options.read_stall, Expired::Read);
            let late = (self.begun.unwrap_or(self.active) + options.request, Expired::Request);
            return if late.0 < stalled.0 { late } else { stalled };
        }
        if self.has_buffers {
            return ((self.active + KEEP_BUFFERS).min(self.active + options.idle), Expired::Buffers);
        }
        (self.active + options.idle, Expired::Idle)
    }

    fn expire(&mut self, expired: Expired) -> Result<(), End> {
        let options = &self.shared.options;
        match expired {
            Expired::Nothing => Ok(()),
            Expired::Buffers => {
                (self.frames, self.out, self.has_buffers) = (Frames::of_requests(), BytesMut::new(), false);
                Ok(())
            }
            Expired::Idle => Err(End::Dropped(format!("it was silent for {:?}", options.idle))),
            Expired::Read => Err(End::Dropped(format!("a request made no progress for {:?}", options.read_stall))),
            Expired::Request => Err(End::Dropped(format!("a request was not complete after {:?}", options.request))),
            Expired::Write => Err(End::stalled(options.write_stall)),
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping || self.shared.stop.is_cancelled()
    }

    /// How the client's side has ended, if it has.
    pub(super) fn take_closed(&mut self) -> Option<End> {
        self.closed.take()
    }
}

/// What a wait was for that ended without anything happening.
#[derive(Debug, Clone, Copy)]
enum Expired {
    Nothing,
    Buffers,
    Idle,
    Read,
    Request,
    Write,
}

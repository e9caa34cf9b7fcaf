//! Taps: what watches the messages of a source before its handlers get them, and may keep one waiting at the gate. A
//! source without a tap knows nothing of them.

use std::any::Any;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crc32c::crc32c;
use futures::future::BoxFuture;

use super::{Env, Gate, Stage, UnitCx};
use crate::error::{Error, Kind, Result};

/// What a tap tells a handler about the message in its hands.
pub(crate) type View = Arc<dyn Any + Send + Sync>;

/// Watches a source; makes a part of itself for each lane.
pub(crate) trait Tap<In>: Send + Sync {
    /// For the lane of a partition; 0 where the source has none.
    fn lane(&self, partition: i32) -> Box<dyn TapLane<In>>;
    /// As whoever reads the source sees it.
    fn watch(&self) -> Arc<dyn Watch>;
}

/// The part of a tap in one lane.
pub(crate) trait TapLane<In>: Send {
    /// Ready when the handlers may have the message, with what to tell them; otherwise the task is woken to ask again
    /// with the same message. `seq` numbers the lane's messages.
    fn poll_admit(&mut self, item: &In, seq: u64, offset: i64, cx: &mut Context<'_>) -> Poll<Result<Option<View>>>;

    /// How often what this lane reads was sent back before.
    fn outage(&self) -> u64 {
        0
    }

    /// A message that handlers are done with since an earlier run: it does not come to the gate, and is done with the unit
    /// `seq`.
    ///
    /// # Errors
    /// As for one that does.
    fn known(&mut self, _item: &In, _seq: u64, _offset: i64) -> Result<()> {
        Ok(())
    }

    /// The message that was asked for last is given up: nobody will handle it here.
    fn dropped(&mut self) {}

    /// All messages before this one are done.
    fn done(&mut self, _seq: u64) {}

    /// The source has ended by itself, or its handlers take no more, and all its messages are done.
    fn ended(&self) {}
}

/// The untyped part of a tap.
pub(crate) trait Watch: Send + Sync {
    /// For errors: who watches.
    fn place(&self) -> String;
    /// Tells its notes apart from those of others: letters, digits, `.`, `_`, `-` and `/`.
    fn key(&self) -> &str;
    /// Whether it has to see all partitions.
    fn needs_whole(&self) -> bool;
    /// Whether it sends the source back after an outage.
    fn goes_back(&self) -> bool {
        false
    }
    /// Whether messages may reach handlers before what they depend on is there.
    fn handles_early(&self) -> bool;
    /// The source is opened: its counters, how it is sent back, where it can be, and whether what is kept with its
    /// positions outlives the process.
    ///
    /// # Errors
    /// What keeps the watcher from remembering what it has to.
    fn opened(&self, held: &Gate, rewind: Option<Arc<dyn Rewind>>, lasts: bool) -> Result<()>;
    /// These partitions will be read from now on, each from where its note was written.
    ///
    /// # Errors
    /// For a note that is none of this watcher's.
    fn assigned(&self, partitions: &[(i32, Option<String>)]) -> Result<()>;
    /// Where to begin instead, if that is earlier.
    fn begin(&self, partition: i32) -> Option<i64>;
    /// The partition is read from another place from now on: by someone's seek, or because something was handled too
    /// early, from `back_to` on, after this outage or when it was assigned.
    fn moved(&self, partition: i32, back_to: Option<i64>, outage: Option<u64>);
    /// Whether it counts what handlers have done: it has to know all partitions of the source, is told of those whose rows are
    /// built anew only when that is done, and its note tells of all that is done before the position, or of a little more.
    /// Otherwise the note is read after the position, and must not be behind.
    fn is_dependency(&self) -> bool;
    /// How many partitions the source has; `None` while nobody knows.
    fn expects(&self, _partitions: Option<usize>) {}
    /// Whether it would have to see the last message before the position, to know how far the source had come by then.
    fn needs_last(&self, _partition: i32) -> bool {
        false
    }
    /// The first message before `next` that may have to be handled again.
    fn needs(&self, _partition: i32, _next: i64) -> Option<i64> {
        None
    }
    /// The partition is no longer read here, and its position is stored.
    fn revoked(&self, _partition: i32) {}
    /// What to keep with the position `next`.
    fn note(&self, partition: i32, next: i64) -> Option<String>;
}

/// Sends partitions of a source back.
pub(crate) trait Rewind: Send + Sync {
    /// Stops dispatch, waits for what is in flight however long that takes, seeks, and commits the places as those of
    /// this outage. Never forward; a partition that is not ours is left alone.
    fn rewind(&self, targets: Vec<(i32, i64)>, outage: u64) -> BoxFuture<'static, Result<()>>;
}

// ---- notes --------------------------------------------------------------------------------------------------------

/// In front of a note: the version of its format. What follows are `key=payload` entries between spaces; the last one's key
/// is [`CHECKSUM`].
const NOTE_VERSION: &str = "slipstream1";
/// How often a position is read again while its partition moves on; the next commit puts right what was missed by then.
const READ_AGAIN_MAX: u32 = 100;
/// The most that a watcher writes: numbers and markers of up to 40 digits each.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 130;
/// How notes of other versions begin.
const NOTE_FAMILY: &str = "slipstream";
/// No watcher's key: its payload is the CRC-32C of all before the space in front of it, in 8 hexadecimal digits.
const CHECKSUM: &str = "~";

/// What all watchers of a source keep with a position; `None` when they keep nothing.
pub(crate) fn note_of(watches: &[Arc<dyn Watch>], partition: i32, next: i64) -> Option<Arc<str>> {
    position_and_note(watches, partition, || next).1
}

/// The position with what all watchers keep with it, while both move on. What is done is told to watchers before the
/// position moves: a note of a dependency that is the same before and after the position was read tells of all before it.
pub(crate) fn position_and_note(
    watches: &[Arc<dyn Watch>],
    partition: i32,
    position: impl Fn() -> i64,
) -> (i64, Option<Arc<str>>) {
    let write = |watch: &Arc<dyn Watch>, next: i64, text: &mut String| {
        if let Some(payload) = watch.note(partition, next) {
            text.extend([" ", watch.key(), "=", &payload]);
        }
    };
    let of_dependencies = || {
        let mut text = String::new();
        watches.iter().filter(|watch| watch.is_dependency()).for_each(|watch| write(watch, 0, &mut text));
        text
    };
    let (mut before, mut next) = (of_dependencies(), position());
    for _ in 0..READ_AGAIN_MAX {
        let again = of_dependencies();
        if again == before {
            break;
        }
        (before, next) = (again, position());
    }
    let mut after = String::new();
    watches.iter().filter(|watch| !watch.is_dependency()).for_each(|watch| write(watch, next, &mut after));
    let is_empty = before.is_empty() && after.is_empty();
    let whole = || {
        let text = format!("{NOTE_VERSION}{before}{after}");
        let checksum = crc32c(text.as_bytes());
        Arc::from(format!("{text} {CHECKSUM}={checksum:08x}"))
    };
    (next, (!is_empty).then(whole))
}

/// The first offset that anyone may have to read again.
pub(crate) fn needed(watches: &[Arc<dyn Watch>], partition: i32, next: i64) -> i64 {
    watches.iter().filter_map(|watch| watch.needs(partition, next)).fold(next, i64::min)
}

/// The longest note that these watchers can write.
pub(crate) fn note_limit_bytes(watches: &[Arc<dyn Watch>]) -> usize {
    NOTE_VERSION.len() + 11 + watches.iter().map(|watch| watch.key().len() + 2 + PAYLOAD_MAX_BYTES).sum::<usize>()
}

/// Tells all watchers which partitions come, with the notes that they kept.
///
/// # Errors
/// [`Kind::Corrupt`] for a note that was kept by another version, or is not as it was kept: without it something that was
/// handled too early would stay as it is.
pub(crate) fn assigned<'a>(
    watches: impl Iterator<Item = &'a Arc<dyn Watch>>,
    partitions: &[(i32, Option<Arc<str>>)],
) -> Result<()> {
    for (partition, note) in partitions {
        check(note.as_deref().unwrap_or_default()).map_err(|error| error.at(format!("partition {partition}")))?;
    }
    for watch in watches {
        let own = |note: &Option<Arc<str>>| note.as_deref().and_then(|note| entry(note, watch.key()));
        let own: Vec<_> = partitions.iter().map(|(partition, note)| (*partition, own(note))).collect();
        watch.assigned(&own)?;
    }
    Ok(())
}

/// Who asks another program to commit a position may find anything here: that is not ours.
fn check(note: &str) -> Result<()> {
    let refuse = |why: &str| {
        let message = format!(
            "what was kept with the position {why}: `{}`. It says what was handled too early; commit the position again \
             without metadata to go on uncorrected",
            note.escape_debug()
        );
        Err(Error::new(Kind::Corrupt, message))
    };
    let (version, rest) = note.split_once(' ').unwrap_or((note, ""));
    let is_other = |version: &str| {
        version
            .strip_prefix(NOTE_FAMILY)
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    if version != NOTE_VERSION {
        return if is_other(version) { refuse("is of another version of this library") } else { Ok(()) };
    }
    match note.rsplit_once(' ').map(|(above, last)| (above, last.strip_prefix("~="))) {
        Some((above, Some(checksum))) if checksum == format!("{:08x}", crc32c(above.as_bytes())) => Ok(()),
        Some((_, Some(_))) => refuse("has another checksum"),
        // Of the versions before there was one.
        _ if !rest.contains('~') => Ok(()),
        _ => refuse("was cut"),
    }
}

fn entry(note: &str, key: &str) -> Option<String> {
    let mut words = note.split(' ');
    if words.next() != Some(NOTE_VERSION) {
        return None;
    }
    let found = words.find_map(|word| word.split_once('=').filter(|(own, _)| *own == key));
    found.map(|(_, payload)| payload.to_owned())
}

// ---- the stage ----------------------------------------------------------------------------------------------------

/// A stage behind taps.
pub(crate) struct Tapped<In, St: Stage<In>> {
    taps: Vec<Box<dyn TapLane<In>>>,
    stage: Pin<Box<St>>,
    /// The message at the gate.
    waiting: Option<In>,
    /// The taps that have let it pass.
    at: usize,
    /// Set when the source has ended: done up to here, its messages are.
    until: Option<u64>,
    /// Messages before this one came to the gate.
    next: u64,
    /// Of the source: someone may pause it while a message waits for a tap.
    gate: Gate,
    /// The highest of the taps'; a lane that is sent back is another one.
    outage: u64,
    env: Env,
}

// Messages are moved through, the stage is boxed.
impl<In, St: Stage<In>> Unpin for Tapped<In, St> {}

impl<In, St: Stage<In>> Tapped<In, St> {
    pub(crate) fn new(taps: &[Arc<dyn Tap<In>>], partition: i32, stage: St, gate: Gate, env: &Env) -> Self {
        let taps: Vec<_> = taps.iter().map(|tap| tap.lane(partition)).collect();
        let outage = taps.iter().map(|tap| tap.outage()).max().unwrap_or(0);
        Self {
            taps,
            stage: Box::pin(stage),
            waiting: None,
            at: 0,
            until: None,
            next: 0,
            gate,
            outage,
            env: env.clone(),
        }
    }
}

impl<In: Send, St: Stage<In>> Tapped<In, St> {
    fn poll_gate(&mut self, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let seq = unit.tracker().next();
        let Some(item) = &self.waiting else { return self.stage.as_mut().resume(unit, cx) };
        self.next = seq + 1;
        while let Some(tap) = self.taps.get_mut(self.at) {
            match ready!(tap.poll_admit(item, seq, unit.own_offset(), cx)) {
                Ok(view) => unit.views().extend(view),
                Err(error) => {
                    self.waiting = None;
                    return Poll::Ready(Err(error));
                }
            }
            self.at += 1;
        }
        ready!(self.gate.poll_open(cx));
        let Some(item) = self.waiting.take() else { return Poll::Ready(Ok(())) };
        self.stage.as_mut().start(item, unit, cx)
    }
}

impl<In: Send, St: Stage<In>> Stage<In> for Tapped<In, St> {
    fn start(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.waiting = Some(input);
        self.at = 0;
        unit.views().clear();
        unit.set_outage(self.outage);
        self.poll_gate(unit, cx)
    }

    fn resume(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_gate(unit, cx)
    }

    fn finish(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.waiting.take().is_some() {
            this.taps.iter_mut().for_each(|tap| tap.dropped());
        }
        ready!(this.stage.as_mut().finish(unit, cx))?;
        if !this.env.stop().is_cancelled() {
            this.until = Some(unit.tracker().next());
        }
        Poll::Ready(Ok(()))
    }

    fn idle(mut self: Pin<&mut Self>, unit: &mut UnitCx, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.stage.as_mut().idle(unit, cx)
    }

    fn has_ended(&self) -> bool {
        self.stage.has_ended()
    }

    fn may_end(&self) -> bool {
        self.stage.may_end()
    }

    fn let_go(mut self: Pin<&mut Self>) {
        self.stage.as_mut().let_go();
    }

    fn hands_over(&self) -> bool {
        self.stage.hands_over()
    }

    fn is_held(&self) -> bool {
        self.waiting.is_some()
    }

    fn known(mut self: Pin<&mut Self>, input: In, unit: &mut UnitCx) -> Result<()> {
        let (seq, offset) = (unit.tracker().next(), unit.own_offset());
        self.taps.iter_mut().try_for_each(|tap| tap.known(&input, seq, offset))
    }

    fn progress(mut self: Pin<&mut Self>, done: u64) {
        let this = &mut *self;
        this.taps.iter_mut().for_each(|tap| tap.done(done));
        // A pipe that has ended takes no more.
        if this.until.is_none() && this.stage.has_ended() {
            this.until = Some(this.next);
        }
        if this.until.is_some_and(|until| done >= until) {
            this.until = None;
            this.taps.iter().for_each(|tap| tap.ended());
        }
    }
}

impl<In, St: Stage<In>> Drop for Tapped<In, St> {
    /// A lane that ends because its handlers take no more: what they refused is never done.
    fn drop(&mut self) {
        if self.stage.has_ended() && !self.env.stop().is_cancelled() {
            self.taps.iter().for_each(|tap| tap.ended());
        }
    }
}

/// Either a stage or one behind taps, for lanes whose type must not depend on it.
pub(crate) fn tapped<In: Send + 'static, St: Stage<In> + 'static>(
    taps: &[Arc<dyn Tap<In>>],
    partition: i32,
    stage: St,
    gate: Gate,
    env: &Env,
) -> Pin<Box<dyn Stage<In>>> {
    Box::pin(Tapped::new(taps, partition, stage, gate, env))
}

/// Marks of messages that are not done, oldest first; only those that are higher than all before them are kept.
pub(crate) struct Rising<M>(VecDeque<(u64, M)>);

impl<M> Default for Rising<M> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<M: Copy> Rising<M> {
    /// A message with this mark begins.
    pub(crate) fn push(&mut self, seq: u64, mark: M, is_higher: impl Fn(M, M) -> bool) {
        if self.0.back().is_none_or(|(_, last)| is_higher(mark, *last)) {
            self.0.push_back((seq, mark));
        }
    }

    /// The mark of the first message before `seq`, once.
    pub(crate) fn next(&mut self, seq: u64) -> Option<M> {
        self.0.pop_front_if(|(own, _)| *own < seq).map(|(_, mark)| mark)
    }

    /// The highest mark of the messages before `seq`, once.
    pub(crate) fn take(&mut self, seq: u64) -> Option<M> {
        std::iter::from_fn(|| self.next(seq)).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps one word, and remembers what it was told.
    struct Kept(&'static str);

    impl Watch for Kept {
        fn place(&self) -> String {
            "here".to_owned()
        }

        fn key(&self) -> &str {
            self.0
        }

        fn needs_whole(&self) -> bool {
            false
        }

        fn handles_early(&self) -> bool {
            false
        }

        fn opened(&self, _held: &Gate, _rewind: Option<Arc<dyn Rewind>>, _lasts: bool) -> Result<()> {
            Ok(())
        }

        fn assigned(&self, partitions: &[(i32, Option<String>)]) -> Result<()> {
            assert_eq!(partitions, [(3, Some(format!("word-of-{}", self.0)))]);
            Ok(())
        }

        fn begin(&self, _partition: i32) -> Option<i64> {
            None
        }

        fn moved(&self, _partition: i32, _back_to: Option<i64>, _outage: Option<u64>) {}

        fn is_dependency(&self) -> bool {
            self.0.contains('/')
        }

        fn needs(&self, _partition: i32, next: i64) -> Option<i64> {
            self.is_dependency().then_some(next - 5)
        }

        fn note(&self, _partition: i32, _next: i64) -> Option<String> {
            Some(format!("word-of-{}", self.0))
        }
    }

    fn two() -> Vec<Arc<dyn Watch>> {
        vec![Arc::new(Kept("join")), Arc::new(Kept("other/weather"))]
    }

    #[test]
    fn each_watcher_finds_its_own_again() {
        let note = note_of(&two(), 3, 9);
        let text = note.as_deref().unwrap_or_default();
        assert!(text.starts_with("slipstream1 other/weather=word-of-other/weather join=word-of-join ~="), "{text}");
        assigned(two().iter(), &[(3, note)]).unwrap();
        assert_eq!(needed(&two(), 3, 9), 4);
        assert!(note_limit_bytes(&two()) > 2 * PAYLOAD_MAX_BYTES);
    }

    #[test]
    fn what_is_not_as_it_was_kept_is_refused_and_what_is_not_ours_is_left_alone() {
        let note = note_of(&two(), 3, 9).unwrap();
        let mut damaged: Vec<String> = (12..note.len()).map(|cut| note[..cut].to_owned()).collect();
        damaged.extend([
            note.replace("join", "joim"),
            note.replace("slipstream1", "slipstream2"),
            "slipstream99".to_owned(),
        ]);
        let without = note.rsplit_once(" ~=").unwrap().0;
        // Cut before its checksum it looks like one of the versions that had none.
        for text in damaged.iter().filter(|text| text.contains('~') || !without.starts_with(text.trim_end())) {
            assert_eq!(check(text).unwrap_err().kind(), Kind::Corrupt, "{text}");
        }
        for text in [without, "", "{\"json\": true}", "slipstream", "slipstreams are wind", "slipstream1x y=z"] {
            check(text).unwrap();
        }
    }
}

//! A topic as a source: one lane per assigned partition.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::declare::Topic;
use super::driver::{Assignment, Folded, OutOfRange, Start, Wanted};
use super::fills;
use super::hub::{Hub, LaneMaker};
use super::lane::{Decode, LaneControl, PartitionLane, decode_error};
use super::open::OpenTopic;
use super::sink::FromTopic;
use crate::conf::OffsetReset;
use crate::error::{Error, Kind, Result};
use crate::flow::fold::{FoldPlan, HandlerTables, LaneFold, SourceFold};
use crate::flow::tap::{Watch, note_limit_bytes};
use crate::flow::{Budget, Env, NodeId, SourceStats, Stage, StageFactory, Stages};
use crate::message::Message;
use crate::source::{Attach, IntoSource, LogSource, RootKind, SharedSource, SourceOptions, boxed_stage, fan_out};

impl<V, K> IntoSource<FromTopic> for Topic<V, K>
where
    V: Clone + Send + 'static,
    K: Clone + Send + 'static,
{
    type Item = Message<V, K>;

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, _label: &str, options: SourceOptions<Self::Item>, make: F) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        // Also where another declaration of the same topic is the one that is read.
        OpenTopic::in_app(&self, to.env)?;
        to.shared(self, options, Arc::new(move || Box::pin(make())))
    }
}

impl<V, K> IntoSource<FromTopic> for &Topic<V, K>
where
    V: Clone + Send + 'static,
    K: Clone + Send + 'static,
{
    type Item = Message<V, K>;

    fn again(&self) -> Option<Self> {
        Some(*self)
    }

    fn attach<St, F>(self, to: &mut Attach<'_>, label: &str, options: SourceOptions<Self::Item>, make: F) -> Result<()>
    where
        St: Stage<Self::Item> + 'static,
        F: Fn() -> St + Send + Sync + 'static,
    {
        self.clone().attach(to, label, options, make)
    }
}

impl<V, K> LogSource for Topic<V, K> {}

impl<V, K> SharedSource for Topic<V, K>
where
    V: Clone + Send + 'static,
    K: Clone + Send + 'static,
{
    type Item = Message<V, K>;

    fn node(&self) -> NodeId {
        Topic::node(self)
    }

    fn has_keys(&self) -> bool {
        true
    }

    fn has_log(&self) -> bool {
        true
    }

    fn kind(&self) -> RootKind {
        RootKind::Source
    }

    fn start(
        self,
        options: SourceOptions<Self::Item>,
        stages: Vec<StageFactory<Self::Item>>,
        env: &Env,
    ) -> Result<BoxFuture<'static, Result<()>>> {
        let open = OpenTopic::in_app(&self, env)?;
        let has_groups = open.backend.has_groups();
        if !has_groups && !self.broadcast {
            check_group(&open)?;
        }
        let group = (has_groups && !self.broadcast).then(|| Arc::<str>::from(open.settings.group_id()));
        reads_once(&open, group.as_deref(), env)?;
        let in_group = group.is_some();
        let hub_name = format!("{} {group:?}", open.broker.reading());
        let hub = env.single(&hub_name, || Ok(Hub::new(Arc::clone(&open.backend), group)))?;
        open.set_seeks(hub.seeks());
        let watches: Vec<_> = options.taps.iter().map(|tap| tap.watch()).collect();
        // A broker without a name belongs to one run.
        let is_shared = in_group && open.broker.url() != "memory:";
        check_whole(&open, &watches, is_shared)?;
        fills::check(&open, &self.node(), is_shared, env)?;
        let fold = fold(&self, &open, &options.handlers, env)?;
        check_fold(&open, &watches, fold.is_some())?;
        check_notes(&open, &watches, in_group)?;
        check_pipes(&open, &watches, &options.handlers)?;
        // The name that the program knows, whatever the broker calls it.
        let stats = env.add_source(&Arc::from(self.name()), self.gate().clone());
        for watch in &watches {
            watch.opened(&stats.held, Some(hub.rewind(&open.name)), open.backend.lasts())?;
        }
        let maker = Maker {
            fold: fold.clone(),
            decode: decode(&self),
            stages,
            options,
            budget: Arc::new(Budget::new(env.parts().max_in_flight_bytes)),
            stats,
            watches,
            out_of_range: self.out_of_range,
            needs_position: self.start.is_none() && open.settings.offset_reset() == Some(OffsetReset::Error),
            env: env.clone(),
        };
        let wanted = Wanted { folded: fold.map(Folded), ..wanted(&self, &open) };
        hub.add(wanted, Arc::new(maker));
        let env = env.clone();
        Ok(Box::pin(async move {
            // Kept open as long as it is read.
            let _open = open;
            hub.run(env).await
        }))
    }
}

/// What is kept with a position has to find room there.
fn check_notes(open: &OpenTopic, watches: &[Arc<dyn Watch>], in_group: bool) -> Result<()> {
    let bytes = note_limit_bytes(watches);
    let Some(most) = open.backend.note_max_bytes().filter(|most| in_group && bytes > *most) else { return Ok(()) };
    let message = format!(
        "{} checkpoints watch it, and what they keep with a position may take {bytes} bytes, of which the broker takes \
         {most}: give them shorter names, or fewer of them one topic",
        watches.len()
    );
    Err(Error::new(Kind::Build, message).at(format!("topic {}", open.name)))
}

/// What a pipe holds back over a rewind would come out after it.
fn check_pipes(open: &OpenTopic, watches: &[Arc<dyn Watch>], handlers: &[HandlerTables]) -> Result<()> {
    let Some(watch) = watches.iter().find(|watch| watch.goes_back()) else { return Ok(()) };
    let Some(piped) = handlers.iter().find(|handler| handler.is_piped) else { return Ok(()) };
    let message = format!(
        "handler {} reads topic {} through a pipe, which may hold back what was handled too early and give it out after the \
         rewind: use `.hold()`, or put the pipe behind a topic",
        piped.handler, open.name
    );
    Err(Error::new(Kind::Build, message).at(watch.place()))
}

/// What one member of a group cannot do: read a topic for two declarations, and read by two connections when it has a
/// fixed place in its group.
fn reads_once(open: &OpenTopic, group: Option<&str>, env: &Env) -> Result<()> {
    let (name, declared) = (&open.name, open.settings.declared_name());
    let place = format!("{} {group:?}", open.broker.url());
    let first = env.single(&format!("{place} {name}"), || Ok(Arc::new(declared.to_owned())))?;
    if *first != declared {
        let message = format!("is `{name}` on {}, as `{first}` is: give both handlers one declaration", open.broker);
        return Err(Error::new(Kind::Build, message).at(format!("topic {declared}")));
    }
    if group.is_some() && open.settings.get("group.instance.id").is_some() {
        let how = open.broker.reading();
        let first = env.single(&format!("static {place}"), || Ok(Arc::new((declared.to_owned(), how.clone()))))?;
        if first.1 != how {
            let message = format!(
                "is read with other settings than topic {}: with `group.instance.id` a group has one consumer of this app",
                first.0
            );
            return Err(Error::new(Kind::Build, message).at(format!("topic {declared}")));
        }
    }
    Ok(())
}

/// Who compares must see all: a member of a group sees only what is given to it.
fn check_whole(open: &OpenTopic, watches: &[Arc<dyn Watch>], is_shared: bool) -> Result<()> {
    let Some(watch) = watches.iter().find(|watch| is_shared && watch.needs_whole()) else { return Ok(()) };
    let message = format!(
        "{} depends on it, but it is shared with the other members of the group `{}`: declare it `.broadcast()`, so that \
         every member reads all of it, or promise `.single_member()` on the checkpoint",
        watch.place(),
        open.settings.group_id()
    );
    Err(Error::new(Kind::Build, message).at(format!("topic {}", open.settings.declared_name())))
}

/// Rows are a fold over all messages, once: none may be handled too early and again.
fn check_fold(open: &OpenTopic, watches: &[Arc<dyn Watch>], is_folded: bool) -> Result<()> {
    let Some(watch) = watches.iter().find(|watch| is_folded && watch.handles_early()) else { return Ok(()) };
    let message = format!(
        "a handler of it writes a table, whose rows cannot be taken back, but {} lets messages through before what they \
         depend on is there: declare it with `.hold()`",
        watch.place()
    );
    Err(Error::new(Kind::Build, message).at(format!("topic {}", open.settings.declared_name())))
}

/// A group that is shared with other apps cannot be had on a broker that knows none.
fn check_group(open: &OpenTopic) -> Result<()> {
    let settings = &open.settings;
    if settings.group_id() == settings.app_id() {
        return Ok(());
    }
    let message = format!(
        "`group.id` is `{}`, but {} knows no groups: every app reads all partitions and keeps its own positions, by \
         its `app.id`; leave `group.id` out",
        settings.group_id(),
        open.broker,
    );
    Err(Error::new(Kind::Unsupported, message).at(format!("topic {}", open.name)))
}

fn wanted<V, K>(topic: &Topic<V, K>, open: &OpenTopic) -> Wanted {
    let configured = open.settings.offset_reset().and_then(|reset| match reset {
        OffsetReset::Earliest => Some(Start::Earliest),
        OffsetReset::Latest => Some(Start::Latest),
        OffsetReset::Error => None,
    });
    Wanted {
        name: Arc::clone(&open.name),
        start: topic.start.or(configured).unwrap_or_default(),
        out_of_range: topic.out_of_range,
        partitions: topic.partitions.or(open.settings.partitions()),
        folded: None,
    }
}

fn decode<V: 'static, K: 'static>(topic: &Topic<V, K>) -> Decode<Message<V, K>> {
    let (key_codec, value_codec) = (topic.key, topic.value);
    Arc::new(move |record, topic, partition| {
        let fail = |what| move |error: Error| decode_error(error, topic, partition, record.offset, what);
        let key =
            record.key.as_ref().map(|key| key_codec.decode_nullable(Some(key))).transpose().map_err(fail("key"))?;
        let value = value_codec.decode_nullable(record.value.as_ref()).map_err(fail("value"))?;
        Ok(Message {
            key,
            value,
            headers: record.headers,
            timestamp: record.timestamp,
            topic: Arc::clone(topic),
            partition,
            offset: record.offset,
        })
    })
}

/// What the handlers' tables have in common; `None` without any. A table reads all of its topic, once.
fn fold<V, K>(
    topic: &Topic<V, K>,
    open: &OpenTopic,
    handlers: &[HandlerTables],
    env: &Env,
) -> Result<Option<Arc<dyn SourceFold>>> {
    let Some(table) = handlers.iter().find_map(|handler| handler.tables.first()) else { return Ok(None) };
    let refuse = |what: &str| {
        let message = format!("table {} reads all of its topic from the beginning: {what}", table.name);
        Err(Error::new(Kind::Build, message).at(format!("topic {}", topic.name())))
    };
    let start = topic.start.map(|start| start == Start::Earliest);
    let configured = open.settings.offset_reset().map(|reset| reset == OffsetReset::Earliest);
    if !start.or(configured).unwrap_or(true) {
        return refuse("leave out `start` and `auto.offset.reset`");
    }
    if topic.out_of_range != OutOfRange::Stop {
        return refuse("leave out `out_of_range`; `Table::rebuild` builds rows anew where records are missing");
    }
    let plan = FoldPlan { source: Arc::clone(&open.name), handlers };
    (table.fold)(&plan, env).map(Some)
}

/// Makes the lanes of one topic.
struct Maker<In> {
    fold: Option<Arc<dyn SourceFold>>,
    decode: Decode<In>,
    stages: Vec<StageFactory<In>>,
    options: SourceOptions<In>,
    budget: Arc<Budget>,
    stats: Arc<SourceStats>,
    watches: Vec<Arc<dyn Watch>>,
    out_of_range: OutOfRange,
    /// `auto.offset.reset = error`: a partition without a position ends the run.
    needs_position: bool,
    env: Env,
}

impl<In: Clone + Send + 'static> Maker<In> {
    /// All handlers, each with the tables that it writes.
    fn stages(&self) -> Stages<In> {
        let groups = self.fold.as_ref().map_or_else(|| Arc::new([]) as Arc<[_]>, |fold| fold.groups());
        Stages::with_tables(&self.stages, groups)
    }
}

impl<In: Clone + Send + 'static> LaneMaker for Maker<In> {
    fn lane(
        &self,
        assignment: &Assignment,
        control: Arc<LaneControl>,
        fold: Option<Box<dyn LaneFold>>,
    ) -> BoxFuture<'static, ()> {
        let env = self.env.clone();
        let options = self.options.clone();
        let hash_keys = options.concurrency > 1 && options.key.is_none();
        let (decode, budget) = (Arc::clone(&self.decode), Arc::clone(&self.budget));
        if !options.taps.is_empty() {
            let stage = boxed_stage(options, assignment.feed.partition, || self.stages(), &self.stats, &env);
            let lane = PartitionLane::new(assignment, decode, stage, hash_keys, budget, &self.stats, control, &env);
            let lane = lane.with_fold(fold);
            Box::pin(async move { lane.run(&env).await })
        } else if options.concurrency > 1 {
            let stage = fan_out(options.concurrency, options.key, || Stages::new(&self.stages), &self.stats, &env);
            let lane = PartitionLane::new(assignment, decode, stage, hash_keys, budget, &self.stats, control, &env);
            Box::pin(async move { lane.run(&env).await })
        } else {
            let lane =
                PartitionLane::new(assignment, decode, self.stages(), hash_keys, budget, &self.stats, control, &env);
            let lane = lane.with_fold(fold);
            Box::pin(async move { lane.run(&env).await })
        }
    }

    fn stats(&self) -> &Arc<SourceStats> {
        &self.stats
    }

    fn needs_position(&self) -> bool {
        self.needs_position
    }

    fn out_of_range(&self) -> OutOfRange {
        self.out_of_range
    }

    fn watches(&self) -> &[Arc<dyn Watch>] {
        &self.watches
    }

    fn fold(&self) -> Option<&Arc<dyn SourceFold>> {
        self.fold.as_ref()
    }
}

//! The tables of one source in one run: opened with its connection, and begun anew with each partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use rocksdb::WriteBatch;

use super::group::{self, Found, Groups};
use super::lane::{Begin, Generations, LaneGroup, Limits, Target};
use super::open::{Family, TableStore, partition_prefix};
use super::record::{GroupRecord, PositionRecord};
use super::start::{start, valid_commit};
use super::{AnyTable, StoredTable};
use crate::error::{Error, Kind, Result};
use crate::flow::Env;
use crate::flow::durable::Durable;
use crate::flow::fold::{FoldHome, FoldPlan, LaneFold, LogEnds, Outputs, Past, SourceFold, TableRef};
use crate::store::cache::iter::after_prefix;
use crate::store::cache::open::check_name;

/// Stores are closed when nothing reads or writes any more.
const CLOSE_RANK: u8 = 2;
/// The least that a lane's hot rows may take.
const HOT_BYTES_MIN: usize = 64 * 1024;

/// What to do where rows cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnRefusal {
    Stop,
    Rebuild,
}

/// The place of an open store in a run; empty before it was opened and after the run.
#[derive(Default)]
pub(super) struct StoreCell(Mutex<Option<Arc<TableStore>>>);

impl StoreCell {
    fn open(&self, home: FoldHome, table: &dyn StoredTable) -> Result<Arc<TableStore>> {
        let mut cell = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*cell {
            return Ok(Arc::clone(open));
        }
        let open = Arc::new(TableStore::open(home, table.declared_at())?);
        *cell = Some(Arc::clone(&open));
        Ok(open)
    }

    fn take(&self) -> Option<Arc<TableStore>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// By which it is told from the run's other durables.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Durable for StoreCell {
    fn sync(&self) -> Result<()> {
        let store = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        store.map_or(Ok(()), |store| store.sync())
    }
}

/// Which partitions are here, and whether their rows are current.
#[derive(Default)]
pub(super) struct Partitions {
    here: RwLock<BTreeMap<i32, Progress>>,
    /// A partition was here at some time.
    began: AtomicBool,
    /// Partitions whose log turned out to be another one.
    again: Mutex<BTreeSet<i32>>,
}

/// How far the rows of a partition are.
#[derive(Debug, Clone, Copy)]
struct Progress {
    stored: i64,
    /// From here on they are current.
    current_at: i64,
}

impl Partitions {
    fn begin(&self, partition: i32, stored: i64, current_at: i64) {
        let mut here = self.here.write().unwrap_or_else(PoisonError::into_inner);
        here.insert(partition, Progress { stored, current_at });
        self.began.store(true, Ordering::Release);
    }

    pub(super) fn stored(&self, partition: i32, position: i64) {
        let mut here = self.here.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress) = here.get_mut(&partition) {
            progress.stored = position;
        }
    }

    /// The rows of the partition are to be built anew when it begins next.
    pub(super) fn start_over(&self, partition: i32) {
        self.leave(partition);
        self.again.lock().unwrap_or_else(PoisonError::into_inner).insert(partition);
    }

    fn starts_over(&self, partition: i32) -> bool {
        self.again.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition)
    }

    fn leave(&self, partition: i32) {
        self.here.write().unwrap_or_else(PoisonError::into_inner).remove(&partition);
    }

    fn is_current(&self, partition: i32) -> bool {
        let here = self.here.read().unwrap_or_else(PoisonError::into_inner);
        here.get(&partition).is_some_and(|own| own.stored >= own.current_at)
    }

    /// The partitions that are here, with the positions of their rows.
    ///
    /// Errors: `Kind::Rebuilding` while one of them is not current, and before the first has come.
    pub(super) fn current(&self) -> Result<Vec<(i32, i64)>> {
        let here = self.here.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((partition, progress)) = here.iter().find(|(_, own)| own.stored < own.current_at) {
            let Progress { stored, current_at } = progress;
            let message = format!("partition {partition} is at {stored} of {current_at}");
            return Err(Error::new(Kind::Rebuilding, message).retryable());
        }
        if !self.began.load(Ordering::Acquire) {
            return Err(Error::new(Kind::Rebuilding, "no partition has come here yet").retryable());
        }
        Ok(here.iter().map(|(partition, progress)| (*partition, progress.stored)).collect())
    }
}

/// What a running app has open of a table.
pub(super) struct OpenTable {
    pub(super) rows: Family,
    pub(super) partitions: Arc<Partitions>,
    pub(super) sizes: Mutex<BTreeMap<i32, std::sync::Weak<dyn super::lane::LaneRows>>>,
}

struct Opened {
    store: Arc<TableStore>,
    cell: Arc<StoreCell>,
    /// In the order of the tables.
    tables: Vec<Arc<OpenTable>>,
}

/// The tables of one source.
pub(crate) struct SourceTables {
    env: Env,
    source: Arc<str>,
    groups: Groups,
    of_handlers: Arc<[Option<usize>]>,
    tables: Vec<TableRef>,
    partitions: Arc<Partitions>,
    opened: OnceLock<Opened>,
    /// Groups as the store has them; changed when the number of partitions is known.
    stored: Mutex<Vec<GroupRecord>>,
}

impl SourceTables {
    /// Checks what can be checked before anything is opened.
    pub(super) fn make(plan: &FoldPlan<'_>, env: &Env) -> Result<Arc<dyn SourceFold>> {
        let mut tables: Vec<TableRef> = Vec::new();
        for handler in plan.handlers.iter().filter(|handler| !handler.tables.is_empty()) {
            group::check_name(&handler.handler)?;
            for table in &handler.tables {
                check_table(table, handler, plan, env)?;
                if !tables.iter().any(|own| own.id == table.id) {
                    tables.push(table.clone());
                }
            }
        }
        let groups = group::groups(&plan.source, plan.handlers);
        Ok(Arc::new(Self {
            env: env.clone(),
            source: Arc::clone(&plan.source),
            of_handlers: groups.of_handlers.clone().into(),
            groups,
            tables,
            partitions: Arc::default(),
            opened: OnceLock::new(),
            stored: Mutex::default(),
        }))
    }

    fn opened(&self) -> Result<&Opened> {
        self.opened.get().ok_or_else(|| Error::new(Kind::Closed, "the tables are not open").at(&*self.source))
    }

    fn tables_of(&self, group: usize) -> impl Iterator<Item = &TableRef> {
        self.tables.iter().filter(move |table| self.groups.of_tables.get(&table.name) == Some(&group))
    }

    fn any_of(&self, group: usize, ask: impl Fn(&dyn StoredTable) -> bool) -> bool {
        self.tables_of(group).any(|table| AnyTable::of(table).is_ok_and(&ask))
    }

    fn rebuilds(&self, group: usize) -> bool {
        self.any_of(group, |table| table.on_refusal() == OnRefusal::Rebuild)
    }

    fn outputs(&self, group: usize) -> Outputs {
        let repeated = self.any_of(group, |table| table.outputs() == Outputs::Repeated);
        if repeated { Outputs::Repeated } else { Outputs::Muted }
    }

    fn has_plain_handlers(&self) -> bool {
        self.of_handlers.iter().any(Option::is_none)
    }

    // ---- what belongs together --------------------------------------------------------------------------------------

    fn settle_groups(&self, store: &TableStore) -> Result<()> {
        let all = GroupRecord::all(store)?;
        let mut settled = Vec::new();
        for (group, declared) in self.groups.records.iter().enumerate() {
            match group::find(declared, &all) {
                Found::Same { partitions } => settled.push(GroupRecord { partitions, ..declared.clone() }),
                Found::New => {
                    let mut batch = WriteBatch::default();
                    declared.put(store, &mut batch)?;
                    store.write(batch)?;
                    settled.push(declared.clone());
                }
                Found::Other(others) if self.rebuilds(group) => {
                    self.say_rebuilt(&group::changed(declared, &others), &store.keep()?);
                    declared.replace(store, &others)?;
                    settled.push(declared.clone());
                }
                Found::Other(others) => return Err(group::changed(declared, &others)),
            }
        }
        *self.stored.lock().unwrap_or_else(PoisonError::into_inner) = settled;
        Ok(())
    }

    /// The topic must have as many partitions as when the rows were written.
    fn check_partitions(&self, store: &TableStore, count: u32) -> Result<()> {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        for (group, record) in stored.iter_mut().enumerate().filter(|(_, record)| record.partitions != count) {
            let now = GroupRecord { partitions: count, ..record.clone() };
            if record.partitions == 0 {
                let mut batch = WriteBatch::default();
                now.put(store, &mut batch)?;
                store.write(batch)?;
            } else {
                let message = format!(
                    "topic {} has {count} partitions, the rows were written when it had {}: declare the tables with \
                     `.rebuild()` to have them built anew",
                    self.source, record.partitions
                );
                let error = Error::new(Kind::OutOfRange, message).at(format!("table {}", record.tables.join(", ")));
                if !self.rebuilds(group) {
                    return Err(error);
                }
                self.say_rebuilt(&error, &store.keep()?);
                now.replace(store, std::slice::from_ref(record))?;
            }
            *record = now;
        }
        Ok(())
    }

    fn say_rebuilt(&self, why: &Error, kept: &std::path::Path) {
        tracing::warn!(topic = &*self.source, kept = %kept.display(), "rows are built anew: {why}");
    }

    // ---- a partition ------------------------------------------------------------------------------------------------

    /// Where a group's rows of a partition go on; rows that cannot are deleted where that is asked for.
    fn begin_group(&self, store: &TableStore, group: usize, partition: i32, ends: LogEnds) -> Result<PositionRecord> {
        let name = self.group_name(group);
        let kept = PositionRecord::read(store, name, partition)?;
        match start(kept.map(|kept| kept.next), ends) {
            Ok(next) => Ok(PositionRecord { next, last: kept.and_then(|kept| kept.last) }),
            Err(refusal) => {
                let place = format!("tables {} of {}[{partition}]", self.table_names(group), self.source);
                let way_out = "Bring the log back, or declare the tables with `.rebuild()`";
                let error = Error::new(Kind::OutOfRange, format!("{refusal}. {way_out}")).at(place);
                if !self.rebuilds(group) {
                    return Err(error);
                }
                self.say_rebuilt(&error, &store.keep()?);
                self.forget_partition(store, group, partition)?;
                Ok(PositionRecord { next: ends.low, last: None })
            }
        }
    }

    /// Of a log that is another one nothing is kept.
    fn forget_replaced(&self, store: &TableStore, partition: i32) -> Result<()> {
        let kept = store.keep()?;
        tracing::warn!(topic = &*self.source, partition, kept = %kept.display(), "rows are built anew");
        let mut groups = (0..self.groups.records.len()).filter(|group| self.rebuilds(*group));
        groups.try_for_each(|group| self.forget_partition(store, group, partition))
    }

    fn forget_partition(&self, store: &TableStore, group: usize, partition: i32) -> Result<()> {
        let mut batch = WriteBatch::default();
        for table in self.tables_of(group) {
            let from = partition_prefix(partition);
            store.delete_rows(&mut batch, &table.name, &from, after_prefix(&from).as_deref());
        }
        PositionRecord::delete(store, &mut batch, self.group_name(group), partition)?;
        store.write(batch)
    }

    fn group_name(&self, group: usize) -> &str {
        self.groups.records.get(group).map_or("", GroupRecord::name)
    }

    fn table_names(&self, group: usize) -> String {
        self.groups.records.get(group).map(|record| record.tables.join(", ")).unwrap_or_default()
    }

    fn limits(&self) -> Limits {
        let settings = &self.env.parts().settings;
        Limits {
            units: settings.table_generation_units(),
            bytes: usize::try_from(settings.table_generation_bytes()).unwrap_or(usize::MAX),
            time: settings.table_generation_time(),
        }
    }

    fn hot_bytes(&self, table: &dyn StoredTable, partitions: usize) -> usize {
        let all = table.hot_bytes().unwrap_or_else(|| self.env.parts().settings.table_hot_bytes());
        let all = usize::try_from(all).unwrap_or(usize::MAX);
        (all / partitions.max(1)).max(HOT_BYTES_MIN)
    }

    fn say_begin(&self, partition: i32, positions: &[PositionRecord], committed: Option<i64>, ends: LogEnds) {
        let from = positions.iter().map(|own| own.next).min().unwrap_or(ends.low);
        let muted = committed.filter(|committed| *committed > from);
        match muted {
            Some(to) => tracing::info!(
                topic = &*self.source,
                partition,
                from,
                to,
                "rows are brought up to date from records that are done: their outputs do not go out again"
            ),
            None => tracing::info!(topic = &*self.source, partition, from, "rows go on"),
        }
    }
}

impl SourceFold for SourceTables {
    fn open(&self, home: FoldHome) -> Result<()> {
        let Some(first) = self.tables.first() else { return Ok(()) };
        let env = self.env.clone();
        let cell = self.env.single(&format!("tables in {}", home.dir.display()), || {
            let cell = Arc::new(StoreCell::default());
            env.add_durable(Arc::clone(&cell) as _);
            let closing = Arc::clone(&cell);
            env.on_close(CLOSE_RANK, move || Box::pin(close(closing)));
            Ok(cell)
        })?;
        let store = cell.open(home, AnyTable::of(first)?)?;
        let mut tables = Vec::new();
        for table in &self.tables {
            let rows = store.family(&table.name)?;
            let (partitions, sizes) = (Arc::clone(&self.partitions), Mutex::default());
            let open = Arc::new(OpenTable { rows, partitions, sizes });
            AnyTable::of(table)?.set_open(&open)?;
            tables.push(open);
        }
        self.settle_groups(&store)?;
        let _ = self.opened.set(Opened { store, cell, tables });
        Ok(())
    }

    fn groups(&self) -> Arc<[Option<usize>]> {
        Arc::clone(&self.of_handlers)
    }

    fn from(&self, partition: i32, committed: Option<i64>, ends: LogEnds) -> i64 {
        let group = |group: usize| {
            let store = &self.opened().ok()?.store;
            let kept = PositionRecord::read(store, self.group_name(group), partition).ok()??;
            start(Some(kept.next), ends).ok()?;
            // The last record is read once more, to see whether it is still the one that it was.
            let last = kept.last.map(|last| last.offset).filter(|last| *last >= ends.low);
            Some(last.unwrap_or(kept.next))
        };
        let groups = (0..self.groups.records.len()).map(|own| group(own).unwrap_or(ends.low));
        let plain = self.has_plain_handlers().then(|| valid_commit(committed, ends).unwrap_or(ends.low));
        groups.chain(plain).min().unwrap_or(ends.low).clamp(ends.low, ends.high)
    }

    fn begin(&self, partition: i32, committed: Option<i64>, log: &[LogEnds]) -> Result<Box<dyn LaneFold>> {
        let Opened { store, cell, tables } = self.opened()?;
        let missing =
            || Error::new(Kind::UnknownTopic, "no such partition").at(format!("{}[{partition}]", self.source));
        let ends = usize::try_from(partition).ok().and_then(|at| log.get(at)).copied().ok_or_else(missing)?;
        let turn = store.turn(&self.source, partition);
        let own_turn = turn.begin();
        self.check_partitions(store, u32::try_from(log.len()).unwrap_or(u32::MAX))?;
        if self.partitions.starts_over(partition) {
            self.forget_replaced(store, partition)?;
        }
        let positions = (0..self.groups.records.len())
            .map(|group| self.begin_group(store, group, partition, ends))
            .collect::<Result<Vec<_>>>()?;
        let committed = valid_commit(committed, ends);
        self.say_begin(partition, &positions, committed, ends);
        let lowest = positions.iter().map(|own| own.next);
        let plain = self.has_plain_handlers().then(|| committed.unwrap_or(ends.low));
        let lowest = lowest.clone().chain(plain).min().unwrap_or(ends.low);
        let stored = positions.iter().map(|own| own.next).min().unwrap_or(ends.low);
        let (mut lent, mut rows) = (Vec::new(), Vec::new());
        for (table, open) in self.tables.iter().zip(tables) {
            let any = AnyTable::of(table)?;
            let (own, driven) = any.lane(open.rows.clone(), partition, self.hot_bytes(any, log.len()));
            let mut sizes = open.sizes.lock().unwrap_or_else(PoisonError::into_inner);
            sizes.insert(partition, Arc::downgrade(&driven));
            lent.push((table.id, own));
            rows.push(driven);
        }
        self.partitions.begin(partition, stored, committed.unwrap_or(stored));
        let groups = positions.iter().enumerate();
        let policy = |group| if self.rebuilds(group) { OnRefusal::Rebuild } else { OnRefusal::Stop };
        let known = groups.clone().filter_map(|(group, own)| Some((own.last?, policy(group)))).collect();
        Ok(Box::new(Generations::new(Begin {
            target: Target {
                store: Arc::clone(store),
                cell: Arc::clone(cell),
                env: self.env.clone(),
                topic: Arc::clone(&self.source),
                partition,
                turn,
                own_turn,
            },
            tables: lent.into(),
            rows,
            groups: groups
                .clone()
                .map(|(group, own)| LaneGroup { name: self.group_name(group).into(), next: own.next })
                .collect(),
            past: Past {
                committed: committed.unwrap_or(ends.low),
                groups: groups.map(|(group, own)| (own.next, self.outputs(group))).collect(),
            },
            known,
            lowest,
            committed,
            limits: self.limits(),
            partitions: Arc::clone(&self.partitions),
        })))
    }

    fn is_current(&self, partition: i32) -> bool {
        self.partitions.is_current(partition)
    }

    fn leave(&self, partition: i32) {
        self.partitions.leave(partition);
    }
}

async fn close(cell: Arc<StoreCell>) -> Result<()> {
    let closed = tokio::task::spawn_blocking(move || drop(cell.take())).await;
    closed.map_err(|error| Error::new(Kind::Store, "closing the tables was interrupted").because(error))
}

/// A table has a legal name, one source, and is named once by a handler.
fn check_table(
    table: &TableRef,
    handler: &crate::flow::fold::HandlerTables,
    plan: &FoldPlan<'_>,
    env: &Env,
) -> Result<()> {
    let place = format!("table {}", table.name);
    check_name(&table.name)?;
    if handler.tables.iter().filter(|own| own.name == table.name).count() > 1 {
        let message = format!("handler {} names it twice", handler.handler);
        return Err(Error::new(Kind::Build, message).at(place));
    }
    let first = env.single(&place, || Ok(Arc::new((table.id, Arc::clone(&plan.source)))))?;
    if first.0 != table.id {
        let message = "declared twice under one name: give both handlers one declaration";
        return Err(Error::new(Kind::Build, message).at(place));
    }
    if first.1 != plan.source {
        let message = format!(
            "has two source topics, {} and {}: a table is a fold over one, so that its rows can be stored with one position",
            first.1, plan.source
        );
        return Err(Error::new(Kind::Build, message).at(place));
    }
    Ok(())
}

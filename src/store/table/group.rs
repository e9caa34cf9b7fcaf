//! Which handlers and tables belong together: those that are connected through `table`. They have one position per
//! partition, and their rows are only right together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::GroupRecord;
use crate::error::{Error, Kind, Result};
use crate::flow::fold::HandlerTables;

/// The groups of one source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) records: Vec<GroupRecord>,
    /// For each handler, in their order.
    pub(super) of_handlers: Vec<Option<usize>>,
    pub(super) of_tables: BTreeMap<Arc<str>, usize>,
}

/// Finds the groups of the handlers of `topic`.
pub(super) fn groups(topic: &str, handlers: &[HandlerTables]) -> Groups {
    // The root of each table's group: the smallest index of a handler in it.
    let mut of_tables: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for (at, handler) in handlers.iter().enumerate() {
        let met: Vec<usize> = handler.tables.iter().filter_map(|table| of_tables.get(&table.name).copied()).collect();
        let root = met.iter().copied().fold(at, usize::min);
        of_tables.values_mut().filter(|own| met.contains(own)).for_each(|own| *own = root);
        of_tables.extend(handler.tables.iter().map(|table| (Arc::clone(&table.name), root)));
    }
    let mut roots: Vec<usize> = of_tables.values().copied().collect();
    roots.sort_unstable();
    roots.dedup();
    let index = |root: usize| roots.iter().position(|own| *own == root);
    let of_handlers: Vec<_> = handlers
        .iter()
        .map(|handler| handler.tables.first().and_then(|table| of_tables.get(&table.name).copied()).and_then(index))
        .collect();
    let of_tables: BTreeMap<_, _> =
        of_tables.into_iter().filter_map(|(name, root)| Some((name, index(root)?))).collect();
    let records = (0..roots.len())
        .map(|group| {
            let own = handlers.iter().zip(&of_handlers).filter(|(_, of)| **of == Some(group));
            let mut names: Vec<_> = own.map(|(handler, _)| handler.handler.to_string()).collect();
            names.sort();
            let tables = of_tables.iter().filter(|(_, of)| **of == group).map(|(name, _)| name.to_string()).collect();
            GroupRecord { topic: topic.to_owned(), partitions: 0, handlers: names, tables }
        })
        .collect();
    Groups { records, of_handlers, of_tables }
}

/// What a declared group finds in the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing of it.
    New,
    /// Itself; with the partitions that it knows of.
    Same { partitions: u32 },
    /// Groups that have some of its tables but are not it.
    Other(Vec<GroupRecord>),
}

/// Looks for a declared group among those of the store.
pub(super) fn find(declared: &GroupRecord, stored: &[GroupRecord]) -> Found {
    let shares = |own: &&GroupRecord| own.tables.iter().any(|table| declared.tables.contains(table));
    let others: Vec<_> = stored.iter().filter(shares).cloned().collect();
    match others.as_slice() {
        [] => Found::New,
        [own] if GroupRecord { partitions: 0, ..own.clone() } == *declared => {
            Found::Same { partitions: own.partitions }
        }
        _ => Found::Other(others),
    }
}

/// The error of a group that is not the one that wrote the rows.
pub(super) fn changed(declared: &GroupRecord, stored: &[GroupRecord]) -> Error {
    let before: Vec<_> = stored.iter().map(describe).collect();
    let message = format!(
        "what belongs together has changed: the rows were written by {}, now there is {}. Rows of tables that share a \
         position are only right together: go back to what was, or declare the tables with `.rebuild()`",
        before.join(" and "),
        describe(declared)
    );
    Error::new(Kind::Build, message).at(format!("table {}", declared.tables.join(", ")))
}

fn describe(record: &GroupRecord) -> String {
    format!("{} with {} on topic {}", record.handlers.join(", "), record.tables.join(", "), record.topic)
}

/// A name by which a handler is known again after the next change of the program.
pub(super) fn check_name(handler: &str) -> Result<()> {
    // What `App::handle` calls closures and generic functions has a line number in it.
    if !handler.contains(", line ") {
        return Ok(());
    }
    let message = "writes a table, which remembers by whom it was written: give it a name that stays, `.name(\"…\")`";
    Err(Error::new(Kind::Build, message).at(format!("handler {handler}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::fold::TableRef;

    fn handler(name: &str, tables: &[&str]) -> HandlerTables {
        let table = |name: &&str| TableRef {
            name: Arc::from(*name),
            id: 0,
            table: Arc::new(()),
            fold: super::super::source::SourceTables::make,
        };
        HandlerTables {
            handler: name.into(),
            tables: tables.iter().map(table).collect(),
            has_ids: false,
            is_piped: false,
        }
    }

    #[test]
    fn what_is_connected_through_tables_is_one_group() {
        let handlers = [
            handler("a", &["x"]),
            handler("b", &["y"]),
            handler("c", &[]),
            handler("d", &["y", "z"]),
            handler("e", &["x"]),
        ];
        let found = groups("t", &handlers);
        assert_eq!(found.of_handlers, [Some(0), Some(1), None, Some(1), Some(0)]);
        assert_eq!(found.records[0].handlers, ["a", "e"]);
        assert_eq!(found.records[1].tables, ["y", "z"]);
    }

    #[test]
    fn a_late_handler_can_join_two_groups() {
        let found = groups("t", &[handler("a", &["x"]), handler("b", &["y"]), handler("c", &["y", "x"])]);
        assert_eq!(found.of_handlers, [Some(0), Some(0), Some(0)]);
        assert_eq!(found.records.len(), 1);
    }

    #[test]
    fn a_changed_set_is_not_the_same_group() {
        let before = groups("t", &[handler("a", &["x", "y"])]).records;
        let now = groups("t", &[handler("a", &["x"])]).records;
        assert!(matches!(find(&now[0], &before), Found::Other(_)));
        assert!(changed(&now[0], &before).to_string().contains("a with x, y on topic t"));
        let renamed = groups("t", &[handler("b", &["x", "y"])]).records;
        assert!(matches!(find(&renamed[0], &before), Found::Other(_)));
        let elsewhere = groups("u", &[handler("a", &["x", "y"])]).records;
        assert!(matches!(find(&elsewhere[0], &before), Found::Other(_)));
        assert_eq!(find(&before[0], &before), Found::Same { partitions: 0 });
        assert_eq!(find(&now[0], &[]), Found::New);
    }
}

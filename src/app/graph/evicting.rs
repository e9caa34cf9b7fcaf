//! Caches that drop rows on their own, behind the dependency of a checkpoint: what is covered may be gone by then.

use std::collections::{BTreeMap, BTreeSet};

use super::Graph;
use crate::flow::NodeId;

/// Says it once for each such cache.
pub(super) fn warn(graph: &Graph, evicting: &BTreeMap<NodeId, String>) {
    for (checkpoint, cache, retention) in found(graph, evicting) {
        tracing::warn!(
            checkpoint,
            "{cache} is filled by a dependency and drops rows by itself ({retention}): what is looked up there may be gone \
             although its marker has passed; `.retention(Retention::Keep)` keeps all rows"
        );
    }
}

/// The checkpoints with the caches that are written, also through hops, by handlers of their dependencies.
fn found<'a>(graph: &'a Graph, evicting: &'a BTreeMap<NodeId, String>) -> Vec<(&'a str, &'a NodeId, &'a str)> {
    let mut all = Vec::new();
    for guarded in &graph.guarded {
        let dependencies: Vec<_> = guarded.dependencies.iter().filter_map(|(_, node)| node.as_ref()).collect();
        let below = below(graph, dependencies);
        let caches = evicting.iter().filter(|(cache, _)| below.contains(cache));
        all.extend(caches.map(|(cache, retention)| (&*guarded.checkpoint, cache, &**retention)));
    }
    all
}

fn below<'a>(graph: &'a Graph, mut open: Vec<&'a NodeId>) -> BTreeSet<&'a NodeId> {
    let mut reached = BTreeSet::new();
    while let Some(node) = open.pop() {
        let readers = graph.edges.iter().filter(|edge| edge.reads.contains(node));
        open.extend(readers.flat_map(|edge| &edge.writes).filter(|written| reached.insert(*written)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::app::graph::Edge;
    use crate::source::Guarded;

    fn node(kind: &'static str, name: &str) -> NodeId {
        NodeId { kind, name: Arc::from(name), id: 0 }
    }

    #[test]
    fn caches_behind_a_dependency_are_found_through_hops_and_others_are_not() {
        let (weather, hop, activity) = (node("topic", "weather"), node("proxy", "hop"), node("topic", "activity"));
        let (behind, aside) = (node("cache", "behind"), node("cache", "aside"));
        let edge = |reads: &NodeId, writes: &NodeId| {
            let handler = Arc::from("handler");
            Edge { handler, reads: vec![reads.clone()], writes: vec![writes.clone()], ..Edge::default() }
        };
        let mut graph = Graph::default();
        [edge(&weather, &hop), edge(&hop, &behind), edge(&activity, &aside)]
            .into_iter()
            .for_each(|edge| graph.add(edge));
        graph.guarded().push(Guarded {
            checkpoint: Arc::from("c"),
            dependent: Some(activity),
            dependencies: vec![(Arc::from("weather"), Some(weather))],
            goes_on_early: false,
            single_member: false,
        });
        let evicting = BTreeMap::from([(behind.clone(), "Fifo".to_owned()), (aside, "Fifo".to_owned())]);
        assert_eq!(found(&graph, &evicting), [("c", &behind, "Fifo")]);
    }
}

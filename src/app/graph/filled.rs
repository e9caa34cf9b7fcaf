//! Dependencies that are filled inside the app: from which topics.

use std::collections::BTreeSet;

use super::guards::writers;
use super::{Graph, in_process};
use crate::flow::NodeId;
use crate::topic::fills::{AllFills, Fills};

/// The topics that handlers fill dependencies from, directly and through hops. What another topic lies between is
/// read from there.
pub(super) fn fills(graph: &Graph) -> AllFills {
    let mut all = AllFills::new();
    for guarded in graph.guarded.iter().filter(|own| !own.single_member) {
        for dependency in guarded.dependencies.iter().filter_map(|(_, node)| node.as_ref()) {
            for topic in topics_above(graph, dependency) {
                let (dependency, checkpoint) = (dependency.clone(), guarded.checkpoint.clone());
                all.entry(topic).or_insert(Fills { dependency, checkpoint });
            }
        }
    }
    all
}

fn topics_above(graph: &Graph, node: &NodeId) -> BTreeSet<NodeId> {
    let (mut topics, mut reached) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![node];
    while let Some(node) = open.pop().filter(|node| in_process(node)) {
        for read in writers(graph, node).flat_map(|(_, edge)| &edge.reads) {
            if !in_process(read) {
                topics.insert(read.clone());
            } else if reached.insert(read) {
                open.push(read);
            }
        }
    }
    topics
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

    fn filled_from(dependency: &NodeId, edges: &[(&NodeId, &NodeId)], single_member: bool) -> Vec<String> {
        let mut graph = Graph::default();
        for (read, write) in edges {
            graph.add(Edge { reads: vec![(*read).clone()], writes: vec![(*write).clone()], ..Edge::default() });
        }
        graph.guarded().push(Guarded {
            checkpoint: Arc::from("c"),
            dependent: None,
            dependencies: vec![(Arc::from("it"), Some(dependency.clone()))],
            goes_on_early: false,
            single_member,
        });
        fills(&graph).keys().map(ToString::to_string).collect()
    }

    #[test]
    fn topics_are_found_through_hops_up_to_the_next_topic() {
        let (far, near, aside) = (node("topic", "far"), node("topic", "near"), node("topic", "aside"));
        let (hop, cache) = (node("proxy", "hop"), node("cache", "rows"));
        let edges = [(&far, &near), (&near, &hop), (&hop, &cache), (&cache, &hop), (&aside, &aside)];
        assert_eq!(filled_from(&cache, &edges, false), ["topic near"]);
        assert_eq!(filled_from(&near, &edges, false), [""; 0], "it is read itself");
        assert_eq!(filled_from(&cache, &edges, true), [""; 0]);
    }
}

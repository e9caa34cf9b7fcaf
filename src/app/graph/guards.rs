//! Checkpoints in the graph: a pause that would stop what it waits for is refused.

use std::collections::BTreeSet;

use super::{Edge, Graph, in_process};
use crate::error::{Error, Kind, Result};
use crate::flow::NodeId;
use crate::source::Guarded;

pub(super) fn check(graph: &Graph) -> Result<()> {
    for guarded in &graph.guarded {
        for (name, node) in &guarded.dependencies {
            let Some(node) = node else { continue };
            let between = guarded.dependent.as_ref().map(|dependent| check_one(graph, guarded, dependent, name, node));
            let refusal = between.unwrap_or(Ok(())).and_then(|()| check_pipes(graph, node));
            refusal.map_err(|error| error.at(format!("checkpoint {}", guarded.checkpoint)))?;
        }
    }
    Ok(())
}

/// A message is done when the pipe behind it asks for the next one: what a pipe holds back counts as done, and is not.
fn check_pipes(graph: &Graph, dependency: &NodeId) -> Result<()> {
    let below = below(graph, dependency);
    let mut piped = below.iter().flat_map(|node| {
        graph.edges.iter().filter(|edge| edge.piped.contains(node)).map(move |edge| (node, &edge.handler))
    });
    let Some((node, handler)) = piped.next() else { return Ok(()) };
    let of_whom = if node == dependency { String::new() } else { format!(", which handlers of {dependency} write,") };
    refuse(format!(
        "handler {handler} reads {node}{of_whom} through a pipe, which may hold back what {dependency} counts as done: let the \
         handler do the work of the pipe itself, or let it write to a topic, and make that the dependency; what nothing \
         looks up may go through a topic into a pipe"
    ))
}

/// The dependency, and what its messages go on through until they are done.
fn below(graph: &Graph, dependency: &NodeId) -> Vec<NodeId> {
    let mut reached = vec![dependency.clone()];
    let mut at = 0;
    while let Some(node) = reached.get(at).cloned() {
        at += 1;
        let readers = graph.edges.iter().filter(|edge| edge.reads.contains(&node));
        for written in readers.flat_map(|edge| &edge.writes).filter(|written| in_process(written)) {
            if !reached.contains(written) {
                reached.push(written.clone());
            }
        }
    }
    reached
}

fn refuse(message: String) -> Result<()> {
    Err(Error::new(Kind::Build, message))
}

fn check_one(graph: &Graph, guarded: &Guarded, dependent: &NodeId, name: &str, dependency: &NodeId) -> Result<()> {
    if dependent == dependency {
        return refuse(format!("{dependent} depends on itself, as `{name}`: name the source that it is compared with"));
    }
    let needed = needed(graph, dependency);
    if needed.nodes.contains(dependent) {
        return refuse(format!(
            "{dependent} depends on {dependency}, which cannot go on without {dependent}: a pause of one would never end; \
             leave one of the two out"
        ));
    }
    let early = graph.guarded.iter().filter(|own| own.goes_on_early);
    let early =
        early.filter_map(|own| Some((own, own.dependent.as_ref().filter(|node| needed.nodes.contains(*node))?)));
    if let Some((early, node)) = early.into_iter().next() {
        let from = if node == dependency { String::new() } else { format!(", which {dependency} comes from,") };
        return refuse(format!(
            "{node}{from} is guarded by checkpoint {}, which lets it go on during an outage and corrects it later: what \
             depends on it would take what is not corrected yet for right; let that one pause, or hold",
            early.checkpoint
        ));
    }
    let above = above(graph, dependent);
    let mut shared = above.nodes.intersection(&needed.nodes).map(ToString::to_string);
    let handlers = above.handlers.intersection(&needed.handlers).filter_map(|own| graph.edges.get(*own));
    let mut handlers = handlers.map(|edge| format!("handler {}", edge.handler));
    let Some(shared) = shared.next().or_else(|| handlers.next()) else { return Ok(()) };
    let waits = &guarded.checkpoint;
    refuse(format!(
        "{dependent} and {dependency} both come from {shared}: when `{waits}` holds one, the other stops too, and the pause \
         never ends; put a topic in front of {dependent}, or read it from a source of its own"
    ))
}

#[derive(Default)]
struct Reached {
    nodes: BTreeSet<NodeId>,
    /// Their places among the edges: several may have one name.
    handlers: BTreeSet<usize>,
}

/// Everything that has to go on for messages to come to `node`: who writes it, what those read, what guards that, or
/// something else that they fill, and stop for when it is held.
fn needed(graph: &Graph, node: &NodeId) -> Reached {
    let guarded = graph.guarded.iter().filter_map(|own| Some((own, own.dependent.as_ref()?)));
    let guarded: Vec<_> = guarded.map(|(own, dependent)| (own, dependent, above(graph, dependent))).collect();
    let mut reached = Reached::default();
    let mut open = vec![node.clone()];
    while let Some(node) = open.pop() {
        if !reached.nodes.insert(node.clone()) {
            continue;
        }
        let mut handlers = BTreeSet::new();
        for (own, edge) in writers(graph, &node) {
            handlers.insert(own);
            open.extend(edge.reads.iter().cloned());
        }
        let stops = |above: &Reached| above.nodes.contains(&node) || !above.handlers.is_disjoint(&handlers);
        let guards = guarded.iter().filter(|(_, dependent, above)| **dependent == node || stops(above));
        open.extend(guards.flat_map(|(own, ..)| &own.dependencies).filter_map(|(_, node)| node.clone()));
        reached.handlers.append(&mut handlers);
    }
    reached
}

/// What stops when `node` is full: whoever writes to it in this process, and so on up to sources that wait elsewhere.
fn above(graph: &Graph, node: &NodeId) -> Reached {
    let mut reached = Reached::default();
    let mut open = vec![node.clone()];
    while let Some(node) = open.pop() {
        if !in_process(&node) {
            continue;
        }
        for (own, edge) in writers(graph, &node) {
            reached.handlers.insert(own);
            for read in &edge.reads {
                if reached.nodes.insert(read.clone()) {
                    open.push(read.clone());
                }
            }
        }
    }
    reached
}

pub(super) fn writers<'a>(graph: &'a Graph, node: &'a NodeId) -> impl Iterator<Item = (usize, &'a Edge)> {
    graph.edges.iter().enumerate().filter(move |(_, edge)| edge.writes.contains(node))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn node(kind: &'static str, name: &str) -> NodeId {
        NodeId { kind, name: Arc::from(name), id: 0 }
    }

    fn edge(handler: &str, reads: &[&NodeId], writes: &[&NodeId]) -> Edge {
        let cloned = |nodes: &[&NodeId]| nodes.iter().map(|node| (*node).clone()).collect();
        Edge { handler: Arc::from(handler), reads: cloned(reads), writes: cloned(writes), ..Edge::default() }
    }

    fn guarded(dependent: &NodeId, dependency: &NodeId) -> Guarded {
        let dependencies = vec![(Arc::from("it"), Some(dependency.clone()))];
        Guarded {
            checkpoint: Arc::from("c"),
            dependent: Some(dependent.clone()),
            dependencies,
            goes_on_early: false,
            single_member: false,
        }
    }

    fn refused(edges: Vec<Edge>, guards: Vec<Guarded>) -> Option<String> {
        let mut graph = Graph { guarded: guards, ..Graph::default() };
        edges.into_iter().for_each(|edge| graph.add(edge));
        check(&graph).err().map(|error| error.to_string())
    }

    #[test]
    fn b_44_a_source_that_depends_on_itself_is_refused() {
        let a = node("topic", "a");
        assert!(refused(Vec::new(), vec![guarded(&a, &a)]).is_some_and(|text| text.contains("depends on itself")));
    }

    #[test]
    fn b_44_checkpoints_in_a_circle_are_refused() {
        let (a, b, c) = (node("topic", "a"), node("topic", "b"), node("topic", "c"));
        let circle = refused(Vec::new(), vec![guarded(&a, &b), guarded(&b, &c), guarded(&c, &a)]);
        assert!(circle.is_some_and(|text| text.contains("cannot go on without")));
        assert_eq!(refused(Vec::new(), vec![guarded(&a, &b), guarded(&b, &c)]), None);
    }

    #[test]
    fn a_dependency_that_goes_on_uncorrected_is_refused() {
        let (a, b, c) = (node("topic", "a"), node("topic", "b"), node("topic", "c"));
        let early = Guarded { goes_on_early: true, single_member: false, ..guarded(&b, &c) };
        let text = refused(Vec::new(), vec![guarded(&a, &b), early.clone()]);
        assert!(text.is_some_and(|text| text.contains("corrects it later")));
        assert_eq!(refused(Vec::new(), vec![early]), None);
    }

    #[test]
    fn what_comes_from_one_that_goes_on_uncorrected_is_refused_as_a_dependency() {
        let (a, b, c, hop) = (node("topic", "a"), node("topic", "b"), node("topic", "c"), node("proxy", "hop"));
        let early = Guarded { goes_on_early: true, ..guarded(&b, &c) };
        let text = refused(vec![edge("f", &[&b], &[&hop])], vec![guarded(&a, &hop), early]);
        assert!(text.is_some_and(|text| text.contains("topic b, which proxy hop comes from, is guarded by")));
    }

    #[test]
    fn b_44_two_checkpoints_each_of_which_stops_what_the_other_waits_for_are_refused() {
        let streams = ["s", "t"].map(|name| node("stream", name));
        let held = ["p", "q"].map(|name| node("proxy", name));
        let brought = ["x", "y"].map(|name| node("proxy", name));
        let edges = || {
            let one = [edge("f", &[&streams[0]], &[&held[0]]), edge("g", &[&streams[0]], &[&brought[1]])];
            one.into_iter().chain([edge("h", &[&streams[1]], &[&held[1], &brought[0]])]).collect::<Vec<_>>()
        };
        let guards = [0, 1].map(|at| guarded(&held[at], &brought[at]));
        let both = refused(edges(), guards.to_vec());
        assert!(both.is_some_and(|text| text.contains("both come from stream s")));
        assert!(guards.into_iter().all(|guard| refused(edges(), vec![guard]).is_none()));
    }

    #[test]
    fn a_dependency_that_is_made_from_the_dependent_is_refused() {
        let (a, b) = (node("topic", "a"), node("topic", "b"));
        let made = refused(vec![edge("f", &[&a], &[&b])], vec![guarded(&a, &b)]);
        assert!(made.is_some_and(|text| text.contains("cannot go on without")));
    }

    #[test]
    fn dependent_and_dependency_behind_one_source_are_refused_unless_a_topic_lies_between() {
        let (source, a, b) = (node("stream", "s"), node("proxy", "a"), node("proxy", "b"));
        let split = |a: &NodeId| vec![edge("f", &[&source], &[a]), edge("g", &[&source], &[&b])];
        let behind = refused(split(&a), vec![guarded(&a, &b)]);
        assert!(behind.is_some_and(|text| text.contains("both come from stream s")));
        let topic = node("topic", "t");
        assert_eq!(refused(split(&topic), vec![guarded(&topic, &b)]), None);
        let one = refused(vec![edge("f", &[], &[&a, &b])], vec![guarded(&a, &b)]);
        assert!(one.is_some_and(|text| text.contains("both come from handler f")));
    }

    #[test]
    fn a_pipe_behind_a_dependency_is_refused_also_behind_hops_but_not_behind_a_topic() {
        let (a, b) = (node("topic", "a"), node("topic", "b"));
        let piped = |read: &NodeId| Edge { piped: vec![read.clone()], ..edge("g", &[read], &[]) };
        let direct = refused(vec![piped(&b)], vec![guarded(&a, &b)]);
        assert!(direct.is_some_and(|text| text.contains("handler g reads topic b through a pipe")));
        assert_eq!(refused(vec![piped(&a)], vec![guarded(&a, &b)]), None);
        let hop = |to: &NodeId| refused(vec![edge("f", &[&b], &[to]), piped(to)], vec![guarded(&a, &b)]);
        let behind = hop(&node("cache", "c"));
        assert!(behind.is_some_and(|text| text.contains("reads cache c, which handlers of topic b write, through")));
        assert_eq!(hop(&node("topic", "c")), None);
        // Of a dependent that only one handler can read.
        let of_a_stream = Guarded { dependent: None, ..guarded(&a, &b) };
        assert!(refused(vec![piped(&b)], vec![of_a_stream]).is_some());
    }

    #[test]
    fn two_handlers_of_one_name_are_two() {
        let (a, b) = (node("proxy", "a"), node("proxy", "b"));
        let named_alike = vec![edge("f", &[], &[&a]), edge("f", &[], &[&b])];
        assert_eq!(refused(named_alike, vec![guarded(&a, &b)]), None);
    }
}

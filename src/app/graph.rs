//! Who reads and writes what; what cannot work is refused before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::flow::{Env, NodeId};
use crate::source::Guarded;
use crate::topic::fills;

mod evicting;
mod filled;
mod guards;

/// One handler between nodes.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    pub handler: Arc<str>,
    pub reads: Vec<NodeId>,
    pub writes: Vec<NodeId>,
    /// What it reads through a pipe.
    pub piped: Vec<NodeId>,
}

/// All handlers of an app.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    edges: Vec<Edge>,
    /// Nodes that are written from outside the graph.
    external: BTreeSet<NodeId>,
    guarded: Vec<Guarded>,
}

impl Graph {
    pub(crate) fn add(&mut self, edge: Edge) {
        self.edges.push(edge);
    }

    pub(crate) fn add_external(&mut self, node: NodeId) {
        self.external.insert(node);
    }

    /// What checkpoints guard.
    pub(crate) fn guarded(&mut self) -> &mut Vec<Guarded> {
        &mut self.guarded
    }

    pub(crate) fn handlers(&self) -> impl Iterator<Item = &str> {
        self.edges.iter().map(|edge| &*edge.handler)
    }

    /// Warns of caches that drop rows which checkpoints rely on, and of dependencies that are unknown after a restart.
    pub(crate) fn warn(&self, env: &Env) {
        evicting::warn(self, &env.evicting());
        for guarded in self.guarded.iter().filter(|own| own.dependent.as_ref().is_some_and(|node| !in_process(node))) {
            let dependencies = guarded.dependencies.iter().filter_map(|(_, node)| node.as_ref());
            for proxy in dependencies.filter(|node| node.kind == "proxy") {
                tracing::warn!(
                    checkpoint = &*guarded.checkpoint,
                    "{proxy} keeps no marker: after a restart it covers nothing before its next message. Depend on the topic \
                     that it comes from, or on a cache, to go on at once"
                );
            }
        }
    }

    /// Tells topics what they fill, of which some have to be read whole.
    pub(crate) fn tell_topics(&self, env: &Env) -> Result<()> {
        fills::remember(filled::fills(self), env)
    }

    /// Refuses in-process nodes that nobody writes, and cycles of them.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_written()?;
        self.check_cycles()?;
        guards::check(self)
    }

    fn check_written(&self) -> Result<()> {
        let written: BTreeSet<_> = self.edges.iter().flat_map(|edge| &edge.writes).collect();
        let reads =
            self.edges.iter().flat_map(|edge| edge.reads.iter().map(move |node| ("handler", &edge.handler, node)));
        let guarded = self.guarded.iter().flat_map(|own| {
            let nodes = own.dependencies.iter().filter_map(|(_, node)| node.as_ref()).chain(&own.dependent);
            nodes.map(move |node| ("checkpoint", &own.checkpoint, node))
        });
        let is_dry = |node: &NodeId| in_process(node) && !written.contains(node) && !self.external.contains(node);
        let Some((kind, name, node)) = reads.chain(guarded).find(|(_, _, node)| is_dry(node)) else { return Ok(()) };
        let message =
            format!("{kind} {name} reads it, but no handler writes to it: make it a sink, or declare it `.external()`");
        Err(Error::new(Kind::Build, message).at(node.to_string()))
    }

    /// A cycle through a broker is a queue; one without is a deadlock.
    fn check_cycles(&self) -> Result<()> {
        let mut next: BTreeMap<&NodeId, Vec<(&Edge, &NodeId)>> = BTreeMap::new();
        for edge in &self.edges {
            for read in edge.reads.iter().filter(|node| in_process(node)) {
                next.entry(read)
                    .or_default()
                    .extend(edge.writes.iter().filter(|node| in_process(node)).map(|to| (edge, to)));
            }
        }
        let mut done = BTreeSet::new();
        for start in next.keys() {
            if let Some(path) = find_cycle(start, &next, &mut done, &mut Vec::new()) {
                return Err(Error::new(Kind::Build, format!("the handlers form a cycle: {path}")));
            }
        }
        Ok(())
    }
}

fn in_process(node: &NodeId) -> bool {
    node.kind != "topic"
}

fn find_cycle<'a>(
    node: &'a NodeId,
    next: &BTreeMap<&'a NodeId, Vec<(&'a Edge, &'a NodeId)>>,
    done: &mut BTreeSet<&'a NodeId>,
    path: &mut Vec<(&'a NodeId, &'a str)>,
) -> Option<String> {
    if let Some(at) = path.iter().position(|(own, _)| *own == node) {
        let steps: Vec<_> = path.iter().skip(at).map(|(node, handler)| format!("{node} → {handler} → ")).collect();
        return Some(format!("{}{node}", steps.concat()));
    }
    if !done.insert(node) {
        return None;
    }
    for (edge, to) in next.get(node).into_iter().flatten() {
        path.push((node, &edge.handler));
        let found = find_cycle(to, next, done, path);
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: &'static str, name: &str) -> NodeId {
        NodeId { kind, name: Arc::from(name), id: 0 }
    }

    fn edge(handler: &str, reads: &[NodeId], writes: &[NodeId]) -> Edge {
        let handler = Arc::from(handler);
        Edge { handler, reads: reads.to_vec(), writes: writes.to_vec(), ..Edge::default() }
    }

    #[test]
    fn a_cycle_of_proxies_is_refused_with_its_path() {
        let (a, b) = (node("proxy", "a"), node("proxy", "b"));
        let mut graph = Graph::default();
        graph.add(edge("f", std::slice::from_ref(&a), std::slice::from_ref(&b)));
        graph.add(edge("g", std::slice::from_ref(&b), std::slice::from_ref(&a)));
        let error = graph.check().map_err(|error| error.to_string());
        assert_eq!(error, Err("the handlers form a cycle: proxy a → f → proxy b → g → proxy a".to_owned()));
    }

    #[test]
    fn a_cycle_through_a_topic_is_a_queue() {
        let (a, t) = (node("proxy", "a"), node("topic", "t"));
        let mut graph = Graph::default();
        graph.add(edge("f", std::slice::from_ref(&a), std::slice::from_ref(&t)));
        graph.add(edge("g", std::slice::from_ref(&t), std::slice::from_ref(&a)));
        assert!(graph.check().is_ok());
    }

    #[test]
    fn a_proxy_that_writes_to_itself_is_refused() {
        let a = node("proxy", "a");
        let mut graph = Graph::default();
        graph.add(edge("f", std::slice::from_ref(&a), std::slice::from_ref(&a)));
        assert!(graph.check().is_err());
    }

    #[test]
    fn a_proxy_that_nobody_writes_is_refused_unless_it_is_external() {
        let a = node("proxy", "a");
        let mut graph = Graph::default();
        graph.add(edge("f", std::slice::from_ref(&a), &[]));
        assert!(graph.check().is_err());
        graph.add_external(a);
        assert!(graph.check().is_ok());
    }
}

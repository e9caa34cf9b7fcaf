//! The way a message and its acknowledgement travel: ring and guards, queues, pause gates, and the traits that the
//! parts of a flow (source, handler, sink) speak to each other.

mod budget;
pub(crate) mod durable;
mod env;
pub mod fold;
mod gate;
mod pool;
mod position;
mod primitives;
mod queue;
mod ring;
#[cfg(test)]
mod ring_tests;
mod sink;
mod stage;
mod stats;
pub(crate) mod tap;
mod unit;
mod wakers;
pub(crate) mod watchdog;

pub(crate) use budget::Budget;
pub use env::Env;
pub(crate) use env::{EnvParts, NodeId, Phase};
pub use gate::Gate;
pub(crate) use gate::{AlwaysOpen, Opening};
pub(crate) use position::Position;
pub(crate) use queue::{Push, Queue};
pub use ring::Guard;
pub(crate) use ring::Tracker;
pub use sink::Sink;
pub use stage::Stage;
pub(crate) use stage::{BoxStage, StageFactory, Stages};
pub(crate) use stats::{LaneStats, SourceStats};
pub use unit::UnitCx;
pub(crate) use wakers::WakerSet;

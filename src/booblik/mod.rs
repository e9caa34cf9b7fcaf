//! The booblik protocol: an append-only log on disk, the broker that serves it, and a client for it. Usable on its own.
//!
//! | folder | what is in it |
//! |---|---|
//! | `wire` | bytes ↔ requests and responses, without I/O |
//! | `client` | connections, producer and consumer |
//! | `log` | segments on disk: append, read, recover, retain |
//! | `broker` | topics in a directory, and the server that answers for them |

pub mod broker;
pub mod client;
pub mod log;
pub mod wire;

//! Integration tests, in one binary. Folders are named after what they are about.

mod caches;
mod engine;
mod handle;
mod preludes;
mod scenarios;
mod topics;

//! Integration tests, in one binary. Folders are named after what they are about.

mod caches;
mod engine;
mod scenarios;
mod topics;

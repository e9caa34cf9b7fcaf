//! Integration tests, in one binary. Folders are named after what they are about.

mod conformance;
mod engine;
mod scenarios;
mod topics;

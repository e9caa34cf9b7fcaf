//! Bytes ↔ requests and responses, without I/O.

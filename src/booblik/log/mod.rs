//! Partitions on disk: append, read, recover, retain.

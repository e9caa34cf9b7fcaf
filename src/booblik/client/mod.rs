//! A client: connections, producer and consumer.

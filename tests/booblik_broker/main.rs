//! A broker on real files and sockets, and as a process that is killed.

mod damage;
mod disk;
mod fetch;
mod hostile;
mod kill;
mod limits;
mod peer;
mod requests;
mod support;

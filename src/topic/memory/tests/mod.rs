//! The backend from the outside, through the traits that every backend has.

mod bounds;
mod groups;
mod harness;
mod manage;
mod reading;
mod schedules;

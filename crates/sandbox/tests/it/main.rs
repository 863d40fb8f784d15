//! The sandbox through its service, as clients use it.

mod client;
mod crud;
mod customs;
mod discovery;
mod durable;
mod faults;
mod kinds;
mod lists;
mod protocol;
mod watches;
mod workloads;

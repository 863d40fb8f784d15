//! The sandbox through its service, as clients use it.

mod client;
mod crud;
mod discovery;
mod lists;
mod watches;
mod workloads;

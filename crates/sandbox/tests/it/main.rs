//! The sandbox through its service, as clients use it.

mod access;
mod client;
mod clones;
mod crud;
mod customs;
mod discovery;
mod durable;
mod encodings;
mod faults;
mod hostile;
mod intake;
mod kinds;
mod lists;
mod mutations;
mod parity;
mod pod_security;
mod pods;
mod policies;
mod protocol;
mod rules;
mod steer;
mod subresources;
mod watches;
mod workloads;

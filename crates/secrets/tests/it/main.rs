//! Behaviour of secrets, from references to values. Backends are strict servers of our own, one a module.

mod aws;
mod azure;
mod bad_input;
mod exec;
mod files;
mod gcp;
mod masking;
mod parallel;
mod policy;
mod references;
mod servers;
mod support;
mod trust;
mod vault;

//! Progressive delivery on the embedded cluster.

mod bluegreen;
mod canary;
mod files;
mod kills;
mod traffic;
mod world;

//! The controller against the sandbox and a forge, over real sockets.

mod agent;
mod api;
mod chart;
mod doctor;
#[path = "../../../promotion/tests/it/effects.rs"]
#[allow(dead_code, reason = "shared with the tests of promotion, which use more of it")]
mod effects;
mod election;
#[path = "../../../promotion/tests/it/forge.rs"]
#[allow(dead_code, reason = "shared with the tests of promotion, which use more of it")]
mod forge;
mod kinds;
mod operation;
mod tls;
mod world;

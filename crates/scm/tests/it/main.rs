//! Every provider against a strict server of its own, and what they have in common.

mod content;
mod contract;
mod limits;
mod model;
mod servers;
mod webhooks;

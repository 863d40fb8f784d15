//! The way in and out: connections, requests, content negotiation, answers, and faults planned between them.

pub(crate) mod body;
pub(crate) mod control;
pub(crate) mod documents;
pub(crate) mod fault;
mod fault_plan;
pub(crate) mod negotiate;
pub(crate) mod net;
pub(crate) mod query;
pub(crate) mod respond;
pub(crate) mod route;
pub(crate) mod service;
mod yaml;

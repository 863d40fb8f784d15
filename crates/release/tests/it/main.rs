//! The release engine.

mod graphs;
mod scenarios;

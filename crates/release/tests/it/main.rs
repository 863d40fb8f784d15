//! The release engine.

mod graphs;

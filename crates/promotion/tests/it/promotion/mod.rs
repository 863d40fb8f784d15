//! Promotions from bundle to production, with every part real but the clock.

mod admission;
mod bypass;
mod custom;
mod files;
mod flow;
mod gates;
mod groups;
mod health;
mod lifecycle;
mod tools;
mod trouble;
mod upkeep;
pub(crate) mod world;

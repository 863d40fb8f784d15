//! The kinds of promotion as Rust types, their definitions, and reading and writing them.

mod bundle;
mod change_window;
mod client;
mod conditions;
mod crds;
mod duration;
mod environment;
mod evidence;
mod health_record;
pub mod labels;
mod metric_check;
mod notification_hook;
mod pipeline;
mod pipeline_group;
mod policy_gate;
mod promotion_contract;
mod promotion_step;
mod reference;
mod resource;
mod schema;
mod subscription;
mod supporting;

pub use bundle::*;
pub use change_window::*;
pub use client::*;
pub use conditions::{
    Condition, ConditionStatus, NewCondition, find_condition, remove_condition, set_condition,
};
pub use crds::definitions;
pub use duration::GoDuration;
pub use environment::*;
pub use evidence::*;
pub use health_record::*;
pub use metric_check::*;
pub use notification_hook::*;
pub use pipeline::*;
pub use pipeline_group::*;
pub use policy_gate::*;
pub use promotion_contract::*;
pub use promotion_step::*;
pub use reference::{ObjectName, SecretRef};
pub use resource::{KindScope, KindSpec, Metadata, OwnerReference, Resource};
pub use subscription::*;
pub use supporting::*;

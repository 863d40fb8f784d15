//! Many releases as one graph.
//!
//! [`discover`](discover::discover) finds `stack.yaml` and `release.yaml` files, [`inherit`] merges their
//! layers, [`select`] chooses releases and says why, [`compile`](compile::compile) makes a [`Plan`] of
//! them, [`run`](run::run) runs it on the graph kernel through whatever implements [`Deploy`], and
//! [`record`] keeps every run where a crash cannot hurt it. [`launch`](launch::launch) is all of that in one.
//!
//! The crate applies nothing by itself: [`engine`] hands releases to the release engine.

mod check;
pub mod compile;
pub mod deploy;
pub mod discover;
pub mod duration;
pub mod engine;
mod error;
pub mod explain;
pub mod git;
mod id;
mod ignore;
pub mod inherit;
pub mod launch;
mod model;
mod paths;
pub mod pin;
pub mod plan;
pub mod record;
pub mod resume;
pub mod run;
mod schema;
pub mod select;
pub mod sources;
pub mod survey;

pub use compile::{Compiled, Request, Stack, compile, load};
pub use deploy::{Applied, At, Attempt, Class, Deploy, Live, NodeError, Preview, Verdict};
pub use error::Error;
pub use git::Git;
pub use id::ReleaseId;
pub use inherit::Profile;
pub use model::{Declaration, Located, Runner, Settings, StackFile};
pub use paths::expand;
pub use plan::{Command, FailMode, NeedsPolicy, Node, Plan};
pub use schema::{release_schema, stack_schema};
pub use select::{SelectMode, Selector};

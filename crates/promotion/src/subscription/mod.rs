//! Subscriptions: new versions in registries and repositories become bundles.
//!
//! `select` says which of the tags of a repository is the newest (pure), `look` asks registries and repositories, and
//! [`SubscriptionReconciler`] makes a bundle of what is new. The name of a bundle follows from the version, so that a
//! process that ends between the bundle and the status makes no second one.

mod look;
mod reconcile;
mod select;

pub use reconcile::SubscriptionReconciler;
pub use select::{SelectError, newest_tag};

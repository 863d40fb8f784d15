//! Settings of promotion.

use std::collections::BTreeSet;
use std::time::Duration;

/// Settings every reconciler shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotionOptions {
    /// Namespaces whose gates bind every pipeline; only gates there may have the scope `org`.
    pub policy_namespaces: BTreeSet<String>,
    /// Emergency bundles pass a freeze without a gate that allows it.
    pub emergency_bypasses_freeze: bool,
    /// The shard of steps this process carries out; those without a shard when absent.
    pub shard: Option<String>,
    /// The time between two looks at an open pull request where webhooks tell of merges.
    pub safety_poll: Duration,
    /// The time bundles outlive their pipeline.
    pub orphan_grace: Duration,
    /// The time between two looks at the drift of an environment; drift is not looked for when absent.
    pub drift_interval: Option<Duration>,
}

impl Default for PromotionOptions {
    fn default() -> Self {
        Self {
            policy_namespaces: BTreeSet::from(["platform-policies".to_owned()]),
            emergency_bypasses_freeze: false,
            shard: None,
            safety_poll: Duration::from_secs(5 * 60),
            orphan_grace: Duration::from_secs(60),
            drift_interval: Some(Duration::from_secs(5 * 60)),
        }
    }
}

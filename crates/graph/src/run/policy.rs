//! The rules a run follows.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::{RetryClass, RetryClasses};
use crate::Id;

/// The rules of a whole run.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The time a node may start.
    pub schedule: Schedule,
    /// The number of metered nodes that may run at once; no limit if absent. Waiting for a retry takes no place.
    pub concurrency: Option<NonZeroUsize>,
    /// The number of nodes of each pool that may run at once, under the limit above; see [`NodePolicy::pool`].
    pub pools: Vec<NonZeroUsize>,
    /// The treatment of running nodes when the run is cancelled.
    pub on_cancel: RunningNodes,
    /// Time limit for a node that is told to stop (or exceeds its timeout) to do so before it is
    /// dropped.
    pub grace: Duration,
    /// Time limit for the run; then it stops its nodes.
    pub timeout: Option<Duration>,
    /// The rules for each node, unless [`Worker::policy`](super::Worker::policy) says otherwise.
    pub node: NodePolicy,
    /// The seed of the jitter of retry delays: one seed, one set of delays.
    pub seed: u64,
}

impl Default for Policy {
    /// Eager, unlimited, fail-fast, without timeouts or retries; on cancel, nodes have 30 seconds to stop.
    fn default() -> Self {
        Self {
            schedule: Schedule::Eager,
            concurrency: None,
            pools: Vec::new(),
            on_cancel: RunningNodes::Stop,
            grace: Duration::from_secs(30),
            timeout: None,
            node: NodePolicy::default(),
            seed: 0,
        }
    }
}

/// The time a node may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// The moment its last need ends.
    #[default]
    Eager,
    /// Once every node of the waves before its own has ended.
    ByWave,
}

/// The treatment of nodes that are running when a run stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunningNodes {
    /// They run to their end.
    #[default]
    Finish,
    /// Their [`Context::cancelled`](super::Context::cancelled) fires; past [`Policy::grace`] they are
    /// dropped.
    Stop,
}

/// The effect of a failed node on the run. It always blocks its own dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing new starts, not even a retry.
    FailFast(RunningNodes),
    /// All else goes on.
    Continue,
}

/// The rules of one node.
#[derive(Clone, Copy, Debug)]
pub struct NodePolicy {
    /// Time limit for one attempt.
    pub timeout: Option<Duration>,
    /// The rules for trying again.
    pub retry: Retry,
    /// The effect of its failure on the run.
    pub on_failure: OnFailure,
    /// Set if it takes a place under [`Policy::concurrency`]. A node that only waits should not.
    pub metered: bool,
    /// The pool of [`Policy::pools`] it takes a place in as well, if it is metered. A ready node whose
    /// pool is full is passed over and holds nothing; a pool without a limit has none.
    pub pool: Option<u32>,
    /// Of nodes that are ready, those of lower rank start first; then the stable order decides.
    pub rank: u32,
}

impl Default for NodePolicy {
    fn default() -> Self {
        Self {
            timeout: None,
            retry: Retry::NEVER,
            on_failure: OnFailure::FailFast(RunningNodes::Finish),
            metered: true,
            pool: None,
            rank: 0,
        }
    }
}

/// The rules for trying a node again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// The number of attempts this run makes, the first included. Attempts of earlier runs do not count.
    pub attempts: u32,
    /// Errors worth another attempt.
    pub on: RetryClasses,
    /// The delays in between.
    pub backoff: Backoff,
    /// The longest delay an error may ask for with [`Classify::retry_after`](super::Classify::retry_after).
    pub longest_retry_after: Duration,
}

impl Retry {
    /// One attempt.
    pub const NEVER: Self = Self::transient(1, Backoff::STANDARD);

    /// Up to `attempts` attempts while errors are passing ones.
    pub const fn transient(attempts: u32, backoff: Backoff) -> Self {
        let on = RetryClasses::TRANSIENT;
        Self { attempts, on, backoff, longest_retry_after: Duration::from_secs(120) }
    }

    /// Up to `attempts` attempts whatever the error, timeouts included.
    pub const fn always(attempts: u32, backoff: Backoff) -> Self {
        let on = RetryClasses::ALL;
        Self { attempts, on, backoff, longest_retry_after: Duration::from_secs(120) }
    }

    /// The delay before another attempt after `failed` attempts of this run, or none if there is to be
    /// no other.
    pub(super) fn delay(
        &self,
        failed: u32,
        class: RetryClass,
        asked: Option<Duration>,
        id: &Id,
        seed: u64,
    ) -> Option<Duration> {
        if failed >= self.attempts || !self.on.contains(class) {
            return None;
        }
        let asked = asked.unwrap_or_default().min(self.longest_retry_after);
        Some(self.backoff.delay(failed, id, seed).max(asked))
    }
}

/// Delays that grow from attempt to attempt, spread so that many nodes do not retry at once.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The first delay.
    pub initial: Duration,
    /// The factor from each delay to the next.
    pub factor: f64,
    /// The longest delay, before it is spread.
    pub longest: Duration,
    /// The spread of delays: 0.2 is from 80 % to 120 %. The same seed, id and attempt give the same
    /// delay.
    pub jitter: f64,
}

impl Backoff {
    /// 0.8 s, doubling up to 20 s, spread by 20 %.
    pub const STANDARD: Self = Self {
        initial: Duration::from_millis(800),
        factor: 2.0,
        longest: Duration::from_secs(20),
        jitter: 0.2,
    };

    /// Always the same delay.
    pub const fn fixed(delay: Duration) -> Self {
        Self { initial: delay, factor: 1.0, longest: delay, jitter: 0.0 }
    }

    /// The delay after `failed` failed attempts (counted from 1) at the node `id`.
    pub fn delay(&self, failed: u32, id: &str, seed: u64) -> Duration {
        let growth = self.factor.max(0.0).powf(f64::from(failed.saturating_sub(1)));
        let plain = (self.initial.as_secs_f64() * growth).min(self.longest.as_secs_f64());
        let spread = 1.0 + self.jitter.clamp(0.0, 1.0) * (2.0 * unit(seed, id, failed) - 1.0);
        Duration::try_from_secs_f64(plain * spread).unwrap_or(self.longest)
    }
}

/// A number in `0..1` that depends on nothing but its arguments (FNV-1a, then SplitMix64's finish).
fn unit(seed: u64, id: &str, attempt: u32) -> f64 {
    let bytes = id.bytes().chain(attempt.to_le_bytes());
    let mut mixed = bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

//! How many requests went out, by what they asked for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Apply,
    Patch,
    Replace,
    Delete,
    Log,
    Discover,
}

const VERBS: [(Verb, &str); 10] = [
    (Verb::Get, "get"),
    (Verb::List, "list"),
    (Verb::Watch, "watch"),
    (Verb::Create, "create"),
    (Verb::Apply, "apply"),
    (Verb::Patch, "patch"),
    (Verb::Replace, "replace"),
    (Verb::Delete, "delete"),
    (Verb::Log, "log"),
    (Verb::Discover, "discover"),
];

impl Verb {
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Verb::Create | Verb::Apply | Verb::Patch | Verb::Replace | Verb::Delete)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERBS[*self as usize].1)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    real: [AtomicU64; VERBS.len()],
    dry: [AtomicU64; VERBS.len()],
    repeated: AtomicU64,
}

impl Counters {
    pub(crate) fn count(&self, verb: Verb, dry_run: bool, is_repeat: bool) {
        let row = if dry_run { &self.dry } else { &self.real };
        row[verb as usize].fetch_add(1, Ordering::Relaxed);
        if is_repeat {
            self.repeated.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Calls {
        let load = |row: &[AtomicU64; VERBS.len()]| std::array::from_fn(|i| row[i].load(Ordering::Relaxed));
        Calls {
            real: load(&self.real),
            dry: load(&self.dry),
            repeated: self.repeated.load(Ordering::Relaxed),
        }
    }
}

/// Requests sent so far; prints as `12 calls: get 3, apply 4 (4 more dry-run), list 1; 1 repeated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    real: [u64; VERBS.len()],
    dry: [u64; VERBS.len()],
    repeated: u64,
}

impl Calls {
    /// Requests of a verb that were meant.
    pub fn of(&self, verb: Verb) -> u64 {
        self.real[verb as usize]
    }

    /// Requests of a verb that were only tried.
    pub fn dry_run(&self, verb: Verb) -> u64 {
        self.dry[verb as usize]
    }

    /// Requests sent again after trouble; they count under their verb too.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    pub fn total(&self) -> u64 {
        self.real.iter().chain(&self.dry).sum()
    }

    /// Requests that changed or may have changed something.
    pub fn writes(&self) -> u64 {
        VERBS.iter().filter(|(verb, _)| verb.is_write()).map(|(verb, _)| self.of(*verb)).sum()
    }

    /// What was sent since an earlier reading.
    pub fn since(&self, earlier: &Calls) -> Calls {
        let minus = |now: &[u64; VERBS.len()], then: &[u64; VERBS.len()]| {
            std::array::from_fn(|i| now[i].saturating_sub(then[i]))
        };
        Calls {
            real: minus(&self.real, &earlier.real),
            dry: minus(&self.dry, &earlier.dry),
            repeated: self.repeated.saturating_sub(earlier.repeated),
        }
    }
}

impl std::ops::Add for Calls {
    type Output = Calls;

    fn add(self, more: Calls) -> Calls {
        Calls {
            real: std::array::from_fn(|i| self.real[i] + more.real[i]),
            dry: std::array::from_fn(|i| self.dry[i] + more.dry[i]),
            repeated: self.repeated + more.repeated,
        }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        write!(f, "{total} call{}", if total == 1 { "" } else { "s" })?;
        let mut separator = ": ";
        for (verb, name) in VERBS {
            match (self.of(verb), self.dry_run(verb)) {
                (0, 0) => continue,
                (real, 0) => write!(f, "{separator}{name} {real}")?,
                (0, dry) => write!(f, "{separator}{name} {dry} dry-run")?,
                (real, dry) => write!(f, "{separator}{name} {real} (and {dry} dry-run)")?,
            }
            separator = ", ";
        }
        match self.repeated {
            0 => Ok(()),
            repeated => write!(f, "; {repeated} repeated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_print_as_one_line() {
        let counters = Counters::default();
        assert_eq!(counters.read().to_string(), "0 calls");
        counters.count(Verb::Get, false, false);
        let first = counters.read();
        assert_eq!(first.to_string(), "1 call: get 1");
        counters.count(Verb::Apply, true, false);
        counters.count(Verb::Apply, false, false);
        counters.count(Verb::Create, true, true);
        let calls = counters.read();
        assert_eq!(
            calls.to_string(),
            "4 calls: get 1, create 1 dry-run, apply 1 (and 1 dry-run); 1 repeated"
        );
        assert_eq!((calls.writes(), calls.since(&first).total()), (1, 3));
    }
}

//! Exceptions: findings that are allowed until a day.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use slipway_manifest::ObjectRef;

use crate::pattern::ObjectPattern;

/// A finding that is allowed for now.
#[derive(Clone, Debug)]
pub(crate) struct PolicyException {
    pub(crate) rule: String,
    /// `None` for every finding of the rule.
    pub(crate) object: Option<ObjectPattern>,
    /// The pattern as written.
    pub(crate) shown: String,
    /// The last day it holds, in UTC.
    pub(crate) until: Date,
    pub(crate) reason: String,
}

impl PolicyException {
    /// Tells whether it speaks of a finding of `rule` about `object`.
    pub(crate) fn covers(&self, rule: &str, object: Option<&ObjectRef>) -> bool {
        self.rule == rule
            && match (&self.object, object) {
                (None, _) => true,
                (Some(pattern), Some(object)) => pattern.fits(object),
                (Some(_), None) => false,
            }
    }

    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        now.to_zoned(TimeZone::UTC).date() > self.until
    }
}

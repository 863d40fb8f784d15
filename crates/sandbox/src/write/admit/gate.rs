//! Checks that stop any write: the annotation `sim/reject`, and grants beyond the author's permissions.

use std::time::Duration;

use serde_json::Value;

use super::prepare::ObjectPart;
use crate::api::resource::ServedResource;
use crate::auth::{escalate, signers};
use crate::core::Core;
use crate::status::{Result, Status};
use crate::write::WriteAuthor;

/// Refuses a new object, or a change to one.
pub(crate) fn check_write(
    core: &Core,
    served: &ServedResource,
    author: &WriteAuthor,
    old: Option<(&Value, ObjectPart)>,
    new: &Value,
) -> Result<()> {
    if let Some(message) = slipway_manifest::object::annotation(new, "sim/reject") {
        return Err(Status::forbidden(
            served.resource_name(),
            super::meta::metadata_text(new, "name"),
            message,
        ));
    }
    if old.is_none() {
        signers::check_create(served, new)?;
    }
    let Some(user) = &author.user else { return Ok(()) };
    if let Some((old, part)) = old {
        signers::check_update(core, user, served, part, old, new)?;
    }
    escalate::check_escalation(core, user, served, old.map(|(old, _)| old), new)
}

/// Returns the latency of requests about an object: its annotation `sim/latency`, at most a minute.
///
/// The text is searched before it is parsed: few objects have the annotation.
pub(crate) fn simulated_latency(text: &[u8]) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(60);
    memchr::memmem::find(text, b"sim/latency")?;
    // A stored object's text lacks its first brace.
    let whole = if text.starts_with(b"{") { text.to_vec() } else { [b"{", text].concat() };
    let value: Value = serde_json::from_slice(&whole).ok()?;
    let asked = slipway_manifest::object::annotation(&value, "sim/latency")?;
    crate::setting::parse_duration(asked).ok().map(|asked| asked.min(LONGEST))
}

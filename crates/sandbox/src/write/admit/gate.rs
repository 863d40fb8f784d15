//! What may stop a write whoever makes it: a `sim/reject` annotation, or granting more than one holds.

use std::time::Duration;

use serde_json::Value;

use super::prepare::Part;
use crate::api::resource::Served;
use crate::auth::{escalate, signers};
use crate::core::Core;
use crate::status::{Result, Status};
use crate::write::Author;

/// Refuses a new object, or a change to one.
pub(crate) fn check(
    core: &Core,
    served: &Served,
    author: &Author,
    old: Option<(&Value, Part)>,
    new: &Value,
) -> Result<()> {
    if let Some(message) = slipway_manifest::object::annotation(new, "sim/reject") {
        return Err(Status::forbidden(served.named(), super::meta::text(new, "name"), message));
    }
    if old.is_none() {
        signers::check_create(served, new)?;
    }
    let Some(user) = &author.user else { return Ok(()) };
    if let Some((old, part)) = old {
        signers::check_update(core, user, served, part, old, new)?;
    }
    escalate::check(core, user, served, old.map(|(old, _)| old), new)
}

/// How long a request about an object must take: its annotation `sim/latency`, at most a minute.
///
/// The text is searched before it is read: hardly any object has the annotation.
pub(crate) fn latency(text: &[u8]) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(60);
    memchr::memmem::find(text, b"sim/latency")?;
    // A stored object's text lacks its first brace.
    let whole = if text.starts_with(b"{") { text.to_vec() } else { [b"{", text].concat() };
    let value: Value = serde_json::from_slice(&whole).ok()?;
    let asked = slipway_manifest::object::annotation(&value, "sim/latency")?;
    crate::http::control::duration(asked).ok().map(|asked| asked.min(LONGEST))
}

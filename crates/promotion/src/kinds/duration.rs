//! Durations in specs, written as Go writes them: `90s`, `1h30m`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use slipway_go::time::Duration as WrittenDuration;

/// A duration of a spec; reads and prints as `1h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    pub const fn from_mins(minutes: u64) -> Self {
        Self::from_secs(minutes * 60)
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        let text = WrittenDuration(nanos).to_string();
        // `5m` and `1h`, as people write it; Go prints `5m0s` and `1h0m0s`.
        let text = text.strip_suffix("m0s").map_or_else(|| text.clone(), |minutes| format!("{minutes}m"));
        let text = text.strip_suffix("h0m").map_or_else(|| text.clone(), |hours| format!("{hours}h"));
        f.write_str(&text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let parsed = WrittenDuration::parse_unsigned(&text);
        parsed
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is no duration such as `30s` or `1h30m`")))
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 32,
            "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_people_write() {
        for (seconds, text) in [
            (0, "0s"),
            (30, "30s"),
            (90, "1m30s"),
            (300, "5m"),
            (3600, "1h"),
            (5400, "1h30m"),
            (600, "10m"),
            (3605, "1h0m5s"),
        ] {
            assert_eq!(GoDuration::from_secs(seconds).to_string(), text);
        }
    }
}

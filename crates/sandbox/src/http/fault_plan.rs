//! Fault rules as JSON: `{"verb": "get", "resource": "secrets", "status": 503, "times": 2}`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::http::fault::{Fault, FaultRule};
use crate::setting::SettingError;

/// One rule, flat: the requests it matches and exactly one fault.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FlatRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_contains: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verb: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manager: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    skip: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    close: bool,
    #[serde(skip_serializing_if = "is_false")]
    lose_answer: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_watch: Option<usize>,
    #[serde(skip_serializing_if = "is_false")]
    compact: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl FlatRule {
    fn to_fault(&self) -> Result<Fault, SettingError> {
        let mut found = Vec::new();
        if let Some(code) = self.status {
            found.push(match code {
                429 => Fault::TooManyRequests { retry_after: self.retry_after.unwrap_or(1) },
                400..=599 => Fault::ServerError(code),
                _ => return Err(format!("`status` is a code from 400 to 599, not {code}").into()),
            });
        }
        if let Some(text) = &self.delay {
            found.push(Fault::Delay(crate::setting::parse_duration(text)?));
        }
        if self.close {
            found.push(Fault::Reset);
        }
        if self.lose_answer {
            found.push(Fault::LoseAnswer);
        }
        if let Some(after) = self.drop_watch {
            found.push(Fault::DropWatch { after });
        }
        if self.compact {
            found.push(Fault::Compact);
        }
        match (found.pop(), found.is_empty()) {
            (Some(fault), true) => Ok(fault),
            _ => Err("a rule says exactly one of `status`, `delay`, `close`, `loseAnswer`, `dropWatch` \
                      and `compact`"
                .into()),
        }
    }
}

impl<'de> Deserialize<'de> for FaultRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FaultRule, D::Error> {
        let flat = FlatRule::deserialize(deserializer)?;
        let fault = flat.to_fault().map_err(serde::de::Error::custom)?;
        let probability = flat.probability.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&probability) {
            return Err(serde::de::Error::custom("`probability` is from 0 to 1"));
        }
        Ok(FaultRule {
            method: flat.method,
            path_contains: flat.path_contains,
            verb: flat.verb,
            resource: flat.resource,
            namespace: flat.namespace,
            name: flat.name,
            manager: flat.manager,
            skip: flat.skip,
            times: flat.times,
            probability,
            fault,
        })
    }
}

impl Serialize for FaultRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flat = FlatRule {
            method: self.method.clone(),
            path_contains: self.path_contains.clone(),
            verb: self.verb.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            manager: self.manager.clone(),
            skip: self.skip,
            times: self.times,
            probability: (self.probability < 1.0).then_some(self.probability),
            ..FlatRule::default()
        };
        match &self.fault {
            Fault::Delay(by) => flat.delay = Some(print_duration(*by)),
            Fault::TooManyRequests { retry_after } => {
                flat.status = Some(429);
                flat.retry_after = Some(*retry_after);
            }
            Fault::ServerError(code) => flat.status = Some(*code),
            Fault::Reset => flat.close = true,
            Fault::LoseAnswer => flat.lose_answer = true,
            Fault::DropWatch { after } => flat.drop_watch = Some(*after),
            Fault::Compact => flat.compact = true,
        }
        flat.serialize(serializer)
    }
}

fn print_duration(by: Duration) -> String {
    format!("{}ms", by.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_as_they_are_written() {
        for text in [
            r#"{"verb":"get","resource":"secrets","times":2,"status":503}"#,
            r#"{"namespace":"a","name":"b","manager":"helm","status":429,"retryAfter":3}"#,
            r#"{"method":"PUT","pathContains":"/status","skip":1,"probability":0.5,"delay":"200ms"}"#,
            r#"{"close":true}"#,
            r#"{"verb":"watch","dropWatch":5}"#,
            r#"{"compact":true}"#,
            r#"{"loseAnswer":true}"#,
        ] {
            let rule: FaultRule = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&rule).unwrap(), text);
        }
        for text in [
            "{}",
            r#"{"status":200}"#,
            r#"{"close":true,"compact":true}"#,
            r#"{"delay":"soon"}"#,
            r#"{"delay":"-1s"}"#,
            r#"{"close":true,"probability":2}"#,
            r#"{"close":true,"colour":"red"}"#,
        ] {
            assert!(serde_json::from_str::<FaultRule>(text).is_err(), "{text}");
        }
    }
}

//! Query parameters: the options of each verb, with the refusals the real server gives.

use crate::http::route::decode_bytes;
use crate::status::{NamedResource, Result, Status, StatusCause};
use serde_json::json;

/// A parsed query string, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueryParameters {
    pairs: Vec<(String, String)>,
}

/// The treatment of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl QueryParameters {
    pub(crate) fn parse(text: Option<&str>) -> QueryParameters {
        let mut pairs = Vec::new();
        for part in text.unwrap_or("").split('&').filter(|p| !p.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if let (Some(key), Some(value)) = (decode_bytes(key, true), decode_bytes(value, true)) {
                pairs.push((key, value));
            }
        }
        QueryParameters { pairs }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value unless it is empty.
    pub(crate) fn non_empty(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|v| !v.is_empty())
    }

    pub(crate) fn all_values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A boolean as the real server reads it: present and not false-like is true.
    pub(crate) fn bool_value(&self, key: &str) -> Option<bool> {
        self.get(key).map(|v| !matches!(v, "false" | "0"))
    }

    pub(crate) fn int_value(&self, key: &str) -> Result<Option<i64>> {
        let Some(text) = self.non_empty(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|e: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let over = matches!(e.kind(), PosOverflow | NegOverflow);
            let why = if over { "value out of range" } else { "invalid syntax" };
            Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", json!(text)))
        })
    }

    /// Returns true if the write must not be stored.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool> {
        let asked: Vec<&str> = self.all_values("dryRun").collect();
        if asked.is_empty() {
            return Ok(false);
        }
        if asked.iter().any(|v| *v != "All") {
            return Err(bad_option(
                options,
                vec![StatusCause::not_supported("dryRun", &json!(asked), &["All"])],
            ));
        }
        Ok(true)
    }

    pub(crate) fn field_validation(&self, options: &str) -> Result<FieldValidation> {
        match self.get("fieldValidation").unwrap_or("") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Ignore" => Ok(FieldValidation::Ignore),
            "Strict" => Ok(FieldValidation::Strict),
            other => Err(bad_option(
                options,
                vec![StatusCause::not_supported(
                    "fieldValidation",
                    &json!(other),
                    &["", "Ignore", "Strict", "Warn"],
                )],
            )),
        }
    }

    /// The name writes are recorded under, when the client chose one.
    pub(crate) fn field_manager(&self, options: &str) -> Result<Option<&str>> {
        let Some(name) = self.non_empty("fieldManager") else { return Ok(None) };
        let mut causes = Vec::new();
        if name.len() > 128 {
            causes.push(StatusCause {
                reason: "FieldValueTooLong",
                field: "fieldManager".into(),
                message: "Too long: may not be more than 128 bytes".into(),
            });
        }
        if let Some((at, odd)) = name.chars().enumerate().find(|(_, c)| c.is_control()) {
            causes.push(StatusCause::invalid(
                "fieldManager",
                &json!(name),
                &format!("invalid character U+{:04X} (at position {at})", u32::from(odd)),
            ));
        }
        if causes.is_empty() { Ok(Some(name)) } else { Err(bad_option(options, causes)) }
    }
}

/// 422 about the options of a request, which the real server treats as an object of its own.
pub(crate) fn bad_option(options: &str, causes: Vec<StatusCause>) -> Box<Status> {
    Status::invalid(NamedResource { group: "meta.k8s.io", what: options }, "", causes)
}

//! Content negotiation: which form a body is in and which form the client wants back.

use crate::status::{Result, Status};

/// The encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// Where a resource's types come from: Go's structs, which have a protobuf form, or a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    BuiltIn,
    Custom,
}

/// The shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    Table,
    /// `PartialObjectMetadata` or its list.
    Metadata,
}

/// What the client accepts, decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub encoding: Encoding,
    pub view: View,
    /// `v1beta1` instead of `v1` for tables and partial metadata.
    pub beta: bool,
    /// The metadata is wanted of a list.
    pub listed: bool,
    /// No other view would do.
    pub only: bool,
}

impl Accept {
    pub(crate) const JSON: Accept =
        Accept { encoding: Encoding::Json, view: View::Object, beta: false, listed: false, only: false };

    pub(crate) fn content_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => PROTOBUF,
        }
    }

    /// The type of a stream of events.
    pub(crate) fn stream_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Json | Encoding::Yaml => "application/json",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// One clause of an Accept header.
#[derive(Debug)]
pub(crate) struct Clause<'a> {
    pub media: &'a str,
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    pub(crate) fn param(&self, key: &str) -> &'a str {
        self.params.iter().find(|(k, _)| *k == key).map_or("", |(_, v)| v)
    }
}

/// Splits an Accept header into clauses, in order.
pub(crate) fn clauses(header: &str) -> impl Iterator<Item = Clause<'_>> {
    header.split(',').map(str::trim).filter(|c| !c.is_empty()).map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or("");
        let params = parts.filter_map(|p| p.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
        Clause { media, params }
    })
}

/// Picks the first clause the server can satisfy.
pub(crate) fn accept(header: &str, origin: Origin) -> Result<Accept> {
    if header.trim().is_empty() {
        return Ok(Accept::JSON);
    }
    let mut known = false;
    let mut all: Vec<Clause<'_>> = clauses(header).collect();
    // What is preferred comes first; among equals, what was said first.
    let weight = |clause: &Clause<'_>| clause.param("q").parse::<f32>().unwrap_or(1.0);
    all.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let only = all.iter().all(|clause| !clause.param("as").is_empty());
    for clause in all {
        let encoding = match clause.media {
            "application/json" | "application/*" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            PROTOBUF => Encoding::Protobuf,
            _ => continue,
        };
        if encoding == Encoding::Protobuf && clause.param("as").is_empty() && origin == Origin::Custom {
            continue;
        }
        known = true;
        let view = match clause.param("as") {
            "" => View::Object,
            // Cells are anything, which protobuf has no form for.
            "Table" if encoding != Encoding::Protobuf => View::Table,
            "PartialObjectMetadata" | "PartialObjectMetadataList" => View::Metadata,
            _ => continue,
        };
        let beta = match (view, clause.param("v"), clause.param("g")) {
            (View::Object, _, _) => false,
            (_, "v1", "meta.k8s.io") => false,
            (_, "v1beta1", "meta.k8s.io") => true,
            _ => continue,
        };
        let listed = clause.param("as") == "PartialObjectMetadataList";
        return Ok(Accept { encoding, view, beta, listed, only });
    }
    if known {
        return Err(other_view());
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {KNOWN}");
    let mut status = Status::new(406, "NotAcceptable", message);
    status.details = Some(serde_json::json!({}));
    Err(status)
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The encoding would do, the view it is asked in would not.
pub(crate) fn other_view() -> Box<Status> {
    let message = format!("only the following media types are accepted: {KNOWN}");
    Status::new(406, "NotAcceptable", message)
}

/// The form of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyForm {
    Json,
    Yaml,
    Protobuf,
}

/// The form of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchForm {
    Json,
    Merge,
    Strategic,
    Apply,
}

fn media(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or("").trim()
}

/// The form of a created or replaced object.
pub(crate) fn body_form(content_type: &str, origin: Origin) -> Result<BodyForm> {
    match &*media(content_type).to_ascii_lowercase() {
        "" | "application/json" => Ok(BodyForm::Json),
        "application/yaml" => Ok(BodyForm::Yaml),
        PROTOBUF if origin == Origin::BuiltIn => Ok(BodyForm::Protobuf),
        _ => Err(unsupported(&format!(
            "the body of the request was in an unknown format - accepted media types include: {KNOWN}"
        ))),
    }
}

/// The form of a patch body.
pub(crate) fn patch_form(content_type: &str, origin: Origin) -> Result<PatchForm> {
    match media(content_type) {
        "application/json-patch+json" => Ok(PatchForm::Json),
        "application/merge-patch+json" => Ok(PatchForm::Merge),
        "application/apply-patch+yaml" => Ok(PatchForm::Apply),
        "application/strategic-merge-patch+json" if origin == Origin::BuiltIn => Ok(PatchForm::Strategic),
        _ if origin == Origin::Custom => Err(unsupported(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => {
            let mut status = unsupported("415: Unsupported Media Type");
            status.details = Some(serde_json::json!({}));
            Err(status)
        }
    }
}

fn unsupported(message: &str) -> Box<Status> {
    Status::new(415, "UnsupportedMediaType", message)
}

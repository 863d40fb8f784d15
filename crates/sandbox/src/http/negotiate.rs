//! Content negotiation: which form a body is in and which form the client wants back.

use crate::status::{Result, Status};

/// The encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseEncoding {
    Json,
    Yaml,
    Protobuf,
}

/// The origin of a resource's types: Go structs, which have a protobuf form, or a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeOrigin {
    BuiltIn,
    Custom,
}

/// The shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseView {
    Object,
    Table,
    /// `PartialObjectMetadata` or its list.
    Metadata,
}

/// The form of the answer, decided from the Accept header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NegotiatedForm {
    pub encoding: ResponseEncoding,
    pub view: ResponseView,
    /// `v1beta1` instead of `v1` for tables and partial metadata.
    pub beta: bool,
    /// The metadata is wanted of a list.
    pub listed: bool,
    /// Set if no other view is accepted.
    pub only: bool,
}

impl NegotiatedForm {
    pub(crate) const JSON: NegotiatedForm = NegotiatedForm {
        encoding: ResponseEncoding::Json,
        view: ResponseView::Object,
        beta: false,
        listed: false,
        only: false,
    };

    pub(crate) fn content_type(&self) -> &'static str {
        match self.encoding {
            ResponseEncoding::Json => "application/json",
            ResponseEncoding::Yaml => "application/yaml",
            ResponseEncoding::Protobuf => PROTOBUF,
        }
    }

    /// The type of a stream of events.
    pub(crate) fn stream_type(&self) -> &'static str {
        match self.encoding {
            ResponseEncoding::Json | ResponseEncoding::Yaml => "application/json",
            ResponseEncoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// One clause of an Accept header.
#[derive(Debug)]
pub(crate) struct AcceptClause<'a> {
    pub media: &'a str,
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> AcceptClause<'a> {
    pub(crate) fn param(&self, key: &str) -> &'a str {
        self.params.iter().find(|(k, _)| *k == key).map_or("", |(_, v)| v)
    }
}

/// Splits an Accept header into clauses, in order.
pub(crate) fn accept_clauses(header: &str) -> impl Iterator<Item = AcceptClause<'_>> {
    header.split(',').map(str::trim).filter(|c| !c.is_empty()).map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or("");
        let params = parts.filter_map(|p| p.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect();
        AcceptClause { media, params }
    })
}

/// Picks the first clause the server can satisfy. Collections can be had as streams as well.
pub(crate) fn negotiate_response(
    header: &str,
    origin: TypeOrigin,
    collection: bool,
) -> Result<NegotiatedForm> {
    if header.trim().is_empty() {
        return Ok(NegotiatedForm::JSON);
    }
    let mut known = false;
    let mut all: Vec<AcceptClause<'_>> = accept_clauses(header).collect();
    // Preferred clauses come first; equal ones stay in their order.
    let weight = |clause: &AcceptClause<'_>| clause.param("q").parse::<f32>().unwrap_or(1.0);
    all.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let only = all.iter().all(|clause| !clause.param("as").is_empty());
    for clause in all {
        let Some(encoding) = encoding_of(clause.media) else { continue };
        if encoding == ResponseEncoding::Protobuf
            && clause.param("as").is_empty()
            && origin == TypeOrigin::Custom
        {
            continue;
        }
        known = true;
        let view = match clause.param("as") {
            "" => ResponseView::Object,
            // Cells hold any value, which protobuf has no form for.
            "Table" if encoding != ResponseEncoding::Protobuf => ResponseView::Table,
            "PartialObjectMetadata" | "PartialObjectMetadataList" => ResponseView::Metadata,
            _ => continue,
        };
        let beta = match (view, clause.param("v"), clause.param("g")) {
            (ResponseView::Object, _, _) => false,
            (_, "v1", "meta.k8s.io") => false,
            (_, "v1beta1", "meta.k8s.io") => true,
            _ => continue,
        };
        let listed = clause.param("as") == "PartialObjectMetadataList";
        return Ok(NegotiatedForm { encoding, view, beta, listed, only });
    }
    Err(match (known, collection && origin == TypeOrigin::BuiltIn) {
        (true, _) => unsupported_view(),
        (false, true) => not_acceptable(&format!("{KNOWN}, {STREAMS}")),
        (false, false) => not_acceptable(KNOWN),
    })
}

fn encoding_of(media: &str) -> Option<ResponseEncoding> {
    match media {
        "application/json" | "*/*" => Some(ResponseEncoding::Json),
        "application/yaml" => Some(ResponseEncoding::Yaml),
        PROTOBUF => Some(ResponseEncoding::Protobuf),
        _ => None,
    }
}

/// Picks the form of a document that is no object, and so has no other view.
pub(crate) fn negotiate_document(header: &str) -> Result<NegotiatedForm> {
    if header.trim().is_empty() {
        return Ok(NegotiatedForm::JSON);
    }
    let known = accept_clauses(header).filter_map(|clause| Some((encoding_of(clause.media)?, clause)));
    let mut known: Vec<_> = known.collect();
    if known.is_empty() {
        return Err(not_acceptable(KNOWN));
    }
    known.retain(|(_, clause)| clause.param("as").is_empty());
    let weight = |clause: &AcceptClause<'_>| clause.param("q").parse::<f32>().unwrap_or(1.0);
    known.sort_by(|(_, a), (_, b)| weight(b).total_cmp(&weight(a)));
    let encoding = known.first().map(|(encoding, _)| *encoding).ok_or_else(unsupported_view)?;
    Ok(NegotiatedForm { encoding, ..NegotiatedForm::JSON })
}

/// The refusal of media types that a route does not produce.
pub(crate) fn not_acceptable(produced: &str) -> Box<Status> {
    let message = format!("406: Not Acceptable\n\nAvailable representations: {produced}");
    let mut status = Status::new(406, "NotAcceptable", message);
    status.details = Some(serde_json::json!({}));
    status
}

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The refusal of a view that the encoding cannot be printed in.
pub(crate) fn unsupported_view() -> Box<Status> {
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

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or("").trim()
}

/// The form of a created or replaced object.
pub(crate) fn body_form(content_type: &str, origin: TypeOrigin) -> Result<BodyForm> {
    match &*media_type(content_type).to_ascii_lowercase() {
        "" | "application/json" => Ok(BodyForm::Json),
        "application/yaml" => Ok(BodyForm::Yaml),
        PROTOBUF if origin == TypeOrigin::BuiltIn => Ok(BodyForm::Protobuf),
        _ => Err(unsupported_media(&format!(
            "the body of the request was in an unknown format - accepted media types include: {KNOWN}"
        ))),
    }
}

/// The form of a patch body.
pub(crate) fn patch_form(content_type: &str, origin: TypeOrigin) -> Result<PatchForm> {
    match media_type(content_type) {
        "application/json-patch+json" => Ok(PatchForm::Json),
        "application/merge-patch+json" => Ok(PatchForm::Merge),
        "application/apply-patch+yaml" => Ok(PatchForm::Apply),
        "application/strategic-merge-patch+json" if origin == TypeOrigin::BuiltIn => Ok(PatchForm::Strategic),
        _ if origin == TypeOrigin::Custom => Err(unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => {
            let mut status = unsupported_media("415: Unsupported Media Type");
            status.details = Some(serde_json::json!({}));
            Err(status)
        }
    }
}

fn unsupported_media(message: &str) -> Box<Status> {
    Status::new(415, "UnsupportedMediaType", message)
}

//! GET of a collection: selectors, pages, revisions, and three ways to print the result.

use std::sync::Arc;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::api::select::{ObjectFilter, bad_list_option};
use crate::http::negotiate::ResponseView;
use crate::http::respond::Reply;
use crate::status::{Result, Status, StatusCause};
use crate::store::{ObjectKey, PageRange, RevisionUnavailable, StoredObject};
use crate::write::convert;

use super::ResourceRequest;

/// Warnings that come with reading a resource.
pub(super) fn read_warnings(request: &ResourceRequest) -> Vec<String> {
    match &*request.served.table {
        "endpoints" => {
            vec!["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into()]
        }
        "componentstatuses" => vec!["v1 ComponentStatus is deprecated in v1.19+".into()],
        _ => vec![],
    }
}

/// A resource version from a query; empty and "0" mean "any".
pub(super) fn parse_version(text: &str) -> Result<u64> {
    text.parse().map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax",
            json!(text)
        ))
    })
}

/// The same where the real server answers with its inner error.
pub(super) fn version_or_500(text: &str) -> Result<u64> {
    text.parse().map_err(|_| {
        Status::plain_500(format!(
            "resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax",
            json!(text)
        ))
    })
}

/// Reads what Go's decoder reads: bits beyond the last whole byte are ignored.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

struct ContinueToken {
    rev: u64,
    start: ObjectKey,
}

/// Checks which version of a collection is asked for.
pub(super) fn check_version(request: &ResourceRequest) -> Result<()> {
    let query = &request.query;
    let version = query.get("resourceVersion").unwrap_or("");
    let token = query.non_empty("continue");
    check_options(query, query.get("resourceVersionMatch").unwrap_or(""), version, token)?;
    if !version.is_empty() {
        parse_version(version)?;
    }
    Ok(())
}

pub(super) fn list_objects(request: &ResourceRequest) -> Result<Reply> {
    let query = &request.query;
    let filter = ObjectFilter::from_query(query, &request.served)?;
    let limit = query.int_value("limit")?.filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
    let matching = query.get("resourceVersionMatch").unwrap_or("");
    let version = query.get("resourceVersion").unwrap_or("");
    let token = query.non_empty("continue");
    query.int_value("timeoutSeconds")?;
    check_options(query, matching, version, token)?;
    let namespace = Some(request.path.namespace.as_str()).filter(|n| !n.is_empty());
    let asked = if version.is_empty() { 0 } else { parse_version(version)? };
    let current = request.core.store.current_revision();
    if asked > current {
        return Err(Status::future_version(asked, current));
    }
    let token = token.map(|t| decode_token(t, namespace)).transpose()?;
    if token.is_some() && !version.is_empty() && version != "0" {
        return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
    }
    // A list from "any" revision comes from the cache, which does not page.
    let limit = if version == "0" && token.is_none() { None } else { limit };
    let exact = matching == "Exact" || (matching.is_empty() && limit.is_some() && asked > 0);
    let at = match &token {
        Some(token) if token.rev > 0 => Some(token.rev),
        Some(_) => None,
        None => exact.then_some(asked),
    };
    let range = PageRange {
        namespace,
        after: token.as_ref().map(|t| &t.start),
        limit,
        at,
        count_rest: filter.is_empty(),
    };
    let page = match request.core.store.page(&request.served.table, &range, &mut |o| filter.matches(o)) {
        Ok(page) => page,
        Err(RevisionUnavailable::Future { current }) => {
            return Err(Status::future_version(at.unwrap_or(0), current));
        }
        Err(RevisionUnavailable::Compacted { .. }) => {
            let Some(token) = token else {
                return Err(Status::expired("The resourceVersion for the provided list is too old."));
            };
            let mut status = Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            status.continue_token = Some(encode_token(0, &token.start, namespace));
            return Err(status);
        }
    };
    // There is no more of what has one name.
    let alone = namespace.is_some() && filter.fields.is_name();
    let next = page.last.as_ref().filter(|_| !alone).map(|last| encode_token(page.rev, last, namespace));
    Ok(print_page(request, &page.objects, page.rev, next, page.remaining)
        .with_warnings(request.all_warnings(read_warnings(request))))
}

fn check_options(
    query: &crate::http::query::QueryParameters,
    matching: &str,
    version: &str,
    token: Option<&str>,
) -> Result<()> {
    let mut causes = Vec::new();
    if query.get("sendInitialEvents").is_some() {
        causes.push(StatusCause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if !matching.is_empty() {
        if version.is_empty() {
            causes.push(StatusCause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if token.is_some() {
            causes.push(StatusCause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            causes.push(StatusCause::not_supported(
                "resourceVersionMatch",
                &json!(matching),
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if matching == "Exact" && version == "0" {
            causes.push(StatusCause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if !causes.is_empty() {
        return Err(bad_list_option(causes));
    }
    Ok(())
}

fn encode_token(rev: u64, last: &ObjectKey, namespace: Option<&str>) -> String {
    let key = if namespace.is_some() || last.namespace.is_empty() {
        format!("/{}\u{0}", last.name)
    } else {
        format!("/{}/{}\u{0}", last.namespace, last.name)
    };
    let rv: Value = if rev == 0 { json!(-1) } else { rev.into() };
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": rv, "start": key}).to_string())
}

fn decode_token(text: &str, namespace: Option<&str>) -> Result<ContinueToken> {
    let bad =
        |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = LENIENT.decode(text.trim_end_matches('=')).map_err(|_| {
        let at = text
            .bytes()
            .position(|b| !b.is_ascii_alphanumeric() && b != b'-' && b != b'_')
            .unwrap_or(text.len() / 4 * 4);
        bad(&format!("illegal base64 data at input byte {at}"))
    })?;
    let token: Value =
        serde_json::from_slice(&bytes).map_err(|e| bad(&crate::http::body::go_json_error(&bytes, &e)))?;
    if let Some((key, word, ty)) = mistyped_member(&token) {
        return Err(bad(&format!(
            "json: cannot unmarshal {word} into Go struct field continueToken.{key} of type {ty}"
        )));
    }
    if token["v"] != "meta.k8s.io/v1" {
        let shown = token["v"].as_str().unwrap_or("");
        return Err(bad(&format!("server does not recognize this encoded version {shown}")));
    }
    let rev = match token["rv"].as_i64() {
        Some(-1) => 0,
        Some(rev) if rev > 0 => u64::try_from(rev).unwrap_or(0),
        _ => return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")),
    };
    let start = token["start"].as_str().unwrap_or("");
    if start.is_empty() {
        return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
    }
    // One slash in front is neither asked for nor in the way; any other way out is.
    let bare = start.strip_prefix('/').unwrap_or(start);
    if bare.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(bad(start));
    }
    let start = bare.trim_end_matches('\u{0}');
    let key = match (namespace, start.split_once('/')) {
        (Some(namespace), _) => ObjectKey::new(namespace, start),
        (None, Some((namespace, name))) => ObjectKey::new(namespace, name),
        (None, None) => ObjectKey::new("", start),
    };
    Ok(ContinueToken { rev, start: key })
}

/// The first member of a token that is of another type than it has to be, what it is, and what it has to be.
fn mistyped_member(token: &Value) -> Option<(&'static str, &'static str, &'static str)> {
    [("v", "string"), ("rv", "int64"), ("start", "string")].into_iter().find_map(|(key, ty)| {
        let word = match &token[key] {
            Value::Null => return None,
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let fits = word == if ty == "string" { "string" } else { "number" };
        (!fits).then_some((key, word, ty))
    })
}

/// Prints a page in the view the client asked for.
pub(super) fn print_page(
    request: &ResourceRequest,
    objects: &[Arc<StoredObject>],
    rev: u64,
    next: Option<String>,
    remaining: Option<usize>,
) -> Reply {
    let served = &request.served;
    let mut metadata = serde_json::Map::new();
    let custom = served.custom.is_some();
    if custom && request.accept.view == ResponseView::Object {
        metadata.insert("continue".into(), next.clone().unwrap_or_default().into());
        if let Some(rest) = remaining {
            metadata.insert("remainingItemCount".into(), rest.into());
        }
        metadata.insert("resourceVersion".into(), rev.to_string().into());
    } else {
        metadata.insert("resourceVersion".into(), rev.to_string().into());
        if let Some(next) = next {
            metadata.insert("continue".into(), next.into());
        }
        if let Some(rest) = remaining {
            metadata.insert("remainingItemCount".into(), rest.into());
        }
    }
    let whole = |o: &Arc<StoredObject>| {
        convert::from_storage(served, request.core.whole_object(&request.storage_resource(), o))
    };
    match request.accept.view {
        ResponseView::Table => {
            let include = request.query.get("includeObject").unwrap_or("");
            let values = objects.iter().map(whole).collect();
            let mut table = crate::api::table::object_table(
                &request.core,
                served,
                values,
                include,
                request.accept.beta,
                Value::Null,
            );
            table["metadata"] = Value::Object(metadata);
            Reply::value(200, table)
        }
        ResponseView::Metadata => {
            let beta = request.accept.beta;
            let items: Vec<Value> =
                objects.iter().map(|o| crate::api::table::partial_metadata(whole(o), beta)).collect();
            Reply::value(
                200,
                json!({
                    "kind": "PartialObjectMetadataList",
                    "apiVersion": if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" },
                    "metadata": metadata,
                    "items": items,
                }),
            )
        }
        ResponseView::Object => {
            let size: usize = objects.iter().map(|o| o.tail.len() + 64).sum();
            let mut out = Vec::with_capacity(size + 256);
            let metadata = Value::Object(metadata).to_string();
            if custom {
                out.extend_from_slice(
                    format!("{{\"apiVersion\":\"{}\",\"items\":[", served.api_version()).as_bytes(),
                );
            } else {
                out.extend_from_slice(
                    format!(
                        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
                        served.list_kind,
                        served.api_version()
                    )
                    .as_bytes(),
                );
            }
            let copied = convert::is_stored_form(served);
            for (i, object) in objects.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                if !copied {
                    let mut value = whole(object);
                    if let Some(members) = value.as_object_mut() {
                        members.shift_remove("kind");
                        members.shift_remove("apiVersion");
                    }
                    out.extend_from_slice(value.to_string().as_bytes());
                    continue;
                }
                if custom {
                    out.extend_from_slice(served.object_prefix().as_bytes());
                } else {
                    out.push(b'{');
                }
                out.extend_from_slice(&object.tail);
            }
            out.push(b']');
            if custom {
                out.extend_from_slice(
                    format!(",\"kind\":\"{}\",\"metadata\":{metadata}", served.list_kind).as_bytes(),
                );
            }
            out.extend_from_slice(b"}\n");
            Reply::json(200, out)
        }
    }
}

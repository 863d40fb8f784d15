//! The body of a request for a bundle: every field known, every problem told at once with its path.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use slipway_promotion::kinds::{BundleSpec, labels};

use super::reply::FieldProblem;

/// What a field may hold.
enum Shape {
    Text,
    /// Texts by name.
    Texts,
    List(&'static Shape),
    Object(&'static [(&'static str, &'static Shape)]),
}

use Shape::{List, Object, Text, Texts};

const IMAGES: Shape = List(&Object(&[("name", &Text), ("reference", &Text), ("digest", &Text)]));
const COMMIT: Shape = Object(&[("repository", &Text), ("sha", &Text), ("message", &Text), ("path", &Text)]);
const CHART: Shape = Object(&[("repoURL", &Text), ("name", &Text), ("version", &Text)]);
const ARTIFACTS: Shape = Object(&[("images", &IMAGES), ("gitCommit", &COMMIT), ("helmChart", &CHART)]);
const PROVENANCE: Shape = Object(&[
    ("commitSHA", &Text),
    ("ciRunURL", &Text),
    ("author", &Text),
    ("buildTimestamp", &Text),
    ("timestamp", &Text),
    ("sbomRef", &Text),
    ("attestations", &List(&Text)),
]);
const INTENT: Shape = Object(&[
    ("target", &Text),
    ("targetEnvironment", &Text),
    ("skip", &List(&Text)),
    ("skipEnvironments", &List(&Text)),
    ("from", &Text),
]);
const OLDER_IMAGES: Shape = List(&Object(&[("repository", &Text), ("tag", &Text), ("digest", &Text)]));
const BODY: Shape = Object(&[
    ("pipeline", &Text),
    ("namespace", &Text),
    ("type", &Text),
    ("name", &Text),
    ("artifacts", &ARTIFACTS),
    ("provenance", &PROVENANCE),
    ("intent", &INTENT),
    ("labels", &Texts),
    ("annotations", &Texts),
    // The older, flat form.
    ("images", &OLDER_IMAGES),
    ("commitSHA", &Text),
    ("ciRunURL", &Text),
    ("author", &Text),
]);

/// A bundle somebody asks for.
#[derive(Debug)]
pub(crate) struct BundleRequest {
    pub(crate) pipeline: String,
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) spec: BundleSpec,
    pub(crate) labels: Map<String, Value>,
    pub(crate) annotations: Map<String, Value>,
    /// A hash of everything but the name.
    pub(crate) hash: String,
}

/// Reads a body.
pub(crate) fn parse_request(
    body: &[u8],
    default_namespace: &str,
) -> Result<BundleRequest, Vec<FieldProblem>> {
    let parsed: Value =
        serde_json::from_slice(body).map_err(|error| vec![problem("", format!("is no JSON: {error}"))])?;
    let mut problems = Vec::new();
    check_shape(&parsed, &BODY, "", &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let text = |field: &str| parsed[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let pipeline = text("pipeline").unwrap_or_default();
    if pipeline.is_empty() {
        problems.push(problem("pipeline", "is required"));
    }
    let namespace = text("namespace").unwrap_or_else(|| default_namespace.to_owned());
    for (field, value) in [("pipeline", &pipeline), ("namespace", &namespace)] {
        if !value.is_empty() && !is_name(value) {
            problems.push(problem(field, "is no name of an object"));
        }
    }
    if text("name").is_some_and(|name| !is_name(&name)) {
        problems
            .push(problem("name", "is no name of an object: lower-case letters, digits and `-`, at most 63"));
    }
    let spec = spec_of(&parsed, &pipeline);
    check_artifacts(&spec, &mut problems);
    for field in ["labels", "annotations"] {
        check_keys(&parsed[field], field, &mut problems);
    }
    let typed: Option<BundleSpec> = serde_json::from_value(spec.clone()).ok();
    let Some(typed) = typed.filter(|_| problems.is_empty()) else {
        if problems.is_empty() {
            problems.push(problem("", "is no bundle"));
        }
        return Err(problems);
    };
    let object = |field: &str| parsed[field].as_object().cloned().unwrap_or_default();
    let hashed = json!([namespace, spec, object("labels"), object("annotations")]).to_string();
    let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(hashed));
    Ok(BundleRequest {
        pipeline,
        namespace,
        name: text("name"),
        spec: typed,
        labels: object("labels"),
        annotations: object("annotations"),
        hash,
    })
}

fn problem(field: impl Into<String>, message: impl Into<String>) -> FieldProblem {
    FieldProblem { field: field.into(), message: message.into() }
}

fn check_shape(value: &Value, shape: &Shape, path: &str, problems: &mut Vec<FieldProblem>) {
    let below = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
    match (shape, value) {
        // What is absent and what is null say the same.
        (_, Value::Null) if !path.is_empty() => {}
        (Text, Value::String(_)) => {}
        (Texts, Value::Object(map)) => {
            for (name, value) in map.iter().filter(|(_, value)| !value.is_string()) {
                problems.push(problem(below(name), format!("must be a text, is {}", kind_of(value))));
            }
        }
        (List(inner), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                check_shape(item, inner, &format!("{path}[{index}]"), problems);
            }
        }
        (Object(fields), Value::Object(map)) => {
            for (name, value) in map {
                match fields.iter().find(|(known, _)| known == name) {
                    Some((_, inner)) => check_shape(value, inner, &below(name), problems),
                    None => problems.push(problem(below(name), "is not known here")),
                }
            }
        }
        (shape, value) => {
            let expected = match shape {
                Text => "a text",
                Texts => "an object of texts",
                List(_) => "a list",
                Object(_) => "an object",
            };
            problems.push(problem(path, format!("must be {expected}, is {}", kind_of(value))));
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The spec of the bundle, with the older form rewritten.
fn spec_of(body: &Value, pipeline: &str) -> Value {
    let mut spec = json!({"pipeline": pipeline, "type": body["type"].as_str().unwrap_or("image")});
    for field in ["artifacts", "provenance", "intent", "images"] {
        if !body[field].is_null() {
            spec[field] = body[field].clone();
        }
    }
    for field in ["commitSHA", "ciRunURL", "author"] {
        if !body[field].is_null() && spec["provenance"][field].is_null() {
            spec["provenance"][field] = body[field].clone();
        }
    }
    spec
}

fn check_artifacts(spec: &Value, problems: &mut Vec<FieldProblem>) {
    let kind = spec["type"].as_str().unwrap_or_default();
    if !["image", "config", "mixed"].contains(&kind) {
        problems.push(problem("type", "must be `image`, `config` or `mixed`"));
        return;
    }
    let older = spec["images"].as_array().is_some_and(|images| !images.is_empty());
    let field = if older { "images" } else { "artifacts.images" };
    let images = if older { &spec["images"] } else { &spec["artifacts"]["images"] };
    let images = images.as_array().cloned().unwrap_or_default();
    if kind != "config" && images.is_empty() {
        problems.push(problem("artifacts.images", format!("a bundle of type `{kind}` needs an image")));
    }
    let name = if older { "repository" } else { "name" };
    for (index, image) in images.iter().enumerate() {
        let place = |part: &str| format!("{field}[{index}].{part}");
        if image[name].as_str().unwrap_or_default().is_empty() {
            problems.push(problem(place(name), "is required"));
        }
        if let Some(digest) = image["digest"].as_str()
            && !is_digest(digest)
        {
            problems
                .push(problem(place("digest"), "must be `sha256:` and 64 hexadecimal digits in lower case"));
        }
    }
    let commit = &spec["artifacts"]["gitCommit"];
    if kind != "image" && commit.is_null() {
        problems.push(problem("artifacts.gitCommit", format!("a bundle of type `{kind}` needs a commit")));
    }
    if !commit.is_null() {
        if commit["repository"].as_str().unwrap_or_default().is_empty() {
            problems.push(problem("artifacts.gitCommit.repository", "is required"));
        }
        let sha = commit["sha"].as_str().unwrap_or_default();
        if !(7..=64).contains(&sha.len()) || !is_hexadecimal(sha) {
            problems
                .push(problem("artifacts.gitCommit.sha", "must be 7 to 64 hexadecimal digits in lower case"));
        }
    }
    let provenance = &spec["provenance"];
    if let Some(address) = provenance["ciRunURL"].as_str()
        && !(address.starts_with("https://") || address.starts_with("http://"))
    {
        problems.push(problem("provenance.ciRunURL", "must be an address that begins with https://"));
    }
    for field in ["buildTimestamp", "timestamp"] {
        if provenance[field].as_str().is_some_and(|time| time.parse::<Timestamp>().is_err()) {
            problems
                .push(problem(format!("provenance.{field}"), "must be a time as in 2026-04-10T12:00:00Z"));
        }
    }
}

/// Checks labels or annotations. Those of promotion itself mean something: only a pin may be asked for.
fn check_keys(map: &Value, field: &str, problems: &mut Vec<FieldProblem>) {
    for (key, value) in map.as_object().into_iter().flatten() {
        let place = format!("{field}[{key}]");
        let is_pin = field == "annotations" && key == labels::PIN;
        if key.starts_with(labels::PREFIX) && !is_pin {
            problems.push(problem(
                place,
                format!("labels and annotations of `{}` are set by promotion itself", labels::PREFIX),
            ));
            continue;
        }
        let name = key.rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
        if !is_label_text(name) || name.is_empty() || key.len() > 253 {
            problems.push(problem(place.clone(), "is no key"));
        }
        if field == "labels" && value.as_str().is_some_and(|value| !is_label_text(value)) {
            problems.push(problem(place, "is no value of a label"));
        }
    }
}

fn is_label_text(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

pub(crate) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| plain(c) || c == '-')
        && text.starts_with(plain)
        && text.ends_with(plain)
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && is_hexadecimal(digits))
}

fn is_hexadecimal(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

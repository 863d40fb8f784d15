//! ConfigMaps and Secrets made from files, literals and environment files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use slipway_problem::{Problem, Problems};

use crate::files::{BuildDirectory, FileReader};
use crate::kustomization::{GeneratorEntry, GeneratorOptions, LocatedValue};
use crate::resource::{Resource, ResourceOrigin, object_at};
use slipway_problem::ProblemReason;

/// The kind of a generated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeneratedKind {
    ConfigMap,
    Secret,
}

/// Makes the object of one generator entry.
pub(crate) fn generate_object(
    kind: GeneratedKind,
    generator: &GeneratorEntry,
    shared: &GeneratorOptions,
    origin: ResourceOrigin,
    from: &BuildDirectory,
    files: &mut FileReader,
    problems: &mut Problems,
) -> Resource {
    let mut pairs: Vec<LocatedValue<(String, Vec<u8>)>> = Vec::new();
    for entry in &generator.envs {
        if let Some(text) = problems.collect_from(files.text(from, entry)) {
            read_env(&text, entry, &mut pairs, problems);
        }
    }
    for entry in &generator.literals {
        match read_literal(&entry.value) {
            Some((key, value)) => {
                pairs.push(LocatedValue { value: (key, value.into_bytes()), at: entry.at.clone() });
            }
            None => problems.push(Problem::error("a literal is written `key=value`").at(entry.at.clone())),
        }
    }
    for entry in &generator.files {
        match split_file(&entry.value) {
            Ok((key, path)) => {
                let path = LocatedValue { value: path, at: entry.at.clone() };
                if let Some(bytes) = problems.collect_from(files.bytes(from, &path)) {
                    pairs.push(LocatedValue { value: (key, bytes), at: entry.at.clone() });
                }
            }
            Err(message) => problems.push(Problem::error(message).at(entry.at.clone())),
        }
    }
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), Value::String("v1".to_owned()));
    let name = match kind {
        GeneratedKind::ConfigMap => "ConfigMap",
        GeneratedKind::Secret => "Secret",
    };
    object.insert("kind".to_owned(), Value::String(name.to_owned()));
    let metadata = object_at(&mut object, "metadata");
    metadata.insert("name".to_owned(), Value::String(generator.name.clone()));
    if !generator.namespace.is_empty() {
        metadata.insert("namespace".to_owned(), Value::String(generator.namespace.clone()));
    }
    for (field, shared, own) in [
        ("labels", &shared.labels, &generator.options.labels),
        ("annotations", &shared.annotations, &generator.options.annotations),
    ] {
        // The entry's own settings win over the shared ones.
        for (key, value) in shared.iter().chain(own) {
            object_at(metadata, field).insert(key.clone(), Value::String(value.clone()));
        }
    }
    if shared.immutable || generator.options.immutable {
        object.insert("immutable".to_owned(), Value::Bool(true));
    }
    if kind == GeneratedKind::Secret {
        let secret_type = if generator.secret_type.is_empty() { "Opaque" } else { &generator.secret_type };
        object.insert("type".to_owned(), Value::String(secret_type.to_owned()));
        object.insert("data".to_owned(), Value::Object(Map::new()));
    }
    let mut keys = std::collections::HashSet::new();
    for LocatedValue { value: (key, bytes), at } in pairs {
        if !keys.insert(key.clone()) {
            problems.push(
                Problem::error(format!("`{}` already has a key `{key}`", generator.name))
                    .at(at)
                    .hint("each key can come from one file, literal or line only"),
            );
            continue;
        }
        let (field, text) = match (kind, String::from_utf8(bytes)) {
            (GeneratedKind::ConfigMap, Ok(text)) => ("data", text),
            (GeneratedKind::ConfigMap, Err(binary)) => ("binaryData", encode_base64(binary.as_bytes())),
            (GeneratedKind::Secret, Ok(text)) => ("data", encode_base64(text.as_bytes())),
            (GeneratedKind::Secret, Err(binary)) => ("data", encode_base64(binary.as_bytes())),
        };
        object_at(&mut object, field).insert(key, Value::String(text));
    }
    let mut resource = Resource::new(object, origin, generator.at.clone());
    resource.needs_hash = !shared.disable_hash && !generator.options.disable_hash;
    resource
}

/// Base64; long values are broken into lines, as kustomize does.
fn encode_base64(bytes: &[u8]) -> String {
    const LINE: usize = 70;
    let text = STANDARD.encode(bytes);
    if text.len() <= LINE {
        return text;
    }
    let mut lines = String::with_capacity(text.len() + text.len() / LINE + 1);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        lines.push_str(line);
        lines.push('\n');
        rest = after;
    }
    lines
}

/// Splits `key=value`; quotes around the whole value are syntax.
fn read_literal(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    if key.is_empty() {
        return None;
    }
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)));
    Some((key.to_owned(), unquoted.unwrap_or(value).to_owned()))
}

/// Splits `key=path`, or takes the file's name for the key.
fn split_file(text: &str) -> Result<(String, String), ProblemReason> {
    match text.split_once('=') {
        None => {
            let name = text.rsplit('/').next().unwrap_or(text);
            Ok((name.to_owned(), text.to_owned()))
        }
        Some(("", _)) => Err(format!("`{text}` has no key before the `=`").into()),
        Some((_, "")) => Err(format!("`{text}` has no file after the `=`").into()),
        Some((_, path)) if path.contains('=') => {
            Err(format!("`{text}` has more than one `=`; neither keys nor files can contain it").into())
        }
        Some((key, path)) => Ok((key.to_owned(), path.to_owned())),
    }
}

/// Reads `KEY=value` lines; blank lines and comments are skipped. A key alone would take its value
/// from the environment, which a build never looks at, so it gets the empty text.
fn read_env(
    text: &str,
    entry: &LocatedValue<String>,
    pairs: &mut Vec<LocatedValue<(String, Vec<u8>)>>,
    problems: &mut Problems,
) {
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if key.is_empty() {
            problems.push(
                Problem::error(format!("line {} of `{}` has no key before the `=`", number + 1, entry.value))
                    .at(entry.at.clone()),
            );
            continue;
        }
        pairs.push(LocatedValue { value: (key.to_owned(), value.as_bytes().to_vec()), at: entry.at.clone() });
    }
}

//! The input of a step as one digest: the same input, however it is written, gives the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use slipway_chart::IgnoreRules;
use slipway_manifest::diff::ValueRedactor;
use slipway_source::shown_address;

use crate::files;
use crate::inputs::LocalInput;
use crate::model::{Action, Document, Step};

/// Fields whose content is the user's and stays as it is.
const VERBATIM: &[&str] = &["values", "patch", "inline"];

/// Fields that hold an address, in which credentials may stand.
const ADDRESSES: &[&str] = &["chart", "repo", "url"];

/// The most a directory may hold for its digest to be taken; a step with a larger one always runs.
const LARGEST_DIRECTORY: usize = 256 << 20;

/// The part credentials of a source play in a step's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    Counted,
    Ignored,
}

/// The digest of a step's input, or nothing if a file it names cannot be read: such a step always runs.
/// `base` is the directory its paths start from.
pub fn input(step: &Step, base: &Path, credentials: Credentials) -> Option<String> {
    let kind = step.action.kind();
    let mut whole = Map::new();
    whole.insert("type".into(), kind.into());
    let mut operation = operation(step);
    if credentials == Credentials::Ignored {
        without_credentials(&mut operation);
    }
    whole.insert("op".into(), operation);
    let content = content(&step.action, base)?;
    if !content.is_empty() {
        whole.insert(
            "content".into(),
            content.into_iter().map(|(path, digest)| (path, digest.into())).collect::<Map<_, _>>().into(),
        );
    }
    Some(digest(canonical(&Value::Object(whole)).as_bytes()))
}

/// The digest of a whole document.
pub fn document(document: &Document) -> String {
    digest(canonical(&without_nulls(&document.json)).as_bytes())
}

/// A digest as it may be shown: keyed, because one of a short secret tells it to who tries them all. The
/// same in one run only.
pub(crate) fn shown(digest: &str) -> String {
    format!("hmac-sha256:{}", ValueRedactor::per_run().keyed_hash(digest.as_bytes()))
}

fn digest(bytes: &[u8]) -> String {
    in_hex(&Sha256::digest(bytes))
}

fn in_hex(hash: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(hash))
}

/// A block without what says nothing.
fn operation(step: &Step) -> Value {
    let Value::Object(block) = &step.block else { return Value::Object(Map::new()) };
    let kept = block.iter().filter_map(|(key, value)| {
        let value = if VERBATIM.contains(&key.as_str()) { value.clone() } else { without_nulls(value) };
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            _ => false,
        };
        let is_default = is_default(step, key, &value);
        (!is_empty && !is_default).then(|| (key.clone(), value))
    });
    Value::Object(kept.collect())
}

/// Takes the credentials of sources out of an action, not out of what is the user's own.
fn without_credentials(block: &mut Value) {
    match block {
        Value::Object(entries) => {
            entries.shift_remove("auth");
            for (key, value) in entries.iter_mut().filter(|(key, _)| !VERBATIM.contains(&key.as_str())) {
                match value {
                    Value::String(text) if ADDRESSES.contains(&key.as_str()) => *text = shown_address(text),
                    Value::String(_) => {}
                    other => without_credentials(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_credentials),
        _ => {}
    }
}

/// Tells that a field says what leaving it out says.
fn is_default(step: &Step, key: &str, value: &Value) -> bool {
    match key {
        "createNamespace" | "atomic" | "wait" | "serverSide" | "allNamespaces" if value == false => true,
        _ => step.action.as_step().is_default(step, key, value),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                let verbatim = VERBATIM.contains(&key.as_str());
                (key.clone(), if verbatim { value.clone() } else { without_nulls(value) })
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// JSON with sorted keys, no blanks, and whole numbers without a fraction.
fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                let _ = write!(out, "{}", float as i64);
            }
            _ => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            let sorted: BTreeMap<&String, &Value> = entries.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// The digests of the local files an action reads, by path as written.
fn content(action: &Action, base: &Path) -> Option<BTreeMap<String, String>> {
    let mut digests = BTreeMap::new();
    for input in action.as_step().inputs().local() {
        let (path, found) = match input {
            LocalInput::File(path) => (path, digest(&files::read(&base.join(path)).ok()?)),
            LocalInput::Chart(path) => {
                let place = base.join(path);
                (path, if place.is_file() { digest_of_file(&place)? } else { chart(&place)? })
            }
            LocalInput::Kustomization(path) => (path, kustomization(&base.join(path))?),
        };
        digests.insert(path.to_owned(), found);
    }
    Some(digests)
}

/// The digest of a file of any size.
fn digest_of_file(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(in_hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// Paths and contents of files, framed by their lengths.
fn framed(mut files: Vec<(String, Vec<u8>)>) -> String {
    files.sort();
    let mut hash = Sha256::new();
    for (path, bytes) in files {
        for part in [path.as_bytes(), &bytes] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    in_hex(&hash.finalize())
}

fn chart(directory: &Path) -> Option<String> {
    let ignore = match files::read_text(&directory.join(".helmignore")) {
        Ok(rules) => IgnoreRules::parse(&rules).ok()?,
        Err(_) => IgnoreRules::parse("").ok()?,
    };
    let files = walk(directory, &|path, is_directory| path == ".git" || ignore.ignores(path, is_directory))?;
    Some(framed(files))
}

/// Every file the kustomization reads; the directory alone if it cannot be built.
fn kustomization(directory: &Path) -> Option<String> {
    let real = directory.canonicalize().ok()?;
    match slipway_kustomize::build(directory, &Default::default()) {
        Ok(build) => {
            let mut files = Vec::new();
            for path in build.files {
                let bytes = files::read(&path).ok()?;
                files.push((relative(&real, &path), bytes));
            }
            Some(framed(files))
        }
        Err(_) => Some(framed(walk(directory, &|path, _| path == ".git")?)),
    }
}

/// A path as seen from a directory, with `..` where it leads out.
fn relative(directory: &Path, path: &Path) -> String {
    let mut up = String::new();
    let mut base: Option<&Path> = Some(directory);
    while let Some(from) = base {
        if let Ok(rest) = path.strip_prefix(from) {
            return format!("{up}{}", rest.display());
        }
        up.push_str("../");
        base = from.parent();
    }
    path.display().to_string()
}

/// Regular files under a directory, links followed and loops cut.
fn walk(root: &Path, skip: &dyn Fn(&str, bool) -> bool) -> Option<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut total = 0;
    let mut open: Vec<(PathBuf, String)> = vec![(root.to_owned(), String::new())];
    let mut entered: Vec<PathBuf> = Vec::new();
    while let Some((directory, prefix)) = open.pop() {
        let real = directory.canonicalize().ok()?;
        if entered.contains(&real) {
            continue;
        }
        entered.push(real);
        for entry in std::fs::read_dir(&directory).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let metadata = std::fs::metadata(entry.path()).ok()?;
            if skip(&path, metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                open.push((entry.path(), path));
            } else if metadata.is_file() {
                let bytes = files::read(&entry.path()).ok()?;
                total += bytes.len();
                if total > LARGEST_DIRECTORY {
                    return None;
                }
                found.push((path, bytes));
            }
        }
    }
    Some(found)
}

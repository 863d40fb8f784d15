//! Secret references: `secret://provider/path?version=3#key`, parsed once, printed in one canonical form.

use std::fmt::{self, Write as _};
use std::str::FromStr;

/// The text every reference starts with.
pub const SCHEME: &str = "secret://";

/// The name of a configured provider: lower-case letters, digits and dashes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProviderName(String);

impl ProviderName {
    /// Reads a name; upper-case letters become lower-case.
    pub fn parse(text: &str) -> Option<Self> {
        const LONGEST: usize = 63;
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_name =
            !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && text.bytes().all(fits);
        is_name.then(|| Self(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reference to one value of a secret backend. Prints in its canonical form, which names no value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretReference {
    /// None stands for the default provider.
    pub provider: Option<ProviderName>,
    pub locator: Locator,
    pub field: Option<FieldSelector>,
    pub value_type: ValueType,
    pub encoding: ValueEncoding,
    pub trim: TrimMode,
    pub lease: LeaseEnd,
}

/// The part of a reference a provider needs: references that differ in their field share one fetch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Locator {
    pub path: String,
    pub version: Option<String>,
    pub stage: Option<String>,
}

impl Locator {
    /// The newest version of a path.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), version: None, stage: None }
    }
}

/// The part of a fetched structure a reference asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldSelector {
    Key(String),
    /// A JSON pointer, as its unescaped segments.
    Pointer(Vec<String>),
}

/// The type of the value a reference becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueType {
    #[default]
    String,
    Int,
    Bool,
    Float,
    /// The text is JSON; its structure takes the reference's place.
    Json,
    /// The text is YAML; its structure takes the reference's place.
    Yaml,
}

/// The change of encoding between backend and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueEncoding {
    #[default]
    Utf8,
    /// Encodes the stored bytes.
    Base64,
    /// Decodes the stored text.
    Base64Decoded,
}

/// The treatment of a final line break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrimMode {
    #[default]
    Keep,
    Newline,
}

/// The fate of a lease when the run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseEnd {
    #[default]
    Revoke,
    Keep,
}

const TYPES: [(&str, ValueType); 6] = [
    ("string", ValueType::String),
    ("int", ValueType::Int),
    ("bool", ValueType::Bool),
    ("float", ValueType::Float),
    ("json", ValueType::Json),
    ("yaml", ValueType::Yaml),
];
const ENCODINGS: [(&str, ValueEncoding); 3] = [
    ("utf8", ValueEncoding::Utf8),
    ("base64", ValueEncoding::Base64),
    ("base64d", ValueEncoding::Base64Decoded),
];
const TRIMS: [(&str, TrimMode); 2] = [("none", TrimMode::Keep), ("newline", TrimMode::Newline)];
const LEASES: [(&str, LeaseEnd); 2] = [("false", LeaseEnd::Revoke), ("true", LeaseEnd::Keep)];
const PARAMETERS: [&str; 6] = ["version", "stage", "encoding", "type", "trim", "keepLease"];

/// The reason a text is no reference, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret reference `{reference}` {reason}")]
pub struct ReferenceError {
    /// The text as written, cut short when it is long.
    reference: String,
    reason: String,
    hint: Option<String>,
}

impl ReferenceError {
    fn new(text: &str, reason: impl Into<String>) -> Self {
        const LONGEST: usize = 200;
        let mut reference: String =
            text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if reference.len() < text.len() {
            reference.push('…');
        }
        Self { reference, reason: reason.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The problem, still to be located.
    pub fn problem(&self) -> slipway_problem::Problem {
        let problem = slipway_problem::Problem::error(self.to_string());
        match &self.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// Tells whether a text is meant to be a reference, right or wrong.
pub fn is_reference(text: &str) -> bool {
    let start = text.trim_start();
    start.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

impl FromStr for SecretReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |reason: &str| ReferenceError::new(text, reason);
        if text.chars().any(char::is_whitespace) {
            return Err(wrong("has white space in it").hint(
                "write `%20` for a space; YAML folds long plain texts, so keep it on one line or in quotes",
            ));
        }
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| {
            wrong("does not start with `secret://`")
                .hint("the scheme is written in lower case: `secret://provider/path`")
        })?;
        let (rest, fragment) = split(rest, '#');
        let (rest, query) = split(rest, '?');
        let (authority, path) = split(rest, '/');
        let provider = match authority {
            "" => None,
            name => Some(ProviderName::parse(name).ok_or_else(|| {
                wrong(&format!("names the provider `{name}`, which is no name"))
                    .hint("a provider's name has letters, digits and dashes only, at most 63")
            })?),
        };
        let path = decode(path.unwrap_or_default()).map_err(|reason| {
            wrong(reason).hint(
                "characters are encoded as `%` and two hexadecimal digits of UTF-8; `%25` is `%` itself",
            )
        })?;
        if path.trim_matches('/').is_empty() {
            let named = provider.as_ref().map_or("provider", ProviderName::as_str);
            return Err(wrong("has no path").hint(format!("write `secret://{named}/PATH#KEY`")));
        }
        if path.split('/').any(|segment| segment == ".." || segment == ".") {
            return Err(wrong("has `.` or `..` as a part of its path")
                .hint("write the whole path from the provider's root"));
        }
        let mut reference = Self::new(provider, path);
        if let Some(query) = query {
            reference.read_query(query).map_err(|(reason, hint)| wrong(&reason).hint(hint))?;
        }
        reference.field = fragment
            .map(|fragment| read_field(fragment).map_err(|(reason, hint)| wrong(reason).hint(hint)))
            .transpose()?;
        Ok(reference)
    }
}

type Mistake = (String, String);

impl SecretReference {
    /// A reference to the newest version of a path.
    pub fn new(provider: Option<ProviderName>, path: impl Into<String>) -> Self {
        Self {
            provider,
            locator: Locator::new(path),
            field: None,
            value_type: ValueType::default(),
            encoding: ValueEncoding::default(),
            trim: TrimMode::default(),
            lease: LeaseEnd::default(),
        }
    }

    fn read_query(&mut self, query: &str) -> Result<(), Mistake> {
        let mut seen: Vec<&str> = Vec::new();
        if query.is_empty() {
            let hint = "write `?version=VALUE`, or leave `?` out".to_owned();
            return Err(("ends with `?` and no parameter".to_owned(), hint));
        }
        for parameter in query.split('&') {
            let (name, value) = split(parameter, '=');
            let value = decode(value.unwrap_or_default()).map_err(|reason| {
                (reason.to_owned(), "encode it as `%` and two hexadecimal digits".to_owned())
            })?;
            if !PARAMETERS.contains(&name) {
                let hint = slipway_problem::nearest_name(name, PARAMETERS).map_or_else(
                    || format!("known parameters are {}", PARAMETERS.join(", ")),
                    |found| format!("did you mean `{found}`?"),
                );
                return Err((format!("has the unknown parameter `{name}`"), hint));
            }
            if seen.contains(&name) {
                return Err((format!("has the parameter `{name}` twice"), "keep one of them".to_owned()));
            }
            if value.is_empty() {
                return Err((
                    format!("has no value for the parameter `{name}`"),
                    format!("write `{name}=VALUE`, or leave it out"),
                ));
            }
            seen.push(name);
            match name {
                "version" => self.locator.version = Some(value),
                "stage" => self.locator.stage = Some(value),
                "encoding" => self.encoding = word(name, &value, &ENCODINGS)?,
                "type" => self.value_type = word(name, &value, &TYPES)?,
                "trim" => self.trim = word(name, &value, &TRIMS)?,
                _ => self.lease = word(name, &value, &LEASES)?,
            }
        }
        if self.locator.version.is_some() && self.locator.stage.is_some() {
            return Err((
                "has both a version and a stage".to_owned(),
                "a version is exact; a stage moves: keep one".to_owned(),
            ));
        }
        Ok(())
    }

    /// The same reference with a provider in the place of the default.
    #[must_use]
    pub fn with_default_provider(&self, default: &ProviderName) -> Self {
        let mut bound = self.clone();
        bound.provider.get_or_insert_with(|| default.clone());
        bound
    }

    /// `path#key`, as it is shown to people beside the provider's name.
    pub fn path_and_field(&self) -> String {
        let mut text = self.locator.path.clone();
        self.write_field(&mut text);
        text
    }

    fn write_field(&self, text: &mut String) {
        match &self.field {
            None => {}
            Some(FieldSelector::Key(key)) => {
                text.push('#');
                encode(key, text);
            }
            Some(FieldSelector::Pointer(segments)) => {
                text.push('#');
                for segment in segments {
                    text.push('/');
                    encode(&segment.replace('~', "~0").replace('/', "~1"), text);
                }
            }
        }
    }
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::from(SCHEME);
        text.push_str(self.provider.as_ref().map_or("", ProviderName::as_str));
        text.push('/');
        encode(&self.locator.path, &mut text);
        // Parameters in the order of their names; those with their default value are left out.
        let mut separator = '?';
        let mut parameter = |text: &mut String, name: &str, value: Option<&str>| {
            let Some(value) = value else { return };
            let _ = write!(text, "{separator}{name}=");
            encode(value, text);
            separator = '&';
        };
        parameter(&mut text, "encoding", written(&ENCODINGS, self.encoding));
        parameter(&mut text, "keepLease", written(&LEASES, self.lease));
        parameter(&mut text, "stage", self.locator.stage.as_deref());
        parameter(&mut text, "trim", written(&TRIMS, self.trim));
        parameter(&mut text, "type", written(&TYPES, self.value_type));
        parameter(&mut text, "version", self.locator.version.as_deref());
        self.write_field(&mut text);
        f.write_str(&text)
    }
}

/// The word of a setting that is not the default.
fn written<T: Default + PartialEq>(words: &[(&'static str, T)], value: T) -> Option<&'static str> {
    let word = words.iter().find(|(_, known)| *known == value).map(|(word, _)| *word);
    word.filter(|_| value != T::default())
}

fn word<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, Mistake> {
    words.iter().find(|(known, _)| *known == value).map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        (format!("has the unknown {name} `{value}`"), format!("one of {}", known.join(", ")))
    })
}

fn read_field(fragment: &str) -> Result<FieldSelector, (&'static str, &'static str)> {
    if fragment.is_empty() {
        return Err(("ends with `#` and no key", "name the key after `#`, or leave `#` out"));
    }
    if fragment.contains('?') {
        return Err((
            "has its parameters after the key",
            "parameters stand before the key: `secret://provider/path?version=1#key`",
        ));
    }
    if fragment.contains('#') {
        return Err(("has a second `#`", "write `%23` for `#` in a name"));
    }
    let decoded =
        decode(fragment).map_err(|reason| (reason, "encode it as `%` and two hexadecimal digits"))?;
    let Some(pointer) = decoded.strip_prefix('/') else { return Ok(FieldSelector::Key(decoded)) };
    let segments = pointer.split('/').map(|segment| segment.replace("~1", "/").replace("~0", "~"));
    Ok(FieldSelector::Pointer(segments.collect()))
}

/// What stands before and after the first `separator`.
fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

/// Decodes percent signs, once.
fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err("has a `%` without two hexadecimal digits after it");
        };
        bytes.push((high * 16 + low) as u8);
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 once decoded")?;
    if text.chars().any(char::is_control) {
        return Err("has a control character in it");
    }
    Ok(text)
}

/// Encodes what could be mistaken for a separator, a space, or a comma of `--set`.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:@+!*".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

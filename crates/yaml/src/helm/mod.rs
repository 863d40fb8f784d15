//! YAML to values exactly as Helm and kubectl read it: YAML 1.1 by way of JSON.
//!
//! Keys become text, later duplicates win, merges apply in the order they stand, only the first
//! document counts, and mistakes carry Go's words. Any `Deserialize` type is built straight from the
//! tape, without a tree in between.

mod cursor;
mod go_syntax;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use base64::Engine as _;
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};

use self::cursor::TapeCursor;
use crate::error::{SyntaxError, YamlError};
use crate::resolve::{ResolvedScalar, ScalarRules, resolve};
use crate::scan::{ScalarStyle, TextMark};
use crate::tape::{CORE_TAG, ItemContent, Parser, Tape, TapeItem};

/// Deepest nesting accepted. Go allows 10 000, which no thread's stack survives in a recursive reader.
pub const MAX_DEPTH: usize = 500;

/// Reads the first document of `text` as Helm does. Integers stay exact; floats without a fraction
/// become integers, as they do on their way through JSON. An empty text is null.
pub fn from_str_helm(text: &str) -> Result<serde_json::Value, YamlError> {
    from_str(text)
}

/// Reads a mapping as Helm does (values, `fromYaml`); an empty text is an empty mapping.
pub fn map_from_str_helm(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, YamlError> {
    use serde_json::Value as Json;
    let kind = match from_str_helm(text)? {
        Json::Object(map) => return Ok(map),
        Json::Null => return Ok(serde_json::Map::new()),
        Json::Array(_) => "array",
        Json::String(_) => "string",
        Json::Number(_) => "number",
        Json::Bool(_) => "bool",
    };
    Err(YamlError::Decode(format!("cannot unmarshal {kind} into Go value of type map[string]interface {{}}")))
}

/// Reads the first document of `text` as Helm does, into any type. Numbers arrive as `i64`, `u64` or
/// `f64`, mapping keys as strings.
pub fn from_str<T: de::DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    build(&first_document(text)?)
}

/// Reads as [`from_str`] does, but refuses repeated keys, as Helm does for repository indexes.
pub fn from_str_strict<T: de::DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let tape = first_document(text)?;
    let mut context = Context::new(&tape, Stage::Decode);
    context.repeated = Some(RefCell::default());
    Everything::deserialize_from(TapeCursor { context: &context, index: 0, depth: 0 })?;
    let repeated = context.repeated.take().unwrap_or_default().into_inner();
    if !repeated.is_empty() {
        return Err(fail(format!("unmarshal errors:\n  {}", repeated.join("\n  "))));
    }
    build(&tape)
}

/// Reads as [`from_str`] does, from bytes that may not be text.
pub fn from_slice<T: de::DeserializeOwned>(bytes: &[u8]) -> Result<T, YamlError> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return from_str(text),
        Err(error) => error,
    };
    let (valid, broken) = bytes.split_at(error.valid_up_to());
    let text = std::str::from_utf8(valid).unwrap_or_default();
    build(&Parser::broken(text, encoding_problem(broken), MAX_DEPTH).next_document()?.unwrap_or_default())
}

/// What Go says about bytes that are not UTF-8.
fn encoding_problem(bytes: &[u8]) -> &'static str {
    let width = match bytes.first() {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    match bytes.get(1..width) {
        None => "incomplete UTF-8 octet sequence",
        Some(rest) if rest.iter().any(|byte| byte & 0xC0 != 0x80) => "invalid trailing UTF-8 octet",
        Some(_) if matches!(bytes[..2], [0xED, 0xA0..=0xFF] | [0xF4, 0x90..=0xFF] | [0xF5..=0xF7, _]) => {
            "invalid Unicode character"
        }
        Some(_) => "invalid length of a UTF-8 sequence",
    }
}

fn first_document(text: &str) -> Result<Tape<'_>, YamlError> {
    if u32::try_from(text.len()).is_err() {
        return Err(fail("the text is longer than 4 GiB"));
    }
    Ok(Parser::new(text, MAX_DEPTH).next_document()?.unwrap_or_default())
}

fn build<T: de::DeserializeOwned>(tape: &Tape<'_>) -> Result<T, YamlError> {
    let context = Context::new(tape, Stage::Encode);
    T::deserialize(TapeCursor { context: &context, index: 0, depth: 0 }).map_err(|error| {
        // Go finishes each stage before it starts the next: report the mistake of the earliest.
        let stages = [Stage::Decode, Stage::Convert];
        stages.into_iter().find_map(|stage| check(tape, stage).err()).unwrap_or(error)
    })
}

fn check(tape: &Tape<'_>, stage: Stage) -> Result<(), YamlError> {
    let context = Context::new(tape, stage);
    Everything::deserialize_from(TapeCursor { context: &context, index: 0, depth: 0 })
}

/// How far a value goes on Go's way from YAML to JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Decode,
    Convert,
    Encode,
}

struct Context<'t, 'a> {
    tape: &'t Tape<'a>,
    stage: Stage,
    decoded: Cell<u64>,
    aliased: Cell<u64>,
    alias_depth: Cell<u32>,
    /// Complaints about repeated keys, if they are wanted.
    repeated: Option<RefCell<Vec<String>>>,
}

impl<'t, 'a> Context<'t, 'a> {
    fn new(tape: &'t Tape<'a>, stage: Stage) -> Self {
        Self {
            tape,
            stage,
            decoded: Cell::new(1),
            aliased: Cell::new(0),
            alias_depth: Cell::new(0),
            repeated: None,
        }
    }

    fn item(&self, index: u32) -> &'t TapeItem<'a> {
        &self.tape.items[index as usize]
    }

    /// Counts one decoded node; aliases may not make up too much of a document.
    fn count(&self) -> Result<(), YamlError> {
        let decoded = self.decoded.get() + 1;
        self.decoded.set(decoded);
        if self.alias_depth.get() == 0 {
            return Ok(());
        }
        let aliased = self.aliased.get() + 1;
        self.aliased.set(aliased);
        let allowed = match decoded {
            0..=400_000 => 0.99,
            4_000_000.. => 0.10,
            _ => 0.99 - 0.89 * ((decoded - 400_000) as f64 / 3_600_000.0),
        };
        if aliased > 100 && decoded > 1000 && aliased as f64 / decoded as f64 > allowed {
            return Err(fail("document contains excessive aliasing"));
        }
        Ok(())
    }

    /// Follows an alias; says whether it did.
    fn target(&self, index: u32) -> Result<(u32, bool), YamlError> {
        let ItemContent::Alias { name, target } = self.item(index).content else { return Ok((index, false)) };
        if self.item(target).next > index {
            return Err(fail(format!("anchor '{name}' value contains itself")));
        }
        Ok((target, true))
    }
}

fn fail(problem: impl Into<Box<str>>) -> YamlError {
    YamlError::Syntax(SyntaxError::composer(TextMark::default(), problem))
}

/// Bytes as text the way Go's JSON writes them: every byte that is not UTF-8 becomes U+FFFD.
pub fn go_lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
    }
    Cow::Owned(text)
}

/// A scalar after tags and rules were applied.
enum Decoded<'t> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(Cow<'t, str>),
}

fn decode<'t>(item: &'t TapeItem<'_>, value: &'t str, style: ScalarStyle) -> Result<Decoded<'t>, YamlError> {
    let text = || Decoded::Str(Cow::Borrowed(value));
    let wanted = match item.tag.as_deref() {
        None if style != ScalarStyle::Plain => return Ok(text()),
        None => None,
        Some(tag) => match tag.strip_prefix(CORE_TAG) {
            Some(core @ ("str" | "int" | "float" | "bool" | "null" | "timestamp" | "binary")) => Some(core),
            _ => return Ok(text()),
        },
    };
    match wanted {
        Some("str") => return Ok(text()),
        Some("binary") => {
            let clean: String = value.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(clean)
                .map_err(|_| fail("!!binary value contains invalid base64 data"))?;
            return Ok(Decoded::Str(Cow::Owned(go_lossy(&bytes).into_owned())));
        }
        _ => {}
    }
    let mut found = resolve(ScalarRules::Yaml11, value);
    if wanted.is_some_and(|wanted| wanted != "timestamp") && found == ResolvedScalar::Timestamp {
        found = ResolvedScalar::Str;
    }
    Ok(match (wanted, found) {
        (Some("float"), ResolvedScalar::Int(value)) => Decoded::Float(value as f64),
        (Some(wanted), found) if wanted != found.tag() => {
            return Err(fail(format!("cannot decode !!{} `{value}` as a !!{wanted}", found.tag())));
        }
        (_, ResolvedScalar::Null) => Decoded::Null,
        (_, ResolvedScalar::Bool(value)) => Decoded::Bool(value),
        (_, ResolvedScalar::Int(value)) => Decoded::Int(value),
        (_, ResolvedScalar::Uint(value)) => Decoded::Uint(value),
        (_, ResolvedScalar::Float(value)) => Decoded::Float(value),
        (_, ResolvedScalar::Timestamp | ResolvedScalar::Str) => text(),
    })
}

/// Reads a value and forgets it, keys included.
struct Everything;

impl Everything {
    fn deserialize_from<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> DeserializeSeed<'de> for Everything {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Everything {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("anything")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry_seed(Self, Self)?.is_some() {}
        Ok(())
    }
}

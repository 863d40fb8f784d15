//! JSON as Go's `encoding/json` writes and reads it.

use std::collections::HashSet;

use base64::Engine as _;

use crate::object::ObjectJson;
use crate::str::GoString;
use crate::value::{GoList, GoMap, GoValue, MAX_VALUE_DEPTH, RED_ZONE, SEGMENT};
use slipway_go::GoError;
use slipway_go::strconv;
use slipway_go::unicode::decode_rune;

/// The layout of written JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonStyle {
    /// `<`, `>` and `&` are escaped.
    pub html: bool,
    /// Two spaces a level, one member a line.
    pub pretty: bool,
    /// Longest output.
    pub max: usize,
}

/// The reason a value has no JSON form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// JSON cannot express it; the text is Go's.
    #[error("{0}")]
    Unsupported(String),
    /// The text would be longer than allowed.
    #[error("the JSON text would be longer than {0} bytes")]
    TooLong(usize),
}

/// Writes a value.
pub(crate) fn encode_json(value: &GoValue, style: JsonStyle) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder { out: Vec::new(), style, path: HashSet::new(), depth: 0 };
    encoder.write_value(value)?;
    Ok(encoder.out)
}

struct Encoder {
    out: Vec<u8>,
    style: JsonStyle,
    /// Maps and lists being written, to find one that contains itself.
    path: HashSet<usize>,
    depth: usize,
}

impl Encoder {
    fn write_value(&mut self, value: &GoValue) -> Result<(), EncodeError> {
        if self.out.len() > self.style.max {
            return Err(EncodeError::TooLong(self.style.max));
        }
        match value {
            GoValue::Nil => self.out.extend_from_slice(b"null"),
            GoValue::Bool(yes) => self.out.extend_from_slice(if *yes { b"true" } else { b"false" }),
            GoValue::Float64(number) => {
                let text = float_text(*number).ok_or_else(|| {
                    let name = strconv::format_float(*number, b'g', -1);
                    EncodeError::Unsupported(format!("json: unsupported value: {name}"))
                })?;
                self.out.extend_from_slice(text.as_bytes());
            }
            GoValue::Complex128(..) => {
                return Err(EncodeError::Unsupported("json: unsupported type: complex128".to_owned()));
            }
            GoValue::Str(text) => self.write_string(text),
            GoValue::Bytes(bytes) => {
                self.out.push(b'"');
                self.out
                    .extend_from_slice(base64::engine::general_purpose::STANDARD.encode(bytes).as_bytes());
                self.out.push(b'"');
            }
            GoValue::List(list) if list.is_nil() => self.out.extend_from_slice(b"null"),
            GoValue::Map(map) if map.is_nil() => self.out.extend_from_slice(b"null"),
            GoValue::List(list) => self.write_nested(value, list.id(), |encoder| {
                let items = list.to_vec();
                encoder.write_sequence(b'[', b']', items.len(), |encoder, at| encoder.write_value(&items[at]))
            })?,
            GoValue::Map(map) => self.write_nested(value, map.id(), |encoder| {
                let entries = map.to_vec();
                encoder.write_members(&entries)
            })?,
            GoValue::Object(object) | GoValue::Ptr(object) => match object.json_form() {
                ObjectJson::Value(inner) => {
                    let id = std::ptr::from_ref(object.as_ref()).addr();
                    self.write_nested(value, id, |encoder| encoder.write_value(&inner))?;
                }
                ObjectJson::Error(text) => return Err(EncodeError::Unsupported(text)),
                ObjectJson::Fields(fields) => {
                    let id = std::ptr::from_ref(object.as_ref()).addr();
                    self.write_nested(value, id, |encoder| encoder.write_members(&fields))?;
                }
            },
            GoValue::Int(_)
            | GoValue::Int32(_)
            | GoValue::Int64(_)
            | GoValue::Uint8(_)
            | GoValue::Uint32(_)
            | GoValue::Uint64(_) => {
                let text = match (value.as_int(), value.as_uint()) {
                    (Some(number), _) => number.to_string(),
                    (_, number) => number.unwrap_or(0).to_string(),
                };
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }

    fn write_nested(
        &mut self,
        value: &GoValue,
        id: usize,
        body: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let fresh = self.path.insert(id);
        if !fresh || self.depth > MAX_VALUE_DEPTH {
            let name = value.type_name();
            let text = format!("json: unsupported value: encountered a cycle via {name}");
            return Err(EncodeError::Unsupported(text));
        }
        self.depth += 1;
        let result = stacker::maybe_grow(RED_ZONE, SEGMENT, || body(self));
        self.depth -= 1;
        self.path.remove(&id);
        result
    }

    fn write_members(&mut self, entries: &[(GoString, GoValue)]) -> Result<(), EncodeError> {
        self.write_sequence(b'{', b'}', entries.len(), |encoder, at| {
            let (key, value) = &entries[at];
            encoder.write_string(key);
            encoder.out.extend_from_slice(if encoder.style.pretty { b": " } else { b":" });
            encoder.write_value(value)
        })
    }

    fn write_sequence(
        &mut self,
        open: u8,
        close: u8,
        len: usize,
        mut item: impl FnMut(&mut Self, usize) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.out.push(open);
        for at in 0..len {
            if at > 0 {
                self.out.push(b',');
            }
            self.break_line(self.depth);
            item(self, at)?;
        }
        if len > 0 {
            self.break_line(self.depth - 1);
        }
        self.out.push(close);
        Ok(())
    }

    fn break_line(&mut self, depth: usize) {
        if self.style.pretty {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * depth, b' ');
        }
    }

    fn write_string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        let mut at = 0;
        while let Some((rune, width, valid)) = decode_rune(&text[at..]) {
            let short = match rune {
                '"' => b'"',
                '\\' => b'\\',
                '\n' => b'n',
                '\r' => b'r',
                '\t' => b't',
                '\u{8}' => b'b',
                '\u{c}' => b'f',
                _ => 0,
            };
            if short != 0 {
                self.out.extend_from_slice(&[b'\\', short]);
            } else if !valid {
                self.out.extend_from_slice(b"\\ufffd");
            } else if rune < ' '
                || matches!(rune, '\u{2028}' | '\u{2029}')
                || (self.style.html && matches!(rune, '<' | '>' | '&'))
            {
                self.out.extend_from_slice(format!("\\u{:04x}", u32::from(rune)).as_bytes());
            } else {
                self.out.extend_from_slice(&text[at..at + width]);
            }
            at += width;
        }
        self.out.push(b'"');
    }
}

/// A float as JSON has it; none for infinities and NaN.
pub(crate) fn float_text(number: f64) -> Option<String> {
    if !number.is_finite() {
        return None;
    }
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return Some(strconv::format_float(number, b'f', -1));
    }
    let text = strconv::format_float(number, b'e', -1);
    // The exponent loses its leading zero: 1e-07 is 1e-7.
    let bytes = text.as_bytes();
    let len = bytes.len();
    Some(if len >= 4 && &bytes[len - 4..len - 1] == b"e-0" {
        format!("{}{}", &text[..len - 2], &text[len - 1..])
    } else {
        text
    })
}

/// Deepest nesting of a text.
const MAX_DEPTH: usize = 10_000;

/// A value that was read, and what is wrong with some number in it: that one is nil.
pub(crate) struct DecodedJson {
    /// The value.
    pub value: GoValue,
    /// Go's text for the first number out of range.
    pub range_error: Option<GoError>,
}

/// Reads one value; an error is Go's text.
pub(crate) fn decode_json(text: &[u8]) -> Result<DecodedJson, GoError> {
    let mut decoder = Decoder { text, at: 0, depth: 0, range: None };
    let value = decoder.read_document()?;
    Ok(DecodedJson { value, range_error: decoder.range })
}

/// Returns Go's message if `text` is not one JSON value.
pub fn json_syntax_error(text: &[u8]) -> Option<String> {
    decode_json(text).err().map(String::from)
}

struct Decoder<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    /// The first number out of range: the rest of the text is still checked.
    range: Option<GoError>,
}

impl Decoder<'_> {
    fn read_document(&mut self) -> Result<GoValue, GoError> {
        let value = self.read_value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(byte) => Err(invalid_character(byte, "after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<u8, GoError> {
        let byte = self.peek().ok_or("unexpected end of JSON input")?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte inside a word or number, which the end of the text ends like a space.
    fn peek_inner(&mut self) -> u8 {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte.unwrap_or(b' ')
    }

    fn read_value(&mut self) -> Result<GoValue, GoError> {
        self.skip_space();
        match self.next()? {
            b'{' => self.enter_nested(Self::read_object),
            b'[' => self.enter_nested(Self::read_array),
            b'"' => self.read_string().map(GoValue::from),
            b't' => self.read_literal("true", GoValue::Bool(true)),
            b'f' => self.read_literal("false", GoValue::Bool(false)),
            b'n' => self.read_literal("null", GoValue::Nil),
            byte @ (b'-' | b'0'..=b'9') => self.read_number(byte),
            byte => Err(invalid_character(byte, "looking for beginning of value")),
        }
    }

    fn enter_nested(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<GoValue, GoError>,
    ) -> Result<GoValue, GoError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        let value = stacker::maybe_grow(RED_ZONE, SEGMENT, || body(self));
        self.depth -= 1;
        value
    }

    fn read_object(&mut self) -> Result<GoValue, GoError> {
        let map = GoMap::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(map.into());
        }
        loop {
            self.skip_space();
            match self.next()? {
                b'"' => {}
                byte => return Err(invalid_character(byte, "looking for beginning of object key string")),
            }
            let key = self.read_string()?;
            self.skip_space();
            match self.next()? {
                b':' => {}
                byte => return Err(invalid_character(byte, "after object key")),
            }
            map.insert(key, self.read_value()?);
            self.skip_space();
            match self.next()? {
                b',' => {}
                b'}' => return Ok(map.into()),
                byte => return Err(invalid_character(byte, "after object key:value pair")),
            }
        }
    }

    fn read_array(&mut self) -> Result<GoValue, GoError> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(GoValue::List(GoList::new(items)));
        }
        loop {
            items.push(self.read_value()?);
            self.skip_space();
            match self.next()? {
                b',' => {}
                b']' => return Ok(GoValue::List(GoList::new(items))),
                byte => return Err(invalid_character(byte, "after array element")),
            }
        }
    }

    fn read_literal(&mut self, word: &str, value: GoValue) -> Result<GoValue, GoError> {
        for wanted in word.chars().skip(1) {
            let byte = self.peek_inner();
            if char::from(byte) != wanted {
                return Err(invalid_character(byte, &format!("in literal {word} (expecting '{wanted}')")));
            }
        }
        Ok(value)
    }

    fn read_number(&mut self, first: u8) -> Result<GoValue, GoError> {
        let start = self.at - 1;
        let first = if first == b'-' {
            match self.peek_inner() {
                byte @ b'0'..=b'9' => byte,
                byte => return Err(invalid_character(byte, "in numeric literal")),
            }
        } else {
            first
        };
        if first != b'0' {
            self.skip_digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            match self.peek_inner() {
                b'0'..=b'9' => self.skip_digits(),
                byte => return Err(invalid_character(byte, "after decimal point in numeric literal")),
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            let mut byte = self.peek_inner();
            if matches!(byte, b'+' | b'-') {
                byte = self.peek_inner();
            }
            if !byte.is_ascii_digit() {
                return Err(invalid_character(byte, "in exponent of numeric literal"));
            }
            self.skip_digits();
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        let number: f64 = text.parse().unwrap_or(f64::INFINITY);
        if number.is_infinite() {
            let text = format!("json: cannot unmarshal number {text} into Go value of type float64");
            self.range.get_or_insert(text.into());
            return Ok(GoValue::Nil);
        }
        Ok(number.into())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn read_string(&mut self) -> Result<Vec<u8>, GoError> {
        let mut out = Vec::new();
        let mut surrogate: Option<u32> = None;
        loop {
            let byte = self.next()?;
            let escaped = byte == b'\\';
            if let (Some(_), false) = (surrogate, escaped) {
                out.extend_from_slice("\u{fffd}".as_bytes());
                surrogate = None;
            }
            match byte {
                b'"' => return Ok(out),
                b'\\' => {
                    let code = match self.peek_inner() {
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => 10,
                        b'r' => 13,
                        b't' => 9,
                        byte @ (b'\\' | b'/' | b'"') => u32::from(byte),
                        b'u' => self.read_hex4()?,
                        byte => return Err(invalid_character(byte, "in string escape code")),
                    };
                    if let Some(high) = surrogate.take() {
                        if (0xdc00..0xe000).contains(&code) {
                            let rune = 0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00);
                            push(&mut out, rune);
                            continue;
                        }
                        push(&mut out, 0xfffd);
                    }
                    if (0xd800..0xdc00).contains(&code) {
                        surrogate = Some(code);
                    } else {
                        push(&mut out, code);
                    }
                }
                0..=0x1f => return Err(invalid_character(byte, "in string literal")),
                0x20..=0x7f => out.push(byte),
                _ => {
                    let from = self.at - 1;
                    if let Some((rune, width, _)) = decode_rune(&self.text[from..]) {
                        slipway_go::unicode::push_rune(&mut out, rune);
                        self.at = from + width;
                    }
                }
            }
        }
    }

    fn read_hex4(&mut self) -> Result<u32, GoError> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.peek_inner();
            let digit = char::from(byte).to_digit(16);
            let digit =
                digit.ok_or_else(|| invalid_character(byte, "in \\u hexadecimal character escape"))?;
            code = code << 4 | digit;
        }
        Ok(code)
    }
}

fn push(out: &mut Vec<u8>, code: u32) {
    slipway_go::unicode::push_rune(out, char::from_u32(code).unwrap_or('\u{fffd}'));
}

fn invalid_character(byte: u8, place: &str) -> GoError {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => r#"'"'"#.to_owned(),
        _ => {
            let quoted = strconv::quote(char::from(byte).encode_utf8(&mut [0; 4]).as_bytes());
            format!("'{}'", String::from_utf8_lossy(&quoted[1..quoted.len() - 1]))
        }
    };
    GoError::new(format!("invalid character {shown} {place}"))
}

//! Reading TOML 1.0 into values: integers are int64, dates are times.

use std::collections::HashMap;

use crate::sprig::TimeObject;
use crate::str::GoString;
use crate::value::{GoList, GoMap, GoValue, ListKind, RED_ZONE, SEGMENT};
use slipway_go::GoError;
use slipway_go::strconv;
use slipway_go::time::{GoTime, GoZone};

/// Deepest nesting of inline values and tables.
const MAX_DEPTH: usize = 1000;

/// Reads a document; an error is a line and what is wrong with it.
pub(crate) fn decode_toml(text: &[u8]) -> Result<GoMap, GoError> {
    // Marks of UTF-16 are skipped, whatever follows.
    let text = text.strip_prefix(b"\xff\xfe").or_else(|| text.strip_prefix(b"\xfe\xff")).unwrap_or(text);
    let Ok(text) = std::str::from_utf8(text) else {
        let line = 1 + text.utf8_chunks().next().map_or(0, |chunk| chunk.valid().matches('\n').count());
        return Err(format!("toml: line {line}: invalid UTF-8 byte").into());
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.bytes().take(6).any(|byte| byte == 0) {
        return Err(
            "toml: line 1: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8"
                .into(),
        );
    }
    let mut parser =
        Parser { text, at: 0, last_key: Vec::new(), depth: 0, root: GoMap::new(), closed: HashMap::new() };
    let result = parser.read_document();
    // A control character is noticed as soon as it is read, whatever it is read for.
    let read = if result.is_ok() { text.len() } else { parser.at };
    if let Some((at, rune)) = first_control(text).filter(|(at, _)| *at <= read) {
        parser.at = at;
        let problem = format!("TOML files cannot contain control characters: '0x{:02x}'", u32::from(rune));
        return Err(parser.located_error(&problem.into()));
    }
    match result {
        Ok(()) => Ok(parser.root),
        Err(problem) => Err(parser.located_error(&problem)),
    }
}

/// The first control character and where it is; line ends and tabs are none.
fn first_control(text: &str) -> Option<(usize, char)> {
    text.char_indices().find(|(at, rune)| match rune {
        '\t' | '\n' => false,
        '\r' => !text[at + 1..].starts_with('\n'),
        rune => rune.is_ascii_control(),
    })
}

/// The way a table was defined, which decides what may add to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// By a header or a dotted key on the way to something else.
    Implicit,
    /// By its own header.
    Header,
    /// By dotted keys under one header.
    Dotted,
    /// Written inline, complete.
    Inline,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    last_key: Vec<GoString>,
    depth: usize,
    root: GoMap,
    /// Origin of tables by identity; the maps live as long as the root.
    closed: HashMap<usize, Origin>,
}

type Parsed<T> = Result<T, GoError>;

impl<'a> Parser<'a> {
    fn located_error(&self, problem: &GoError) -> GoError {
        let ends = ["unexpected EOF", "end of file", "\\x00", "in string '\\\0"];
        let at_end = ends.iter().any(|mark| problem.as_str().contains(mark));
        // The library behind Helm counts one line less when the text ends too early.
        let line = usize::from(!at_end) + self.text[..self.at.min(self.text.len())].matches('\n').count();
        let last: Vec<String> = self.last_key.iter().map(GoString::to_string).collect();
        match last.join(".").as_str() {
            "" => format!("toml: line {line}: {problem}").into(),
            key => format!("toml: line {line} (last key \"{key}\"): {problem}").into(),
        }
    }

    fn key_text(&self, key: &[GoString]) -> String {
        let parts: Vec<String> = key
            .iter()
            .map(|part| {
                let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                if !part.is_empty() && part.iter().all(bare) {
                    part.to_string()
                } else {
                    format!("\"{part}\"")
                }
            })
            .collect();
        parts.join(".")
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_token(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Parsed<()> {
        if self.peek() == Some('#') {
            let end = self.rest().find('\n').unwrap_or(self.rest().len());
            let text = &self.rest()[..end];
            let text = text.strip_suffix('\r').unwrap_or(text);
            let control = text.chars().find(|&rune| is_control(rune));
            self.at += end;
            if let Some(control) = control {
                return Err(control_problem(control));
            }
        }
        Ok(())
    }

    /// Skips blanks, comments and line ends.
    fn skip_lines(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks();
            self.skip_comment()?;
            if !self.skip_token("\n") && !self.skip_token("\r\n") {
                return Ok(());
            }
        }
    }

    fn line_end(&mut self, after: &str) -> Parsed<()> {
        self.skip_blanks();
        self.skip_comment()?;
        match self.peek() {
            None => Ok(()),
            Some(_) if self.rest().starts_with('\n') || self.rest().starts_with("\r\n") => Ok(()),
            Some(rune) => Err(format!(
                "expected a {after} to end with a newline, comment, or EOF, but got {} instead",
                show_rune(rune)
            )
            .into()),
        }
    }

    fn read_document(&mut self) -> Parsed<()> {
        let mut table = self.root.clone();
        let mut prefix: Vec<GoString> = Vec::new();
        loop {
            self.skip_lines()?;
            match self.peek() {
                None => return Ok(()),
                Some('[') => {
                    let many = self.skip_token("[[");
                    if !many {
                        self.at += 1;
                    }
                    self.skip_blanks();
                    if self.peek() == Some(']') {
                        return Err("unexpected end of table name (table names cannot be empty)".into());
                    }
                    let key = self.read_key(']')?;
                    if !self.skip_token("]") {
                        let got = self.show_next();
                        return Err(
                            format!("expected '.' or ']' to end table name, but got {got} instead").into()
                        );
                    }
                    if many && !self.skip_token("]") {
                        let got = self.show_next();
                        return Err(format!(
                            "expected end of table array name delimiter ']', but got {got} instead"
                        )
                        .into());
                    }
                    self.last_key.clone_from(&key);
                    self.line_end("top-level item")?;
                    self.last_key = key[..key.len() - 1].to_vec();
                    table = if many { self.push_table(&key)? } else { self.open_table(&key)? };
                    self.last_key.clone_from(&key);
                    prefix = key;
                }
                Some('=') => return Err("unexpected '=': key name appears blank".into()),
                Some(_) => {
                    self.read_pair(&table, &prefix)?;
                    self.last_key.clone_from(&prefix);
                    self.line_end("top-level item")?;
                }
            }
        }
    }

    /// The next character as messages show it; a line end counts as read then.
    fn show_next(&mut self) -> String {
        let rune = self.peek();
        self.at += usize::from(rune == Some('\n'));
        show_rune(rune.unwrap_or('\0'))
    }

    fn read_pair(&mut self, table: &GoMap, prefix: &[GoString]) -> Parsed<()> {
        let key = self.read_key('=')?;
        match self.peek() {
            Some('=') => self.at += 1,
            Some(_) => {
                return Err(format!("expected '.' or '=', but got {} instead", self.show_next()).into());
            }
            None => return Err("unexpected EOF; expected key separator '='".into()),
        }
        let full: Vec<GoString> = prefix.iter().chain(&key).cloned().collect();
        self.last_key.clone_from(&full);
        self.skip_blanks();
        let value = self.read_value()?;
        self.last_key.clone_from(&full);
        let Some((last, path)) = key.split_last() else {
            return Err("unexpected '=': key name appears blank".into());
        };
        let mut table = table.clone();
        for (at, part) in path.iter().enumerate() {
            table = match table.get(part) {
                None => {
                    let inner = GoMap::new();
                    self.closed.insert(inner.id(), Origin::Dotted);
                    table.insert(part.clone(), inner.clone().into());
                    inner
                }
                Some(GoValue::Map(inner)) if self.closed.get(&inner.id()) != Some(&Origin::Header) => inner,
                Some(_) => return Err(self.already_defined(&full[..=prefix.len() + at])),
            };
        }
        match table.get(last) {
            None => table.insert(last.clone(), value),
            // A table that only dotted keys made may be named once more, to no effect.
            Some(GoValue::Map(inner)) if self.closed.get(&inner.id()) == Some(&Origin::Dotted) => {
                self.closed.insert(inner.id(), Origin::Header);
            }
            Some(_) => return Err(self.already_defined(&full)),
        }
        Ok(())
    }

    fn already_defined(&self, key: &[GoString]) -> GoError {
        GoError::new(format!("Key '{}' has already been defined.", self.key_text(key)))
    }

    /// The table a header's path leads to, up to its last part.
    fn walk_tables(&mut self, path: &[GoString]) -> Parsed<GoMap> {
        let mut table = self.root.clone();
        if path.len() > MAX_DEPTH {
            return Err("tables nest too deeply".into());
        }
        for (at, part) in path.iter().enumerate() {
            table = match table.get(part) {
                None => {
                    let inner = GoMap::new();
                    self.closed.insert(inner.id(), Origin::Implicit);
                    table.insert(part.clone(), inner.clone().into());
                    inner
                }
                Some(GoValue::Map(inner)) => inner,
                Some(GoValue::List(list)) if list.kind() == TABLES => match list.items().last() {
                    Some(GoValue::Map(inner)) => inner.clone(),
                    _ => return Err(self.already_defined(&path[..=at])),
                },
                Some(_) => return Err(self.already_defined(&path[..=at])),
            };
        }
        Ok(table)
    }

    fn open_table(&mut self, key: &[GoString]) -> Parsed<GoMap> {
        let Some((last, path)) = key.split_last() else { return Err("unexpected EOF".into()) };
        let parent = self.walk_tables(path)?;
        let table = match parent.get(last) {
            None => {
                let table = GoMap::new();
                parent.insert(last.clone(), table.clone().into());
                table
            }
            Some(GoValue::Map(table))
                if matches!(self.closed.get(&table.id()), Some(Origin::Implicit | Origin::Dotted)) =>
            {
                table
            }
            Some(_) => return Err(self.already_defined(key)),
        };
        self.closed.insert(table.id(), Origin::Header);
        Ok(table)
    }

    fn push_table(&mut self, key: &[GoString]) -> Parsed<GoMap> {
        let Some((last, path)) = key.split_last() else { return Err("unexpected EOF".into()) };
        let parent = self.walk_tables(path)?;
        let table = GoMap::new();
        self.closed.insert(table.id(), Origin::Header);
        match parent.get(last) {
            None => {
                let list = GoList::of(TABLES, vec![table.clone().into()]);
                parent.insert(last.clone(), list.into());
            }
            Some(GoValue::List(list)) if list.kind() == TABLES => list.items_mut().push(table.clone().into()),
            Some(_) => {
                return Err(format!(
                    "Key '{}' was already created and cannot be used as an array.",
                    self.key_text(key)
                )
                .into());
            }
        }
        Ok(table)
    }

    fn read_key(&mut self, end: char) -> Parsed<Vec<GoString>> {
        let mut parts = Vec::new();
        loop {
            self.skip_blanks();
            let part = match self.peek() {
                Some('"') => {
                    if self.rest().starts_with("\"\"\"") {
                        return Err("expected '.' or '=', but got '\"' instead".into());
                    }
                    self.at += 1;
                    self.read_basic_string(false)?
                }
                Some('\'') => {
                    self.at += 1;
                    self.read_literal_string(false)?
                }
                Some(']') if end == ']' && !parts.is_empty() => {
                    return Err("unexpected end of table name (table names cannot be empty)".into());
                }
                Some('.') if end == ']' => {
                    return Err("unexpected table separator (table names cannot be empty)".into());
                }
                Some(rune @ ('.' | '=')) if !parts.is_empty() => {
                    return Err(format!("unexpected '{rune}'").into());
                }
                Some('.') => return Err("unexpected '.': keys cannot start with a '.'".into()),
                _ => {
                    let len = self
                        .rest()
                        .bytes()
                        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
                        .count();
                    if len == 0 {
                        let text = match self.peek() {
                            Some(_) if end == ']' => {
                                let got = self.show_next();
                                format!("expected '.' or ']' to end table name, but got {got} instead")
                            }
                            Some(_) => {
                                format!("expected '.' or '{end}', but got {} instead", self.show_next())
                            }
                            None => format!("unexpected EOF; expected key separator '{end}'"),
                        };
                        return Err(text.into());
                    }
                    let part = GoString::from(&self.rest()[..len]);
                    self.at += len;
                    part
                }
            };
            parts.push(part);
            self.skip_blanks();
            if !self.skip_token(".") {
                return Ok(parts);
            }
            if parts.len() > MAX_DEPTH {
                return Err("tables nest too deeply".into());
            }
        }
    }

    fn read_value(&mut self) -> Parsed<GoValue> {
        match self.peek() {
            Some('"') => {
                let many = self.skip_token("\"\"\"");
                if !many {
                    self.at += 1;
                }
                self.read_basic_string(many).map(GoValue::Str)
            }
            Some('\'') => {
                let many = self.skip_token("'''");
                if !many {
                    self.at += 1;
                }
                self.read_literal_string(many).map(GoValue::Str)
            }
            Some('[') => self.read_nested(Self::read_array),
            Some('{') => self.read_nested(Self::read_inline_table),
            Some('\n' | '\r') => {
                self.skip_token("\r");
                Err(format!("expected value but found {} instead", self.show_next()).into())
            }
            Some(_) => self.read_scalar(),
            None => Err("unexpected EOF; expected value".into()),
        }
    }

    fn read_nested(&mut self, body: impl FnOnce(&mut Self) -> Parsed<GoValue>) -> Parsed<GoValue> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("values nest too deeply".into());
        }
        let value = stacker::maybe_grow(RED_ZONE, SEGMENT, || body(self));
        self.depth -= 1;
        value
    }

    fn read_array(&mut self) -> Parsed<GoValue> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_lines()?;
            if self.skip_token("]") {
                return Ok(GoValue::list(items));
            }
            if self.peek() == Some(',') {
                return Err("unexpected comma".into());
            }
            items.push(self.read_value()?);
            self.skip_lines()?;
            if self.skip_token(",") {
                continue;
            }
            if !self.skip_token("]") {
                let got = self.peek().map_or_else(|| "end of file".to_owned(), show_rune);
                let text = "expected a comma (',') or array terminator (']'), but got";
                return Err(format!("{text} {got}").into());
            }
            return Ok(GoValue::list(items));
        }
    }

    fn read_inline_table(&mut self) -> Parsed<GoValue> {
        self.at += 1;
        let table = GoMap::new();
        self.closed.insert(table.id(), Origin::Dotted);
        let outer = self.last_key.clone();
        let mut first = true;
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('}') if first => break,
                Some('}') => return Err("trailing comma not allowed in inline tables".into()),
                Some('\n' | '\r') => return Err("newlines not allowed within inline tables".into()),
                Some(',') => return Err("unexpected comma".into()),
                Some('=') => return Err("unexpected '=': key name appears blank".into()),
                _ => {}
            }
            first = false;
            self.read_pair(&table, &outer)?;
            self.skip_blanks();
            match self.peek() {
                Some(',') => self.at += 1,
                Some('}') => break,
                Some('\n' | '\r') => return Err("newlines not allowed within inline tables".into()),
                Some(rune) => {
                    return Err(format!(
                        "expected a comma or an inline table terminator '}}', but got {} instead",
                        show_rune(rune)
                    )
                    .into());
                }
                None => {
                    return Err(
                        "expected a comma or an inline table terminator '}', but got end of file instead"
                            .into(),
                    );
                }
            }
        }
        self.at += 1;
        self.close_inline(&table);
        self.last_key = outer;
        Ok(table.into())
    }

    fn close_inline(&mut self, table: &GoMap) {
        let mut pending = vec![table.clone()];
        while let Some(table) = pending.pop() {
            self.closed.insert(table.id(), Origin::Inline);
            pending.extend(table.entries().values().filter_map(|value| value.as_map().cloned()));
        }
    }

    fn read_basic_string(&mut self, many: bool) -> Parsed<GoString> {
        let mut out = String::new();
        let start = self.at;
        if many && !self.skip_token("\n") {
            self.skip_token("\r\n");
        }
        loop {
            let Some(rune) = self.peek() else {
                let mark = if many { "\"\"\"" } else { "\"" };
                return Err(format!("unexpected EOF; expected '{mark}'").into());
            };
            if many && self.skip_token("\"\"\"") {
                // Up to two quotes may stand before the closing three.
                for _ in 0..2 {
                    if self.skip_token("\"") {
                        out.push('"');
                    }
                }
                return Ok(out.into());
            }
            if rune == '\n' && !many {
                return Err("strings cannot contain newlines".into());
            }
            self.at += rune.len_utf8();
            match rune {
                '"' if !many => return Ok(out.into()),
                '\r' if many && self.rest().starts_with('\n') => {}
                '\\' => self.read_escape(&mut out, many, start)?,
                '\n' => out.push('\n'),
                rune if is_control(rune) => return Err(control_problem(rune)),
                rune => out.push(rune),
            }
        }
    }

    /// Reads what follows a backslash, in a string that begins at `start`.
    fn read_escape(&mut self, out: &mut String, many: bool, start: usize) -> Parsed<()> {
        let Some(rune) = self.peek() else { return Err("invalid escape in string '\\\0'".into()) };
        if many && (matches!(rune, ' ' | '\t' | '\n' | '\r')) {
            self.skip_blanks();
            if self.rest().starts_with('\n') || self.rest().starts_with("\r\n") {
                while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
                    self.at += 1;
                }
                return Ok(());
            }
            return Err(format!("invalid escape: '\\{rune}'").into());
        }
        self.at += rune.len_utf8();
        let plain = match rune {
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            '"' => '"',
            '\\' => '\\',
            'u' | 'U' => {
                let len = if rune == 'u' { 4 } else { 8 };
                let digits =
                    self.rest().get(..len).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let Some(digits) = digits else {
                    let name = if len == 4 { "four" } else { "eight" };
                    // Shown is the string so far, up to what is no digit.
                    let fine = self.rest().bytes().take_while(u8::is_ascii_hexdigit).count();
                    let wrong = self.rest()[fine..].chars().next().map_or(0, char::len_utf8);
                    self.at += fine + wrong;
                    let got = strconv::quote(&self.text.as_bytes()[start..self.at]);
                    return Err(format!(
                        "expected {name} hexadecimal digits after '\\{rune}', but got {} instead",
                        String::from_utf8_lossy(&got)
                    )
                    .into());
                };
                self.at += len;
                let code = u32::from_str_radix(digits, 16).unwrap_or(u32::MAX);
                char::from_u32(code)
                    .ok_or_else(|| format!("Escaped character '\\{rune}{digits}' is not valid UTF-8."))?
            }
            rune => {
                return Err(format!("invalid escape in string '\\{rune}'").into());
            }
        };
        out.push(plain);
        Ok(())
    }

    fn read_literal_string(&mut self, many: bool) -> Parsed<GoString> {
        if many && !self.skip_token("\n") {
            self.skip_token("\r\n");
        }
        let mut out = String::new();
        loop {
            let Some(rune) = self.peek() else {
                let mark = if many { "'''" } else { "'" };
                return Err(format!("unexpected EOF; expected \"{mark}\"").into());
            };
            if many && self.skip_token("'''") {
                for _ in 0..2 {
                    if self.skip_token("'") {
                        out.push('\'');
                    }
                }
                return Ok(out.into());
            }
            if rune == '\n' && !many {
                return Err("strings cannot contain newlines".into());
            }
            self.at += rune.len_utf8();
            match rune {
                '\'' if !many => return Ok(out.into()),
                '\r' if many && self.rest().starts_with('\n') => {}
                '\n' => out.push('\n'),
                rune if is_control(rune) => return Err(control_problem(rune)),
                rune => out.push(rune),
            }
        }
    }

    fn read_scalar(&mut self) -> Parsed<GoValue> {
        let rest = self.rest();
        let end = rest.find([',', ']', '}', '#', '\n', '\r', ' ', '\t']).unwrap_or(rest.len());
        let word = &rest[..end];
        let named = match word {
            "true" => Some(GoValue::Bool(true)),
            "false" => Some(GoValue::Bool(false)),
            "inf" | "+inf" => Some(f64::INFINITY.into()),
            "-inf" => Some(f64::NEG_INFINITY.into()),
            "nan" | "+nan" | "-nan" => Some(f64::NAN.into()),
            _ => None,
        };
        if let Some(value) = named {
            self.at += end;
            return Ok(value);
        }
        let first = rest.chars().next().unwrap_or('\n');
        if !first.is_ascii_digit() && !matches!(first, '+' | '-' | '.') {
            return Err(format!("expected value but found {} instead", found_instead(word, first)).into());
        }
        let (end, is_date) = number_extent(rest)?;
        let word = rest[..end].trim_end();
        let value = if is_date { parse_datetime(word)? } else { parse_number(word)? };
        self.at += word.len();
        Ok(value)
    }
}

/// Returns the length of a number or date that begins with a digit, sign or dot, and true if it is a date.
fn number_extent(text: &str) -> Parsed<(usize, bool)> {
    let bytes = text.as_bytes();
    let while_in = |from: usize, more: &[u8]| {
        let rest = bytes[from..].iter();
        from + rest.take_while(|byte| byte.is_ascii_digit() || more.contains(byte)).count()
    };
    let signed = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let after = |at: usize| text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or('\0');
    match after(signed) {
        '.' => return Err("floats must start with a digit, not '.'".into()),
        '0'..='9' => {}
        rune => return Err(format!("expected a digit but got {}", show_rune(rune)).into()),
    }
    if bytes[signed] == b'0' && matches!(bytes.get(signed + 1), Some(b'b' | b'o' | b'x')) {
        let prefix = &text[..signed + 2];
        if signed > 0 {
            return Err(format!("cannot use sign with non-decimal numbers: '{prefix}'").into());
        }
        let (name, radix) = match bytes[1] {
            b'b' => ("a binary", 2),
            b'o' => ("an octal", 8),
            _ => ("a hexidecimal", 16),
        };
        let first = after(2);
        if !first.is_digit(radix) {
            return Err(format!("not {name} number: '{prefix}{first}'").into());
        }
        let rest = text[2..].chars().take_while(|rune| *rune == '_' || rune.is_digit(radix));
        return Ok((2 + rest.count(), false));
    }
    let whole = while_in(signed, b"");
    match bytes.get(whole) {
        Some(b'-' | b':') if signed == 0 => Ok((while_in(whole, b"-:Tt .Zz+"), true)),
        Some(b'_' | b'.' | b'e' | b'E') => {
            let decimal = while_in(whole, b"_");
            let is_float = matches!(bytes.get(decimal), Some(b'.' | b'e' | b'E'));
            Ok((if is_float { while_in(decimal, b"_.-+eE") } else { decimal }, false))
        }
        _ => Ok((whole, false)),
    }
}

const TABLES: ListKind = ListKind::Of("map[string]interface {}");

fn found_instead(word: &str, first: char) -> String {
    if first.is_alphabetic() { format!("\"{word}\"") } else { show_rune(first) }
}

fn is_control(rune: char) -> bool {
    matches!(rune, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}' | '\n')
}

fn control_problem(rune: char) -> GoError {
    let code = u32::from(rune);
    let text = "control characters are not allowed inside strings";
    GoError::new(format!("{text}: '0x{code:02x}', use '\\u{code:04x}' instead"))
}

fn show_rune(rune: char) -> String {
    String::from_utf8_lossy(&strconv::quote_rune(rune)).into_owned()
}

fn parse_number(word: &str) -> Parsed<GoValue> {
    let unsigned = word.trim_start_matches(['+', '-']);
    let prefixed = ["0x", "0o", "0b"].iter().any(|prefix| word.starts_with(prefix));
    let bytes = unsigned.as_bytes();
    let misplaced = |at: usize| {
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
        bytes[at] == b'_' && (at == 0 || !digit(at - 1) || !digit(at + 1))
    };
    if word.len() - unsigned.len() > 1 || (0..bytes.len()).any(misplaced) {
        return Err(format!("Invalid integer {word:?}: underscores must be surrounded by digits").into());
    }
    let clean = word.replace('_', "");
    if prefixed {
        return strconv::parse_int(&clean, 0)
            .map(GoValue::Int64)
            .map_err(|_| GoError::new(format!("Invalid integer {word:?}")));
    }
    let is_float = clean.contains(['.', 'e', 'E']);
    let digits = clean.trim_start_matches(['+', '-']);
    let whole: String = digits.chars().take_while(char::is_ascii_digit).collect();
    if whole.len() > 1 && whole.starts_with('0') {
        let kind = if is_float { "float" } else { "integer" };
        return Err(format!("Invalid {kind} {word:?}: cannot have leading zeroes").into());
    }
    if !is_float {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let bad = digits.chars().find(|rune| !rune.is_ascii_digit()).unwrap_or('\0');
            return Err(format!("expected a digit but got {}", show_rune(bad)).into());
        }
        return clean
            .parse()
            .map(GoValue::Int64)
            .map_err(|_| GoError::new(format!("{word} is out of range for int64")));
    }
    let dot_ok = clean.find('.').is_none_or(|at| {
        at > 0
            && clean.as_bytes()[at - 1].is_ascii_digit()
            && clean.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit)
    });
    match clean.parse::<f64>() {
        Ok(number) if dot_ok && !whole.is_empty() && number.is_finite() => Ok(number.into()),
        Ok(number) if dot_ok && number.is_infinite() => {
            Err(format!("{word} is out of range for float64").into())
        }
        _ if !dot_ok => {
            Err(format!("Invalid float {word:?}: '.' must be followed by one or more digits").into())
        }
        _ => Err(format!("Invalid float value: {word:?}").into()),
    }
}

fn parse_datetime(word: &str) -> Parsed<GoValue> {
    let text = word.replacen(['T', 't', ' '], "T", 1).replace('z', "Z");
    let local = |name: &str| GoZone::Fixed { name: name.to_owned(), offset: 0 };
    let layouts: [(&str, GoZone); 4] = [
        ("2006-01-02T15:04:05.999999999Z07:00", GoZone::Utc),
        ("2006-01-02T15:04:05.999999999", local("datetime-local")),
        ("2006-01-02", local("date-local")),
        ("15:04:05.999999999", local("time-local")),
    ];
    layouts
        .iter()
        .find_map(|(layout, zone)| slipway_go::time::parse(layout.as_bytes(), text.as_bytes(), zone).ok())
        .map(|time: GoTime| GoValue::object(TimeObject(time)))
        .ok_or_else(|| GoError::new(format!("invalid datetime: {word:?}")))
}

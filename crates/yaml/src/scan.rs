//! Characters to tokens: the lexical half of YAML 1.1, with the problem texts and marks Go prints.
//!
//! A token may turn out to be a mapping key only when its `:` is seen later, so tokens wait in a queue
//! until the first of them can no longer become one. The order in which that look-ahead happens decides
//! which of several mistakes is reported, which is why it follows Go's reader exactly.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::error::{Origin, SyntaxError};

/// A place in the text; lines and columns count from 0, columns and `index` count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: u32,
    pub(crate) index: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    StreamStart,
    StreamEnd,
    VersionDirective { major: u32, minor: u32 },
    TagDirective { handle: Cow<'a, str>, prefix: Cow<'a, str> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    Tag { handle: Cow<'a, str>, suffix: Cow<'a, str> },
    Scalar { value: Cow<'a, str>, style: Style },
}

#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) start: Mark,
    pub(crate) end: Mark,
}

/// A token that may still become a mapping key.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// Whether its token, at the head of the queue, waits for the `:`.
    awaited: bool,
    token_number: usize,
    mark: Mark,
}

/// A key must meet its `:` within this many characters.
const LONGEST_SIMPLE_KEY: u32 = 1024;

pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    /// Continuation bytes of UTF-8 sequences before `pos`, to count characters instead of bytes.
    continuation: usize,
    line: u32,
    /// Character index of the first character of the current line.
    line_index: usize,
    max_depth: usize,

    tokens: VecDeque<Token<'a>>,
    tokens_parsed: usize,
    started: bool,
    ended: bool,

    flow_level: usize,
    indent: i64,
    indents: Vec<i64>,
    simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
}

type Result<T> = std::result::Result<T, Box<SyntaxError>>;

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        // One byte order mark belongs to the encoding, and Go skips one more at the start of the text.
        let marks = text.chars().take(2).take_while(|c| *c == '\u{feff}').count();
        let pos = marks * '\u{feff}'.len_utf8();
        Self {
            text,
            bytes: text.as_bytes(),
            pos,
            continuation: pos,
            line: 0,
            line_index: 0,
            max_depth,
            tokens: VecDeque::with_capacity(16),
            tokens_parsed: 0,
            started: false,
            ended: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: false,
            simple_keys: Vec::new(),
        }
    }

    /// How far the text has been read.
    pub(crate) fn offset(&self) -> usize {
        self.pos
    }

    /// Looks at the next token.
    pub(crate) fn peek(&mut self) -> Result<&Token<'a>> {
        if self.tokens.is_empty() || self.head_may_be_key() {
            self.fetch_more()?;
        }
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(self.error("", Mark::default(), "found unexpected end of stream")),
        }
    }

    /// Takes the token [`Scanner::peek`] showed.
    pub(crate) fn take(&mut self) -> Result<Token<'a>> {
        self.peek()?;
        self.tokens_parsed += 1;
        match self.tokens.pop_front() {
            Some(token) => Ok(token),
            None => Err(self.error("", Mark::default(), "found unexpected end of stream")),
        }
    }

    fn head_may_be_key(&self) -> bool {
        self.simple_keys.iter().rev().any(|key| key.awaited && key.token_number == self.tokens_parsed)
    }

    fn fetch_more(&mut self) -> Result<()> {
        loop {
            if !self.tokens.is_empty() {
                let head = self.tokens_parsed;
                let Some(level) =
                    self.simple_keys.iter().rposition(|key| key.awaited && key.token_number == head)
                else {
                    return Ok(());
                };
                if !self.key_still_valid(level)? {
                    return Ok(());
                }
            }
            if self.ended {
                return Ok(());
            }
            self.fetch_next()?;
        }
    }

    fn mark(&self) -> Mark {
        let index = self.pos - self.continuation;
        Mark {
            offset: self.pos as u32,
            index: index as u32,
            line: self.line,
            column: (index - self.line_index) as u32,
        }
    }

    fn column(&self) -> i64 {
        (self.pos - self.continuation - self.line_index) as i64
    }

    fn error(&self, context: &'static str, context_mark: Mark, problem: &str) -> Box<SyntaxError> {
        Box::new(SyntaxError {
            origin: Origin::Scanner,
            context,
            context_mark,
            problem: problem.into(),
            mark: self.mark(),
        })
    }

    #[inline]
    fn at(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Moves over `count` bytes that contain no line break.
    #[inline]
    fn skip(&mut self, count: usize) {
        let end = (self.pos + count).min(self.bytes.len());
        self.continuation += self.bytes[self.pos..end].iter().filter(|byte| **byte & 0xC0 == 0x80).count();
        self.pos = end;
    }

    /// Moves over ASCII bytes that contain no line break.
    #[inline]
    fn skip_ascii(&mut self, count: usize) {
        self.pos += count;
    }

    fn is_end(&self, ahead: usize) -> bool {
        // A NUL byte is refused before scanning, so the zero past the end is unambiguous.
        self.pos + ahead >= self.bytes.len()
    }

    #[inline]
    fn break_at(&self, offset: usize) -> usize {
        match self.bytes.get(offset) {
            Some(b'\n') => 1,
            Some(b'\r') => 1 + usize::from(self.bytes.get(offset + 1) == Some(&b'\n')),
            Some(0xC2) if self.bytes.get(offset + 1) == Some(&0x85) => 2,
            Some(0xE2)
                if self.bytes.get(offset + 1) == Some(&0x80)
                    && matches!(self.bytes.get(offset + 2), Some(0xA8 | 0xA9)) =>
            {
                3
            }
            _ => 0,
        }
    }

    #[inline]
    fn is_break(&self, ahead: usize) -> bool {
        self.break_at(self.pos + ahead) > 0
    }

    fn is_break_or_end(&self, ahead: usize) -> bool {
        self.is_end(ahead) || self.is_break(ahead)
    }

    #[inline]
    fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.at(ahead), b' ' | b'\t')
    }

    #[inline]
    fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    /// Moves over one line break; gives what it means inside a scalar.
    fn skip_break(&mut self) -> &'static str {
        let width = self.break_at(self.pos);
        let meaning = match self.at(0) {
            0xE2 if self.at(2) == 0xA8 => "\u{2028}",
            0xE2 => "\u{2029}",
            _ => "\n",
        };
        if width > 0 {
            self.skip(width);
            self.line += 1;
            self.line_index = self.pos - self.continuation;
        }
        meaning
    }

    fn push(&mut self, kind: Kind<'a>, start: Mark) {
        let end = self.mark();
        self.tokens.push_back(Token { kind, start, end });
    }

    fn at_document_indicator(&self) -> bool {
        self.column() == 0
            && (self.bytes[self.pos..].starts_with(b"---") || self.bytes[self.pos..].starts_with(b"..."))
            && self.is_blank_or_end(3)
    }

    fn fetch_next(&mut self) -> Result<()> {
        if !self.started {
            self.started = true;
            self.simple_key_allowed = true;
            self.simple_keys.push(SimpleKey::default());
            let mark = self.mark();
            self.push(Kind::StreamStart, mark);
            return Ok(());
        }
        self.skip_to_next_token();
        self.unroll_indent(self.column());
        if self.is_end(0) {
            return self.fetch_stream_end();
        }
        let first = self.at(0);
        if self.column() == 0 {
            if first == b'%' {
                return self.fetch_directive();
            }
            if self.at_document_indicator() {
                let kind = if first == b'-' { Kind::DocumentStart } else { Kind::DocumentEnd };
                return self.fetch_document_indicator(kind);
            }
        }
        match first {
            b'[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Kind::FlowMappingStart),
            b']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if self.flow_level > 0 || self.is_blank_or_end(1) => self.fetch_key(),
            b':' if self.flow_level > 0 || self.is_blank_or_end(1) => self.fetch_value(),
            b'*' | b'&' => self.fetch_anchor(first == b'*'),
            b'!' => self.fetch_tag(),
            b'|' if self.flow_level == 0 => self.fetch_block_scalar(Style::Literal),
            b'>' if self.flow_level == 0 => self.fetch_block_scalar(Style::Folded),
            b'\'' => self.fetch_quoted(Style::SingleQuoted),
            b'"' => self.fetch_quoted(Style::DoubleQuoted),
            b'-' if !self.is_blank(1) => self.fetch_plain(),
            b'?' | b':' if self.flow_level == 0 && !self.is_blank_or_end(1) => self.fetch_plain(),
            b'-' | b'?' | b':' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b' ' | b'\t' => Err(self.error(
                "while scanning for the next token",
                self.mark(),
                "found character that cannot start any token",
            )),
            _ => self.fetch_plain(),
        }
    }

    fn skip_to_next_token(&mut self) {
        loop {
            while self.at(0) == b' '
                || (self.at(0) == b'\t' && (self.flow_level > 0 || !self.simple_key_allowed))
            {
                self.skip_ascii(1);
            }
            if self.at(0) == b'#' {
                self.skip_line_content();
            }
            if !self.is_break(0) {
                return;
            }
            self.skip_break();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    // Simple keys.

    fn key_still_valid(&mut self, level: usize) -> Result<bool> {
        let key = self.simple_keys[level];
        if !key.possible {
            return Ok(false);
        }
        let here = self.mark();
        if key.mark.line < here.line || key.mark.index + LONGEST_SIMPLE_KEY < here.index {
            if key.required {
                return Err(self.error(
                    "while scanning a simple key",
                    key.mark,
                    "could not find expected ':'",
                ));
            }
            self.simple_keys[level].possible = false;
            self.simple_keys[level].awaited = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Result<()> {
        let required = self.flow_level == 0 && self.indent == self.column();
        if self.simple_key_allowed {
            let key = SimpleKey {
                possible: true,
                required,
                awaited: true,
                token_number: self.tokens_parsed + self.tokens.len(),
                mark: self.mark(),
            };
            self.remove_simple_key()?;
            if let Some(last) = self.simple_keys.last_mut() {
                *last = key;
            }
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<()> {
        let Some(last) = self.simple_keys.last_mut() else { return Ok(()) };
        if last.possible && last.required {
            let mark = last.mark;
            return Err(self.error("while scanning a simple key", mark, "could not find expected ':'"));
        }
        last.possible = false;
        last.awaited = false;
        Ok(())
    }

    // Indentation.

    fn roll_indent(&mut self, column: i64, number: Option<usize>, kind: Kind<'a>, mark: Mark) -> Result<()> {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > self.max_depth {
            return Err(self.too_deep("while increasing indent level"));
        }
        let token = Token { kind, start: mark, end: mark };
        self.insert(number, token);
        Ok(())
    }

    /// Puts a token before token `number`, or at the end if that one is already gone.
    fn insert(&mut self, number: Option<usize>, token: Token<'a>) {
        match number.and_then(|number| number.checked_sub(self.tokens_parsed)) {
            Some(at) => self.tokens.insert(at, token),
            None => self.tokens.push_back(token),
        }
    }

    fn too_deep(&self, context: &'static str) -> Box<SyntaxError> {
        self.error(context, self.mark(), &format!("exceeded max depth of {}", self.max_depth))
    }

    fn unroll_indent(&mut self, column: i64) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            let mark = self.mark();
            self.push(Kind::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // One function per token.

    fn fetch_stream_end(&mut self) -> Result<()> {
        // Go moves to a fresh line before it reports what is still open.
        if self.column() != 0 {
            self.line_index = self.pos - self.continuation;
            self.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let mark = self.mark();
        self.push(Kind::StreamEnd, mark);
        self.ended = true;
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_directive()
    }

    fn fetch_document_indicator(&mut self, kind: Kind<'a>) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark();
        self.skip_ascii(3);
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: Kind<'a>) -> Result<()> {
        self.save_simple_key()?;
        let token_number = self.tokens_parsed + self.tokens.len();
        self.simple_keys.push(SimpleKey { token_number, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > self.max_depth {
            return Err(self.too_deep("while increasing flow level"));
        }
        self.simple_key_allowed = true;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind<'a>) -> Result<()> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let inner = self.simple_keys.pop();
            // Go loses track of a collection as a key when no key was seen inside it: `{}: x`.
            if let (Some(inner), Some(outer)) = (inner, self.simple_keys.last_mut())
                && inner.token_number == outer.token_number
            {
                outer.awaited = false;
            }
        }
        self.simple_key_allowed = false;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(Kind::FlowEntry, start);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error(
                    "",
                    self.mark(),
                    "block sequence entries are not allowed in this context",
                ));
            }
            let mark = self.mark();
            self.roll_indent(self.column(), None, Kind::BlockSequenceStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(Kind::BlockEntry, start);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error("", self.mark(), "mapping keys are not allowed in this context"));
            }
            let mark = self.mark();
            self.roll_indent(self.column(), None, Kind::BlockMappingStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(Kind::Key, start);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<()> {
        let level = self.simple_keys.len().saturating_sub(1);
        if !self.simple_keys.is_empty() && self.key_still_valid(level)? {
            let key = self.simple_keys[level];
            let token = Token { kind: Kind::Key, start: key.mark, end: key.mark };
            self.insert(Some(key.token_number), token);
            let column = i64::from(key.mark.column);
            self.roll_indent(column, Some(key.token_number), Kind::BlockMappingStart, key.mark)?;
            self.simple_keys[level].possible = false;
            self.simple_keys[level].awaited = false;
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return Err(self.error(
                        "",
                        self.mark(),
                        "mapping values are not allowed in this context",
                    ));
                }
                let mark = self.mark();
                self.roll_indent(self.column(), None, Kind::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        let start = self.mark();
        self.skip_ascii(1);
        self.push(Kind::Value, start);
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark();
        self.skip_ascii(1);
        let from = self.pos;
        while is_word(self.at(0)) {
            self.skip_ascii(1);
        }
        let name = &self.text[from..self.pos];
        let follows = self.is_blank_or_end(0)
            || matches!(self.at(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !follows {
            let context = if alias { "while scanning an alias" } else { "while scanning an anchor" };
            return Err(self.error(context, start, "did not find expected alphabetic or numeric character"));
        }
        self.push(if alias { Kind::Alias(name) } else { Kind::Anchor(name) }, start);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, style: Style) -> Result<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.scan_block_scalar(style)
    }

    fn fetch_quoted(&mut self, style: Style) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_quoted(style)
    }

    fn fetch_plain(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_plain()
    }

    // Directives and tags.

    fn scan_directive(&mut self) -> Result<()> {
        let start = self.mark();
        self.skip_ascii(1);
        let from = self.pos;
        while is_word(self.at(0)) {
            self.skip_ascii(1);
        }
        let name = &self.text[from..self.pos];
        let context = "while scanning a directive";
        if name.is_empty() {
            return Err(self.error(context, start, "could not find expected directive name"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error(context, start, "found unexpected non-alphabetical character"));
        }
        let kind = match name {
            "YAML" => {
                self.skip_blanks();
                let major = self.scan_version_number(start)?;
                if self.at(0) != b'.' {
                    return Err(self.error(
                        "while scanning a %YAML directive",
                        start,
                        "did not find expected digit or '.' character",
                    ));
                }
                self.skip_ascii(1);
                let minor = self.scan_version_number(start)?;
                Kind::VersionDirective { major, minor }
            }
            "TAG" => {
                let context = "while scanning a %TAG directive";
                self.skip_blanks();
                let handle = self.scan_tag_handle(true, start)?;
                if !self.is_blank(0) {
                    return Err(self.error(context, start, "did not find expected whitespace"));
                }
                self.skip_blanks();
                let prefix = self.scan_tag_uri(true, "", start)?;
                if !self.is_blank_or_end(0) {
                    return Err(self.error(context, start, "did not find expected whitespace or line break"));
                }
                Kind::TagDirective { handle, prefix: Cow::Owned(prefix) }
            }
            _ => return Err(self.error(context, start, "found unknown directive name")),
        };
        let end = self.mark();
        self.skip_blanks();
        if self.at(0) == b'#' {
            self.skip_line_content();
        }
        if !self.is_break_or_end(0) {
            return Err(self.error(context, start, "did not find expected comment or line break"));
        }
        if self.is_break(0) {
            self.skip_break();
        }
        self.tokens.push_back(Token { kind, start, end });
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip_ascii(1);
        }
    }

    fn scan_version_number(&mut self, start: Mark) -> Result<u32> {
        let context = "while scanning a %YAML directive";
        let from = self.pos;
        let mut value = 0u32;
        while self.at(0).is_ascii_digit() {
            if self.pos - from == 2 {
                return Err(self.error(context, start, "found extremely long version number"));
            }
            value = value * 10 + u32::from(self.at(0) - b'0');
            self.skip_ascii(1);
        }
        if self.pos == from {
            return Err(self.error(context, start, "did not find expected version number"));
        }
        Ok(value)
    }

    fn fetch_tag(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark();
        let (handle, suffix);
        if self.at(1) == b'<' {
            self.skip_ascii(2);
            handle = Cow::Borrowed("");
            suffix = self.scan_tag_uri(false, "", start)?;
            if self.at(0) != b'>' {
                return Err(self.error("while scanning a tag", start, "did not find the expected '>'"));
            }
            self.skip_ascii(1);
        } else {
            let first = self.scan_tag_handle(false, start)?;
            if first.len() > 1 && first.starts_with('!') && first.ends_with('!') {
                suffix = self.scan_tag_uri(false, "", start)?;
                handle = first;
            } else {
                let rest = self.scan_tag_uri(false, &first, start)?;
                // `!` alone is the tag `!`, not the handle `!` with nothing behind it.
                if rest.is_empty() {
                    handle = Cow::Borrowed("");
                    suffix = "!".to_owned();
                } else {
                    handle = Cow::Borrowed("!");
                    suffix = rest;
                }
            }
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error(
                "while scanning a tag",
                start,
                "did not find expected whitespace or line break",
            ));
        }
        self.push(Kind::Tag { handle, suffix: Cow::Owned(suffix) }, start);
        Ok(())
    }

    fn tag_context(directive: bool) -> &'static str {
        if directive { "while parsing a %TAG directive" } else { "while parsing a tag" }
    }

    fn scan_tag_handle(&mut self, directive: bool, start: Mark) -> Result<Cow<'a, str>> {
        if self.at(0) != b'!' {
            return Err(self.error(Self::tag_context(directive), start, "did not find expected '!'"));
        }
        let from = self.pos;
        self.skip_ascii(1);
        while is_word(self.at(0)) {
            self.skip_ascii(1);
        }
        if self.at(0) == b'!' {
            self.skip_ascii(1);
        } else if directive && &self.text[from..self.pos] != "!" {
            return Err(self.error(Self::tag_context(true), start, "did not find expected '!'"));
        }
        Ok(Cow::Borrowed(&self.text[from..self.pos]))
    }

    fn scan_tag_uri(&mut self, directive: bool, head: &str, start: Mark) -> Result<String> {
        let mut uri: Vec<u8> = head.as_bytes().get(1..).unwrap_or_default().to_vec();
        let mut any = !head.is_empty();
        loop {
            let byte = self.at(0);
            if byte == b'%' {
                self.scan_uri_escape(directive, start, &mut uri)?;
            } else if is_word(byte)
                || matches!(
                    byte,
                    b';' | b'/'
                        | b'?'
                        | b':'
                        | b'@'
                        | b'&'
                        | b'='
                        | b'+'
                        | b'$'
                        | b'.'
                        | b'!'
                        | b'~'
                        | b'*'
                        | b'\''
                        | b'('
                        | b')'
                        | b','
                        | b'['
                        | b']'
                )
            {
                uri.push(byte);
                self.skip_ascii(1);
            } else {
                break;
            }
            any = true;
        }
        if !any {
            return Err(self.error(Self::tag_context(directive), start, "did not find expected tag URI"));
        }
        String::from_utf8(uri).map_err(|_| {
            self.error(Self::tag_context(directive), start, "found an incorrect trailing UTF-8 octet")
        })
    }

    fn scan_uri_escape(&mut self, directive: bool, start: Mark, uri: &mut Vec<u8>) -> Result<()> {
        let context = Self::tag_context(directive);
        let (Some(high), Some(low)) = (hex(self.at(1)), hex(self.at(2))) else {
            return Err(self.error(context, start, "did not find URI escaped octet"));
        };
        uri.push((high * 16 + low) as u8);
        self.skip_ascii(3);
        Ok(())
    }

    // Scalars.

    fn scan_block_scalar(&mut self, style: Style) -> Result<()> {
        let context = "while scanning a block scalar";
        let start = self.mark();
        self.skip_ascii(1);
        let mut chomp = 0u8;
        let mut increment = 0;
        for _ in 0..2 {
            match self.at(0) {
                byte @ (b'+' | b'-') if chomp == 0 => {
                    chomp = byte;
                    self.skip_ascii(1);
                }
                b'0' if increment == 0 => {
                    return Err(self.error(context, start, "found an indentation indicator equal to 0"));
                }
                byte @ b'1'..=b'9' if increment == 0 => {
                    increment = i64::from(byte - b'0');
                    self.skip_ascii(1);
                }
                _ => break,
            }
        }
        self.skip_blanks();
        if self.at(0) == b'#' {
            self.skip_line_content();
        }
        if !self.is_break_or_end(0) {
            return Err(self.error(context, start, "did not find expected comment or line break"));
        }
        if self.is_break(0) {
            self.skip_break();
        }
        let mut end = self.mark();
        let mut indent = match increment {
            0 => 0,
            more if self.indent >= 0 => self.indent + more,
            more => more,
        };
        let mut value = String::new();
        let mut leading_break = "";
        let mut trailing_breaks = String::new();
        let (mut leading_blank, mut trailing_blank);
        leading_blank = false;
        self.scan_block_breaks(&mut indent, &mut trailing_breaks, start, &mut end)?;
        while self.column() == indent && !self.is_end(0) {
            trailing_blank = self.is_blank(0);
            if style == Style::Folded && leading_break == "\n" && !leading_blank && !trailing_blank {
                if trailing_breaks.is_empty() {
                    value.push(' ');
                }
            } else {
                value.push_str(leading_break);
            }
            leading_break = "";
            value.push_str(&trailing_breaks);
            trailing_breaks.clear();
            leading_blank = self.is_blank(0);
            let from = self.pos;
            self.skip_line_content();
            value.push_str(&self.text[from..self.pos]);
            if self.is_break(0) {
                leading_break = self.skip_break();
            }
            self.scan_block_breaks(&mut indent, &mut trailing_breaks, start, &mut end)?;
        }
        if chomp != b'-' {
            value.push_str(leading_break);
        }
        if chomp == b'+' {
            value.push_str(&trailing_breaks);
        }
        self.tokens.push_back(Token { kind: Kind::Scalar { value: Cow::Owned(value), style }, start, end });
        Ok(())
    }

    /// Moves to the end of the line.
    fn skip_line_content(&mut self) {
        let mut end = self.pos;
        loop {
            match self.bytes.get(end) {
                None | Some(b'\n' | b'\r') => break,
                Some(0xC2 | 0xE2) if self.break_at(end) > 0 => break,
                Some(_) => end += 1,
            }
        }
        self.skip(end - self.pos);
    }

    fn scan_block_breaks(
        &mut self,
        indent: &mut i64,
        breaks: &mut String,
        start: Mark,
        end: &mut Mark,
    ) -> Result<()> {
        *end = self.mark();
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.column() < *indent) && self.at(0) == b' ' {
                self.skip_ascii(1);
            }
            deepest = deepest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.at(0) == b'\t' {
                return Err(self.error(
                    "while scanning a block scalar",
                    start,
                    "found a tab character where an indentation space is expected",
                ));
            }
            if !self.is_break(0) {
                break;
            }
            breaks.push_str(self.skip_break());
            *end = self.mark();
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    fn scan_quoted(&mut self, style: Style) -> Result<()> {
        let context = "while scanning a quoted scalar";
        let start = self.mark();
        let single = style == Style::SingleQuoted;
        let quote = if single { b'\'' } else { b'"' };
        self.skip_ascii(1);
        // Most quoted scalars are one run of ordinary characters: borrow those.
        let from = self.pos;
        let run = self.bytes[from..]
            .iter()
            .position(|byte| *byte == quote || *byte < b' ' || *byte == b'\\' || *byte >= 0x80)
            .unwrap_or(self.bytes.len() - from);
        if self.bytes.get(from + run) == Some(&quote)
            && !(single && self.bytes.get(from + run + 1) == Some(&quote))
        {
            let value = Cow::Borrowed(&self.text[from..from + run]);
            self.skip_ascii(run + 1);
            self.push(Kind::Scalar { value, style }, start);
            return Ok(());
        }
        let mut value = String::new();
        let mut blanks = String::new();
        let mut trailing_breaks = String::new();
        loop {
            if self.at_document_indicator() {
                return Err(self.error(context, start, "found unexpected document indicator"));
            }
            if self.is_end(0) {
                return Err(self.error(context, start, "found unexpected end of stream"));
            }
            let mut after_escaped_break = false;
            while !self.is_blank_or_end(0) {
                let byte = self.at(0);
                if single && byte == b'\'' && self.at(1) == b'\'' {
                    value.push('\'');
                    self.skip_ascii(2);
                } else if byte == quote {
                    break;
                } else if !single && byte == b'\\' && self.is_break(1) {
                    self.skip_ascii(1);
                    self.skip_break();
                    after_escaped_break = true;
                    break;
                } else if !single && byte == b'\\' {
                    self.scan_escape(start, &mut value)?;
                } else {
                    let from = self.pos;
                    let mut end = from + 1;
                    while let Some(next) = self.bytes.get(end) {
                        if *next <= b' '
                            || *next == quote
                            || *next == b'\\'
                            || (*next >= 0x80 && self.break_at(end) > 0)
                        {
                            break;
                        }
                        end += 1;
                    }
                    self.skip(end - from);
                    value.push_str(&self.text[from..self.pos]);
                }
            }
            if self.at(0) == quote {
                break;
            }
            blanks.clear();
            trailing_breaks.clear();
            let mut leading_break = "";
            let mut folding = after_escaped_break;
            while self.is_blank(0) || self.is_break(0) {
                if self.is_blank(0) {
                    if !folding {
                        blanks.push(self.at(0) as char);
                    }
                    self.skip_ascii(1);
                } else if folding {
                    trailing_breaks.push_str(self.skip_break());
                } else {
                    blanks.clear();
                    leading_break = self.skip_break();
                    folding = true;
                }
            }
            if folding {
                if leading_break == "\n" {
                    if trailing_breaks.is_empty() {
                        value.push(' ');
                    } else {
                        value.push_str(&trailing_breaks);
                    }
                } else {
                    value.push_str(leading_break);
                    value.push_str(&trailing_breaks);
                }
            } else {
                value.push_str(&blanks);
            }
        }
        self.skip_ascii(1);
        self.push(Kind::Scalar { value: Cow::Owned(value), style }, start);
        Ok(())
    }

    fn scan_escape(&mut self, start: Mark, value: &mut String) -> Result<()> {
        let context = "while parsing a quoted scalar";
        let digits = match self.at(1) {
            b'0' => return self.escaped(value, '\0'),
            b'a' => return self.escaped(value, '\x07'),
            b'b' => return self.escaped(value, '\x08'),
            b't' | b'\t' => return self.escaped(value, '\t'),
            b'n' => return self.escaped(value, '\n'),
            b'v' => return self.escaped(value, '\x0b'),
            b'f' => return self.escaped(value, '\x0c'),
            b'r' => return self.escaped(value, '\r'),
            b'e' => return self.escaped(value, '\x1b'),
            byte @ (b' ' | b'"' | b'\'' | b'\\') => return self.escaped(value, byte as char),
            b'N' => return self.escaped(value, '\u{85}'),
            b'_' => return self.escaped(value, '\u{a0}'),
            b'L' => return self.escaped(value, '\u{2028}'),
            b'P' => return self.escaped(value, '\u{2029}'),
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => return Err(self.error(context, start, "found unknown escape character")),
        };
        self.skip_ascii(2);
        let mut code = 0u32;
        for ahead in 0..digits {
            let Some(digit) = hex(self.at(ahead)) else {
                return Err(self.error(context, start, "did not find expected hexdecimal number"));
            };
            code = code.wrapping_mul(16).wrapping_add(digit);
        }
        let Some(character) = char::from_u32(code) else {
            return Err(self.error(context, start, "found invalid Unicode character escape code"));
        };
        value.push(character);
        self.skip_ascii(digits);
        Ok(())
    }

    fn escaped(&mut self, value: &mut String, character: char) -> Result<()> {
        value.push(character);
        self.skip_ascii(2);
        Ok(())
    }

    fn scan_plain(&mut self) -> Result<()> {
        let start = self.mark();
        let mut end = start;
        let indent = self.indent + 1;
        // The value is borrowed until a line break forces folding.
        let mut value = Cow::Borrowed("");
        let mut blanks_from = self.pos;
        let mut leading_break = "";
        let mut trailing_breaks = String::new();
        let mut leading_blanks = false;
        loop {
            if self.at_document_indicator() || self.at(0) == b'#' {
                break;
            }
            let from = self.pos;
            let to = self.plain_run_end(from);
            if to > from {
                if leading_blanks {
                    let text = value.to_mut();
                    if leading_break == "\n" {
                        if trailing_breaks.is_empty() {
                            text.push(' ');
                        } else {
                            text.push_str(&trailing_breaks);
                        }
                    } else {
                        text.push_str(leading_break);
                        text.push_str(&trailing_breaks);
                    }
                    leading_break = "";
                    trailing_breaks.clear();
                    leading_blanks = false;
                    text.push_str(&self.text[from..to]);
                } else {
                    match &mut value {
                        Cow::Borrowed(_) => value = Cow::Borrowed(&self.text[start.offset as usize..to]),
                        Cow::Owned(text) => text.push_str(&self.text[blanks_from..to]),
                    }
                }
                self.skip(to - from);
                end = self.mark();
            }
            if !(self.is_blank(0) || self.is_break(0)) {
                break;
            }
            blanks_from = self.pos;
            while self.is_blank(0) || self.is_break(0) {
                if self.is_blank(0) {
                    if leading_blanks && self.column() < indent && self.at(0) == b'\t' {
                        return Err(self.error(
                            "while scanning a plain scalar",
                            start,
                            "found a tab character that violates indentation",
                        ));
                    }
                    self.skip_ascii(1);
                } else if leading_blanks {
                    trailing_breaks.push_str(self.skip_break());
                } else {
                    leading_break = self.skip_break();
                    leading_blanks = true;
                }
            }
            if self.flow_level == 0 && self.column() < indent {
                break;
            }
        }
        self.tokens.push_back(Token { kind: Kind::Scalar { value, style: Style::Plain }, start, end });
        if leading_blanks {
            self.simple_key_allowed = true;
        }
        Ok(())
    }

    /// Where the run of non-blank plain characters that starts at `from` ends.
    fn plain_run_end(&self, from: usize) -> usize {
        let mut at = from;
        loop {
            let Some(byte) = self.bytes.get(at) else { return at };
            match byte {
                // A space between words is no end; what else may follow one is looked at outside.
                b' ' if self.bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) => {}
                b' ' | b'\t' | b'\n' | b'\r' => return at,
                b':' => match self.bytes.get(at + 1) {
                    None | Some(b' ' | b'\t' | b'\n' | b'\r') => return at,
                    Some(0xC2 | 0xE2) if self.break_at(at + 1) > 0 => return at,
                    _ => {}
                },
                b',' | b'?' | b'[' | b']' | b'{' | b'}' if self.flow_level > 0 => return at,
                0xC2 | 0xE2 if self.break_at(at) > 0 => return at,
                _ => {}
            }
            at += 1;
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn hex(byte: u8) -> Option<u32> {
    (byte as char).to_digit(16)
}

//! Characters to tokens: the lexical half of YAML 1.1, with the problem texts and marks Go prints.
//!
//! A token may turn out to be a mapping key only when its `:` is seen later, so tokens wait in a queue
//! until the first of them can no longer become one. The order in which that look-ahead happens decides
//! which of several mistakes is reported, which is why it follows Go's reader exactly.

mod scalar;
mod tag;

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::error::{ErrorStage, SyntaxError};

/// A place in the text; lines and columns count from 0, columns and `index` count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextMark {
    pub(crate) offset: u32,
    pub(crate) index: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarStyle {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
    Folded,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind<'a> {
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
    Scalar { value: Cow<'a, str>, style: ScalarStyle },
}

#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind<'a>,
    pub(crate) start: TextMark,
    pub(crate) end: TextMark,
}

/// A token that may still become a mapping key.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    /// Whether its token, at the head of the queue, waits for the `:`.
    awaited: bool,
    token_number: usize,
    mark: TextMark,
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
    /// Whether the first token of the queue is known to be the next one.
    ready: bool,
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
            ready: false,
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
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<&Token<'a>> {
        if !self.ready {
            self.make_ready()?;
        }
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(self.exhausted()),
        }
    }

    /// Takes the token [`Scanner::peek`] showed.
    pub(crate) fn take(&mut self) -> Result<Token<'a>> {
        if !self.ready {
            self.make_ready()?;
        }
        self.ready = false;
        self.tokens_parsed += 1;
        match self.tokens.pop_front() {
            Some(token) => Ok(token),
            None => Err(self.exhausted()),
        }
    }

    fn make_ready(&mut self) -> Result<()> {
        if self.tokens.is_empty() || self.head_may_be_key() {
            self.fetch_more()?;
        }
        self.ready = true;
        Ok(())
    }

    #[cold]
    fn exhausted(&self) -> Box<SyntaxError> {
        self.error("", TextMark::default(), "found unexpected end of stream")
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

    fn mark(&self) -> TextMark {
        let index = self.pos - self.continuation;
        TextMark {
            offset: self.pos as u32,
            index: index as u32,
            line: self.line,
            column: (index - self.line_index) as u32,
        }
    }

    fn column(&self) -> i64 {
        (self.pos - self.continuation - self.line_index) as i64
    }

    fn error(&self, context: &'static str, context_mark: TextMark, problem: &str) -> Box<SyntaxError> {
        Box::new(SyntaxError {
            origin: ErrorStage::Scanner,
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

    fn push(&mut self, kind: TokenKind<'a>, start: TextMark) {
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
            self.push(TokenKind::StreamStart, mark);
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
                let kind = if first == b'-' { TokenKind::DocumentStart } else { TokenKind::DocumentEnd };
                return self.fetch_document_indicator(kind);
            }
        }
        match first {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if self.flow_level > 0 || self.is_blank_or_end(1) => self.fetch_key(),
            b':' if self.flow_level > 0 || self.is_blank_or_end(1) => self.fetch_value(),
            b'*' | b'&' => self.fetch_anchor(first == b'*'),
            b'!' => self.fetch_tag(),
            b'|' if self.flow_level == 0 => self.fetch_block_scalar(ScalarStyle::Literal),
            b'>' if self.flow_level == 0 => self.fetch_block_scalar(ScalarStyle::Folded),
            b'\'' => self.fetch_quoted(ScalarStyle::SingleQuoted),
            b'"' => self.fetch_quoted(ScalarStyle::DoubleQuoted),
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

    fn roll_indent(
        &mut self,
        column: i64,
        number: Option<usize>,
        kind: TokenKind<'a>,
        mark: TextMark,
    ) -> Result<()> {
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
            self.push(TokenKind::BlockEnd, mark);
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
        self.push(TokenKind::StreamEnd, mark);
        self.ended = true;
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_directive()
    }

    fn fetch_document_indicator(&mut self, kind: TokenKind<'a>) -> Result<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.mark();
        self.skip_ascii(3);
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'a>) -> Result<()> {
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

    fn fetch_flow_end(&mut self, kind: TokenKind<'a>) -> Result<()> {
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
        self.push(TokenKind::FlowEntry, start);
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
            self.roll_indent(self.column(), None, TokenKind::BlockSequenceStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(TokenKind::BlockEntry, start);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error("", self.mark(), "mapping keys are not allowed in this context"));
            }
            let mark = self.mark();
            self.roll_indent(self.column(), None, TokenKind::BlockMappingStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        let start = self.mark();
        self.skip_ascii(1);
        self.push(TokenKind::Key, start);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<()> {
        let level = self.simple_keys.len().saturating_sub(1);
        if !self.simple_keys.is_empty() && self.key_still_valid(level)? {
            let key = self.simple_keys[level];
            let token = Token { kind: TokenKind::Key, start: key.mark, end: key.mark };
            self.insert(Some(key.token_number), token);
            let column = i64::from(key.mark.column);
            self.roll_indent(column, Some(key.token_number), TokenKind::BlockMappingStart, key.mark)?;
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
                self.roll_indent(self.column(), None, TokenKind::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        let start = self.mark();
        self.skip_ascii(1);
        self.push(TokenKind::Value, start);
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
        self.push(if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, style: ScalarStyle) -> Result<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.scan_block_scalar(style)
    }

    fn fetch_quoted(&mut self, style: ScalarStyle) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_quoted(style)
    }

    fn fetch_plain(&mut self) -> Result<()> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_plain()
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn hex(byte: u8) -> Option<u32> {
    (byte as char).to_digit(16)
}

//! Bytes to tokens.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::ast::ByteOffset;
use slipway_go::strconv;

/// What begins an action; prepared once, for it is searched for at every turn.
static OPEN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"{{"));

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    Error,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl TokenKind {
    fn keyword(word: &[u8]) -> Option<TokenKind> {
        Some(match word {
            b"block" => TokenKind::Block,
            b"break" => TokenKind::Break,
            b"continue" => TokenKind::Continue,
            b"define" => TokenKind::Define,
            b"else" => TokenKind::Else,
            b"end" => TokenKind::End,
            b"if" => TokenKind::If,
            b"range" => TokenKind::Range,
            b"nil" => TokenKind::Nil,
            b"template" => TokenKind::Template,
            b"with" => TokenKind::With,
            _ => return None,
        })
    }

    fn is_keyword(self) -> bool {
        matches!(
            self,
            TokenKind::Block
                | TokenKind::Break
                | TokenKind::Continue
                | TokenKind::Dot
                | TokenKind::Define
                | TokenKind::Else
                | TokenKind::End
                | TokenKind::If
                | TokenKind::Nil
                | TokenKind::Range
                | TokenKind::Template
                | TokenKind::With
        )
    }
}

/// A token: its text is `input[start..end]`; the lexer keeps the message of an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: ByteOffset,
    pub(super) end: ByteOffset,
    pub(super) line: usize,
    message: usize,
}

impl Token {
    pub(super) const NONE: Token =
        Token { kind: TokenKind::Error, start: 0, end: 0, line: 0, message: usize::MAX };

    /// As Go prints it in `unexpected …`.
    pub(super) fn show(&self, lexer: &Lexer<'_>) -> String {
        let text = &lexer.input[self.start..self.end];
        let quoted = |t: &[u8]| String::from_utf8_lossy(&strconv::quote(t)).into_owned();
        match self.kind {
            TokenKind::Eof => "EOF".into(),
            TokenKind::Error => lexer.messages.get(self.message).cloned().unwrap_or_default(),
            k if k.is_keyword() => format!("<{}>", String::from_utf8_lossy(text)),
            _ if text.len() > 10 => {
                let mut end = 0;
                for _ in 0..10 {
                    if end < text.len() {
                        end += strconv::decode(&text[end..]).1;
                    }
                }
                format!("{}...", quoted(&text[..end]))
            }
            _ => quoted(text),
        }
    }
}

pub(super) struct Lexer<'a> {
    input: &'a [u8],
    pos: ByteOffset,
    start: ByteOffset,
    line: usize,
    start_line: usize,
    inside: bool,
    parens: isize,
    /// What went wrong; nothing can be read after that.
    messages: Vec<String>,
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// Go's IsLetter or IsDigit or `_`.
fn is_alphanumeric(c: Option<char>) -> bool {
    c.is_some_and(|c| {
        if c.is_ascii() { c == '_' || c.is_ascii_alphanumeric() } else { strconv::is_letter_or_digit(c) }
    })
}

fn left_trim(rest: &[u8]) -> bool {
    rest.first() == Some(&b'-') && rest.get(1).is_some_and(|b| is_space(*b))
}

fn right_trim(rest: &[u8]) -> bool {
    rest.first().is_some_and(|b| is_space(*b)) && rest.get(1) == Some(&b'-')
}

/// `%#U`
fn unicode(c: char) -> String {
    if strconv::is_print(c) {
        format!("U+{:04X} '{c}'", u32::from(c))
    } else {
        format!("U+{:04X}", u32::from(c))
    }
}

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Lexer {
            input,
            pos: 0,
            start: 0,
            line: 1,
            start_line: 1,
            inside: false,
            parens: 0,
            messages: Vec::new(),
        }
    }

    pub(super) fn input(&self) -> &'a [u8] {
        self.input
    }

    pub(super) fn next_token(&mut self) -> Token {
        if !self.messages.is_empty() {
            return self.error("unclosed action");
        }
        loop {
            let token = if self.inside { Some(self.inside_action()) } else { self.text() };
            if let Some(token) = token {
                return token;
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.pos..]
    }

    fn take(&mut self, kind: TokenKind) -> Token {
        let token =
            Token { kind, start: self.start, end: self.pos, line: self.start_line, message: usize::MAX };
        self.start = self.pos;
        self.start_line = self.line;
        token
    }

    fn ignore(&mut self) {
        self.line += newlines(&self.input[self.start..self.pos]);
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn error(&mut self, message: impl Into<String>) -> Token {
        // Only the first two differ, however often a parser asks.
        if self.messages.len() < 2 {
            self.messages.push(message.into());
        }
        Token {
            kind: TokenKind::Error,
            start: self.start,
            end: self.start,
            line: self.start_line,
            message: self.messages.len() - 1,
        }
    }

    fn peek(&self) -> Option<char> {
        match *self.input.get(self.pos)? {
            byte if byte.is_ascii() => Some(char::from(byte)),
            _ => Some(strconv::decode(self.rest()).0),
        }
    }

    fn next(&mut self) -> Option<char> {
        match *self.input.get(self.pos)? {
            byte if byte.is_ascii() => {
                self.pos += 1;
                self.line += usize::from(byte == b'\n');
                Some(char::from(byte))
            }
            _ => {
                let (c, len) = strconv::decode(self.rest());
                self.pos += len;
                Some(c)
            }
        }
    }

    /// Goes on to what is neither letter nor digit nor `_`.
    fn skip_alphanumeric(&mut self) {
        loop {
            let rest = self.rest();
            let ascii = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_'));
            self.pos += ascii.unwrap_or(rest.len());
            match self.input.get(self.pos) {
                Some(byte) if !byte.is_ascii() => {
                    let (c, len) = strconv::decode(self.rest());
                    if !strconv::is_letter_or_digit(c) {
                        return;
                    }
                    self.pos += len;
                }
                _ => return,
            }
        }
    }

    fn text(&mut self) -> Option<Token> {
        match OPEN.find(self.rest()) {
            Some(at) => {
                if at > 0 {
                    self.pos += at;
                    let text = &self.input[self.start..self.pos];
                    let mut kept = text.len();
                    if left_trim(&self.input[self.pos + 2..]) {
                        while kept > 0 && is_space(text[kept - 1]) {
                            kept -= 1;
                        }
                    }
                    let end = self.pos;
                    self.pos = self.start + kept;
                    self.line += newlines(&text[..kept]);
                    let token = self.take(TokenKind::Text);
                    self.pos = end;
                    self.ignore();
                    if kept > 0 {
                        return Some(token);
                    }
                }
                self.left_delim()
            }
            None => {
                self.pos = self.input.len();
                if self.pos > self.start {
                    self.line += newlines(&self.input[self.start..self.pos]);
                    return Some(self.take(TokenKind::Text));
                }
                Some(self.take(TokenKind::Eof))
            }
        }
    }

    fn left_delim(&mut self) -> Option<Token> {
        self.pos += 2;
        let skip = if left_trim(self.rest()) { 2 } else { 0 };
        if self.input[self.pos + skip..].starts_with(b"/*") {
            self.pos += skip;
            self.ignore();
            return self.comment();
        }
        let token = self.take(TokenKind::LeftDelim);
        self.inside = true;
        self.pos += skip;
        self.ignore();
        self.parens = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token> {
        let Some(len) = memchr::memmem::find(&self.input[self.pos + 2..], b"*/") else {
            return Some(self.error("unclosed comment"));
        };
        self.pos += len + 4;
        let Some(trim) = self.at_right_delim() else {
            return Some(self.error("comment ends before closing delimiter"));
        };
        // Go 1.23 forgets to count the lines of a comment, and its parse errors show it.
        self.take(TokenKind::Text);
        self.close(trim);
        self.ignore();
        None
    }

    /// Skips the closing delimiter and what it trims.
    fn close(&mut self, trim: bool) {
        self.pos += if trim { 4 } else { 2 };
        if trim {
            while self.rest().first().is_some_and(|b| is_space(*b)) {
                self.pos += 1;
            }
        }
    }

    /// At `}}` or ` -}}`? The value says whether it trims.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if right_trim(rest) && rest[2..].starts_with(b"}}") {
            return Some(true);
        }
        rest.starts_with(b"}}").then_some(false)
    }

    fn right_delim(&mut self, trim: bool) -> Token {
        if trim {
            self.pos += 2;
            self.ignore();
        }
        self.pos += 2;
        let token = self.take(TokenKind::RightDelim);
        if trim {
            while self.rest().first().is_some_and(|b| is_space(*b)) {
                self.pos += 1;
            }
            self.ignore();
        }
        self.inside = false;
        token
    }

    fn inside_action(&mut self) -> Token {
        if let Some(trim) = self.at_right_delim() {
            if self.parens == 0 {
                return self.right_delim(trim);
            }
            return self.error("unclosed left paren");
        }
        let at = self.pos;
        let Some(c) = self.next() else { return self.error("unclosed action") };
        match c {
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '=' => self.take(TokenKind::Assign),
            ':' => {
                if self.next() != Some('=') {
                    return self.error("expected :=");
                }
                self.take(TokenKind::Declare)
            }
            '|' => self.take(TokenKind::Pipe),
            '"' => self.quoted(b'"', "unterminated quoted string", TokenKind::String),
            '\'' => self.quoted(b'\'', "unterminated character constant", TokenKind::CharConstant),
            '`' => match memchr::memchr(b'`', self.rest()) {
                None => self.error("unterminated raw quoted string"),
                Some(len) => {
                    self.line += newlines(&self.rest()[..len]);
                    self.pos += len + 1;
                    self.take(TokenKind::RawString)
                }
            },
            '$' => self.name(TokenKind::Variable, TokenKind::Variable),
            '.' if self.rest().first().is_none_or(|b| !b.is_ascii_digit()) && !self.rest().is_empty() => {
                self.name(TokenKind::Field, TokenKind::Dot)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.pos = at;
                self.number()
            }
            _ if is_alphanumeric(Some(c)) => {
                self.pos = at;
                self.identifier()
            }
            '(' => {
                self.parens += 1;
                self.take(TokenKind::LeftParen)
            }
            ')' => {
                self.parens -= 1;
                if self.parens < 0 {
                    return self.error("unexpected right paren");
                }
                self.take(TokenKind::RightParen)
            }
            '!'..='~' => self.take(TokenKind::Char),
            _ => self.error(format!("unrecognized character in action: {}", unicode(c))),
        }
    }

    /// The first space is taken already.
    fn space(&mut self) -> Token {
        let mut count = 1;
        while self.rest().first().is_some_and(|b| is_space(*b)) {
            self.next();
            count += 1;
        }
        // The last space may belong to a trimming delimiter.
        let last = &self.input[self.pos - 1..];
        if right_trim(last) && last[2..].starts_with(b"}}") {
            self.pos -= 1;
            if self.input[self.pos] == b'\n' {
                self.line -= 1;
            }
            if count == 1 {
                // Straight to the delimiter: an open parenthesis goes unnoticed here.
                return self.right_delim(true);
            }
        }
        self.take(TokenKind::Space)
    }

    /// What a character beyond ASCII is made of is none of the bytes that matter here.
    fn quoted(&mut self, mark: u8, unterminated: &str, kind: TokenKind) -> Token {
        loop {
            let rest = self.rest();
            let at = rest.iter().position(|b| *b == mark || matches!(b, b'\\' | b'\n'));
            match at.map(|at| (at, rest[at])) {
                Some((at, b'\\')) if !matches!(rest.get(at + 1), None | Some(b'\n')) => self.pos += at + 2,
                Some((at, byte)) if byte == mark => {
                    self.pos += at + 1;
                    return self.take(kind);
                }
                _ => return self.error(unterminated),
            }
        }
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with(b"}}"),
        }
    }

    /// The rest of a `.field` or `$variable` after its first character.
    fn name(&mut self, kind: TokenKind, alone: TokenKind) -> Token {
        if self.at_terminator() {
            return self.take(alone);
        }
        self.skip_alphanumeric();
        if !self.at_terminator() {
            let c = self.peek().unwrap_or_default();
            return self.error(format!("bad character {}", unicode(c)));
        }
        self.take(kind)
    }

    fn identifier(&mut self) -> Token {
        self.skip_alphanumeric();
        if !self.at_terminator() {
            let c = self.peek().unwrap_or_default();
            return self.error(format!("bad character {}", unicode(c)));
        }
        let word = &self.input[self.start..self.pos];
        let kind = match word {
            b"true" | b"false" => TokenKind::Bool,
            _ => TokenKind::keyword(word).unwrap_or(TokenKind::Identifier),
        };
        self.take(kind)
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let ok = self.rest().first().is_some_and(|b| set.contains(b));
        if ok {
            self.pos += 1;
        }
        ok
    }

    fn accept_run(&mut self, set: &[u8]) {
        while self.accept(set) {}
    }

    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || self.input[self.pos - 1] != b'i' {
                return self.bad_number();
            }
            return self.take(TokenKind::Complex);
        }
        self.take(TokenKind::Number)
    }

    fn bad_number(&mut self) -> Token {
        let text = strconv::quote(&self.input[self.start..self.pos]);
        self.error(format!("bad number syntax: {}", String::from_utf8_lossy(&text)))
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &[u8] = b"0123456789_";
        const HEX: &[u8] = b"0123456789abcdefABCDEF_";
        self.accept(b"+-");
        let mut digits = DECIMAL;
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = HEX;
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        if digits == DECIMAL && self.accept(b"eE") || digits == HEX && self.accept(b"pP") {
            self.accept(b"+-");
            self.accept_run(DECIMAL);
        }
        self.accept(b"i");
        if is_alphanumeric(self.peek()) {
            self.next();
            return false;
        }
        true
    }
}

fn newlines(text: &[u8]) -> usize {
    if text.len() < 16 {
        return text.iter().filter(|b| **b == b'\n').count();
    }
    memchr::memchr_iter(b'\n', text).count()
}

//! Reading one line of text, character by character.

use crate::template::{self, ParamPath};

/// A mistake in a line, at a byte of it.
#[derive(Clone, Debug)]
pub(crate) struct LineError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) offset: usize,
}

impl LineError {
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A place in a line.
#[derive(Clone, Copy)]
pub(crate) struct LineCursor<'t> {
    pub(crate) text: &'t str,
    pub(crate) at: usize,
}

impl<'t> LineCursor<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    pub(crate) fn eat_text(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    pub(crate) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// Takes characters as long as `wanted` says.
    pub(crate) fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Returns true if only spaces and a comment are left.
    pub(crate) fn at_end(&self) -> bool {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t']);
        trimmed.is_empty() || (trimmed.starts_with('#') && (trimmed.len() < rest.len() || self.at == 0))
    }

    pub(crate) fn error_here(&self, code: &'static str, message: impl Into<String>) -> LineError {
        LineError { code, message: message.into(), hint: None, offset: self.at }
    }

    /// The text at this place, for messages.
    pub(crate) fn text_here(&self) -> String {
        match self.peek() {
            Some(c) => format!("`{c}`"),
            None => "the end of the line".to_owned(),
        }
    }

    pub(crate) fn expect(&mut self, c: char) -> Result<(), LineError> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(self.error_here("KP003", format!("expected `{c}`, found {}", self.text_here())))
        }
    }

    /// Takes a `${…}`.
    pub(crate) fn reference(&mut self) -> Result<ParamPath, LineError> {
        let (path, end) = template::parse_reference(self.text, self.at).map_err(|wrong| LineError {
            code: wrong.code,
            message: wrong.message,
            hint: None,
            offset: wrong.offset,
        })?;
        self.at = end;
        Ok(path)
    }

    /// Takes a quoted text, if one starts here.
    pub(crate) fn quoted(&mut self) -> Result<Option<String>, LineError> {
        match self.peek() {
            Some('"') => self.double_quoted().map(Some),
            Some('\'') => self.single_quoted().map(Some),
            _ => Ok(None),
        }
    }

    fn single_quoted(&mut self) -> Result<String, LineError> {
        let start = *self;
        self.at += 1;
        let mut out = String::new();
        loop {
            out.push_str(self.take(|c| c != '\''));
            if !self.eat('\'') {
                return Err(start.error_here("KP004", "the quote is not closed"));
            }
            if !self.eat('\'') {
                return Ok(out);
            }
            out.push('\'');
        }
    }

    fn double_quoted(&mut self) -> Result<String, LineError> {
        let start = *self;
        self.at += 1;
        let mut out = String::new();
        loop {
            out.push_str(self.take(|c| c != '"' && c != '\\'));
            let Some(c) = self.peek() else {
                return Err(start.error_here("KP004", "the quote is not closed"));
            };
            self.at += c.len_utf8();
            if c == '"' {
                return Ok(out);
            }
            let Some(escape) = self.peek() else {
                return Err(start.error_here("KP004", "the quote is not closed"));
            };
            let place = *self;
            self.at += escape.len_utf8();
            let digits = match escape {
                'n' => {
                    out.push('\n');
                    continue;
                }
                't' => {
                    out.push('\t');
                    continue;
                }
                'r' => {
                    out.push('\r');
                    continue;
                }
                '0' => {
                    out.push('\0');
                    continue;
                }
                '"' | '\\' | '/' | ' ' => {
                    out.push(escape);
                    continue;
                }
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => return Err(place.error_here("KP004", format!("`\\{escape}` is no escape"))),
            };
            let code = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
            match code.and_then(char::from_u32) {
                Some(c) => out.push(c),
                None => return Err(place.error_here("KP004", "the escape is no character")),
            }
            self.at += digits;
        }
    }
}

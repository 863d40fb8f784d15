//! Scalars: plain, quoted and block, with their folding.

use std::borrow::Cow;

use super::{Result, ScalarStyle, Scanner, TextMark, Token, TokenKind, hex};

impl<'a> Scanner<'a> {
    pub(super) fn scan_block_scalar(&mut self, style: ScalarStyle) -> Result<()> {
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
            if style == ScalarStyle::Folded && leading_break == "\n" && !leading_blank && !trailing_blank {
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
        self.tokens.push_back(Token {
            kind: TokenKind::Scalar { value: Cow::Owned(value), style },
            start,
            end,
        });
        Ok(())
    }

    /// Moves to the end of the line.
    pub(super) fn skip_line_content(&mut self) {
        let rest = &self.bytes[self.pos.min(self.bytes.len())..];
        let line = &rest[..memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
        if line.is_ascii() {
            return self.skip_ascii(line.len());
        }
        // Breaks beyond ASCII.
        let other = |at: &usize| matches!(line[*at], 0xC2 | 0xE2) && self.break_at(self.pos + at) > 0;
        self.skip((0..line.len()).find(other).unwrap_or(line.len()));
    }

    pub(super) fn scan_block_breaks(
        &mut self,
        indent: &mut i64,
        breaks: &mut String,
        start: TextMark,
        end: &mut TextMark,
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

    pub(super) fn scan_quoted(&mut self, style: ScalarStyle) -> Result<()> {
        let context = "while scanning a quoted scalar";
        let start = self.mark();
        let single = style == ScalarStyle::SingleQuoted;
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
            self.push(TokenKind::Scalar { value, style }, start);
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
        self.push(TokenKind::Scalar { value: Cow::Owned(value), style }, start);
        Ok(())
    }

    pub(super) fn scan_escape(&mut self, start: TextMark, value: &mut String) -> Result<()> {
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

    pub(super) fn escaped(&mut self, value: &mut String, character: char) -> Result<()> {
        value.push(character);
        self.skip_ascii(2);
        Ok(())
    }

    pub(super) fn scan_plain(&mut self) -> Result<()> {
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
        self.tokens.push_back(Token {
            kind: TokenKind::Scalar { value, style: ScalarStyle::Plain },
            start,
            end,
        });
        if leading_blanks {
            self.simple_key_allowed = true;
        }
        Ok(())
    }

    /// Where the run of non-blank plain characters that starts at `from` ends.
    pub(super) fn plain_run_end(&self, from: usize) -> usize {
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

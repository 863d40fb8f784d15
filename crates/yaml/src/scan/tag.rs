//! Directives (`%YAML`, `%TAG`) and tags (`!!str`, `!local`, `!<uri>`).

use std::borrow::Cow;

use super::{Result, Scanner, TextMark, Token, TokenKind, hex, is_word};

impl<'a> Scanner<'a> {
    pub(super) fn scan_directive(&mut self) -> Result<()> {
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
                TokenKind::VersionDirective { major, minor }
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
                TokenKind::TagDirective { handle, prefix: Cow::Owned(prefix) }
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

    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip_ascii(1);
        }
    }

    pub(super) fn scan_version_number(&mut self, start: TextMark) -> Result<u32> {
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

    pub(super) fn fetch_tag(&mut self) -> Result<()> {
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
        self.push(TokenKind::Tag { handle, suffix: Cow::Owned(suffix) }, start);
        Ok(())
    }

    pub(super) fn tag_context(directive: bool) -> &'static str {
        if directive { "while parsing a %TAG directive" } else { "while parsing a tag" }
    }

    pub(super) fn scan_tag_handle(&mut self, directive: bool, start: TextMark) -> Result<Cow<'a, str>> {
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

    pub(super) fn scan_tag_uri(&mut self, directive: bool, head: &str, start: TextMark) -> Result<String> {
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

    pub(super) fn scan_uri_escape(
        &mut self,
        directive: bool,
        start: TextMark,
        uri: &mut Vec<u8>,
    ) -> Result<()> {
        let context = Self::tag_context(directive);
        let (Some(high), Some(low)) = (hex(self.at(1)), hex(self.at(2))) else {
            return Err(self.error(context, start, "did not find URI escaped octet"));
        };
        uri.push((high * 16 + low) as u8);
        self.skip_ascii(3);
        Ok(())
    }
}

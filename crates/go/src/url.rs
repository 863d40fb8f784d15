//! URLs as Go's `net/url` parses and prints them.

use super::unicode::to_valid;
use crate::GoError;

/// A parsed URL; every part is a byte string, the path and fragment are decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// Scheme in lower case.
    pub scheme: String,
    /// The text after the scheme when it is not a slash.
    pub opaque: Vec<u8>,
    /// User name and perhaps password.
    pub user: Option<UserInfo>,
    /// Host with port.
    pub host: Vec<u8>,
    /// Path, decoded.
    pub path: Vec<u8>,
    /// Path as written, when it differs from the default encoding.
    pub raw_path: Vec<u8>,
    /// A query mark without a query.
    pub force_query: bool,
    /// Query, encoded, without the mark.
    pub raw_query: Vec<u8>,
    /// Fragment, decoded.
    pub fragment: Vec<u8>,
    /// Fragment as written, when it differs from the default encoding.
    pub raw_fragment: Vec<u8>,
}

/// User information of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// A text that is no URL; prints as Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse {quoted}: {problem}")]
pub struct UrlError {
    quoted: String,
    problem: GoError,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

fn should_escape(byte: u8, mode: Mode) -> bool {
    if byte.is_ascii_alphanumeric() {
        return false;
    }
    if matches!(mode, Mode::Host | Mode::Zone)
        && matches!(
            byte,
            b'!' | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'['
                | b']'
                | b'<'
                | b'>'
                | b'"'
        )
    {
        return false;
    }
    match byte {
        b'-' | b'_' | b'.' | b'~' => false,
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match mode {
            Mode::Path => byte == b'?',
            Mode::User => matches!(byte, b'@' | b'/' | b'?' | b':'),
            Mode::Fragment => false,
            Mode::Host | Mode::Zone => true,
        },
        b'!' | b'(' | b')' | b'*' if mode == Mode::Fragment => false,
        _ => true,
    }
}

fn escape_text(text: &[u8], mode: Mode) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if should_escape(byte, mode) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

fn hex_value(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Go's `%q` of a string, for messages.
pub type QuoteFunction = fn(&[u8]) -> String;

struct Parser {
    quote: QuoteFunction,
}

impl Parser {
    fn unescape_text(&self, text: &[u8], mode: Mode) -> Result<Vec<u8>, GoError> {
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            if byte == b'%' {
                let high = text.get(at + 1).copied().and_then(hex_value);
                let low = text.get(at + 2).copied().and_then(hex_value);
                let sequence = &text[at..text.len().min(at + 3)];
                let (Some(high), Some(low)) = (high, low) else {
                    return Err(format!("invalid URL escape {}", (self.quote)(sequence)).into());
                };
                let value = high << 4 | low;
                // A host may hold only escaped non-ASCII bytes; a zone a few more.
                let in_host = mode == Mode::Host && high < 8 && sequence != b"%25";
                let in_zone = mode == Mode::Zone
                    && sequence != b"%25"
                    && value != b' '
                    && should_escape(value, Mode::Host);
                if in_host || in_zone {
                    return Err(format!("invalid URL escape {}", (self.quote)(sequence)).into());
                }
                out.push(value);
                at += 3;
                continue;
            }
            if matches!(mode, Mode::Host | Mode::Zone) && byte < 0x80 && should_escape(byte, mode) {
                let quoted = (self.quote)(&text[at..=at]);
                return Err(format!("invalid character {quoted} in host name").into());
            }
            out.push(byte);
            at += 1;
        }
        Ok(out)
    }

    fn parse_url(&self, raw: &[u8]) -> Result<Url, GoError> {
        let (text, fragment) = match raw.iter().position(|&byte| byte == b'#') {
            Some(at) => (&raw[..at], Some(&raw[at + 1..])),
            None => (raw, None),
        };
        let mut url = self.parse_base(text)?;
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            url.fragment = self.unescape_text(fragment, Mode::Fragment)?;
            if escape_text(&url.fragment, Mode::Fragment) != fragment {
                url.raw_fragment = fragment.to_vec();
            }
        }
        Ok(url)
    }

    fn parse_base(&self, text: &[u8]) -> Result<Url, GoError> {
        if text.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".into());
        }
        let mut url = Url::default();
        if text == b"*" {
            url.path = b"*".to_vec();
            return Ok(url);
        }
        let (scheme, mut rest) = split_scheme(text)?;
        url.scheme = String::from_utf8_lossy(scheme).to_ascii_lowercase();
        if rest.ends_with(b"?") && rest.iter().filter(|&&byte| byte == b'?').count() == 1 {
            url.force_query = true;
            rest = &rest[..rest.len() - 1];
        } else if let Some(at) = rest.iter().position(|&byte| byte == b'?') {
            url.raw_query = rest[at + 1..].to_vec();
            rest = &rest[..at];
        }
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            // "a:b" is neither a scheme with something nor a relative path.
            let segment = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
            if segment.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".into());
            }
        }
        if (!url.scheme.is_empty() || !rest.starts_with(b"///")) && rest.starts_with(b"//") {
            let end = rest[2..].iter().position(|&byte| byte == b'/').map_or(rest.len(), |at| at + 2);
            let authority = &rest[2..end];
            rest = &rest[end..];
            (url.user, url.host) = self.parse_authority(authority)?;
        }
        url.path = self.unescape_text(rest, Mode::Path)?;
        if escape_text(&url.path, Mode::Path) != rest {
            url.raw_path = rest.to_vec();
        }
        Ok(url)
    }

    fn parse_authority(&self, text: &[u8]) -> Result<(Option<UserInfo>, Vec<u8>), GoError> {
        let Some(at) = text.iter().rposition(|&byte| byte == b'@') else {
            return Ok((None, self.parse_host(text)?));
        };
        let host = self.parse_host(&text[at + 1..])?;
        let info = &text[..at];
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
        if !info.iter().all(allowed) {
            return Err("net/url: invalid userinfo".into());
        }
        let user = match info.iter().position(|&byte| byte == b':') {
            None => UserInfo { name: self.unescape_text(info, Mode::User)?, password: None },
            Some(colon) => UserInfo {
                name: self.unescape_text(&info[..colon], Mode::User)?,
                password: Some(self.unescape_text(&info[colon + 1..], Mode::User)?),
            },
        };
        Ok((Some(user), host))
    }

    fn parse_host(&self, text: &[u8]) -> Result<Vec<u8>, GoError> {
        let bad_port = |port: &[u8]| GoError::new(format!("invalid port {} after host", (self.quote)(port)));
        if text.starts_with(b"[") {
            let Some(end) = text.iter().rposition(|&byte| byte == b']') else {
                return Err("missing ']' in host".into());
            };
            let port = &text[end + 1..];
            if !is_port(port) {
                return Err(bad_port(port));
            }
            // A zone may be percent-encoded in its own way.
            if let Some(zone) = super::strings::find(&text[..end], b"%25") {
                let mut host = self.unescape_text(&text[..zone], Mode::Host)?;
                host.extend(self.unescape_text(&text[zone..end], Mode::Zone)?);
                host.extend(self.unescape_text(&text[end..], Mode::Host)?);
                return Ok(host);
            }
        } else if let Some(colon) = text.iter().rposition(|&byte| byte == b':')
            && !is_port(&text[colon..])
        {
            return Err(bad_port(&text[colon..]));
        }
        self.unescape_text(text, Mode::Host)
    }
}

fn is_port(port: &[u8]) -> bool {
    port.is_empty() || (port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit))
}

fn split_scheme(text: &[u8]) -> Result<(&[u8], &[u8]), GoError> {
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok((b"", text))
}

impl Url {
    /// Parses a URL reference; `quote` is Go's `%q`, which the messages use.
    pub fn parse(text: &[u8], quote: QuoteFunction) -> Result<Self, UrlError> {
        Parser { quote }.parse_url(text).map_err(|problem| {
            // The message shows the text up to the fragment when the fragment is not at fault.
            let shown = match text.iter().position(|&byte| byte == b'#') {
                Some(at) if Parser { quote }.parse_base(&text[..at]).is_err() => &text[..at],
                _ => text,
            };
            UrlError { quoted: quote(shown), problem }
        })
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> Vec<u8> {
        let host = &self.host;
        let without_port = match host.iter().rposition(|&byte| byte == b':') {
            Some(colon) if is_port(&host[colon..]) => &host[..colon],
            _ => host,
        };
        match without_port {
            [b'[', inner @ .., b']'] => inner.to_vec(),
            _ => without_port.to_vec(),
        }
    }

    fn escaped_path(&self) -> Vec<u8> {
        let parser = Parser { quote: |text| to_valid(text) };
        let valid = |byte: &u8| b"!$&'()*+,;=:@[]%".contains(byte) || !should_escape(*byte, Mode::Path);
        if !self.raw_path.is_empty()
            && self.raw_path.iter().all(valid)
            && parser.unescape_text(&self.raw_path, Mode::Path).is_ok_and(|path| path == self.path)
        {
            return self.raw_path.clone();
        }
        if self.path == b"*" { b"*".to_vec() } else { escape_text(&self.path, Mode::Path) }
    }

    /// The URL as text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(self.scheme.as_bytes());
            out.push(b':');
        }
        if self.opaque.is_empty() {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    out.extend_from_slice(b"//");
                }
                if let Some(user) = &self.user {
                    out.extend_from_slice(&user.to_bytes());
                    out.push(b'@');
                }
                out.extend_from_slice(&escape_text(&self.host, Mode::Host));
            }
            let path = self.escaped_path();
            if !path.is_empty() && path[0] != b'/' && !self.host.is_empty() {
                out.push(b'/');
            }
            // A first segment with a colon would read as a scheme.
            if out.is_empty()
                && path.split(|&byte| byte == b'/').next().is_some_and(|segment| segment.contains(&b':'))
            {
                out.extend_from_slice(b"./");
            }
            out.extend_from_slice(&path);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if self.force_query || !self.raw_query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.raw_query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            if self.raw_fragment.is_empty() {
                out.extend_from_slice(&escape_text(&self.fragment, Mode::Fragment));
            } else {
                out.extend_from_slice(&self.raw_fragment);
            }
        }
        out
    }
}

impl UserInfo {
    /// `name` or `name:password`, encoded.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = escape_text(&self.name, Mode::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape_text(password, Mode::User));
        }
        out
    }
}

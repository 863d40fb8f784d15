//! Text to tokens.

mod literal;

use std::sync::Arc;

use crate::error::{CelError, CelErrorKind};

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Ident(Arc<str>),
    /// An identifier between backquotes, which may be any field name.
    Quoted(Arc<str>),
    Int(u64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    True,
    False,
    Null,
    In,
    /// An operator or a bracket.
    Punct(&'static str),
    End,
}

impl Token {
    /// Returns the name of the token in errors.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Ident(name) => format!("'{name}'"),
            Self::Quoted(name) => format!("'`{name}`'"),
            Self::Int(number) => format!("'{number}'"),
            Self::Uint(number) => format!("'{number}u'"),
            Self::Double(number) => format!("'{number}'"),
            Self::String(_) => "a string".to_owned(),
            Self::Bytes(_) => "bytes".to_owned(),
            Self::True => "'true'".to_owned(),
            Self::False => "'false'".to_owned(),
            Self::Null => "'null'".to_owned(),
            Self::In => "'in'".to_owned(),
            Self::Punct(text) => format!("'{text}'"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The longest first, so that a prefix does not win.
const PUNCTUATION: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}",
];

/// Splits a text into tokens with their offsets; the last is [`Token::End`].
pub(crate) fn lex(text: &str) -> Result<Vec<(Token, u32)>, CelError> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::with_capacity(text.len() / 3 + 2);
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let byte = bytes[at];
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            _ => {}
        }
        let (token, length) = if byte == b'"' || byte == b'\'' || literal::has_prefix(rest) {
            literal::quoted(rest, at)?
        } else if byte.is_ascii_digit() || (byte == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
        {
            literal::number(rest, at)?
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
            (word(&rest[..length]), length)
        } else if byte == b'`' {
            backquoted(rest, at)?
        } else if let Some(found) = PUNCTUATION.iter().find(|text| rest.starts_with(**text)) {
            (Token::Punct(found), found.len())
        } else {
            let character = rest.chars().next().unwrap_or_default();
            let mut message = format!("Syntax error: token recognition error at: '{character}'");
            let hint = match character {
                '=' => Some("`==` compares".to_owned()),
                '&' => Some("`&&` is and".to_owned()),
                '|' => Some("`||` is or".to_owned()),
                '$' => Some("expressions use plain names: `vars.NAME`, not `${NAME}`".to_owned()),
                _ => None,
            };
            message.truncate(200);
            return Err(CelError::new(CelErrorKind::Syntax, at, message).hint(hint));
        };
        tokens.push((token, at as u32));
        at += length;
    }
    tokens.push((Token::End, text.len() as u32));
    Ok(tokens)
}

fn word(text: &str) -> Token {
    match text {
        "true" => Token::True,
        "false" => Token::False,
        "null" => Token::Null,
        "in" => Token::In,
        _ => Token::Ident(text.into()),
    }
}

fn backquoted(rest: &str, at: usize) -> Result<(Token, usize), CelError> {
    let inner = &rest[1..];
    let length = inner.find('`').unwrap_or(inner.len());
    let name = &inner[..length];
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_./- ".contains(&b);
    if length == inner.len() || name.is_empty() || !name.bytes().all(allowed) {
        let message =
            "Syntax error: a quoted name holds letters, digits and `_./- `, and ends with a backquote";
        return Err(CelError::new(CelErrorKind::Syntax, at, message));
    }
    Ok((Token::Quoted(name.into()), length + 2))
}

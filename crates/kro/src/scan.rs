//! Finds expressions in text: `${e}` is one, `$${` is a literal `${`.

use std::borrow::Cow;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<'t> {
    Text(Cow<'t, str>),
    /// The expression between the braces, and where it begins in the text.
    Expression {
        source: &'t str,
        offset: usize,
    },
}

/// An expression whose closing brace is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expression that begins at character {offset} has no closing brace")]
pub struct UnterminatedExpression {
    /// In bytes from the start of the text.
    pub offset: usize,
}

/// Splits a text into what stands as it is and the expressions in it.
///
/// Braces within the string literals of an expression do not count. Of several dollar signs before a brace one is
/// taken away and the rest stands, so that a Graph can hold a Graph.
pub fn scan(text: &str) -> Result<Vec<Segment<'_>>, UnterminatedExpression> {
    let bytes = text.as_bytes();
    let mut segments = Vec::new();
    let mut literal: Cow<'_, str> = Cow::Borrowed("");
    let (mut start, mut at) = (0, 0);
    let push = |literal: &mut Cow<'_, str>, part: &str| {
        if !part.is_empty() {
            literal.to_mut().push_str(part);
        }
    };
    while at < bytes.len() {
        if bytes[at] != b'$' {
            at += 1;
            continue;
        }
        let dollars = bytes[at..].iter().take_while(|byte| **byte == b'$').count();
        let open = at + dollars;
        if bytes.get(open) != Some(&b'{') {
            at = open;
            continue;
        }
        if dollars > 1 {
            push(&mut literal, &text[start..at]);
            start = at + 1;
            at = open + 1;
            continue;
        }
        push(&mut literal, &text[start..at]);
        let end = closing_brace(bytes, open + 1).ok_or(UnterminatedExpression { offset: at })?;
        if !literal.is_empty() {
            segments.push(Segment::Text(std::mem::take(&mut literal)));
        }
        segments.push(Segment::Expression { source: &text[open + 1..end], offset: open + 1 });
        at = end + 1;
        start = at;
    }
    if start == 0 && segments.is_empty() {
        return Ok(vec![Segment::Text(Cow::Borrowed(text))]);
    }
    push(&mut literal, &text[start..]);
    if !literal.is_empty() || segments.is_empty() {
        segments.push(Segment::Text(literal));
    }
    Ok(segments)
}

/// Finds the brace that closes the one before `at`.
fn closing_brace(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            quote @ (b'"' | b'\'') => {
                at = literal_end(bytes, at, quote)?;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Finds the end of the string literal that begins at `at`.
fn literal_end(bytes: &[u8], at: usize, quote: u8) -> Option<usize> {
    let is_raw = is_raw(bytes, at);
    let width = if bytes[at..].starts_with(&[quote; 3]) { 3 } else { 1 };
    let mut end = at + width;
    while end < bytes.len() {
        if bytes[end] == b'\\' && !is_raw {
            end += 2;
        } else if bytes[end..].starts_with(&[quote; 3][..width]) {
            return Some(end + width);
        } else {
            end += 1;
        }
    }
    None
}

/// Whether the literal that begins at `at` has an `r` before it that is not the end of a name.
fn is_raw(bytes: &[u8], at: usize) -> bool {
    let prefix =
        bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let prefix = &bytes[at - prefix..at];
    prefix.len() <= 2
        && prefix.iter().any(|byte| matches!(byte, b'r' | b'R'))
        && prefix.iter().all(|byte| matches!(byte, b'r' | b'R' | b'b' | b'B'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, UnterminatedExpression> {
        let piece = |segment: &Segment<'_>| match segment {
            Segment::Text(text) => format!("[{text}]"),
            Segment::Expression { source, .. } => format!("<{source}>"),
        };
        Ok(scan(text)?.iter().map(piece).collect())
    }

    #[test]
    fn texts_are_split_into_literals_and_expressions() {
        for (text, expected) in [
            ("plain", "[plain]"),
            ("", "[]"),
            ("${a.b}", "<a.b>"),
            ("x-${a}-y", "[x-]<a>[-y]"),
            ("${a}${b}", "<a><b>"),
            ("${ {'k': 1}.k }", "< {'k': 1}.k >"),
            (r#"${"}" + '{'}"#, r#"<"}" + '{'>"#),
            (r#"${"\"}"}z"#, r#"<"\"}">[z]"#),
            (r#"${r"\"}z"#, r#"<r"\">[z]"#),
            ("${'''a'}'''}", "<'''a'}'''>"),
            ("$${x}", "[${x}]"),
            ("$$${x}", "[$${x}]"),
            ("a$${x}b${c}", "[a${x}b]<c>"),
            ("cost $5 {x}", "[cost $5 {x}]"),
            ("$", "[$]"),
            ("$$", "[$$]"),
            ("ü${ü}", "[ü]<ü>"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_expression_without_its_closing_brace_is_found() {
        for (text, offset) in [("a ${b", 2), ("${'}", 0), ("${{}", 0), ("${a} ${", 5)] {
            assert_eq!(scan(text), Err(UnterminatedExpression { offset }), "{text}");
        }
    }
}

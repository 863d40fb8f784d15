//! `.env` files: `KEY=VALUE` lines, `export`, comments, single quotes as they are, double quotes with escapes. No
//! variable is expanded.

use std::collections::BTreeMap;

/// The line a file cannot be read at. The line itself is not repeated: it holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct DotenvError {
    pub(crate) line: usize,
    pub(crate) reason: &'static str,
}

/// Reads a file; a key given twice has its last value.
pub(crate) fn parse_dotenv(text: &str) -> Result<BTreeMap<String, String>, DotenvError> {
    let mut values = BTreeMap::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let wrong = |reason| DotenvError { line: index + 1, reason };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("expected KEY=VALUE"))?;
        let key = key.trim_end();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        if !is_key {
            return Err(wrong("the key has characters it cannot have"));
        }
        let value = value.trim_start();
        let value = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                // A quoted value may go on over several lines.
                let mut quoted = value[1..].to_owned();
                while closing(&quoted, quote).is_none() {
                    let (_, next) = lines.next().ok_or_else(|| wrong("the quote is not closed"))?;
                    quoted.push('\n');
                    quoted.push_str(next);
                }
                let end = closing(&quoted, quote).unwrap_or(quoted.len());
                let after = quoted[end + 1..].trim_start();
                if !(after.is_empty() || after.starts_with('#')) {
                    return Err(wrong("something follows the closing quote"));
                }
                let inner = &quoted[..end];
                if quote == '"' { unescape(inner) } else { inner.to_owned() }
            }
            _ => value.split_once(" #").map_or(value, |(before, _)| before).trim_end().to_owned(),
        };
        values.insert(key.to_owned(), value);
    }
    Ok(values)
}

/// The place of the quote that ends a value.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(c @ ('"' | '\\' | '$')) => out.push(c),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_comments_and_exports_are_understood() {
        let text = "\u{feff}# comment\nA=1\nexport B = two # note\nC='single $X \\n'\nD=\"a\\n\\\"b\\\" \\$c \\\\\" # x\n\
                    E=\"one\ntwo\"\nF=\nG=a#b\nA=last\n";
        let values = parse_dotenv(text).unwrap();
        let get = |key: &str| values[key].as_str();
        assert_eq!(get("A"), "last");
        assert_eq!(get("B"), "two");
        assert_eq!(get("C"), "single $X \\n");
        assert_eq!(get("D"), "a\n\"b\" $c \\");
        assert_eq!(get("E"), "one\ntwo");
        assert_eq!(get("F"), "");
        assert_eq!(get("G"), "a#b");
    }

    #[test]
    fn mistakes_name_the_line_and_no_value() {
        for (text, line) in
            [("A=1\nhunter2\n", 2), ("A=\"open\n", 1), ("A='x' y\n", 1), ("A B=1\n", 1), ("=1\n", 1)]
        {
            let error = parse_dotenv(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}

//! Shell patterns and file paths as Go's `path/filepath` treats them on Unix.

use crate::path;

/// The pattern is malformed; prints as Go's `filepath.ErrBadPattern`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Tells whether `name` matches the shell pattern (`*`, `?`, `[a-z]`, `[^a]`, `\` escape); `*` and
/// `?` do not match `/`.
pub fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let mut pattern = pattern.as_bytes();
    let mut name = name.as_bytes();
    'pattern: while !pattern.is_empty() {
        let (star, chunk, rest) = scan_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            return Ok(!name.contains(&b'/'));
        }
        if let Some(left) = match_chunk(chunk, name)?
            && (left.is_empty() || !pattern.is_empty())
        {
            name = left;
            continue;
        }
        if star {
            let mut skip = 0;
            while skip < name.len() && name[skip] != b'/' {
                if let Some(left) = match_chunk(chunk, &name[skip + 1..])? {
                    if pattern.is_empty() && !left.is_empty() {
                        skip += 1;
                        continue;
                    }
                    name = left;
                    continue 'pattern;
                }
                skip += 1;
            }
        }
        // The rest is still checked for syntax, as Go does.
        while !pattern.is_empty() {
            let (_, chunk, rest) = scan_chunk(pattern);
            pattern = rest;
            match_chunk(chunk, b"")?;
        }
        return Ok(false);
    }
    Ok(name.is_empty())
}

fn scan_chunk(pattern: &[u8]) -> (bool, &[u8], &[u8]) {
    let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
    let pattern = &pattern[stars..];
    let mut in_range = false;
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'\\' if at + 1 < pattern.len() => at += 1,
            b'[' => in_range = true,
            b']' => in_range = false,
            b'*' if !in_range => break,
            _ => {}
        }
        at += 1;
    }
    (stars > 0, &pattern[..at.min(pattern.len())], &pattern[at.min(pattern.len())..])
}

/// Gives what is left of `name` after `chunk`, or nothing if it does not match.
fn match_chunk<'n>(mut chunk: &[u8], mut name: &'n [u8]) -> Result<Option<&'n [u8]>, BadPattern> {
    let mut failed = false;
    while !chunk.is_empty() {
        failed |= name.is_empty();
        match chunk[0] {
            b'[' => {
                let mut letter = None;
                if !failed {
                    let (found, size) = decode_rune(name);
                    letter = found;
                    name = &name[size..];
                }
                chunk = &chunk[1..];
                let negated = chunk.first() == Some(&b'^');
                if negated {
                    chunk = &chunk[1..];
                }
                let mut matched = false;
                let mut ranges = 0;
                loop {
                    if chunk.first() == Some(&b']') && ranges > 0 {
                        chunk = &chunk[1..];
                        break;
                    }
                    let (low, rest) = range_end(chunk)?;
                    chunk = rest;
                    let mut high = low;
                    if chunk.first() == Some(&b'-') {
                        (high, chunk) = range_end(&chunk[1..])?;
                    }
                    if letter.is_some_and(|letter| low <= letter && letter <= high) {
                        matched = true;
                    }
                    ranges += 1;
                }
                failed |= matched == negated;
            }
            b'?' => {
                if !failed {
                    failed |= name[0] == b'/';
                    let (_, size) = decode_rune(name);
                    name = &name[size..];
                }
                chunk = &chunk[1..];
            }
            byte => {
                let mut byte = byte;
                if byte == b'\\' {
                    chunk = &chunk[1..];
                    byte = *chunk.first().ok_or(BadPattern)?;
                }
                if !failed {
                    failed |= byte != name[0];
                    name = &name[1..];
                }
                chunk = &chunk[1..];
            }
        }
    }
    Ok((!failed).then_some(name))
}

fn range_end(chunk: &[u8]) -> Result<(char, &[u8]), BadPattern> {
    let mut chunk = chunk;
    match chunk.first() {
        None | Some(b'-' | b']') => return Err(BadPattern),
        Some(b'\\') => {
            chunk = &chunk[1..];
            if chunk.is_empty() {
                return Err(BadPattern);
            }
        }
        Some(_) => {}
    }
    let (letter, size) = decode_rune(chunk);
    let rest = &chunk[size..];
    match letter {
        Some(letter) if !rest.is_empty() => Ok((letter, rest)),
        _ => Err(BadPattern),
    }
}

fn decode_rune(bytes: &[u8]) -> (Option<char>, usize) {
    let window = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(letter) => (Some(letter), letter.len_utf8()),
        None => (None, 1),
    }
}

/// Returns the last element of a path; `.` for the empty path, `/` for one of slashes only.
pub fn base(path: &str) -> &str {
    as_text(path::base(path.as_bytes()))
}

/// Returns the extension of the last element with its dot, or nothing.
pub fn ext(path: &str) -> &str {
    as_text(path::ext(path.as_bytes()))
}

/// Returns the shortest path naming the same thing: no `.`, no doubled `/`, `..` resolved where possible.
pub fn clean(path: &str) -> String {
    as_text(&path::clean(path.as_bytes())).to_owned()
}

/// Views a part of a text as text again: paths are cut at ASCII characters only.
fn as_text(part: &[u8]) -> &str {
    std::str::from_utf8(part).unwrap_or_default()
}

/// Tells whether a text names a file in a directory and nothing outside it, on any system.
pub fn is_file_name(text: &str) -> bool {
    !text.is_empty()
        && text != "."
        && text != ".."
        && !text.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, expected) in [
            ("abc", "abc", Ok(true)),
            ("*", "abc", Ok(true)),
            ("*c", "abc", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*/b", "abc/b", Ok(true)),
            ("a*/b", "a/c/b", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[^b-d]", "abc", Ok(false)),
            ("a\\*b", "a*b", Ok(true)),
            ("a???b", "a☺b", Ok(false)),
            ("a?b", "a☺b", Ok(true)),
            ("a[^a]b", "a☺b", Ok(true)),
            ("[]a]", "]", Err(BadPattern)),
            ("[\\]a]", "]", Ok(true)),
            ("[x-]", "x", Err(BadPattern)),
            ("[a-b-c]", "a", Err(BadPattern)),
            ("a[", "a", Err(BadPattern)),
            ("a[", "ab", Err(BadPattern)),
            ("*x", "xxx", Ok(true)),
            ("templates/.?*", "templates/.x", Ok(true)),
            ("templates/.?*", "templates/.", Ok(false)),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn paths_are_taken_apart_as_in_go() {
        for (path, expected_base, expected_ext, expected_clean) in [
            ("a/b.tar.gz", "b.tar.gz", ".gz", "a/b.tar.gz"),
            ("", ".", "", "."),
            ("/", "/", "", "/"),
            ("a/../../b/./c//", "c", "", "../b/c"),
            ("/../x", "x", "", "/x"),
        ] {
            assert_eq!(base(path), expected_base, "{path}");
            assert_eq!(ext(path), expected_ext, "{path}");
            assert_eq!(clean(path), expected_clean, "{path}");
        }
    }

    #[test]
    fn file_names_stay_in_their_directory() {
        for (text, expected) in
            [("a", true), ("a..b", true), ("..", false), (".", false), ("", false), ("a/b", false)]
        {
            assert_eq!(is_file_name(text), expected, "{text}");
        }
        for text in ["..\\a", "C:a", "a\nb", "a\0"] {
            assert!(!is_file_name(text), "{text:?}");
        }
    }
}

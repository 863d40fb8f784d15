//! The patterns of `.Files.Glob`.

use regex::bytes::Regex;

/// A pattern: `*` and `?` stop at `/`, `**` does not; `[abc]`, `[a-z]`, `[!a]`, `{a,b}`, `\` escape.
pub(super) struct GlobPattern {
    matcher: Matcher,
}

enum Matcher {
    /// A malformed pattern shows every file.
    Everything,
    /// `text**text`: start and end are looked at separately and may overlap.
    Ends(String, String),
    Pattern(Box<Regex>),
}

impl GlobPattern {
    pub(super) fn new(pattern: &str) -> Self {
        let matcher = match translate(pattern) {
            None => Matcher::Everything,
            Some(Translated::Ends(start, end)) => Matcher::Ends(start, end),
            Some(Translated::Pattern(text)) => match Regex::new(&text) {
                Ok(regex) => Matcher::Pattern(Box::new(regex)),
                Err(_) => Matcher::Everything,
            },
        };
        Self { matcher }
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        match &self.matcher {
            Matcher::Everything => true,
            Matcher::Ends(start, end) => name.starts_with(start) && name.ends_with(end),
            Matcher::Pattern(regex) => regex.is_match(name.as_bytes()),
        }
    }
}

enum Translated {
    Ends(String, String),
    Pattern(String),
}

fn translate(pattern: &str) -> Option<Translated> {
    let mut regex = String::from("(?s)^(?:");
    let mut literals = vec![String::new()];
    let mut only_double_stars = true;
    let mut open_braces = 0_usize;
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => {
                if letters.peek() == Some(&'*') {
                    while letters.peek() == Some(&'*') {
                        letters.next();
                    }
                    // Bytes will do where any number of characters does, and cost far less to prepare.
                    regex.push_str("(?-u:.)*");
                    literals.push(String::new());
                } else {
                    regex.push_str("(?-u:[^/])*");
                    only_double_stars = false;
                }
            }
            '?' => {
                regex.push_str("[^/]");
                only_double_stars = false;
            }
            '[' => {
                regex.push_str(&class(&mut letters)?);
                only_double_stars = false;
            }
            '{' => {
                open_braces += 1;
                regex.push_str("(?:");
                only_double_stars = false;
            }
            '}' if open_braces > 0 => {
                open_braces -= 1;
                regex.push(')');
            }
            ',' if open_braces > 0 => regex.push('|'),
            letter => {
                let literal = if letter == '\\' { letters.next().unwrap_or('\\') } else { letter };
                regex.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                if let Some(last) = literals.last_mut() {
                    last.push(literal);
                }
            }
        }
    }
    if open_braces > 0 {
        return None;
    }
    if only_double_stars && literals.len() == 2 && literals.iter().all(|literal| !literal.is_empty()) {
        let end = literals.pop()?;
        return Some(Translated::Ends(literals.pop()?, end));
    }
    regex.push_str(")$");
    Some(Translated::Pattern(regex))
}

fn class(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let negated = letters.next_if_eq(&'!').is_some();
    let mut members: Vec<char> = Vec::new();
    let mut escaped = false;
    loop {
        match letters.next()? {
            ']' => break,
            '\\' => {
                escaped = true;
                members.push(letters.next()?);
            }
            letter => members.push(letter),
        }
    }
    let inside = match members.as_slice() {
        [] => return None,
        [low, '-', high] if !escaped => {
            if low > high {
                return None;
            }
            format!("{}-{}", escape(*low), escape(*high))
        }
        [_, '-', ..] if !escaped => return None,
        members => members.iter().map(|member| escape(*member)).collect(),
    };
    Some(format!("[{}{inside}]", if negated { "^" } else { "" }))
}

fn escape(letter: char) -> String {
    format!("\\u{{{:x}}}", u32::from(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_the_files_helm_chooses() {
        let files = ["a.txt", "b.md", "d/a.txt", "d/e/a.txt", "d/e/f.yaml", ".hid", "x[1].txt", "{q}"];
        let all = files.join(" ");
        let cases: &[(&str, &str)] = &[
            ("*", "a.txt b.md .hid x[1].txt {q}"),
            ("**", &all),
            ("*.txt", "a.txt x[1].txt"),
            ("**.txt", "a.txt d/a.txt d/e/a.txt x[1].txt"),
            ("d/*", "d/a.txt"),
            ("d/**", "d/a.txt d/e/a.txt d/e/f.yaml"),
            ("d/**/a.txt", "d/a.txt d/e/a.txt"),
            ("**/a.txt", "d/a.txt d/e/a.txt"),
            ("?.txt", "a.txt"),
            ("[ab].*", "a.txt b.md"),
            ("[!a].md", "b.md"),
            ("{a,b}.*", "a.txt b.md"),
            ("d/{a,e/a}.txt", "d/a.txt d/e/a.txt"),
            ("d/*/*", "d/e/a.txt d/e/f.yaml"),
            ("", ""),
            ("d", ""),
            ("x\\[1\\].txt", "x[1].txt"),
            ("{*.txt,*.md}", "a.txt b.md x[1].txt"),
            ("**/*.txt", "d/a.txt d/e/a.txt"),
            ("[", &all),
        ];
        for (pattern, expected) in cases {
            let glob = GlobPattern::new(pattern);
            let found: Vec<_> = files.into_iter().filter(|name| glob.matches(name)).collect();
            assert_eq!(found.join(" "), *expected, "{pattern}");
        }
    }
}

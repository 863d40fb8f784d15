//! Brackets that are opened and never closed: the reader notices at the end of the text, which is not
//! where the mistake is.

use slipway_problem::{Location, Problem};

use crate::report::coded_error;

/// The line and column, from 1, of the last `{` or `[` of `text` that is not closed.
fn find_unclosed(text: &str) -> Option<(char, u32, u32)> {
    let mut open: Vec<(char, u32, u32)> = Vec::new();
    let mut quote: Option<char> = None;
    for (number, line) in text.lines().enumerate() {
        let mut before = ' ';
        let mut escaped = false;
        for (at, letter) in line.chars().enumerate() {
            match (quote, letter) {
                (Some('"'), '\\') if !escaped => {
                    escaped = true;
                    continue;
                }
                (Some(end), letter) if letter == end && !escaped => quote = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => break,
                (None, '"' | '\'') if before.is_whitespace() || "{[,:".contains(before) => {
                    quote = Some(letter);
                }
                // `${name}` is a reference, not a mapping.
                (None, '{' | '[') if before != '$' || letter == '[' => {
                    open.push((letter, number as u32 + 1, at as u32 + 1));
                }
                (None, '{') => open.push(('$', 0, 0)),
                (None, '}' | ']') => {
                    open.pop();
                }
                (None, _) => {}
            }
            escaped = false;
            before = letter;
        }
    }
    open.into_iter().rev().find(|(letter, ..)| *letter != '$')
}

/// Moves a problem that shows at the end of `text` to the bracket that is not closed. Lines of `text` are
/// counted from 1.
pub(super) fn relocate_problem(problem: Problem, text: &str) -> Problem {
    let lines = text.lines().count() as u32;
    let at_end = problem.at.as_ref().is_some_and(|at| at.line >= lines);
    match (find_unclosed(text), &problem.at) {
        (Some((letter, line, column)), Some(at)) if at_end => {
            let end = if letter == '{' { '}' } else { ']' };
            coded_error("KP020", format!("`{letter}` is not closed"))
                .at(Location::new(at.file.clone(), line, column))
                .hint(format!("add `{end}`"))
        }
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bracket_that_is_not_closed() {
        for (text, expected) in [
            ("{a: 1", Some(('{', 1, 1))),
            ("{a: [1, 2}", Some(('{', 1, 1))),
            ("{a: 1}", None),
            ("a: ${b}", None),
            ("a: '{'", None),
            ("a: \"\\\"{\"", None),
            ("a: b # {", None),
            ("x:\n  - {a: 1\n  - b", Some(('{', 2, 5))),
        ] {
            assert_eq!(find_unclosed(text), expected, "{text}");
        }
    }
}

//! Control characters of foreign texts, made visible, and our own colours, which pass.
//!
//! A chart's name, a server's message or a workload's log may hold escapes that move the cursor, rename the
//! window or answer questions on the user's behalf. Our own colours travel as marks until a stream is chosen,
//! so that they can be told from those.

use std::fmt::Write as _;

/// Stands for the escape character in front of our own colours. A noncharacter: no text has a use for it.
const MARK: char = '\u{fdd0}';
/// What our styles and those of the help texts are made of.
const COLORS: [&str; 8] = ["0", "1", "2", "4", "31", "32", "33", "36"];

/// Tells what becomes of our own colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    Keep,
    Drop,
}

/// Tells what becomes of control characters that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controls {
    /// They are data, and pass.
    Keep,
    /// They are shown: `\x1b`. Line breaks and tabs stay.
    Show,
}

/// Marks the colours of a text of ours; any other escape in it is somebody else's.
pub fn mark(styled: &str) -> String {
    let mut parts = styled.split('\u{1b}');
    let mut marked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        marked.push(if color(part).is_some() { MARK } else { '\u{1b}' });
        marked.push_str(part);
    }
    marked
}

/// Turns a text with marks into what a stream gets.
pub fn settle(text: &str, colors: Colors, controls: Controls) -> String {
    let mut settled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c| c == MARK || (controls == Controls::Show && is_active(c))) {
        settled.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(character) = rest.chars().next() else { break };
        let after = &rest[character.len_utf8()..];
        if character == MARK
            && let Some((color, behind)) = color(after)
        {
            if colors == Colors::Keep {
                let _ = write!(settled, "\u{1b}[{color}m");
            }
            rest = behind;
            continue;
        }
        if character == '\r' && after.starts_with('\n') {
            // The line break alone says it.
        } else if character == MARK && controls == Controls::Keep {
            settled.push(character);
        } else if character < ' ' {
            let _ = write!(settled, "\\x{:02x}", u32::from(character));
        } else {
            // In JSON's own form: it may stand in a text of JSON, where the others never are.
            let _ = write!(settled, "\\u{:04x}", u32::from(character));
        }
        rest = after;
    }
    settled.push_str(rest);
    settled
}

/// The parameters of one of our colours at the beginning of a text, and what follows.
fn color(text: &str) -> Option<(&str, &str)> {
    let (parameters, behind) = text.strip_prefix('[')?.split_once('m')?;
    parameters.split(';').all(|part| COLORS.contains(&part)).then_some((parameters, behind))
}

/// Whether a terminal would act on a character instead of showing it. Those that turn the direction of writing
/// count too: they make a text look like another.
fn is_active(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        character => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_our_colours_pass() {
        let red = mark("\u{1b}[1m\u{1b}[31m");
        let end = mark("\u{1b}[0m");
        for (text, kept, dropped) in [
            ("plain\ttext\n".to_owned(), "plain\ttext\n", "plain\ttext\n"),
            (format!("{red}bad{end}"), "\u{1b}[1m\u{1b}[31mbad\u{1b}[0m", "bad"),
            (mark("\u{1b}]0;title\u{7}"), "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"),
            ("\u{1b}[31mred".to_owned(), "\\x1b[31mred", "\\x1b[31mred"),
            ("\u{1b}]0;title\u{7}".to_owned(), "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"),
            ("a\rb\r\nc".to_owned(), "a\\x0db\nc", "a\\x0db\nc"),
            ("\u{9b}2J\u{7f}\u{202e}".to_owned(), "\\u009b2J\\u007f\\u202e", "\\u009b2J\\u007f\\u202e"),
            ("\u{fdd0}[8m\u{fdd0}".to_owned(), "\\ufdd0[8m\\ufdd0", "\\ufdd0[8m\\ufdd0"),
        ] {
            assert_eq!(settle(&text, Colors::Keep, Controls::Show), kept);
            assert_eq!(settle(&text, Colors::Drop, Controls::Show), dropped);
        }
    }

    #[test]
    fn data_for_a_pipe_keeps_its_bytes() {
        let text = "\u{1b}[2J\u{fdd0}x\r\n\u{7}";
        assert_eq!(settle(text, Colors::Drop, Controls::Keep), text);
    }
}

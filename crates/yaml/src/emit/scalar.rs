//! How a string is written: which style it takes and what that style does to it.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::WriterDialect;
use crate::resolve::{ResolvedScalar, ScalarRules, is_base60, resolve};

/// What a string allows.
#[derive(Clone, Copy, Debug)]
struct TextAnalysis {
    plain: bool,
    single: bool,
    block: bool,
    /// Contains a line break of any kind.
    multiline: bool,
}

/// How a string will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenStyle {
    Plain,
    Single,
    Double,
    Literal,
}

/// Where a string is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRoom {
    /// Column of continuation lines.
    pub(super) indent: usize,
    /// Column after which lines are folded.
    pub(super) width: Option<usize>,
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// Whether `text` is a word, path or sentence that needs no closer look.
fn is_ordinary(text: &str) -> bool {
    let bytes = text.as_bytes();
    let [first, .., last] = bytes else { return false };
    (first.is_ascii_alphanumeric() || matches!(first, b'/' | b'_'))
        && *last != b' '
        && bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b':' | b'#'))
}

/// Whether `text` without quotes would be read as something other than a string.
pub(super) fn is_ambiguous(text: &str) -> bool {
    resolve(ScalarRules::Yaml11, text) != ResolvedScalar::Str || is_base60(text)
}

/// Chooses the style of `text`, and says whether it spans lines.
pub(super) fn choose(text: &str, dialect: WriterDialect) -> (WrittenStyle, bool) {
    if is_ordinary(text) {
        return (if is_ambiguous(text) { WrittenStyle::Double } else { WrittenStyle::Plain }, false);
    }
    let analysis = analyse(text, dialect);
    let choice = if text.contains('\n') {
        if analysis.block { WrittenStyle::Literal } else { WrittenStyle::Double }
    } else if is_ambiguous(text) || (dialect == WriterDialect::Safe && matches!(text, "<<" | "=")) {
        WrittenStyle::Double
    } else if analysis.plain {
        WrittenStyle::Plain
    } else if analysis.single {
        WrittenStyle::Single
    } else {
        WrittenStyle::Double
    };
    (choice, analysis.multiline)
}

fn analyse(text: &str, dialect: WriterDialect) -> TextAnalysis {
    let mut indicator = text.starts_with("---") || text.starts_with("...");
    let allowed = match dialect {
        WriterDialect::Go2 => false,
        WriterDialect::Go3 => true,
        WriterDialect::Safe => !text.starts_with('\t'),
    };
    let (mut special, mut tab, mut multiline) = (false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    let mut previous: Option<char> = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let ends = characters.peek().is_none_or(|next| matches!(next, ' ' | '\t') || is_break(*next));
        let after_blank = previous.is_some_and(|c| matches!(c, ' ' | '\t') || is_break(c));
        if previous.is_none() {
            indicator |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`' => true,
                '?' | ':' | '-' => ends,
                _ => false,
            };
        } else {
            indicator |= (c == ':' && ends) || (c == '#' && after_blank);
        }
        if c == '\t' && allowed {
            tab = true;
        } else {
            special |= !is_printable(c);
        }
        if is_break(c) {
            multiline = true;
            space_break |= previous == Some(' ');
        } else if c == ' ' {
            break_space |= previous.is_some_and(is_break);
        }
        previous = Some(c);
    }
    let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
    let edges = edge(text.chars().next()) || edge(previous);
    TextAnalysis {
        plain: !indicator && !edges && !multiline && !special && !tab,
        single: !break_space && !space_break && !special && !tab,
        block: previous != Some(' ') && !space_break && !special,
        multiline,
    }
}

/// Appends `text` in the chosen style.
pub(super) fn write(out: &mut String, text: &str, choice: WrittenStyle, room: LineRoom) {
    match choice {
        WrittenStyle::Plain => match fold_from(out, text, room) {
            Some(column) if room.width.is_some_and(|width| column + text.len() > width) => {
                write_folded(out, text, column, room, false);
            }
            _ => out.push_str(text),
        },
        WrittenStyle::Single => {
            let column = fold_from(out, text, room);
            out.push('\'');
            if column.is_none() && !text.contains(['\'', '\u{2028}', '\u{2029}']) {
                out.push_str(text);
            } else {
                let room = LineRoom { width: column.and(room.width), ..room };
                write_folded(out, text, column.unwrap_or(0) + 1, room, true);
            }
            out.push('\'');
        }
        WrittenStyle::Double => write_double(out, text, room),
        WrittenStyle::Literal => write_literal(out, text, room.indent),
    }
}

/// The column writing starts at, if the text may be folded.
fn fold_from(out: &str, text: &str, room: LineRoom) -> Option<usize> {
    room.width?;
    if !text.contains(' ') {
        return None;
    }
    let line = out
        .rfind(['\n', '\u{2028}', '\u{2029}'])
        .map_or(0, |at| at + out[at..].chars().next().map_or(1, char::len_utf8));
    Some(out[line..].chars().count())
}

fn break_line(out: &mut String, indent: usize) {
    out.push('\n');
    pad(out, indent);
}

pub(super) fn pad(out: &mut String, count: usize) {
    const SPACES: &str = "                                                                ";
    let mut left = count;
    while left > 0 {
        let part = left.min(SPACES.len());
        out.push_str(&SPACES[..part]);
        left -= part;
    }
}

/// Plain and single-quoted text: a line may break at a space that stands alone.
fn write_folded(out: &mut String, text: &str, mut column: usize, room: LineRoom, single: bool) {
    let (mut spaces, mut breaks) = (false, false);
    for (at, c) in text.char_indices() {
        if c == ' ' {
            let next = text.as_bytes().get(at + 1);
            let inside = !single || (at > 0 && next.is_some());
            let fold = room.width.is_some_and(|width| column > width);
            if fold && !spaces && inside && next != Some(&b' ') {
                break_line(out, room.indent);
                column = room.indent;
            } else {
                out.push(' ');
                column += 1;
            }
            spaces = true;
            continue;
        }
        if is_break(c) {
            out.push(c);
            column = 0;
            breaks = true;
            continue;
        }
        if breaks {
            pad(out, room.indent);
            column = room.indent;
        }
        if single && c == '\'' {
            out.push('\'');
            column += 1;
        }
        out.push(c);
        column += 1;
        (spaces, breaks) = (false, false);
    }
}

fn write_double(out: &mut String, text: &str, room: LineRoom) {
    let folds = fold_from(out, text, room);
    let mut written = folds.map_or(0, |column| column + 1);
    let width = folds.and(room.width).unwrap_or(usize::MAX);
    out.push('"');
    // Go escapes all of a text that starts with a byte order mark.
    let escape_all = text.starts_with('\u{feff}');
    let mut spaces = false;
    for (at, c) in text.char_indices() {
        if escape_all || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
            written += write_escape(out, c);
            spaces = false;
        } else if c == ' ' {
            let next = text.as_bytes().get(at + 1);
            if !spaces && written > width && at > 0 && next.is_some() {
                break_line(out, room.indent);
                written = room.indent;
                if next == Some(&b' ') {
                    out.push('\\');
                    written += 1;
                }
            } else {
                out.push(' ');
                written += 1;
            }
            spaces = true;
        } else {
            out.push(c);
            written += 1;
            spaces = false;
        }
    }
    out.push('"');
}

fn write_escape(out: &mut String, c: char) -> usize {
    let before = out.len();
    let short = match c {
        '\0' => "\\0",
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\x0b' => "\\v",
        '\x0c' => "\\f",
        '\r' => "\\r",
        '\x1b' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{a0}' => "\\_",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ => "",
    };
    if short.is_empty() {
        let code = c as u32;
        let _ = match code {
            0..=0xFF => write!(out, "\\x{code:02X}"),
            0x100..=0xFFFF => write!(out, "\\u{code:04X}"),
            _ => write!(out, "\\U{code:08X}"),
        };
    } else {
        out.push_str(short);
    }
    out.len() - before
}

/// A `|` block; it ends with a line break of its own unless the text lacks one.
fn write_literal(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    if text.starts_with([' ', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        out.push('2');
    }
    let mut backwards = text.chars().rev();
    match (backwards.next().is_some_and(is_break), backwards.next()) {
        (false, _) => out.push('-'),
        (true, None) => out.push('+'),
        (true, Some(before)) if is_break(before) => out.push('+'),
        (true, Some(_)) => {}
    }
    out.push('\n');
    let mut breaks = true;
    for line in text.split_inclusive(is_break) {
        let content = line.trim_end_matches(is_break);
        if !content.is_empty() {
            if breaks {
                pad(out, indent);
            }
            out.push_str(content);
        }
        out.push_str(&line[content.len()..]);
        breaks = line.len() > content.len();
    }
}

/// What reading a string back from JSON with a YAML reader does to it; `None` if that fails.
pub(super) fn through_json(text: &str) -> Option<Cow<'_, str>> {
    // Only DEL and what lies beyond ASCII can be touched: the rest is escaped in JSON.
    if text.bytes().all(|byte| byte < 0x7F) {
        return Some(Cow::Borrowed(text));
    }
    let forbidden =
        |c: char| matches!(c, '\x7f' | '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.contains(forbidden) {
        return None;
    }
    if !text.contains('\u{85}') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{85}') {
        out.push_str(rest[..at].trim_end_matches(' '));
        let mut breaks = 0;
        rest = &rest[at..];
        loop {
            let behind = rest.trim_start_matches(' ');
            let Some(next) = behind.strip_prefix('\u{85}') else {
                let indicator = rest.starts_with("---") || rest.starts_with("...");
                if indicator && rest[3..].starts_with([' ', '\u{85}']) {
                    return None;
                }
                rest = behind;
                break;
            };
            breaks += 1;
            rest = next;
        }
        if breaks == 1 {
            out.push(' ');
        } else {
            out.extend(std::iter::repeat_n('\n', breaks - 1));
        }
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

/// Whether a key survives being read back from JSON: on one line, and not too far from its colon.
pub(super) fn key_through_json(key: &str) -> bool {
    const LONGEST: usize = 1024;
    if key.len() * 6 + 2 <= LONGEST && key.bytes().all(|byte| byte < 0x7F) {
        return true;
    }
    if through_json(key).is_none() || key.contains('\u{85}') {
        return false;
    }
    let written: usize = key
        .chars()
        .map(|c| match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\x08' | '\x0c' => 2,
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
            c if (c as u32) < 0x20 => 6,
            _ => 1,
        })
        .sum();
    written + 2 <= LONGEST
}

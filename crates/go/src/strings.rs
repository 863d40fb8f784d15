//! Text functions with the quirks of Go's `strings` and the word utilities Sprig is built on.

use std::ops::Range;

use super::unicode::{
    decode_rune, is_digit, is_letter, is_lower, is_punct, is_space, is_title, is_upper, push_rune, runes,
    to_lower, to_title, to_upper,
};

fn map_runes(text: &[u8], mut map: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (_, rune) in runes(text) {
        push_rune(&mut out, map(rune));
    }
    out
}

/// Upper case, rune by rune.
pub fn upper(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() { text.to_ascii_uppercase() } else { map_runes(text, to_upper) }
}

/// Lower case, rune by rune.
pub fn lower(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() { text.to_ascii_lowercase() } else { map_runes(text, to_lower) }
}

/// Title case at the start of every word (`strings.Title`).
pub fn title(text: &[u8]) -> Vec<u8> {
    let mut previous = ' ';
    map_runes(text, |rune| {
        let starts = is_separator(previous);
        previous = rune;
        if starts { to_title(rune) } else { rune }
    })
}

fn is_separator(rune: char) -> bool {
    if rune.is_ascii() {
        !(rune.is_ascii_alphanumeric() || rune == '_')
    } else {
        !is_letter(rune) && !is_digit(rune) && is_space(rune)
    }
}

/// Lower case at the start of every word.
pub fn untitle(text: &[u8]) -> Vec<u8> {
    let mut next = true;
    map_runes(text, |rune| {
        if is_space(rune) {
            next = true;
            rune
        } else if std::mem::take(&mut next) {
            to_lower(rune)
        } else {
            rune
        }
    })
}

/// Swaps the case of every letter; a lower-case letter at a word start becomes title case.
pub fn swap_case(text: &[u8]) -> Vec<u8> {
    let mut at_start = true;
    map_runes(text, |rune| {
        if is_upper(rune) || is_title(rune) {
            at_start = false;
            to_lower(rune)
        } else if is_lower(rune) {
            if std::mem::take(&mut at_start) { to_title(rune) } else { to_upper(rune) }
        } else {
            at_start = is_space(rune);
            rune
        }
    })
}

/// White space trimmed from both ends.
pub fn trim_space(text: &[u8]) -> &[u8] {
    trim_by(text, is_space)
}

/// Runes of `cutset` trimmed from both ends.
pub fn trim_set<'a>(text: &'a [u8], cutset: &[u8]) -> &'a [u8] {
    let set: Vec<char> = runes(cutset).map(|(_, rune)| rune).collect();
    trim_by(text, |rune| set.contains(&rune))
}

fn trim_by(text: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    let mut start = 0;
    while let Some((rune, width, _)) = decode_rune(&text[start..]) {
        if !cut(rune) {
            break;
        }
        start += width;
    }
    let mut end = text.len();
    while end > start {
        let from = last_rune_start(&text[start..end]) + start;
        let Some((rune, _, _)) = decode_rune(&text[from..end]) else { break };
        if !cut(rune) {
            break;
        }
        end = from;
    }
    &text[start..end]
}

fn last_rune_start(text: &[u8]) -> usize {
    for back in 1..=4.min(text.len()) {
        let from = text.len() - back;
        if let Some((_, width, valid)) = decode_rune(&text[from..])
            && width == back
            && (valid || back == 1)
        {
            if valid {
                return from;
            }
            // A lone bad byte, unless a longer valid sequence ends here.
            for longer in 2..=4.min(text.len()) {
                let from = text.len() - longer;
                if matches!(decode_rune(&text[from..]), Some((_, width, true)) if width == longer) {
                    return from;
                }
            }
            return from;
        }
    }
    text.len().saturating_sub(1)
}

/// The white-space separated fields.
pub fn fields(text: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    let mut start = None;
    for (at, rune) in runes(text) {
        match (is_space(rune), start) {
            (true, Some(from)) => {
                out.push(&text[from..at]);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    if let Some(from) = start {
        out.push(&text[from..]);
    }
    out
}

/// Removes white space byte by byte; if there was any, bytes above 0x7f are taken for Latin-1 runes.
pub fn nospace(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut removed = false;
    for &byte in text {
        let rune = char::from(byte);
        if is_space(rune) {
            removed = true;
        } else {
            push_rune(&mut out, rune);
        }
    }
    if removed { out } else { text.to_vec() }
}

/// The first byte of every word, taken for a Latin-1 rune.
pub fn initials(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut starts = true;
    for &byte in text {
        let rune = char::from(byte);
        if is_space(rune) {
            starts = true;
        } else if std::mem::take(&mut starts) {
            push_rune(&mut out, rune);
        }
    }
    out
}

/// Shortens to `width` bytes with `...` at the end; widths below four change nothing.
pub fn abbreviate(width: i64, text: &[u8]) -> Vec<u8> {
    if width < 4 { text.to_vec() } else { abbreviate_from(0, width, text) }
}

/// Shortens from both ends around `left`.
pub fn abbreviate_both(left: i64, right: i64, text: &[u8]) -> Vec<u8> {
    if right < 4 || (left > 0 && right < 7) { text.to_vec() } else { abbreviate_from(left, right, text) }
}

fn abbreviate_from(offset: i64, width: i64, text: &[u8]) -> Vec<u8> {
    const MARK: &[u8] = b"...";
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if len <= width {
        return text.to_vec();
    }
    // Everything below is between zero and the length, which is more than the width.
    let keep = width - 3;
    let mut offset = offset.min(len);
    if len.saturating_sub(offset) < keep {
        offset = len - keep;
    }
    let index = |at: i64| usize::try_from(at).unwrap_or(0);
    if offset <= 4 {
        return [&text[..index(keep)], MARK].concat();
    }
    if offset + keep < len {
        let rest = abbreviate_from(0, keep, &text[index(offset)..]);
        return [MARK, rest.as_slice()].concat();
    }
    [MARK, &text[index(len - keep)..]].concat()
}

/// Wraps at spaces; with `split_words` words longer than the width are cut.
pub fn wrap(width: i64, text: &[u8], newline: &[u8], split_words: bool) -> Vec<u8> {
    let newline: &[u8] = if newline.is_empty() { b"\n" } else { newline };
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    let mut out = Vec::with_capacity(text.len() + 32);
    let mut at = 0;
    while text.len() - at > width {
        if text[at] == b' ' {
            at += 1;
            continue;
        }
        let window = &text[at..=at + width];
        let (end, next) = if let Some(space) = window.iter().rposition(|&byte| byte == b' ') {
            (at + space, at + space + 1)
        } else if split_words {
            (at + width, at + width)
        } else if let Some(space) = text[at + width..].iter().position(|&byte| byte == b' ') {
            (at + width + space, at + width + space + 1)
        } else {
            break;
        };
        out.extend_from_slice(&text[at..end]);
        out.extend_from_slice(newline);
        at = next;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Counts `needle` without overlap; an empty one occurs around every rune.
pub fn count(text: &[u8], needle: &[u8]) -> usize {
    if needle.is_empty() { runes(text).count() + 1 } else { find_all(text, needle).len() }
}

fn find_all(text: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = find(&text[at..], needle) {
        out.push(at + found);
        at += found + needle.len();
    }
    out
}

/// The first occurrence of `needle`.
pub fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    let first = needle[0];
    let last_start = text.len().checked_sub(needle.len())?;
    let mut at = 0;
    while at <= last_start {
        at += text[at..=last_start].iter().position(|&byte| byte == first)?;
        if text[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Replaces every `old`; an empty one matches around every rune.
pub fn replace(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    if old.is_empty() {
        let mut at = 0;
        out.extend_from_slice(new);
        while let Some((_, width, _)) = decode_rune(&text[at..]) {
            out.extend_from_slice(&text[at..at + width]);
            out.extend_from_slice(new);
            at += width;
        }
        return out;
    }
    let mut at = 0;
    for found in find_all(text, old) {
        out.extend_from_slice(&text[at..found]);
        out.extend_from_slice(new);
        at = found + old.len();
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// Splits at `separator` into at most `limit` parts (all when negative); an empty separator splits runes.
pub fn split_n(text: &[u8], separator: &[u8], limit: i64) -> Vec<Vec<u8>> {
    if limit == 0 {
        return Vec::new();
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut out: Vec<Vec<u8>> = Vec::new();
    let mut at = 0;
    if separator.is_empty() {
        while let Some((_, width, _)) = decode_rune(&text[at..]) {
            if out.len() + 1 == limit {
                out.push(text[at..].to_vec());
                break;
            }
            out.push(text[at..at + width].to_vec());
            at += width;
        }
        return out;
    }
    while out.len() + 1 < limit {
        let Some(found) = find(&text[at..], separator) else { break };
        out.push(text[at..at + found].to_vec());
        at += found + separator.len();
    }
    out.push(text[at..].to_vec());
    out
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Connector,
    Punctuation,
    /// A run of capitals.
    Upper,
    /// A capital followed by lower-case letters.
    Capitalised,
    /// A run of anything else that is written in letters.
    Lower,
    Number,
    Symbol,
}

fn is_connector(rune: char) -> bool {
    rune == '-' || rune == '_' || is_space(rune)
}

/// The words of a text and where they are.
fn split_words(text: &[u8]) -> Vec<(Word, Range<usize>)> {
    let all: Vec<(usize, char)> = runes(text).collect();
    let mut out = Vec::new();
    let mut at = 0;
    let run = |from: usize, keep: &dyn Fn(char) -> bool| {
        from + all[from..].iter().take_while(|(_, rune)| keep(*rune)).count()
    };
    while at < all.len() {
        let rune = all[at].1;
        let (kind, end) = if is_connector(rune) {
            (Word::Connector, run(at, &is_connector))
        } else if is_punct(rune) {
            (Word::Punctuation, run(at, &|rune| is_punct(rune) && !is_connector(rune)))
        } else if is_upper(rune) {
            let end = run(at, &is_upper);
            let lower_follows = all.get(end).is_some_and(|(_, rune)| is_word_rune(*rune));
            if end - at == 1 {
                if lower_follows { (Word::Capitalised, run(end, &is_word_rune)) } else { (Word::Upper, end) }
            } else if lower_follows {
                (Word::Upper, end - 1)
            } else {
                (Word::Upper, end)
            }
        } else if is_digit(rune) {
            (Word::Number, run(at, &is_digit))
        } else if is_word_rune(rune) {
            (Word::Lower, run(at, &is_word_rune))
        } else {
            (Word::Symbol, run(at, &is_symbol))
        };
        let offset = |index: usize| all.get(index).map_or(text.len(), |(offset, _)| *offset);
        out.push((kind, offset(at)..offset(end)));
        at = end;
    }
    out
}

fn is_word_rune(rune: char) -> bool {
    // Bad bytes go with the word they stand in.
    (is_lower(rune) || rune == char::REPLACEMENT_CHARACTER)
        && !is_connector(rune)
        && !is_punct(rune)
        && !is_digit(rune)
}

/// None of the other kinds: `$`, `=`, letters without case.
fn is_symbol(rune: char) -> bool {
    !is_word_rune(rune) && !is_connector(rune) && !is_punct(rune) && !is_upper(rune) && !is_digit(rune)
}

/// Words in lower case joined by `connector` (`snakecase`, `kebabcase`).
pub fn joined_words(text: &[u8], connector: char) -> Vec<u8> {
    let words = split_words(text);
    let mut out = Vec::with_capacity(text.len() + 8);
    // Whether a connector is due before the next word.
    let mut due = false;
    // Inside a group such as `2m3s` that began with digits.
    let mut in_number_group = false;
    for (index, (kind, word)) in words.iter().enumerate() {
        let previous = index.checked_sub(1).map(|at| words[at].0);
        match kind {
            Word::Connector => {
                for _ in runes(&text[word.clone()]) {
                    push_rune(&mut out, connector);
                }
                due = false;
                in_number_group = false;
                continue;
            }
            Word::Punctuation => {
                due = false;
                in_number_group = false;
            }
            Word::Number => {
                let lower_follows = words.get(index + 1).is_some_and(|(kind, _)| *kind == Word::Lower);
                let starts = matches!(previous, None | Some(Word::Connector | Word::Punctuation));
                if !in_number_group {
                    if due && lower_follows {
                        push_rune(&mut out, connector);
                    }
                    in_number_group = lower_follows || starts;
                }
                due = true;
            }
            Word::Lower if in_number_group && previous == Some(Word::Number) => due = true,
            Word::Upper | Word::Capitalised | Word::Lower | Word::Symbol => {
                in_number_group = false;
                if due {
                    push_rune(&mut out, connector);
                }
                due = true;
            }
        }
        let word = &text[word.clone()];
        if matches!(kind, Word::Upper | Word::Capitalised) {
            push_lower(&mut out, word);
        } else {
            out.extend_from_slice(word);
        }
    }
    out
}

/// Lower case that leaves bad bytes alone.
fn push_lower(out: &mut Vec<u8>, word: &[u8]) {
    let mut at = 0;
    while let Some((rune, width, valid)) = decode_rune(&word[at..]) {
        if valid {
            push_rune(out, to_lower(rune));
        } else {
            out.extend_from_slice(&word[at..at + width]);
        }
        at += width;
    }
}

/// Pascal case: words capitalised and their connectors dropped (`camelcase`).
pub fn camel_case(text: &[u8]) -> Vec<u8> {
    let all: Vec<char> = runes(text).map(|(_, rune)| rune).collect();
    let lead = all.iter().take_while(|&&rune| is_connector(rune)).count();
    let mut out = Vec::with_capacity(text.len());
    for &rune in &all[..lead] {
        push_rune(&mut out, rune);
    }
    // A text of nothing but connectors gets its last one again.
    if let (true, Some(&last)) = (lead == all.len(), all.last()) {
        push_rune(&mut out, last);
    }
    let mut at = lead;
    while at < all.len() {
        let end = at + all[at..].iter().take_while(|&&rune| !is_connector(rune)).count();
        let word = &all[at..end];
        let capitals = word.iter().take_while(|&&rune| is_upper(rune)).count();
        for (index, &rune) in word.iter().enumerate() {
            let mapped = if index == 0 {
                to_upper(rune)
            } else if index < capitals {
                to_lower(rune)
            } else {
                rune
            };
            push_rune(&mut out, mapped);
        }
        let gap = all[end..].iter().take_while(|&&rune| is_connector(rune)).count();
        let kept = if end + gap == all.len() { gap } else { gap.saturating_sub(1) };
        for &rune in &all[end..end + kept] {
            push_rune(&mut out, rune);
        }
        at = end + gap;
    }
    out
}

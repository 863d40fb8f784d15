//! Finding `${NAME:-default | pipeline}` in raw text.

use std::ops::Range;

/// One reference to a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its span, from `$` to `}`.
    pub span: Range<usize>,
    pub name: String,
    pub default: Option<String>,
    /// The text after `|`, with its place.
    pub pipeline: Option<(usize, String)>,
    /// True if it stands in a comment.
    pub in_comment: bool,
}

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Kept as it is.
    Copied(Range<usize>),
    Reference(Reference),
    /// `$${` under `--escape-dollar`: a literal `${`.
    Escaped(Range<usize>),
}

/// Cuts text into pieces; what only looks like a reference stays as it is.
pub(super) fn scan(text: &str, escape_dollar: bool) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find("${").map(|found| at + found) {
        let escaped = escape_dollar && found > copied && bytes[found - 1] == b'$';
        if escaped {
            pieces.push(Piece::Copied(copied..found - 1));
            pieces.push(Piece::Escaped(found - 1..found + 2));
            (copied, at) = (found + 2, found + 2);
            continue;
        }
        match reference(text, found) {
            Some(reference) => {
                let end = reference.span.end;
                pieces.push(Piece::Copied(copied..found));
                pieces.push(Piece::Reference(reference));
                (copied, at) = (end, end);
            }
            None => at = found + 2,
        }
    }
    pieces.push(Piece::Copied(copied..text.len()));
    pieces.retain(|piece| !matches!(piece, Piece::Copied(range) if range.is_empty()));
    pieces
}

/// Reads the reference whose `$` stands at `start`.
fn reference(text: &str, start: usize) -> Option<Reference> {
    let inside = &text[start + 2..];
    let close = inside.find('}')?;
    let body = &inside[..close];
    let name_len = body.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let name = &body[..name_len];
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return None;
    }
    let mut rest = &body[name_len..];
    let mut default = None;
    if let Some(after) = rest.strip_prefix(":-") {
        let end = after.find('|').unwrap_or(after.len());
        let mut value = &after[..end];
        rest = &after[end..];
        if !rest.is_empty() {
            value = value.trim_end_matches([' ', '\t']);
        }
        default = Some(value.to_owned());
    }
    rest = rest.trim_start_matches([' ', '\t']);
    let pipeline = match rest.strip_prefix('|') {
        Some(pipeline) => Some((start + 2 + (body.len() - pipeline.len()), pipeline.to_owned())),
        None if rest.is_empty() => None,
        None => return None,
    };
    let span = start..start + 2 + close + 1;
    Some(Reference { span, name: name.to_owned(), default, pipeline, in_comment: in_comment(text, start) })
}

/// Tells that a place lies behind a `#` that starts a comment in its line. Quotes and block scalars are not
/// looked at: the answer only chooses a hint.
fn in_comment(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before = &text[line..at];
    before.trim_start().starts_with('#') || before.contains(" #") || before.contains("\t#")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let references = scan(text, false).into_iter().filter_map(|piece| match piece {
            Piece::Reference(reference) => Some(reference.name),
            _ => None,
        });
        references.collect()
    }

    #[test]
    fn what_is_no_reference_stays() {
        for text in [
            "${}", "${ X}", "${1}", "${X-y}", "${X:=y}", "${X:?m}", "${X%.*}", "${a.b}", "${{ x }}", "$X",
            "$(cmd)", "$2a$10$x", "${X",
        ] {
            assert_eq!(names(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn parts_of_a_reference() {
        let read = |text: &str| {
            let reference = reference(text, 0).unwrap_or_else(|| panic!("{text} is a reference"));
            (reference.name, reference.default, reference.pipeline.map(|(_, pipeline)| pipeline))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read("${X}"), ("X".into(), None, None));
        assert_eq!(read("${X }"), ("X".into(), None, None));
        assert_eq!(read("${X:-}"), ("X".into(), text(""), None));
        assert_eq!(read("${X:-a b }"), ("X".into(), text("a b "), None));
        assert_eq!(read("${X:-a | upper}"), ("X".into(), text("a"), text(" upper")));
        assert_eq!(read("${X|}"), ("X".into(), None, text("")));
        assert_eq!(read("${_:-$}"), ("_".into(), text("$"), None));
    }

    #[test]
    fn a_dollar_can_be_escaped() {
        assert_eq!(names("$${X} ${Y}"), ["X", "Y"]);
        let pieces = scan("$${X} ${Y}", true);
        assert!(matches!(&pieces[0], Piece::Escaped(range) if *range == (0..3)));
        assert_eq!(pieces.len(), 3);
    }
}

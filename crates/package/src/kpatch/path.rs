//! The grammar of scopes, steps, selectors and operations.

use super::ast::{
    DeletedChildren, ElementAnchor, GlobPiece, MatchTerm, NameGlob, ObjectScope, PatchOp, PathStep, StepKind,
};
use super::cursor::{LineCursor, LineError};
use crate::template::{Template, TemplatePiece};
use crate::val::ValuePos;

const LONGEST_PATH: usize = 64;

/// Turns a byte of the line into a place in the file.
pub(crate) type PosOf<'a> = &'a dyn Fn(usize) -> ValuePos;

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '$')
}

/// Text up to a character `stop` refuses, with references.
fn parse_text(cursor: &mut LineCursor<'_>, wanted: impl Fn(char) -> bool) -> Result<Template, LineError> {
    let mut pieces: Vec<TemplatePiece> = Vec::new();
    loop {
        if cursor.rest().starts_with("${") {
            pieces.push(TemplatePiece::Reference(cursor.reference()?));
            continue;
        }
        let rest = cursor.rest();
        // Not beyond the next reference: a text of many would be searched through for each of them.
        let ends = |&(at, c): &(usize, char)| !wanted(c) || (c == '$' && rest[at..].starts_with("${"));
        let end = rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at);
        if end == 0 {
            break;
        }
        pieces.push(TemplatePiece::Text(rest[..end].to_owned()));
        cursor.at += end;
    }
    Ok(match pieces.as_slice() {
        [] => Template::Literal(String::new()),
        [TemplatePiece::Text(text)] => Template::Literal(text.clone()),
        [TemplatePiece::Reference(path)] => Template::Whole(path.clone()),
        _ => Template::Mixed(pieces),
    })
}

fn parse_glob(cursor: &mut LineCursor<'_>) -> Result<NameGlob, LineError> {
    let mut pieces = Vec::new();
    loop {
        if cursor.rest().starts_with("${") {
            pieces.push(GlobPiece::Reference(cursor.reference()?));
        } else if cursor.eat('*') {
            if !matches!(pieces.last(), Some(GlobPiece::Any)) {
                pieces.push(GlobPiece::Any);
            }
        } else {
            let text = cursor.take(is_name);
            if text.is_empty() {
                return Ok(NameGlob(pieces));
            }
            pieces.push(GlobPiece::Text(text.to_owned()));
        }
    }
}

/// Takes the scope of a header. A lone `*` is every object.
pub(crate) fn parse_scope(cursor: &mut LineCursor<'_>, at: PosOf<'_>) -> Result<ObjectScope, LineError> {
    let pos = at(cursor.at);
    let start = *cursor;
    let mut first = parse_glob(cursor)?;
    let mut namespace = None;
    if cursor.eat('/') {
        if first.0.is_empty() {
            return Err(start
                .error_here("KP010", "the namespace before `/` is empty")
                .hint("`_/` means objects without a namespace"));
        }
        namespace = Some(first);
        first = parse_glob(cursor)?;
    }
    let kind_place = *cursor;
    let kind = match first.0.as_slice() {
        [GlobPiece::Any] => None,
        [GlobPiece::Text(text)]
            if text.starts_with(|c: char| c.is_ascii_alphabetic()) && !text.contains('_') =>
        {
            Some(text.to_ascii_lowercase())
        }
        [] => return Err(start.error_here("KP010", format!("expected a kind, found {}", cursor.text_here()))),
        _ => {
            return Err(start
                .error_here("KP010", format!("`{first}` is no kind"))
                .hint("kinds are words, or `*` for any"));
        }
    };
    let (mut group, mut version) = (None, None);
    if cursor.eat('@') {
        let text = match cursor.quoted()? {
            Some(text) => text,
            None => cursor.take(|c| c.is_ascii_alphanumeric() || c == '-').to_owned(),
        };
        match text.split_once('/') {
            Some((left, right)) => {
                group = Some(left.to_owned());
                version = Some(right.to_owned());
            }
            None => group = Some(text),
        }
    }
    let name = if cursor.rest().starts_with("[\"") || cursor.rest().starts_with("['") {
        cursor.at += 1;
        let name = cursor.quoted()?.unwrap_or_default();
        cursor.expect(']')?;
        quoted_name(&name, cursor)?
    } else if cursor.eat('.') {
        match cursor.quoted()? {
            Some(name) => quoted_name(&name, cursor)?,
            None => {
                let place = *cursor;
                let name = parse_glob(cursor)?;
                if name.0.is_empty() {
                    let regex = matches!(place.peek(), Some('^' | '~' | '/' | '(' | '$'));
                    return Err(if regex {
                        place
                            .error_here("KP063", "names are no regular expressions")
                            .hint("use `*` as a placeholder")
                    } else {
                        place.error_here("KP010", format!("expected a name, found {}", place.text_here()))
                    });
                }
                name
            }
        }
    } else if kind.is_none() && namespace.is_none() && group.is_none() {
        return Ok(ObjectScope { pos, ..ObjectScope::everything(pos) });
    } else {
        let word = kind.as_deref().unwrap_or_default();
        return Err(match word {
            "variables" => start
                .error_here("KP060", "patches do not define variables")
                .hint("put them in parameters.yaml"),
            _ => kind_place.error_here(
                "KP010",
                format!("expected `.name` after the kind, found {}", cursor.text_here()),
            ),
        });
    };
    if cursor.peek() == Some(':') {
        return Err(cursor
            .error_here("KP010", "a name with `:` must be quoted")
            .hint(format!("quote the name: {first}.\"{name}:…\"")));
    }
    if matches!(cursor.peek(), Some('^' | '~' | '(' | '$' | '\\' | '+' | '|')) {
        return Err(cursor
            .error_here("KP063", "names are no regular expressions")
            .hint("use `*` as a placeholder"));
    }
    let all = kind.is_none()
        && namespace.is_none()
        && group.is_none()
        && name.is_any()
        && !matches!(cursor.peek(), Some('.' | '['));
    Ok(ObjectScope { all, namespace, kind, group, version, name, pos })
}

/// A quoted name may hold references but no placeholders.
fn quoted_name(name: &str, cursor: &LineCursor<'_>) -> Result<NameGlob, LineError> {
    let template = Template::parse(name).map_err(|wrong| cursor.error_here(wrong.code, wrong.message))?;
    Ok(NameGlob(match template {
        Template::Literal(text) => vec![GlobPiece::Text(text)],
        Template::Whole(path) => vec![GlobPiece::Reference(path)],
        Template::Mixed(pieces) => pieces
            .into_iter()
            .map(|piece| match piece {
                TemplatePiece::Text(text) => GlobPiece::Text(text),
                TemplatePiece::Reference(path) => GlobPiece::Reference(path),
            })
            .collect(),
    }))
}

/// Takes the steps that follow a scope or a first key, and the operation at their end.
pub(crate) fn parse_steps(
    cursor: &mut LineCursor<'_>,
    steps: &mut Vec<PathStep>,
    at: PosOf<'_>,
) -> Result<PatchOp, LineError> {
    loop {
        if steps.len() > LONGEST_PATH {
            return Err(cursor.error_here("KP001", format!("the path has more than {LONGEST_PATH} steps")));
        }
        let place = *cursor;
        if cursor.eat('.') {
            steps.push(parse_segment(cursor, at)?);
        } else if cursor.peek() == Some('[') {
            match parse_selector(cursor, at)? {
                SelectorResult::Step(step) => steps.push(step),
                SelectorResult::Op(op) => {
                    if matches!(cursor.peek(), Some('.' | '[')) {
                        return Err(place.error_here("KP011", "an operation ends the path"));
                    }
                    return Ok(op);
                }
            }
        } else {
            return Ok(PatchOp::Set);
        }
    }
}

/// Takes a key, an index, `*` or `k=v`.
pub(crate) fn parse_segment(cursor: &mut LineCursor<'_>, at: PosOf<'_>) -> Result<PathStep, LineError> {
    let pos = at(cursor.at);
    if let Some(key) = cursor.quoted()? {
        let key = Template::parse(&key).map_err(|wrong| cursor.error_here(wrong.code, wrong.message))?;
        return Ok(PathStep { kind: StepKind::Key(key), pos });
    }
    if cursor.eat('*') {
        return Ok(PathStep { kind: StepKind::All, pos });
    }
    let key = parse_text(cursor, is_bare)?;
    if key == Template::Literal(String::new()) {
        return Err(cursor
            .error_here("KP003", format!("expected a key, found {}", cursor.text_here()))
            .hint("quote keys with other characters"));
    }
    // `key = value` has spaces and is no selector.
    if cursor.peek() == Some('=')
        && !cursor.rest()[1..].starts_with([' ', '\t'])
        && let Some(field) = key.literal()
    {
        let field = field.to_owned();
        cursor.at += 1;
        let value = parse_text(cursor, |c| !matches!(c, '.' | ',' | ']' | '[' | ':' | ' ' | '\t' | '?'))?;
        return Ok(PathStep { kind: StepKind::Match(vec![MatchTerm { field: vec![field], value }]), pos });
    }
    let index = key
        .literal()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse().ok());
    Ok(PathStep { kind: index.map_or(StepKind::Key(key), StepKind::Index), pos })
}

enum SelectorResult {
    Step(PathStep),
    Op(PatchOp),
}

fn parse_selector(cursor: &mut LineCursor<'_>, at: PosOf<'_>) -> Result<SelectorResult, LineError> {
    let pos = at(cursor.at);
    cursor.expect('[')?;
    if cursor.peek() == Some('[') {
        return Err(cursor.error_here("KP062", "`[[…]]` is not part of the language"));
    }
    let step = |kind| SelectorResult::Step(PathStep { kind, pos });
    let selected = if let Some(key) = cursor.quoted()? {
        let key = Template::parse(&key).map_err(|wrong| cursor.error_here(wrong.code, wrong.message))?;
        step(StepKind::Key(key))
    } else if cursor.rest().starts_with("*]") {
        cursor.at += 1;
        step(StepKind::All)
    } else if cursor.eat('-') {
        SelectorResult::Op(if cursor.peek() == Some(']') {
            PatchOp::Append
        } else {
            PatchOp::Before(parse_anchor(cursor)?)
        })
    } else if cursor.eat('+') {
        SelectorResult::Op(PatchOp::After(parse_anchor(cursor)?))
    } else if cursor.eat_text("replace]") {
        cursor.at -= 1;
        SelectorResult::Op(PatchOp::Replace)
    } else if cursor.eat_text("delete]") {
        cursor.at -= 1;
        SelectorResult::Op(PatchOp::Delete(None))
    } else if cursor.eat_text("delete=") {
        SelectorResult::Op(PatchOp::Delete(Some(parse_children(cursor)?)))
    } else {
        step(match parse_anchor(cursor)? {
            ElementAnchor::Index(index) => StepKind::Index(index),
            ElementAnchor::Match(terms) => StepKind::Match(terms),
        })
    };
    cursor.expect(']')?;
    Ok(selected)
}

fn parse_index(cursor: &mut LineCursor<'_>) -> Option<usize> {
    let rest = cursor.rest();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let ends = rest[end..].starts_with(']');
    let number = rest[..end].parse().ok().filter(|_| ends)?;
    cursor.at += end;
    Some(number)
}

fn parse_anchor(cursor: &mut LineCursor<'_>) -> Result<ElementAnchor, LineError> {
    match parse_index(cursor) {
        Some(index) => Ok(ElementAnchor::Index(index)),
        None => parse_terms(cursor).map(ElementAnchor::Match),
    }
}

fn parse_children(cursor: &mut LineCursor<'_>) -> Result<DeletedChildren, LineError> {
    if let Some(index) = parse_index(cursor) {
        return Ok(DeletedChildren::Anchor(ElementAnchor::Index(index)));
    }
    if let Some(key) = cursor.quoted()? {
        let key = Template::parse(&key).map_err(|wrong| cursor.error_here(wrong.code, wrong.message))?;
        return Ok(DeletedChildren::Named(key));
    }
    let mut ahead = *cursor;
    let name = parse_text(&mut ahead, |c| is_bare(c) || c == '.')?;
    if ahead.peek() == Some(']') {
        *cursor = ahead;
        return Ok(DeletedChildren::Named(name));
    }
    parse_terms(cursor).map(|terms| DeletedChildren::Anchor(ElementAnchor::Match(terms)))
}

fn parse_terms(cursor: &mut LineCursor<'_>) -> Result<Vec<MatchTerm>, LineError> {
    let mut terms = Vec::new();
    loop {
        let place = *cursor;
        let field = cursor.take(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
        let well_formed = field.split('.').all(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        if !well_formed || !cursor.eat('=') {
            let hint = if field.contains('/') || place.rest().contains('/') {
                "quote a key: [\"example.com/key\"]"
            } else {
                "write an index, [name=value], [\"key\"], [*], [-], [delete] or [replace]"
            };
            return Err(place
                .error_here("KP003", format!("the selector cannot be read from {}", place.text_here()))
                .hint(hint));
        }
        let value = match cursor.quoted()? {
            Some(text) => {
                Template::parse(&text).map_err(|wrong| cursor.error_here(wrong.code, wrong.message))?
            }
            None => parse_text(cursor, |c| !matches!(c, ',' | ']' | ':' | ' ' | '\t'))?,
        };
        terms.push(MatchTerm { field: field.split('.').map(str::to_owned).collect(), value });
        if !cursor.eat(',') {
            return Ok(terms);
        }
        cursor.skip_space();
    }
}

/// Reads a scope without brackets, and the path after it.
pub(crate) fn parse_target(text: &str) -> Result<(ObjectScope, Vec<PathStep>), LineError> {
    let mut cursor = LineCursor::new(text.trim());
    let at = |offset: usize| ValuePos { line: 1, column: offset as u32 + 1, layer: 0 };
    let scope = parse_scope(&mut cursor, &at)?;
    let mut path = Vec::new();
    let op = parse_steps(&mut cursor, &mut path, &at)?;
    if op != PatchOp::Set || !cursor.rest().is_empty() {
        return Err(cursor.error_here("KP003", format!("unexpected {} in the target", cursor.text_here())));
    }
    Ok((scope, path))
}

/// Reads the path of a statement that stands alone.
pub(crate) fn parse_whole_keypath(text: &str) -> Result<(Vec<PathStep>, PatchOp), LineError> {
    let mut cursor = LineCursor::new(text.trim());
    let at = |offset: usize| ValuePos { line: 1, column: offset as u32 + 1, layer: 0 };
    let (path, op) = parse_keypath(&mut cursor, &at)?;
    if cursor.rest().is_empty() {
        Ok((path, op))
    } else {
        Err(cursor.error_here("KP003", format!("unexpected {} in the path", cursor.text_here())))
    }
}

/// Takes the path of a statement.
pub(crate) fn parse_keypath(
    cursor: &mut LineCursor<'_>,
    at: PosOf<'_>,
) -> Result<(Vec<PathStep>, PatchOp), LineError> {
    let mut path = vec![parse_segment(cursor, at)?];
    let op = parse_steps(cursor, &mut path, at)?;
    Ok((path, op))
}

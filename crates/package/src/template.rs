//! Text with `${parameter}` references in it.

use std::fmt;

/// The name of a parameter as references write it: `monitoring.port`, `hosts[0]`, `labels["a/b"]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParamPath(pub Vec<ParamStep>);

/// One step of a [`ParamPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ParamStep {
    Key(String),
    Index(usize),
}

impl fmt::Display for ParamPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                ParamStep::Key(key) if is_ident(key) => {
                    if position > 0 {
                        f.write_str(".")?;
                    }
                    f.write_str(key)?;
                }
                ParamStep::Key(key) => write!(f, "[{key:?}]")?,
                ParamStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Text, with its references taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// No reference at all.
    Literal(String),
    /// Exactly one reference: its value stands here with its own type.
    Whole(ParamPath),
    /// References inside text: always a string.
    Mixed(Vec<TemplatePiece>),
}

/// A stretch of a [`Template::Mixed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePiece {
    Text(String),
    Reference(ParamPath),
}

/// The reason a text with references cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    pub code: &'static str,
    pub message: String,
    /// Byte of the text at which it goes wrong.
    pub offset: usize,
}

impl Template {
    /// Reads a text. Never panics, whatever the text.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if !text.contains("${") {
            return Ok(Self::Literal(text.to_owned()));
        }
        let mut pieces: Vec<TemplatePiece> = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let start = at + found;
            if text[..start].ends_with('$') && start > at {
                literal.push_str(&text[at..start - 1]);
                literal.push_str("${");
                at = start + 2;
                continue;
            }
            literal.push_str(&text[at..start]);
            let (path, end) = parse_reference(text, start)?;
            if !literal.is_empty() {
                pieces.push(TemplatePiece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(TemplatePiece::Reference(path));
            at = end;
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            pieces.push(TemplatePiece::Text(literal));
        }
        let blank =
            |piece: &TemplatePiece| matches!(piece, TemplatePiece::Text(text) if text.trim().is_empty());
        let references = pieces.iter().filter(|piece| matches!(piece, TemplatePiece::Reference(_))).count();
        if references == 1
            && pieces.iter().all(|piece| blank(piece) || matches!(piece, TemplatePiece::Reference(_)))
        {
            let whole = pieces.into_iter().find_map(|piece| match piece {
                TemplatePiece::Reference(path) => Some(path),
                TemplatePiece::Text(_) => None,
            });
            return Ok(whole.map_or(Self::Literal(String::new()), Self::Whole));
        }
        if references == 0 {
            let text = pieces.into_iter().map(|piece| match piece {
                TemplatePiece::Text(text) => text,
                TemplatePiece::Reference(_) => String::new(),
            });
            return Ok(Self::Literal(text.collect()));
        }
        Ok(Self::Mixed(pieces))
    }

    /// The references in it, in order.
    pub fn references(&self) -> impl Iterator<Item = &ParamPath> {
        let (whole, pieces) = match self {
            Self::Literal(_) => (None, [].as_slice()),
            Self::Whole(path) => (Some(path), [].as_slice()),
            Self::Mixed(pieces) => (None, pieces.as_slice()),
        };
        whole.into_iter().chain(pieces.iter().filter_map(|piece| match piece {
            TemplatePiece::Reference(path) => Some(path),
            TemplatePiece::Text(_) => None,
        }))
    }

    /// The text, if it has no references.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(text),
            Self::Whole(path) => write!(f, "${{{path}}}"),
            Self::Mixed(pieces) => pieces.iter().try_for_each(|piece| match piece {
                TemplatePiece::Text(text) => f.write_str(text),
                TemplatePiece::Reference(path) => write!(f, "${{{path}}}"),
            }),
        }
    }
}

pub(crate) fn is_ident(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Reads the `${…}` at byte `start`; gives its path and the byte after it.
pub(crate) fn parse_reference(text: &str, start: usize) -> Result<(ParamPath, usize), TemplateError> {
    let body = start + 2;
    let mut quote = None;
    let mut end = None;
    for (offset, c) in text[body..].char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => {
                end = Some(body + offset);
                break;
            }
            (None, '\n') => break,
            _ => {}
        }
    }
    let Some(end) = end else {
        return Err(TemplateError {
            code: "KP022",
            message: "the reference `${` is not closed".to_owned(),
            offset: start,
        });
    };
    let path = parse_path(text[body..end].trim()).map_err(|message| TemplateError {
        code: "KP061",
        message: format!("`${{{}}}` {message}", text[body..end].trim()),
        offset: start,
    })?;
    Ok((path, end + 1))
}

/// Most steps of the path of a parameter.
const MOST_STEPS: usize = 64;

/// A text that is no path of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("uses an operator: a reference names one parameter, defaults belong in parameters.yaml")]
    Operator,
    #[error("is no parameter path such as `a.b`, `a[0]` or `a[\"k/e.y\"]`")]
    NotAPath,
    #[error("has more than {MOST_STEPS} steps")]
    TooManySteps,
}

/// Reads `a.b[0]["c/d"]`; says what is wrong otherwise.
pub fn parse_path(text: &str) -> Result<ParamPath, PathError> {
    let wrong = || {
        let operator = text.chars().any(|c| "|?:=&!+*<>(),".contains(c));
        if operator { PathError::Operator } else { PathError::NotAPath }
    };
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if steps.len() >= MOST_STEPS {
            return Err(PathError::TooManySteps);
        }
        if let Some(inner) = rest.strip_prefix('[') {
            if let Some(open) = inner.chars().next().filter(|c| *c == '"' || *c == '\'') {
                let close = inner[1..].find(open).ok_or_else(wrong)? + 1;
                rest = inner[close + 1..].strip_prefix(']').ok_or_else(wrong)?;
                steps.push(ParamStep::Key(inner[1..close].to_owned()));
            } else {
                let close = inner.find(']').ok_or_else(wrong)?;
                let index = inner[..close].parse().map_err(|_| wrong())?;
                rest = &inner[close + 1..];
                steps.push(ParamStep::Index(index));
            }
            if steps.len() == 1 {
                return Err(wrong());
            }
            continue;
        }
        if !steps.is_empty() {
            rest = rest.strip_prefix('.').ok_or_else(wrong)?;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if !is_ident(&rest[..end]) {
            return Err(wrong());
        }
        steps.push(ParamStep::Key(rest[..end].to_owned()));
        rest = &rest[end..];
    }
    if steps.is_empty() { Err(wrong()) } else { Ok(ParamPath(steps)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_references_and_leaves_other_dollars_alone() {
        for (text, shown) in [
            ("plain $HOME $(X) $", "literal:plain $HOME $(X) $"),
            ("$${HOME}", "literal:${HOME}"),
            ("a$${b}-${c}", "mixed:a${b}-${c}"),
            ("  ${ a.b } ", "whole:${a.b}"),
            ("${a[\"k.e/y\"][0]}", "whole:${a[\"k.e/y\"][0]}"),
            ("x${a}y${b-c}", "mixed:x${a}y${b-c}"),
        ] {
            let template = Template::parse(text).unwrap();
            let kind = match &template {
                Template::Literal(_) => "literal",
                Template::Whole(_) => "whole",
                Template::Mixed(_) => "mixed",
            };
            assert_eq!(format!("{kind}:{template}"), shown, "{text}");
        }
        for (text, code) in [
            ("${a:-b}", "KP061"),
            ("${a|f}", "KP061"),
            ("${a", "KP022"),
            ("${}", "KP061"),
            ("${a..b}", "KP061"),
        ] {
            assert_eq!(Template::parse(text).unwrap_err().code, code, "{text}");
        }
    }
}

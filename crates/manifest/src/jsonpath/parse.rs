//! Reads JSONPath templates.

use serde_json::Value;
use slipway_go::GoError;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplateItem {
    Text(String),
    Action(Vec<PathStep>),
    Range(Vec<PathStep>, Vec<TemplateItem>),
    /// An `{end}` that ends nothing; an error only when reached, as in kubectl.
    StrayEnd,
}

/// A step of an action, taken from every value found so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Field(String),
    Wildcard,
    Recursive,
    Slice(SliceRange),
    Union(Vec<Vec<PathStep>>),
    Filter { left: Vec<PathStep>, operator: String, right: Vec<PathStep> },
    Literal(Value),
    Identifier(String),
}

/// `[start:end:step]`; `[n]` is `[n:n+1]` with a derived end.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct SliceRange {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) derived: bool,
    pub(super) step: Option<i64>,
}

/// Ranges and filters may be nested this deep.
const DEEPEST: usize = 64;

/// Reads a whole template.
pub(super) fn parse_template(text: &str) -> Result<Vec<TemplateItem>, GoError> {
    let mut open: Vec<(Vec<PathStep>, Vec<TemplateItem>)> = Vec::new();
    let mut items = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(brace) = rest.find('{') else {
            items.push(TemplateItem::Text(rest.to_owned()));
            break;
        };
        if brace > 0 {
            items.push(TemplateItem::Text(rest[..brace].to_owned()));
        }
        let mut parser = TemplateParser { chars: rest[brace + 1..].chars().collect(), at: 0, depth: 0 };
        let mut steps = parser.parse_steps(true)?;
        let consumed: usize = parser.chars[..parser.at].iter().map(|c| c.len_utf8()).sum();
        rest = &rest[brace + 1 + consumed..];
        match steps.first() {
            Some(PathStep::Identifier(name)) if name == "range" => {
                if open.len() >= DEEPEST {
                    return Err("ranges nested too deep".into());
                }
                steps.remove(0);
                open.push((steps, std::mem::take(&mut items)));
            }
            Some(PathStep::Identifier(name)) if name == "end" => match open.pop() {
                Some((steps, outer)) => {
                    let body = std::mem::replace(&mut items, outer);
                    items.push(TemplateItem::Range(steps, body));
                }
                None => items.push(TemplateItem::StrayEnd),
            },
            _ => items.push(TemplateItem::Action(steps)),
        }
    }
    // A range without an end reaches to the end.
    while let Some((steps, outer)) = open.pop() {
        let body = std::mem::replace(&mut items, outer);
        items.push(TemplateItem::Range(steps, body));
    }
    Ok(items)
}

struct TemplateParser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl TemplateParser {
    fn parse_nested(&self, text: &str) -> Result<Vec<PathStep>, GoError> {
        if self.depth >= DEEPEST {
            return Err("filters nested too deep".into());
        }
        TemplateParser { chars: text.chars().collect(), at: 0, depth: self.depth + 1 }.parse_steps(false)
    }

    fn next(&mut self) -> Option<char> {
        let next = self.chars.get(self.at).copied();
        self.at += usize::from(next.is_some());
        next
    }

    fn looking_at(&self, prefix: &str) -> bool {
        prefix.chars().enumerate().all(|(offset, c)| self.chars.get(self.at + offset) == Some(&c))
    }

    /// Reads steps up to the closing brace, or to the end of a nested expression.
    fn parse_steps(&mut self, braced: bool) -> Result<Vec<PathStep>, GoError> {
        let mut steps = Vec::new();
        loop {
            if self.looking_at("[?(") {
                self.at += 3;
                steps.push(self.parse_filter()?);
                continue;
            }
            if self.looking_at("..") {
                self.at += 2;
                steps.push(PathStep::Recursive);
                if self.chars.get(self.at).is_some_and(|&c| is_word(c)) {
                    steps.push(self.parse_field());
                }
                continue;
            }
            match self.next() {
                Some('}') => return Ok(steps),
                None if !braced => return Ok(steps),
                None | Some('\n' | '\r') => return Err("unclosed action".into()),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.parse_array(&mut steps)?,
                Some(quote @ ('"' | '\'')) => {
                    steps.push(PathStep::Literal(Value::String(self.parse_quoted(quote)?)));
                }
                Some('.') => steps.push(self.parse_field()),
                Some(c) if c == '+' || c == '-' || c.is_ascii_digit() => {
                    self.at -= 1;
                    steps.push(self.parse_number()?);
                }
                Some(c) if is_word(c) => {
                    self.at -= 1;
                    let start = self.at;
                    while self.chars.get(self.at).is_some_and(|&c| !ends_word(c)) {
                        self.at += 1;
                    }
                    let name: String = self.chars[start..self.at].iter().collect();
                    steps.push(match name.as_str() {
                        "true" => PathStep::Literal(Value::Bool(true)),
                        "false" => PathStep::Literal(Value::Bool(false)),
                        _ => PathStep::Identifier(name),
                    });
                }
                Some(other) => {
                    return Err(format!(
                        "unrecognized character in action: U+{:04X} '{other}'",
                        other as u32
                    )
                    .into());
                }
            }
        }
    }

    fn parse_field(&mut self) -> PathStep {
        let mut name = String::new();
        while let Some(&c) = self.chars.get(self.at) {
            if c == '\\' {
                self.at += 1;
                name.extend(self.next());
            } else if ends_word(c) {
                break;
            } else {
                name.push(c);
                self.at += 1;
            }
        }
        if name == "*" { PathStep::Wildcard } else { PathStep::Field(name) }
    }

    fn parse_number(&mut self) -> Result<PathStep, GoError> {
        let start = self.at;
        while self
            .chars
            .get(self.at)
            .is_some_and(|&c| c.is_ascii_digit() || c == '.' || ((c == '+' || c == '-') && self.at == start))
        {
            self.at += 1;
        }
        let text: String = self.chars[start..self.at].iter().collect();
        if let Ok(number) = text.trim_start_matches('+').parse::<i64>() {
            return Ok(PathStep::Literal(number.into()));
        }
        text.parse::<f64>()
            .map(|number| PathStep::Literal(number.into()))
            .map_err(|_| GoError::new(format!("cannot parse number {text}")))
    }

    fn parse_quoted(&mut self, quote: char) -> Result<String, GoError> {
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".into()),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.next() {
                    None => return Err("unterminated quoted string".into()),
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('a') => text.push('\x07'),
                    Some('b') => text.push('\x08'),
                    Some('f') => text.push('\x0c'),
                    Some('v') => text.push('\x0b'),
                    Some(c @ ('u' | 'x' | 'U')) => {
                        let digits = match c {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let hex: String = self.chars.iter().skip(self.at).take(digits).collect();
                        self.at = (self.at + digits).min(self.chars.len());
                        let c = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        text.push(c.ok_or_else(|| format!("unquote string \\{hex} error invalid syntax"))?);
                    }
                    Some(other) => text.push(other),
                },
                Some(other) => text.push(other),
            }
        }
    }

    fn parse_array(&mut self, steps: &mut Vec<PathStep>) -> Result<(), GoError> {
        let start = self.at;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated array".into()),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text: String = self.chars[start..self.at - 1].iter().collect();
        if text.contains(',') {
            let branches: Result<_, _> = text
                .split(',')
                .map(|part| self.parse_nested(&format!("[{}]", part.trim_matches(' '))))
                .collect();
            steps.push(PathStep::Union(branches?));
            return Ok(());
        }
        if let Some(key) =
            text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|key| !key.contains('\''))
        {
            steps.extend(self.parse_nested(&format!(".{key}"))?);
            return Ok(());
        }
        let text = if text == "*" { ":" } else { &text };
        steps.push(PathStep::Slice(parse_slice(text).ok_or_else(|| format!("invalid array index {text}"))?));
        Ok(())
    }

    fn parse_filter(&mut self) -> Result<PathStep, GoError> {
        let start = self.at;
        let mut quote: Option<char> = None;
        let mut closed = false;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".into()),
                Some(c @ ('"' | '\'')) => match quote {
                    None => quote = Some(c),
                    Some(pair) => closed = closed || (c == pair && self.chars[self.at - 2] != '\\'),
                },
                Some(')') if quote.is_some() == closed => break,
                Some(_) => {}
            }
        }
        let text: String = self.chars[start..self.at - 1].iter().collect();
        if self.next() != Some(']') {
            return Err("unclosed array expect ]".into());
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let split = text.find(is_operator).filter(|&at| at > 0).and_then(|at| {
            let length = text[at..].find(|c: char| !is_operator(c))?;
            Some((&text[..at], &text[at..at + length], &text[at + length..]))
        });
        match split {
            None => Ok(PathStep::Filter {
                left: self.parse_nested(&text)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            }),
            Some((left, operator, right)) => Ok(PathStep::Filter {
                left: self.parse_nested(left)?,
                operator: operator.to_owned(),
                right: self.parse_nested(right)?,
            }),
        }
    }
}

fn parse_slice(text: &str) -> Option<SliceRange> {
    let mut parts = text.split(':');
    let number = |part: &str| -> Option<Option<i64>> {
        match part {
            "" => Some(None),
            "-" => None,
            _ if part.trim_start_matches('-').chars().all(|c| c.is_ascii_digit()) => {
                part.parse().ok().map(Some)
            }
            _ => None,
        }
    };
    let start = number(parts.next()?)?;
    let end = parts.next().map(number);
    let step = parts.next().map(number);
    if parts.next().is_some() {
        return None;
    }
    let mut slice = SliceRange { start, ..SliceRange::default() };
    match end {
        Some(end) => slice.end = end?,
        None => {
            slice.end = Some(start.unwrap_or(0).checked_add(1)?);
            slice.derived = true;
        }
    }
    if let Some(step) = step {
        slice.step = step?;
    }
    Some(slice)
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

//! Reads JSONPath templates.

use serde_json::Value;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Text(String),
    Action(Vec<Step>),
    Range(Vec<Step>, Vec<Item>),
    /// An `{end}` that ends nothing; an error only when reached, as in kubectl.
    StrayEnd,
}

/// A step of an action, taken from every value found so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Step>>),
    Filter { left: Vec<Step>, operator: String, right: Vec<Step> },
    Literal(Value),
    Identifier(String),
}

/// `[start:end:step]`; `[n]` is `[n:n+1]` with a derived end.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) derived: bool,
    pub(super) step: Option<i64>,
}

/// Ranges and filters may be nested this deep.
const DEEPEST: usize = 64;

/// Reads a whole template.
pub(super) fn template(text: &str) -> Result<Vec<Item>, String> {
    let mut open: Vec<(Vec<Step>, Vec<Item>)> = Vec::new();
    let mut items = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some(brace) = rest.find('{') else {
            items.push(Item::Text(rest.to_owned()));
            break;
        };
        if brace > 0 {
            items.push(Item::Text(rest[..brace].to_owned()));
        }
        let mut parser = Parser { chars: rest[brace + 1..].chars().collect(), at: 0, depth: 0 };
        let mut steps = parser.steps(true)?;
        let consumed: usize = parser.chars[..parser.at].iter().map(|c| c.len_utf8()).sum();
        rest = &rest[brace + 1 + consumed..];
        match steps.first() {
            Some(Step::Identifier(name)) if name == "range" => {
                if open.len() >= DEEPEST {
                    return Err("ranges nested too deep".to_owned());
                }
                steps.remove(0);
                open.push((steps, std::mem::take(&mut items)));
            }
            Some(Step::Identifier(name)) if name == "end" => match open.pop() {
                Some((steps, outer)) => {
                    let body = std::mem::replace(&mut items, outer);
                    items.push(Item::Range(steps, body));
                }
                None => items.push(Item::StrayEnd),
            },
            _ => items.push(Item::Action(steps)),
        }
    }
    // A range without an end reaches to the end.
    while let Some((steps, outer)) = open.pop() {
        let body = std::mem::replace(&mut items, outer);
        items.push(Item::Range(steps, body));
    }
    Ok(items)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn nested(&self, text: &str) -> Result<Vec<Step>, String> {
        if self.depth >= DEEPEST {
            return Err("filters nested too deep".to_owned());
        }
        Parser { chars: text.chars().collect(), at: 0, depth: self.depth + 1 }.steps(false)
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
    fn steps(&mut self, braced: bool) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            if self.looking_at("[?(") {
                self.at += 3;
                steps.push(self.filter()?);
                continue;
            }
            if self.looking_at("..") {
                self.at += 2;
                steps.push(Step::Recursive);
                if self.chars.get(self.at).is_some_and(|&c| is_word(c)) {
                    steps.push(self.field());
                }
                continue;
            }
            match self.next() {
                Some('}') => return Ok(steps),
                None if !braced => return Ok(steps),
                None | Some('\n' | '\r') => return Err("unclosed action".to_owned()),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.array(&mut steps)?,
                Some(quote @ ('"' | '\'')) => steps.push(Step::Literal(Value::String(self.quoted(quote)?))),
                Some('.') => steps.push(self.field()),
                Some(c) if c == '+' || c == '-' || c.is_ascii_digit() => {
                    self.at -= 1;
                    steps.push(self.number()?);
                }
                Some(c) if is_word(c) => {
                    self.at -= 1;
                    let start = self.at;
                    while self.chars.get(self.at).is_some_and(|&c| !ends(c)) {
                        self.at += 1;
                    }
                    let name: String = self.chars[start..self.at].iter().collect();
                    steps.push(match name.as_str() {
                        "true" => Step::Literal(Value::Bool(true)),
                        "false" => Step::Literal(Value::Bool(false)),
                        _ => Step::Identifier(name),
                    });
                }
                Some(other) => {
                    return Err(format!(
                        "unrecognized character in action: U+{:04X} '{other}'",
                        other as u32
                    ));
                }
            }
        }
    }

    fn field(&mut self) -> Step {
        let mut name = String::new();
        while let Some(&c) = self.chars.get(self.at) {
            if c == '\\' {
                self.at += 1;
                name.extend(self.next());
            } else if ends(c) {
                break;
            } else {
                name.push(c);
                self.at += 1;
            }
        }
        if name == "*" { Step::Wildcard } else { Step::Field(name) }
    }

    fn number(&mut self) -> Result<Step, String> {
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
            return Ok(Step::Literal(number.into()));
        }
        text.parse::<f64>()
            .map(|number| Step::Literal(number.into()))
            .map_err(|_| format!("cannot parse number {text}"))
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.next() {
                    None => return Err("unterminated quoted string".to_owned()),
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

    fn array(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        let start = self.at;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated array".to_owned()),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text: String = self.chars[start..self.at - 1].iter().collect();
        if text.contains(',') {
            let branches: Result<_, _> =
                text.split(',').map(|part| self.nested(&format!("[{}]", part.trim_matches(' ')))).collect();
            steps.push(Step::Union(branches?));
            return Ok(());
        }
        if let Some(key) =
            text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).filter(|key| !key.contains('\''))
        {
            steps.extend(self.nested(&format!(".{key}"))?);
            return Ok(());
        }
        let text = if text == "*" { ":" } else { &text };
        steps.push(Step::Slice(slice(text).ok_or_else(|| format!("invalid array index {text}"))?));
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, String> {
        let start = self.at;
        let mut quote: Option<char> = None;
        let mut closed = false;
        loop {
            match self.next() {
                None | Some('\n') => return Err("unterminated filter".to_owned()),
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
            return Err("unclosed array expect ]".to_owned());
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let split = text.find(is_operator).filter(|&at| at > 0).and_then(|at| {
            let length = text[at..].find(|c: char| !is_operator(c))?;
            Some((&text[..at], &text[at..at + length], &text[at + length..]))
        });
        match split {
            None => Ok(Step::Filter {
                left: self.nested(&text)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            }),
            Some((left, operator, right)) => Ok(Step::Filter {
                left: self.nested(left)?,
                operator: operator.to_owned(),
                right: self.nested(right)?,
            }),
        }
    }
}

fn slice(text: &str) -> Option<Slice> {
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
    let mut slice = Slice { start, ..Slice::default() };
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

fn ends(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

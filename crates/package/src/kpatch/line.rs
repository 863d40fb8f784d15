//! The line form: headers in brackets, `path: value` below them.

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::YamlReader;

use super::MOST_STATEMENTS;
use super::ast::{Body, Group, Header, Op, PatchFile, Scope, Statement, StepKind};
use super::cursor::{Cursor, Wrong};
use super::{flow, path};
use crate::report::error;
use crate::template::Template;
use crate::val::{Data, Forced, Pos, Reading, Val};

/// A line, without its line break, and where it starts.
#[derive(Clone, Copy)]
struct Line<'t> {
    text: &'t str,
    number: u32,
    start: usize,
    indent: usize,
}

impl Line<'_> {
    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    fn is_comment(&self) -> bool {
        self.text.trim_start().starts_with('#')
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let mut start = 0;
    text.split('\n')
        .enumerate()
        .map(|(number, line)| {
            let at = start;
            start += line.len() + 1;
            let line = line.strip_suffix('\r').unwrap_or(line);
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            Line { text: line, number: number as u32 + 1, start: at, indent }
        })
        .collect()
}

struct Parser<'t, 'p> {
    file: &'t str,
    text: &'t str,
    lines: Vec<Line<'t>>,
    problems: &'p mut Problems,
    /// Statements below a header that could not be read are read, but belong nowhere.
    lost: bool,
}

/// Reads a patch of the line form.
pub(crate) fn parse(file: &str, text: &str, problems: &mut Problems) -> PatchFile {
    let mut parser = Parser { file, text, lines: lines(text), problems, lost: false };
    let groups = parser.groups();
    PatchFile { groups }
}

/// The place of a byte of a line.
fn place(line: Line<'_>, offset: usize) -> Pos {
    let before = line.text.get(..offset).unwrap_or(line.text);
    Pos { line: line.number, column: before.chars().count() as u32 + 1, layer: 0 }
}

impl<'t> Parser<'t, '_> {
    fn report(&mut self, line: Line<'_>, wrong: Wrong) {
        let problem = error(wrong.code, wrong.message);
        let problem = match wrong.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        };
        let pos = place(line, wrong.offset);
        self.push(pos, problem);
    }

    fn push(&mut self, pos: Pos, problem: Problem) {
        self.problems.push(problem.at(Location::new(self.file, pos.line, pos.column)));
    }

    fn groups(&mut self) -> Vec<Group> {
        let implicit = Header {
            scope: Scope::everything(Pos::default()),
            steps: Vec::new(),
            builder: None,
            optional: false,
            implicit: true,
            pos: Pos { line: 1, column: 1, layer: 0 },
        };
        let mut groups = vec![Group { header: implicit, body: Body::Statements(Vec::new()) }];
        let (mut at, mut count) = (0, 0);
        while at < self.lines.len() {
            let line = self.lines[at];
            at += 1;
            if line.is_blank() || line.is_comment() {
                continue;
            }
            if line.text.trim_start().starts_with('[') {
                match self.header(line) {
                    Ok(header) => {
                        self.lost = false;
                        groups.push(Group { header, body: Body::Statements(Vec::new()) });
                    }
                    Err(wrong) => {
                        self.lost = true;
                        self.report(line, wrong);
                    }
                }
                continue;
            }
            count += 1;
            if count > MOST_STATEMENTS {
                let pos = place(line, 0);
                self.push(pos, error("KP001", format!("more than {MOST_STATEMENTS} statements")));
                break;
            }
            let statement = self.statement(line, &mut at);
            if let (Some(statement), Some(group), false) = (statement, groups.last_mut(), self.lost)
                && let Body::Statements(statements) = &mut group.body
            {
                statements.push(statement);
            }
        }
        groups.retain(
            |group| !matches!(&group.body, Body::Statements(all) if group.header.implicit && all.is_empty()),
        );
        for group in &mut groups {
            self.check(group);
        }
        groups
    }

    fn header(&mut self, line: Line<'_>) -> Result<Header, Wrong> {
        let mut cursor = Cursor::new(line.text);
        let at = |offset: usize| place(line, offset);
        cursor.skip_space();
        let pos = at(cursor.at);
        cursor.expect('[')?;
        if cursor.peek() == Some('[') {
            return Err(cursor
                .wrong("KP062", "`[[…]]` is not part of the language")
                .hint("headers have single brackets"));
        }
        cursor.skip_space();
        let scope = path::scope(&mut cursor, &at)?;
        let mut steps = Vec::new();
        let place_of_steps = cursor;
        if scope.all && matches!(cursor.peek(), Some('.' | '[')) {
            return Err(cursor
                .wrong("KP003", "no path can follow `[*]`")
                .hint("write full paths in the statements below"));
        }
        let op = path::steps(&mut cursor, &mut steps, &at)?;
        let builder = match op {
            Op::Set => None,
            Op::Append | Op::Before(_) | Op::After(_) => Some(op),
            Op::Delete(_) | Op::Replace => {
                return Err(place_of_steps
                    .wrong("KP012", "a header cannot delete or replace")
                    .hint("do it in a statement"));
            }
        };
        cursor.skip_space();
        if cursor.peek() == Some('.') || !cursor.eat(']') {
            return Err(cursor.wrong("KP003", format!("expected `]`, found {}", cursor.here())));
        }
        let optional = cursor.eat('?');
        if !cursor.at_end() {
            return Err(cursor.wrong("KP003", format!("unexpected {} after the header", cursor.here())));
        }
        Ok(Header { scope, steps, builder, optional, implicit: false, pos })
    }

    fn statement(&mut self, line: Line<'t>, next: &mut usize) -> Option<Statement> {
        let mut cursor = Cursor::new(line.text);
        let at = |offset: usize| place(line, offset);
        cursor.skip_space();
        let pos = at(cursor.at);
        let read = path::keypath(&mut cursor, &at).and_then(|(steps, op)| {
            let optional = cursor.eat('?');
            cursor.skip_space();
            if !cursor.eat(':') || !matches!(cursor.peek(), None | Some(' ' | '\t')) {
                let equals = cursor.peek() == Some('=')
                    || matches!(steps.last().map(|step| &step.kind), Some(StepKind::Match(_)));
                return Err(if equals {
                    cursor.wrong("KP005", "`=` does not set a value").hint("use ':': `key: value`")
                } else {
                    cursor
                        .wrong("KP003", format!("expected `: value` after the path, found {}", cursor.here()))
                        .hint("keys with other characters must be quoted")
                });
            }
            Ok((steps, op, optional))
        });
        let (steps, op, optional) = match read {
            Ok(read) => read,
            Err(wrong) => {
                self.report(line, wrong);
                self.skip_block(line, next);
                return None;
            }
        };
        let value = self.value(line, cursor, next);
        let quoted = matches!(line.text.trim_start().chars().next(), Some('"' | '\''));
        let switches = !quoted
            && op == Op::Set
            && matches!(steps.as_slice(), [step] if step.kind == StepKind::Key(Template::Literal("enabled".to_owned())));
        Some(Statement { steps, op, optional, value, switches, pos })
    }

    fn skip_block(&self, line: Line<'_>, next: &mut usize) {
        while let Some(following) = self.lines.get(*next) {
            if !following.is_blank() && following.indent <= line.indent {
                break;
            }
            *next += 1;
        }
    }

    /// The value after the colon: the rest of the line, or the lines indented below it.
    fn value(&mut self, line: Line<'t>, mut cursor: Cursor<'t>, next: &mut usize) -> Option<Val> {
        let empty = cursor.at_end();
        cursor.skip_space();
        let first = *next;
        let is_block_text = cursor.rest().starts_with(['|', '>']);
        if empty || is_block_text {
            self.skip_block(line, next);
        }
        let below = &self.lines[first..*next];
        // Blank lines and comments after a block belong to what follows.
        let last =
            below.iter().rposition(|below| !below.is_blank() && (is_block_text || !below.is_comment()));
        let last = last.map(|last| below[last]);
        if empty {
            let (Some(first), Some(last)) = (below.first().copied(), last) else {
                *next = first;
                return None;
            };
            if let Some(tab) =
                below.iter().find(|below| !below.is_blank() && below.text[..below.indent].contains('\t'))
            {
                let pos = place(*tab, 0);
                self.push(pos, error("KP002", "a tab cannot indent a block").hint("use spaces"));
                return None;
            }
            let text = &self.text[first.start..last.start + last.text.len()];
            return self.yaml(text, first.number - 1, 0, None);
        }
        let start = line.start + cursor.at;
        let columns = line.text[..cursor.at].chars().count() as u32;
        let end = match last {
            Some(last) if is_block_text => {
                let end = last.start + last.text.len();
                self.text[end..].find('\n').map_or(end, |newline| end + newline + 1)
            }
            _ => line.start + line.text.len(),
        };
        let text = &self.text[start..end];
        for (word, tag) in [
            ("!!int", Forced::Int),
            ("!!bool", Forced::Bool),
            ("!!float", Forced::Float),
            ("!!str", Forced::Str),
        ] {
            // The reader would refuse `!!int "${n}"`: what the reference says is not known yet.
            if let Some(rest) = text.strip_prefix(word).filter(|rest| rest.starts_with([' ', '\t'])) {
                return self.yaml(rest, line.number - 1, columns + word.len() as u32, Some(tag));
            }
        }
        self.yaml(text, line.number - 1, columns, None)
    }

    fn yaml(&mut self, text: &str, lines: u32, columns: u32, tag: Option<Forced>) -> Option<Val> {
        let reading = Reading { file: self.file, lines, columns, layer: 0 };
        if text.starts_with(['&', '*']) {
            let pos = Pos { line: lines + 1, column: columns + 1, layer: 0 };
            self.push(pos, error("KP020", "anchors and aliases are not allowed in a patch"));
            return None;
        }
        let plain = simple(text);
        if let Some(plain) = plain {
            let pos = Pos { line: lines + 1, column: columns + 1, layer: 0 };
            let data = Data::Text(reading.template(plain, pos, self.problems));
            return Some(Val { data, pos, quoted: true, tag });
        }
        match YamlReader::new().anchors(false).max_depth(64).read_one(text, self.file) {
            Ok(node) => {
                let mut val = reading.value(&node, self.problems);
                if tag.is_some() {
                    val.tag = tag;
                }
                check_keys(&val, self.file, self.problems);
                Some(val)
            }
            Err(found) => {
                for problem in found {
                    let mut problem = flow::relocated(problem, text);
                    if let Some(at) = &mut problem.at {
                        at.column += if at.line == 1 { columns } else { 0 };
                        at.line += lines;
                    }
                    problem.excerpt = None;
                    self.problems.push(problem.code("KP020"));
                }
                None
            }
        }
    }

    /// Mistakes that show only once a group is complete.
    fn check(&mut self, group: &mut Group) {
        let header = &group.header;
        let Body::Statements(statements) = &mut group.body else { return };
        let directive = header.steps.is_empty() && header.builder.is_none();
        let mut seen = std::collections::HashMap::new();
        for statement in statements.iter_mut() {
            if statement.switches && header.implicit {
                let problem = error("KP031", "`enabled` needs a header: it switches one object")
                    .hint("write \"enabled\" in quotes for a field of that name");
                self.problems.push(problem.at(Location::new(
                    self.file,
                    statement.pos.line,
                    statement.pos.column,
                )));
            }
            statement.switches &= directive;
            let deletes = matches!(statement.op, Op::Delete(_));
            if deletes && let Some(value) = &statement.value {
                let empty = match &value.data {
                    Data::Null => true,
                    Data::Text(Template::Literal(text)) => text.is_empty(),
                    _ => false,
                };
                if !empty {
                    let at = Location::new(self.file, value.pos.line, value.pos.column);
                    self.problems.push(error("KP033", "a deletion has no value").at(at));
                }
            }
            if statement.op == Op::Set && header.builder.is_none() {
                let shown = super::ast::show_steps(&statement.steps);
                if let Some(line) = seen.insert(shown.clone(), statement.pos.line) {
                    let at = Location::new(self.file, statement.pos.line, statement.pos.column);
                    let message = format!("`{shown}` is set twice; the first is in line {line}");
                    self.problems.push(crate::report::warning("KP040", message).at(at));
                }
            }
            if header.builder.is_some() && statement.op != Op::Set {
                let at = Location::new(self.file, statement.pos.line, statement.pos.column);
                self.problems.push(error("KP034", "an element under construction is only set").at(at));
            }
        }
        if header.builder.is_some() && statements.is_empty() && !self.lost {
            let at = Location::new(self.file, header.pos.line, header.pos.column);
            self.problems.push(error("KP032", "the header builds an element but nothing follows it").at(at));
        }
    }
}

/// The text of a double-quoted value without escapes that fills the line: most values are such.
fn simple(text: &str) -> Option<&str> {
    let inner = text.trim_end().strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains(['"', '\\', '\n', '\t'])).then_some(inner)
}

/// References are values, never keys.
pub(crate) fn check_keys(val: &Val, file: &str, problems: &mut Problems) {
    match &val.data {
        Data::Map(map) => {
            for (key, value) in map {
                if key.contains("${") && !key.contains("$${") {
                    let at = Location::new(file, value.pos.line, value.pos.column);
                    problems.push(error("KP021", format!("the key `{key}` cannot hold a reference")).at(at));
                }
                check_keys(value, file, problems);
            }
        }
        Data::List(items) => items.iter().for_each(|item| check_keys(item, file, problems)),
        _ => {}
    }
}

//! Running trees: state, statements, pipelines.

mod call;
mod compare;
mod data;
mod escape;
mod field;
mod nested;
pub(crate) mod reflect_value;

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use crate::func::{FuncContext, FuncError};
use crate::host::{RenderLimits, TemplateHost};
use crate::parse::ast::{
    BranchNode, ByteOffset, CommandNode, Expr, ParseTree, PipeNode, TemplateCall, TemplateNode, VariableNode,
};
use crate::set::TemplateSet;
use crate::str::GoString;
use crate::trace::{TextSegment, Tracer};
use crate::value::{GoKind, GoValue, RED_ZONE, SEGMENT};
use nested::{NestedScope, ParsedText};
use reflect_value::ReflectValue;
use slipway_go::strconv;

/// The reason a template failed: `template: FILE:LINE:COLUMN: executing "NAME" at <…>: …`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct ExecError {
    text: String,
    limit: bool,
    located: bool,
    /// A bug of Go's engine that Helm catches and reports.
    panicked: bool,
}

impl ExecError {
    /// Stopped by a limit of ours rather than by the template itself.
    pub fn is_limit(&self) -> bool {
        self.limit
    }

    /// The innermost template that failed, with its line, counted from 1, and the bytes before the place in that line.
    pub fn innermost_place(&self) -> Option<(&str, usize, Option<usize>)> {
        if !self.located {
            return None;
        }
        // Every template adds its own place before what its inner one said.
        let (head, _) = self.text.rsplit_once(": executing \"")?;
        let (_, place) = head.rsplit_once("template: ")?;
        let (rest, bytes) = place.rsplit_once(':')?;
        let (name, line) = rest.rsplit_once(':')?;
        Some((name, line.parse().ok()?, bytes.parse().ok()))
    }

    /// Helm's wording: what `fail` and `required` said, at the outermost place; else the whole text.
    pub fn helm_text(&self, file: &str) -> String {
        if self.panicked {
            return format!("rendering template failed: {}", self.text);
        }
        if !self.located {
            return self.text.clone();
        }
        let mut parts = self.text.splitn(3, ": ");
        let (_, location, rest) = (parts.next(), parts.next(), parts.next());
        let (Some(location), Some(rest)) = (location, rest) else {
            return format!("execution error in ({file}): {}", self.text);
        };
        let inner = rest
            .find(ERR_START)
            .map(|at| at + ERR_START.len())
            .and_then(|from| rest.rfind(ERR_END).filter(|to| *to >= from).map(|to| &rest[from..to]));
        match inner {
            Some(inner) => format!("execution error at ({location}): {inner}"),
            None => self.text.clone(),
        }
    }

    fn without_position(text: String) -> Box<Self> {
        Box::new(ExecError { text, limit: false, located: false, panicked: false })
    }

    /// A runtime error of Go that its engine does not turn into a located one.
    fn go_panic(text: &str) -> Box<Self> {
        Box::new(ExecError { text: text.to_owned(), limit: false, located: false, panicked: true })
    }
}

/// Around the message of `fail` and `required`, so that it can be found at any nesting.
pub(crate) const ERR_START: &str = "HELM_ERR_START";
pub(crate) const ERR_END: &str = "HELM_ERR_END";

type Exec<T> = Result<T, Box<ExecError>>;

/// Executes templates of one set: the files of a chart share one, so that its limits span them all.
pub struct TemplateRenderer<'a> {
    set: &'a TemplateSet,
    ctx: FuncContext<'a>,
    out: Vec<u8>,
    /// The current depth of includes, by name.
    included: HashMap<String, usize>,
    /// Templates defined by the texts of the `tpl` calls being executed.
    scope: Option<Rc<NestedScope>>,
    tpl_depth: usize,
    texts: HashMap<GoString, ParsedText>,
    trace: Option<Box<Tracer>>,
}

/// The node an error would be reported at.
#[derive(Clone, Copy)]
enum At<'t> {
    Start,
    Expr(&'t Expr),
    Variable(&'t VariableNode),
    Command(&'t CommandNode),
    Pipe(&'t PipeNode),
    Call(&'t TemplateCall),
    Pos(ByteOffset),
}

impl At<'_> {
    fn byte_offset(&self) -> Option<ByteOffset> {
        Some(match self {
            At::Start => return None,
            At::Expr(e) => e.byte_offset(),
            At::Variable(v) => v.pos,
            At::Command(c) => c.pos,
            At::Pipe(p) => p.pos,
            At::Call(c) => c.pos,
            At::Pos(p) => *p,
        })
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Start | At::Pos(_) => Ok(()),
            At::Expr(e) => e.fmt(f),
            At::Variable(v) => v.fmt(f),
            At::Command(c) => c.fmt(f),
            At::Pipe(p) => p.fmt(f),
            At::Call(c) => c.fmt(f),
        }
    }
}

/// The execution of one tree.
struct State<'t> {
    tree: &'t ParseTree,
    /// Moves forward with evaluation and, as in Go, never back.
    at: At<'t>,
    vars: Vec<(&'t str, ReflectValue)>,
    depth: usize,
}

impl State<'_> {
    fn error_here(&self, message: impl fmt::Display) -> Box<ExecError> {
        self.located_error(message, false)
    }

    fn located_error(&self, message: impl fmt::Display, limit: bool) -> Box<ExecError> {
        let name = strconv::quote(self.tree.name.as_bytes());
        let name = String::from_utf8_lossy(&name);
        let text = match self.at.byte_offset() {
            None => format!("template: {}: {message}", self.tree.name),
            Some(pos) => {
                let (line, column) = self.tree.source.line_column(pos);
                let file = &self.tree.source.name;
                format!("template: {file}:{line}:{column}: executing {name} at <{}>: {message}", self.at)
            }
        };
        Box::new(ExecError { text, limit, located: true, panicked: false })
    }

    fn limit_error(&self, error: &FuncError) -> Box<ExecError> {
        self.located_error(error.message(), error.is_limit())
    }
}

enum Flow {
    Next,
    Break,
    Continue,
}

impl<'a> TemplateRenderer<'a> {
    pub fn new(set: &'a TemplateSet, limits: &'a RenderLimits, host: &'a dyn TemplateHost) -> Self {
        TemplateRenderer {
            set,
            ctx: FuncContext::new(limits, host),
            out: Vec::new(),
            included: HashMap::new(),
            scope: None,
            tpl_depth: 0,
            texts: HashMap::new(),
            trace: None,
        }
    }

    /// Executes a template. The text still has Go's `<no value>`: see [`remove_no_value`].
    pub fn execute_template(&mut self, name: &str, data: &GoValue) -> Result<Vec<u8>, ExecError> {
        self.ctx.used.bytes = 0;
        self.out.clear();
        self.included.clear();
        self.scope = None;
        self.tpl_depth = 0;
        match self.execute_named(name, data) {
            Ok(()) => Ok(std::mem::take(&mut self.out)),
            Err(e) => Err(*e),
        }
    }

    /// Like [`TemplateRenderer::execute_template`], and tells which part of the text came from where.
    pub fn execute_traced(
        &mut self,
        name: &str,
        data: &GoValue,
    ) -> Result<(Vec<u8>, Vec<TextSegment>), ExecError> {
        self.trace = Some(Box::new(Tracer::new(data)));
        let out = self.execute_template(name, data);
        let segments = self.trace.take().map(|t| t.finish()).unwrap_or_default();
        Ok((out?, segments))
    }

    fn find_template(&self, name: &str) -> Option<Arc<ParseTree>> {
        if let Some(tree) = self.scope.as_ref().and_then(|s| s.find_template(name)) {
            return Some(tree);
        }
        self.set.find_tree(name).cloned()
    }

    fn execute_named(&mut self, name: &str, data: &GoValue) -> Exec<()> {
        match self.find_template(name) {
            Some(tree) => self.run_tree(&tree, ReflectValue::value_of(data.clone())),
            None => {
                let quoted = strconv::quote(name.as_bytes());
                Err(ExecError::without_position(format!(
                    "template: no template {} associated with template \"{}\"",
                    String::from_utf8_lossy(&quoted),
                    crate::set::ROOT
                )))
            }
        }
    }

    /// Executes a tree with `data` as dot and `$`, appending to the output.
    fn run_tree(&mut self, tree: &ParseTree, data: ReflectValue) -> Exec<()> {
        let mut state = State { tree, at: At::Start, vars: vec![("$", data.clone())], depth: 0 };
        self.walk_list(&mut state, &data, &tree.root).map(drop)
    }

    fn walk_list<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        nodes: &'t [TemplateNode],
    ) -> Exec<Flow> {
        stacker::maybe_grow(RED_ZONE, SEGMENT, || {
            for node in nodes {
                match self.walk_node(s, dot, node)? {
                    Flow::Next => {}
                    flow => return Ok(flow),
                }
            }
            Ok(Flow::Next)
        })
    }

    fn walk_node<'t>(&mut self, s: &mut State<'t>, dot: &ReflectValue, node: &'t TemplateNode) -> Exec<Flow> {
        self.ctx.charge_steps(1).map_err(|e| s.limit_error(&e))?;
        match node {
            TemplateNode::Text(place) => {
                let text = s.tree.source.slice(place);
                self.write_text(s, text)?;
                if let Some(trace) = &mut self.trace {
                    trace.note_text(s.tree, place.start, self.out.len() - text.len(), self.out.len());
                }
            }
            TemplateNode::Action(pos, pipe) => {
                let start = self.out.len();
                if let Some(trace) = &mut self.trace {
                    trace.begin_action();
                }
                s.at = At::Pos(*pos);
                let value = self.eval_pipeline(s, dot, pipe)?;
                if pipe.decls.is_empty() {
                    self.print_value(s, value)?;
                    if let Some(trace) = &mut self.trace {
                        trace.note_action(s.tree, *pos, start, self.out.len());
                    }
                }
            }
            TemplateNode::If(b) => return self.walk_branch(s, dot, b, false),
            TemplateNode::With(b) => return self.walk_branch(s, dot, b, true),
            TemplateNode::Range(b) => {
                let mark = s.vars.len();
                let flow = self.walk_range(s, dot, b);
                s.vars.truncate(mark);
                return flow;
            }
            TemplateNode::Template(call) => self.walk_template(s, dot, call)?,
            TemplateNode::Break => return Ok(Flow::Break),
            TemplateNode::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn write_text(&mut self, s: &State<'_>, text: &[u8]) -> Exec<()> {
        let max = self.ctx.limits().value_bytes;
        if self.out.len() + text.len() > max {
            return Err(s.located_error(format!("the output is longer than the limit of {max} bytes"), true));
        }
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn walk_branch<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        b: &'t BranchNode,
        with: bool,
    ) -> Exec<Flow> {
        let mark = s.vars.len();
        if let Some(trace) = &mut self.trace {
            trace.begin_action();
        }
        let value = self.eval_pipeline(s, dot, &b.pipe)?;
        let guard = self.trace.as_mut().map(|t| t.begin_guard());
        let flow = if value.is_true() {
            self.walk_list(s, if with { &value } else { dot }, &b.list)?
        } else if let Some(list) = &b.otherwise {
            self.walk_list(s, dot, list)?
        } else {
            Flow::Next
        };
        if let (Some(trace), Some(guard)) = (&mut self.trace, guard) {
            trace.end_guard(guard);
        }
        s.vars.truncate(mark);
        Ok(flow)
    }

    fn walk_range<'t>(&mut self, s: &mut State<'t>, dot: &ReflectValue, b: &'t BranchNode) -> Exec<Flow> {
        if let Some(trace) = &mut self.trace {
            trace.begin_action();
        }
        let value = self.eval_pipeline(s, dot, &b.pipe)?.follow_pointers();
        let guard = self.trace.as_mut().map(|t| t.begin_guard());
        let flow = self.iterate_range(s, dot, b, value);
        if let (Some(trace), Some(guard)) = (&mut self.trace, guard) {
            trace.end_guard(guard);
        }
        flow
    }

    fn iterate_range<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        b: &'t BranchNode,
        value: ReflectValue,
    ) -> Exec<Flow> {
        let mark = s.vars.len();
        let plain = value.clone().into_value();
        match plain.kind() {
            GoKind::Slice => {
                if let Some(l) = plain.elements().filter(|l| !l.is_empty()) {
                    let mut i = 0;
                    // The length may not change under us, the elements may.
                    while let Some(v) = l.get(i) {
                        let index = ReflectValue::Val(GoValue::Int(i64::try_from(i).unwrap_or(i64::MAX)));
                        let element = ReflectValue::list_element(l.kind(), v);
                        match self.walk_iteration(s, b, mark, index, element)? {
                            Flow::Break => break,
                            _ => i += 1,
                        }
                    }
                    return Ok(Flow::Next);
                }
            }
            GoKind::Map => {
                if let Some(m) = plain.map_entries().filter(|m| !m.is_empty()) {
                    for (k, v) in m.to_vec() {
                        let element = ReflectValue::map_entry(m.kind(), v);
                        if let Flow::Break =
                            self.walk_iteration(s, b, mark, ReflectValue::Val(GoValue::Str(k)), element)?
                        {
                            break;
                        }
                    }
                    return Ok(Flow::Next);
                }
            }
            GoKind::Invalid => {}
            _ => {
                let shown =
                    crate::fmt::sprint_value(&plain, self.ctx.limits().value_bytes).unwrap_or_default();
                return Err(
                    s.error_here(format!("range can't iterate over {}", String::from_utf8_lossy(&shown)))
                );
            }
        }
        match &b.otherwise {
            Some(list) => self.walk_list(s, dot, list),
            None => Ok(Flow::Next),
        }
    }

    fn walk_iteration<'t>(
        &mut self,
        s: &mut State<'t>,
        b: &'t BranchNode,
        mark: usize,
        index: ReflectValue,
        element: ReflectValue,
    ) -> Exec<Flow> {
        self.ctx.charge_steps(1).map_err(|e| s.limit_error(&e))?;
        let decls = &b.pipe.decls;
        if b.pipe.assign {
            match decls.as_slice() {
                [value] => self.set_var(s, value.variable_name(), element.clone())?,
                [key, value, ..] => {
                    self.set_var(s, key.variable_name(), index)?;
                    self.set_var(s, value.variable_name(), element.clone())?;
                }
                [] => {}
            }
        } else if !decls.is_empty() {
            // The pipeline pushed one variable for each declaration.
            if decls.len() > 1 {
                s.vars[mark - 2].1 = index;
            }
            s.vars[mark - 1].1 = element.clone();
        }
        let flow = self.walk_list(s, &element, &b.list)?;
        s.vars.truncate(mark);
        Ok(flow)
    }

    fn walk_template<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        call: &'t TemplateCall,
    ) -> Exec<()> {
        s.at = At::Call(call);
        let Some(tree) = self.find_template(&call.name) else {
            let name = strconv::quote(call.name.as_bytes());
            return Err(s.error_here(format!("template {} not defined", String::from_utf8_lossy(&name))));
        };
        let max = self.ctx.limits().template_depth;
        if s.depth >= max {
            return Err(s.error_here(format!("exceeded maximum template depth ({max})")));
        }
        let dot = match &call.pipe {
            Some(pipe) => self.eval_pipeline(s, dot, pipe)?,
            None => ReflectValue::Invalid,
        };
        let mut inner =
            State { tree: &tree, at: At::Start, vars: vec![("$", dot.clone())], depth: s.depth + 1 };
        self.walk_list(&mut inner, &dot, &tree.root).map(drop)
    }

    fn eval_pipeline<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        pipe: &'t PipeNode,
    ) -> Exec<ReflectValue> {
        s.at = At::Pipe(pipe);
        let mut value: Option<ReflectValue> = None;
        for command in &pipe.commands {
            self.ctx.charge_steps(1).map_err(|e| s.limit_error(&e))?;
            // An interface is opened after each command: nil inside one becomes no value at all.
            value = Some(self.eval_command(s, dot, command, value)?.open_interface());
        }
        let value = value.unwrap_or(ReflectValue::Invalid);
        for v in &pipe.decls {
            if pipe.assign {
                self.set_var(s, v.variable_name(), value.clone())?;
            } else {
                s.vars.push((v.variable_name(), value.clone()));
            }
        }
        Ok(value)
    }

    fn set_var(&self, s: &mut State<'_>, name: &str, value: ReflectValue) -> Exec<()> {
        match s.vars.iter_mut().rev().find(|(n, _)| *n == name) {
            Some(var) => {
                var.1 = value;
                Ok(())
            }
            None => Err(s.error_here(format!("undefined variable: {name}"))),
        }
    }

    fn variable_value(&self, s: &State<'_>, name: &str) -> Exec<ReflectValue> {
        match s.vars.iter().rev().find(|(n, _)| *n == name) {
            Some((_, value)) => Ok(value.clone()),
            None => Err(s.error_here(format!("undefined variable: {name}"))),
        }
    }

    /// `{{ value }}`
    fn print_value(&mut self, s: &State<'_>, value: ReflectValue) -> Exec<()> {
        match value {
            ReflectValue::Invalid => self.write_text(s, b"<no value>"),
            ReflectValue::Val(GoValue::Str(text)) => self.write_text(s, &text),
            value => {
                let plain = match value.follow_pointers() {
                    // What is reached through a pointer shows the methods of the pointer too.
                    ReflectValue::Addr(GoValue::Object(o)) => match o.string_form(true) {
                        Some(text) => return self.write_text(s, &text),
                        None => GoValue::Object(o),
                    },
                    v => v.into_value(),
                };
                let max = self.ctx.limits().value_bytes;
                let text = crate::fmt::sprint_value(&plain, max).map_err(|e| s.limit_error(&e))?;
                self.write_text(s, &text)
            }
        }
    }
}

/// Deletes every `<no value>`, as Helm does with the text of each file and of `tpl`.
pub fn remove_no_value(text: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"<no value>";
    let Some(first) = find_bytes(&text, MARK) else { return text };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(&text[..first]);
    let mut rest = &text[first + MARK.len()..];
    while let Some(at) = find_bytes(rest, MARK) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + MARK.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn find_bytes(text: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, what)
}

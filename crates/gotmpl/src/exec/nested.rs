//! Helm's `include` and `tpl`: templates executed inside a function.

use std::rc::Rc;
use std::sync::Arc;

use super::reflect_value::ReflectValue;
use super::{ExecError, TemplateRenderer, find_bytes, remove_no_value};
use crate::func::{FuncError, FuncResult};
use crate::parse::ast::ParseTree;
use crate::parse::{ParseError, parse_file};
use crate::set::ROOT;
use crate::str::GoString;
use crate::value::GoValue;
use slipway_go::strconv;

/// Templates a `tpl` text brought along, over those that were there before.
pub(super) struct NestedScope {
    parent: Option<Rc<NestedScope>>,
    trees: Vec<Arc<ParseTree>>,
}

impl NestedScope {
    pub(super) fn find_template(&self, name: &str) -> Option<Arc<ParseTree>> {
        let mut scope = Some(self);
        while let Some(s) = scope {
            if let Some(tree) = s.trees.iter().find(|t| t.name == name) {
                return Some(Arc::clone(tree));
            }
            scope = s.parent.as_deref();
        }
        None
    }
}

/// A `tpl` text parsed before: charts render the same few texts again and again.
pub(super) type ParsedText = Rc<Result<Vec<Arc<ParseTree>>, ParseError>>;

/// Texts remembered at most; a chart that makes up more is not one that repeats itself.
const MAX_TEXTS: usize = 4096;

impl From<ExecError> for FuncError {
    fn from(e: ExecError) -> Self {
        if e.limit { FuncError::limit_exceeded(e.text) } else { FuncError::new(e.text) }
    }
}

impl TemplateRenderer<'_> {
    pub(super) fn call_include(&mut self, args: &[GoValue]) -> FuncResult {
        let (Some(GoValue::Str(name)), Some(data)) = (args.first(), args.get(1)) else {
            return Ok(GoValue::str(""));
        };
        let name = name.lossy();
        let name: &str = &name;
        let depth = match self.included.get_mut(name) {
            Some(depth) => depth,
            None => self.included.entry(name.to_owned()).or_default(),
        };
        if *depth > self.ctx.limits().include_depth {
            return Err(FuncError::new(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *depth += 1;
        let outer = std::mem::take(&mut self.out);
        if let Some(trace) = &mut self.trace {
            trace.begin_nested();
        }
        let result = self.execute_named(name, data);
        let out = std::mem::replace(&mut self.out, outer);
        if let Some(trace) = &mut self.trace {
            trace.end_nested(name, &out);
        }
        if let Some(depth) = self.included.get_mut(name) {
            *depth = depth.saturating_sub(1);
        }
        result.map_err(|e| FuncError::from(*e))?;
        self.ctx.charge_bytes(out.len())?;
        Ok(out.into())
    }

    pub(super) fn call_tpl(&mut self, args: &[GoValue]) -> FuncResult {
        let (Some(GoValue::Str(text)), Some(data)) = (args.first(), args.get(1)) else {
            return Ok(GoValue::str(""));
        };
        if find_bytes(text, b"{{").is_none() {
            return Ok(match find_bytes(text, b"<no value>") {
                None => GoValue::Str(text.clone()),
                Some(_) => remove_no_value(text.to_vec()).into(),
            });
        }
        let quoted = || String::from_utf8_lossy(&strconv::quote(text)).into_owned();
        if self.tpl_depth >= self.ctx.limits().tpl_depth {
            return Err(FuncError::limit_exceeded(format!(
                "tpl is nested more than {} levels deep",
                self.ctx.limits().tpl_depth
            )));
        }
        let parsed = self.parse_nested(text);
        let trees = match parsed.as_ref() {
            Ok(trees) => trees,
            Err(e) => return Err(FuncError::new(format!("cannot parse template {}: {e}", quoted()))),
        };
        let Some(main) = trees.iter().find(|t| t.name == ROOT).cloned() else {
            return Ok(GoValue::str(""));
        };
        let parent = self.scope.clone();
        // A body of only space does not replace one that is there.
        let trees = trees.iter().filter(|t| !t.is_empty() || self.find_template(&t.name).is_none());
        let scope = NestedScope { parent: parent.clone(), trees: trees.cloned().collect() };
        self.scope = Some(Rc::new(scope));
        self.tpl_depth += 1;
        let outer = std::mem::take(&mut self.out);
        if let Some(trace) = &mut self.trace {
            trace.begin_nested();
        }
        let result = self.run_tree(&main, ReflectValue::value_of(data.clone()));
        let out = std::mem::replace(&mut self.out, outer);
        if let Some(trace) = &mut self.trace {
            trace.end_nested("tpl", &out);
        }
        self.tpl_depth -= 1;
        self.scope = parent;
        result.map_err(|e| {
            let text = format!("error during tpl function execution for {}: {e}", quoted());
            if e.limit { FuncError::limit_exceeded(text) } else { FuncError::new(text) }
        })?;
        self.ctx.charge_bytes(out.len())?;
        Ok(remove_no_value(out).into())
    }

    fn parse_nested(&mut self, text: &GoString) -> ParsedText {
        if let Some(parsed) = self.texts.get(text.as_bytes()) {
            return Rc::clone(parsed);
        }
        let depth = self.ctx.limits().parse_depth;
        let parsed = Rc::new(parse_file(ROOT, text.shared(), self.set.funcs(), depth));
        if self.texts.len() >= MAX_TEXTS {
            self.texts.clear();
        }
        self.texts.insert(text.clone(), Rc::clone(&parsed));
        parsed
    }
}

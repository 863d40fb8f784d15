//! Named templates parsed into one set, as Helm parses all files of all charts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::func::FuncMap;
use crate::host::Limits;
use crate::parse::ast::Tree;
use crate::parse::{ParseError, parse};

/// The name of Helm's set, which shows in messages.
pub(crate) const ROOT: &str = "gotpl";

/// Parsed templates: parse once, execute many times, from any thread.
#[derive(Clone)]
pub struct TemplateSet {
    funcs: Arc<FuncMap>,
    trees: HashMap<String, Arc<Tree>>,
    parse_depth: usize,
}

impl TemplateSet {
    /// An empty set whose templates may call `funcs`; sets of many charts can share them in an `Arc`.
    pub fn new(funcs: impl Into<Arc<FuncMap>>, limits: &Limits) -> Self {
        TemplateSet { funcs: funcs.into(), trees: HashMap::new(), parse_depth: limits.parse_depth }
    }

    /// Parses a file; what it defines replaces earlier templates of the same name, except that a body
    /// of only space never does.
    pub fn parse(&mut self, name: &str, text: impl AsRef<[u8]>) -> Result<(), ParseError> {
        for tree in parse(name, text.as_ref().into(), &self.funcs, self.parse_depth)? {
            if tree.is_empty() && self.trees.contains_key(&tree.name) {
                continue;
            }
            self.trees.insert(tree.name.clone(), tree);
        }
        Ok(())
    }

    pub fn funcs(&self) -> &FuncMap {
        &self.funcs
    }

    pub(crate) fn tree(&self, name: &str) -> Option<&Arc<Tree>> {
        self.trees.get(name)
    }

    /// Every template, sorted, with the file that defines it.
    pub fn names(&self) -> Vec<(&str, &str)> {
        let mut names: Vec<_> =
            self.trees.values().map(|t| (t.name.as_str(), t.source.name.as_str())).collect();
        names.sort_unstable();
        names
    }
}

//! Named templates parsed into one set, as Helm parses all files of all charts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::func::FuncMap;
use crate::host::Limits;
use crate::parse::ast::Tree;
use crate::parse::{ParseError, parse};

/// The name of Helm's set, which shows in messages.
pub(crate) const ROOT: &str = "gotpl";

/// Less template text than this is parsed before another thread has started.
const WORTH_A_THREAD: usize = 128 * 1024;

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
        self.parse_shared(name, text.as_ref().into())
    }

    fn parse_shared(&mut self, name: &str, text: Arc<[u8]>) -> Result<(), ParseError> {
        let trees = parse(name, text, &self.funcs, self.parse_depth)?;
        self.add(trees);
        Ok(())
    }

    fn add(&mut self, trees: Vec<Arc<Tree>>) {
        for tree in trees {
            if tree.is_empty() && self.trees.contains_key(&tree.name) {
                continue;
            }
            self.trees.insert(tree.name.clone(), tree);
        }
    }

    /// Parses files in order, as [`TemplateSet::parse`] does one by one; much text is read by several
    /// threads. The error is that of the first file that has one, with its place among the files.
    pub fn parse_all(&mut self, files: &[(&str, Arc<[u8]>)]) -> Result<(), (usize, ParseError)> {
        let size: usize = files.iter().map(|(_, text)| text.len()).sum();
        if size < WORTH_A_THREAD {
            for (at, (name, text)) in files.iter().enumerate() {
                self.parse_shared(name, Arc::clone(text)).map_err(|error| (at, error))?;
            }
            return Ok(());
        }
        let (funcs, depth) = (Arc::clone(&self.funcs), self.parse_depth);
        let results: Vec<OnceLock<_>> = files.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some((name, text)), Some(result)) = (files.get(at), results.get(at)) else { break };
                // Each place is taken once.
                let _ = result.set(parse(name, Arc::clone(text), &funcs, depth));
            }
        };
        std::thread::scope(|scope| {
            // A thread that cannot be had is not missed.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            work();
        });
        for (at, result) in results.into_iter().enumerate() {
            let trees = match result.into_inner() {
                Some(trees) => trees,
                None => parse(files[at].0, Arc::clone(&files[at].1), &funcs, depth),
            };
            self.add(trees.map_err(|error| (at, error))?);
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

//! Named templates parsed into one set, as Helm parses all files of all charts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::func::FuncMap;
use crate::host::RenderLimits;
use crate::parse::ast::{ParseTree, SourceText};
use crate::parse::{ParseError, parse};

/// The name of Helm's set, which shows in messages.
pub(crate) const ROOT: &str = "gotpl";

/// Less template text than this is parsed before another thread has started.
const WORTH_A_THREAD: usize = 128 * 1024;

/// For each file the first one of the same text.
fn first_of_each_text(files: &[(&str, Arc<[u8]>)]) -> Vec<usize> {
    let mut by_length: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut firsts = Vec::with_capacity(files.len());
    for (at, (_, text)) in files.iter().enumerate() {
        let alike = by_length.entry(text.len()).or_default();
        let first = alike.iter().copied().find(|other| files[*other].1 == *text);
        firsts.push(first.unwrap_or(at));
        if first.is_none() {
            alike.push(at);
        }
    }
    firsts
}

/// The trees of a file as those of another file of the same text.
fn renamed(trees: &[Arc<ParseTree>], from: &str, to: &str) -> Vec<Arc<ParseTree>> {
    let Some(source) = trees.first().map(|tree| Arc::clone(&tree.source.text)) else { return Vec::new() };
    let source = Arc::new(SourceText { name: to.to_owned(), text: source });
    let named = |tree: &ParseTree| if tree.name == from { to.to_owned() } else { tree.name.clone() };
    let tree = |tree: &Arc<ParseTree>| {
        Arc::new(ParseTree { name: named(tree), source: Arc::clone(&source), root: Arc::clone(&tree.root) })
    };
    trees.iter().map(tree).collect()
}

/// Parsed templates: parse once, execute many times, from any thread.
#[derive(Clone)]
pub struct TemplateSet {
    funcs: Arc<FuncMap>,
    trees: HashMap<String, Arc<ParseTree>>,
    parse_depth: usize,
}

impl TemplateSet {
    /// An empty set whose templates may call `funcs`; sets of many charts can share them in an `Arc`.
    pub fn new(funcs: impl Into<Arc<FuncMap>>, limits: &RenderLimits) -> Self {
        TemplateSet { funcs: funcs.into(), trees: HashMap::new(), parse_depth: limits.parse_depth }
    }

    /// Parses a file; what it defines replaces earlier templates of the same name, except that a body
    /// of only space never does.
    pub fn parse(&mut self, name: &str, text: impl AsRef<[u8]>) -> Result<(), ParseError> {
        let trees = parse(name, text.as_ref().into(), &self.funcs, self.parse_depth)?;
        self.add(trees);
        Ok(())
    }

    fn add(&mut self, trees: Vec<Arc<ParseTree>>) {
        for tree in trees {
            if tree.is_empty() && self.trees.contains_key(&tree.name) {
                continue;
            }
            self.trees.insert(tree.name.clone(), tree);
        }
    }

    /// Parses files in order, as [`TemplateSet::parse`] does one by one. A text that occurs again, as
    /// library charts do in every chart that uses them, is parsed once; much text is parsed by several
    /// threads. The error is that of the first file that has one, with its place among the files.
    pub fn parse_all(&mut self, files: &[(&str, Arc<[u8]>)]) -> Result<(), (usize, ParseError)> {
        let firsts = first_of_each_text(files);
        let different = || firsts.iter().enumerate().filter(|(at, first)| at == *first).map(|(at, _)| at);
        let size: usize = different().map(|at| files[at].1.len()).sum();
        let (funcs, depth) = (Arc::clone(&self.funcs), self.parse_depth);
        let parsed: Vec<OnceLock<Result<Vec<Arc<ParseTree>>, ParseError>>> =
            files.iter().map(|_| OnceLock::new()).collect();
        let of = |at: usize| {
            parsed[at].get_or_init(|| parse(files[at].0, Arc::clone(&files[at].1), &funcs, depth))
        };
        if size >= WORTH_A_THREAD {
            let queue: Vec<usize> = different().collect();
            let next = AtomicUsize::new(0);
            let work = || {
                while let Some(at) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                    of(*at);
                }
            };
            std::thread::scope(|scope| {
                // A thread that cannot be had is not missed.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
                work();
            });
        }
        for (at, first) in firsts.iter().enumerate() {
            let trees = of(*first).as_ref().map_err(|error| (at, error.clone()))?;
            let trees =
                if at == *first { trees.clone() } else { renamed(trees, files[*first].0, files[at].0) };
            self.add(trees);
        }
        Ok(())
    }

    pub fn funcs(&self) -> &FuncMap {
        &self.funcs
    }

    pub(crate) fn tree(&self, name: &str) -> Option<&Arc<ParseTree>> {
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

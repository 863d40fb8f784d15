//! Files → layers: finds every `stack.yaml` and `release.yaml` under the root and reads it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipway_problem::{Location, Problem, Problems, read_file, read_text_file};

use crate::ignore::{self, PathKind, Rules};
use crate::model::{Declaration, StackFile};
use crate::schema::{self, Kind, Read};

/// Directories of a chart, where files may have our names by chance.
const CHART_INTERNALS: [&str; 3] = ["templates", "crds", "charts"];
/// Deeper trees are no monorepo but a mistake.
const DEEPEST: usize = 128;

/// Every stack and release file under a root.
#[derive(Debug, Default)]
pub struct Tree {
    /// The root, canonical.
    pub root: PathBuf,
    /// The root as the user named it.
    pub shown: PathBuf,
    /// By directory, relative to the root.
    pub stacks: BTreeMap<String, StackFile>,
    /// In the order of directories; those of `release.yaml` after those of the `stack.yaml` beside it.
    pub releases: Vec<Declaration>,
    /// Files of ours that were passed over, with the reason.
    pub notes: Vec<String>,
    /// True if some file could not be made sense of, so that releases may be missing.
    pub incomplete: bool,
}

impl Tree {
    /// The root's own file.
    pub fn root_file(&self) -> Option<&StackFile> {
        self.stacks.get("")
    }

    /// The name of a file of the tree in messages.
    pub fn show(&self, path: &str) -> String {
        show(&self.shown, path)
    }
}

fn show(root: &Path, path: &str) -> String {
    if root.as_os_str() == "." || root.as_os_str().is_empty() {
        if path.is_empty() { ".".to_owned() } else { path.to_owned() }
    } else {
        root.join(path).display().to_string()
    }
}

struct Found {
    kind: Kind,
    dir: String,
    path: String,
    file: PathBuf,
}

/// Finds and reads everything under `root`; problems go to `problems`, what could be read is given.
pub fn discover(root: &Path, problems: &mut Problems) -> Tree {
    let mut tree = Tree { shown: root.to_owned(), ..Tree::default() };
    tree.root = match fs::canonicalize(root) {
        Ok(root) => root,
        Err(error) => {
            let message = format!("cannot open the stack root {}: {}", root.display(), plain(&error));
            problems
                .push(Problem::error(message).hint("name the directory of the root stack.yaml with --root"));
            tree.incomplete = true;
            return tree;
        }
    };
    let mut inside = Problems::new();
    let found = walk(&mut tree, &mut inside);
    read_all(&mut tree, &found, &mut inside);
    let unreadable =
        tree.incomplete && found.iter().any(|file| file.kind == Kind::Stack && file.dir.is_empty());
    if tree.root_file().is_none() && !unreadable {
        let message = format!("stack root {} has no stack.yaml", tree.root.display());
        problems.push(Problem::error(message).code("ST001").hint(root_hint(&tree)));
        // Read from another root, the files may well be right.
        return Tree { stacks: BTreeMap::new(), releases: Vec::new(), incomplete: true, ..tree };
    }
    problems.extend(inside);
    tree
}

/// The most directories a hint names.
const MOST_ROOTS: usize = 5;

/// Says where a root may be: the outermost directories that have a `stack.yaml`.
fn root_hint(tree: &Tree) -> String {
    let is_outermost = |dir: &&String| {
        !tree
            .stacks
            .keys()
            .any(|other| dir.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))
    };
    let roots = tree.stacks.keys().filter(is_outermost).take(MOST_ROOTS);
    let roots: Vec<String> = roots.map(|dir| format!("`--root {}`", tree.show(dir))).collect();
    match roots.is_empty() {
        true => "name the directory of the root stack.yaml with --root".to_owned(),
        false => format!("did you mean {}?", roots.join(" or ")),
    }
}

/// Reads the root's own file and nothing else; none if it cannot be read.
pub(crate) fn root_file(root: &Path) -> Option<StackFile> {
    let root = crate::plan::compile::directory(root);
    let (name, text) = ["stack.yaml", "stack.yml"]
        .into_iter()
        .find_map(|name| Some((name, read_text_file(&root.join(name)).ok()?)))?;
    let place = schema::Place { dir: "", path: name, shown: name };
    match schema::read(Kind::Stack, &text, &place, &mut Problems::new()) {
        Read::Stack(file) => Some(*file),
        _ => None,
    }
}

pub(crate) use slipway_problem::describe_io as plain;

fn walk(tree: &mut Tree, problems: &mut Problems) -> Vec<Found> {
    let mut found = Vec::new();
    let mut open: Vec<(String, PathBuf, Vec<Arc<Rules>>)> =
        vec![(String::new(), tree.root.clone(), Vec::new())];
    while let Some((dir, path, mut rules)) = open.pop() {
        let mut entries = match list(&path) {
            Ok(entries) => entries,
            Err(error) => {
                tree.incomplete = true;
                let at = Location::file(tree.show(&dir));
                let message = format!("cannot read the directory: {}", plain(&error));
                let hint = "fix its permissions, or leave it out with a .slipwayignore";
                problems.push(Problem::error(message).at(at).hint(hint));
                continue;
            }
        };
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let join = |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
        let has = |name: &str| entries.binary_search_by(|(known, _)| known.as_str().cmp(name)).is_ok();
        let is_chart = has("Chart.yaml");
        for name in ignore::NAMES.into_iter().filter(|name| has(name)) {
            if let Ok(text) = read_text_file(&path.join(name)) {
                let shown = tree.show(&join(name));
                rules.push(Arc::new(Rules::parse(&dir, &text, &shown, problems)));
            }
        }
        let ignored = |path: &str, kind: PathKind| {
            rules.iter().rev().find_map(|rules| rules.verdict(path, kind)).unwrap_or(false)
        };
        for (kind, name, other) in
            [(Kind::Stack, "stack.yaml", "stack.yml"), (Kind::Release, "release.yaml", "release.yml")]
        {
            let name = match (has(name), has(other)) {
                (true, true) => {
                    let message = format!("both {name} and {other} in {}", tree.show(&dir));
                    problems.push(
                        Problem::error(message).code("ST005").at(Location::file(tree.show(&join(other)))),
                    );
                    name
                }
                (true, false) => name,
                (false, true) => other,
                (false, false) => continue,
            };
            let file_path = join(name);
            if !ignored(&file_path, PathKind::File) {
                found.push(Found { kind, dir: dir.clone(), path: file_path, file: path.join(name) });
            }
        }
        let depth = dir.matches('/').count();
        for (name, is_directory) in entries.iter().rev() {
            let pruned = !is_directory
                || name.starts_with('.')
                || name == "node_modules"
                || is_chart && CHART_INTERNALS.contains(&name.as_str());
            let below = join(name);
            if pruned || ignored(&below, PathKind::Directory) {
                continue;
            }
            if depth >= DEEPEST {
                let at = Location::file(tree.show(&below));
                problems.push(Problem::error("directories nest too deep here").at(at));
                continue;
            }
            open.push((below, path.join(name), rules.clone()));
        }
    }
    found
}

/// The names in a directory and which are directories. Symbolic links are none: they are not followed,
/// so no loop of them can trap the walk.
fn list(path: &Path) -> io::Result<Vec<(String, bool)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A name that is not text can be none of ours, and below it nothing could be named.
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((name, entry.file_type()?.is_dir()));
        }
    }
    Ok(entries)
}

fn read_all(tree: &mut Tree, found: &[Found], problems: &mut Problems) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let size = found.len().div_ceil(workers).max(32);
    let shown_root = &tree.shown;
    let work = |files: &[Found]| -> Vec<(Read, Problems)> {
        files.iter().map(|file| read_one(shown_root, file)).collect()
    };
    let results: Vec<(Read, Problems)> = if found.len() <= size {
        work(found)
    } else {
        std::thread::scope(|scope| {
            let threads: Vec<_> = found.chunks(size).map(|files| scope.spawn(move || work(files))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        })
    };
    for (file, (read, found)) in found.iter().zip(results) {
        problems.extend(found);
        match read {
            Read::Stack(mut stack) => {
                tree.releases.append(&mut stack.releases.clone());
                stack.releases.shrink_to_fit();
                tree.stacks.insert(file.dir.clone(), *stack);
            }
            Read::Release(release) => tree.releases.push(*release),
            Read::Foreign(reason) => {
                tree.notes.push(format!("ignored foreign {} ({reason})", file.path));
            }
            Read::Unreadable => tree.incomplete = true,
        }
    }
}

fn read_one(root: &Path, file: &Found) -> (Read, Problems) {
    let mut problems = Problems::new();
    let shown = show(root, &file.path);
    let text = match read_file(&file.file) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => {
                problems
                    .push(Problem::error("the file is not UTF-8 text").at(Location::file(shown.as_str())));
                return (Read::Unreadable, problems);
            }
        },
        Err(error) => {
            let message = format!("cannot read the file: {}", plain(&error));
            let problem = Problem::error(message).at(Location::file(shown.as_str()));
            problems.push(problem.hint(slipway_problem::read_hint(&error)));
            return (Read::Unreadable, problems);
        }
    };
    let place = schema::Place { dir: &file.dir, path: &file.path, shown: &shown };
    let read = schema::read(file.kind, &text, &place, &mut problems);
    (read, problems)
}

//! Selectors → chosen releases, each with the reasons it was chosen for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use slipway_graph::Graph;
use slipway_problem::{Problem, Problems};

use crate::discover::Tree;
use crate::git::{self, Changes, Git};
use crate::inherit::Release;
use crate::paths;
use crate::schema;
use crate::sources::{self, Finder};

/// The way several selectors combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SelectMode {
    /// A release chosen by any of them.
    #[default]
    Union,
    /// A release chosen by every kind of selector given.
    Intersect,
}

/// The selection a user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    pub clusters: Vec<String>,
    pub tags: Vec<String>,
    pub from_paths: Vec<String>,
    pub releases: Vec<String>,
    pub git_range: Option<String>,
    /// Also what chosen releases need. Called so in the run format; it holds for any selection.
    #[serde(rename = "gitIncludeDeps")]
    pub include_deps: bool,
    /// Also what needs chosen releases.
    #[serde(rename = "gitIncludeDependents")]
    pub include_dependents: bool,
    #[serde(rename = "selectMode")]
    pub mode: SelectMode,
}

impl Selector {
    /// Tells that nothing but a git range chooses.
    pub fn is_git_only(&self) -> bool {
        self.git_range.is_some()
            && self.tags.is_empty()
            && self.from_paths.is_empty()
            && self.releases.is_empty()
    }
}

/// The releases that were chosen.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The reasons of each chosen release, by its position.
    pub reasons: BTreeMap<usize, BTreeSet<String>>,
    /// Chosen by a selector.
    pub initial: BTreeSet<usize>,
    /// Changed files that belong to no release.
    pub unmapped: usize,
    /// Things worth saying that are neither problems nor warnings.
    pub notices: Vec<String>,
}

impl Selection {
    pub fn contains(&self, position: usize) -> bool {
        self.reasons.contains_key(&position)
    }
}

/// Everything a selection looks at.
pub(crate) struct Universe<'u> {
    pub tree: &'u Tree,
    pub releases: &'u [Release],
    /// Needs by position.
    pub needs: &'u [Vec<usize>],
    pub home: Option<&'u Path>,
}

type Found = BTreeMap<usize, BTreeSet<String>>;

/// Chooses releases.
pub(crate) fn select(
    universe: &Universe<'_>,
    selector: &Selector,
    git: &Git,
    problems: &mut Problems,
) -> Selection {
    let releases = universe.releases;
    let mut clusters: Vec<&str> = releases.iter().map(|release| release.id.cluster.as_str()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    for cluster in selector.clusters.iter().filter(|cluster| !clusters.contains(&cluster.as_str())) {
        let problem = Problem::error(format!("no release goes to a cluster named \"{cluster}\""));
        problems.push(problem.did_you_mean(cluster, clusters.iter().copied()));
    }
    let inside = |position: &usize| {
        selector.clusters.is_empty() || selector.clusters.contains(&releases[*position].id.cluster)
    };
    let all: Vec<usize> = (0..releases.len()).filter(inside).collect();

    let mut selection = Selection::default();
    let mut sets: Vec<Found> = Vec::new();
    if !selector.releases.is_empty() {
        sets.push(by_name(universe, &all, &selector.releases, problems));
    }
    if !selector.tags.is_empty() {
        sets.push(by_tag(releases, &all, &selector.tags, universe, problems));
    }
    if !selector.from_paths.is_empty() {
        sets.push(by_path(universe, &all, &selector.from_paths, problems));
    }
    if let Some(range) = &selector.git_range {
        let changes =
            problems.collect_from(git::changes(git, &universe.tree.root, range)).unwrap_or_default();
        let mut found = by_change(universe, &changes, &mut selection);
        found.retain(|position, _| inside(position));
        sets.push(found);
    }
    let chosen = match (sets.is_empty(), selector.mode) {
        (true, _) => {
            all.iter().map(|&position| (position, BTreeSet::from(["default:all".to_owned()]))).collect()
        }
        (false, SelectMode::Union) => merge(sets),
        (false, SelectMode::Intersect) => {
            let common: BTreeSet<usize> = sets[0]
                .keys()
                .copied()
                .filter(|position| sets.iter().all(|set| set.contains_key(position)))
                .collect();
            let mut merged = merge(sets);
            merged.retain(|position, _| common.contains(position));
            merged
        }
    };
    selection.initial = chosen.keys().copied().collect();
    selection.reasons = chosen;
    expand(universe, selector, &mut selection);
    selection
}

fn merge(sets: Vec<Found>) -> Found {
    let mut merged = Found::new();
    for (position, reasons) in sets.into_iter().flatten() {
        merged.entry(position).or_default().extend(reasons);
    }
    merged
}

fn by_name(universe: &Universe<'_>, all: &[usize], names: &[String], problems: &mut Problems) -> Found {
    let releases = universe.releases;
    let mut found = Found::new();
    for name in names {
        let id = |position: usize| &releases[position].id;
        let matches = |&&position: &&usize| {
            let id = id(position);
            match name.matches('/').count() {
                0 => id.name == *name,
                1 => name.split_once('/') == Some((id.namespace.as_str(), id.name.as_str())),
                _ => id.to_string() == *name,
            }
        };
        let hits: Vec<usize> = all.iter().filter(matches).copied().collect();
        match hits.as_slice() {
            [] => {
                let problem = Problem::error(format!("no release named \"{name}\"")).code("ST030");
                problems
                    .push(problem.did_you_mean(name, all.iter().map(|&position| id(position).name.as_str())));
            }
            [only] => {
                found.entry(*only).or_default().insert(format!("explicit:release:{name}"));
            }
            several => {
                let ids: Vec<String> = several.iter().map(|&position| id(position).to_string()).collect();
                let one_cluster = several.iter().all(|&at| id(at).cluster == id(several[0]).cluster);
                let way = if one_cluster {
                    format!("write <namespace>/{name}")
                } else {
                    "narrow it with --cluster".to_owned()
                };
                let message = format!("release name \"{name}\" is ambiguous ({}); {way}", ids.join(", "));
                problems.push(Problem::error(message).code("ST031"));
            }
        }
    }
    found
}

fn by_tag(
    releases: &[Release],
    all: &[usize],
    tags: &[String],
    universe: &Universe<'_>,
    problems: &mut Problems,
) -> Found {
    let mut found = Found::new();
    let mut unknown: BTreeSet<&String> = tags.iter().collect();
    for &position in all {
        for tag in tags.iter().filter(|tag| releases[position].tags.contains(tag)) {
            unknown.remove(tag);
            found.entry(position).or_default().insert(format!("explicit:tag:{tag}"));
        }
    }
    // A tag nobody carries selects nothing; only one that cannot exist is a mistake.
    for tag in unknown {
        if !schema::is_tag(tag) {
            let known = universe.releases.iter().flat_map(|release| release.tags.iter().map(String::as_str));
            problems.push(Problem::error(format!("\"{tag}\" cannot be a tag")).did_you_mean(tag, known));
        }
    }
    found
}

fn by_path(universe: &Universe<'_>, all: &[usize], wanted: &[String], problems: &mut Problems) -> Found {
    let tree = universe.tree;
    let mut found = Found::new();
    for path in wanted {
        let full = paths::normal(&tree.root.join(path));
        // A path written as seen from elsewhere may lead through links.
        let full = if full.starts_with(&tree.root) { full } else { full.canonicalize().unwrap_or(full) };
        let shown = match full.strip_prefix(&tree.root) {
            Ok(_) => paths::shown(&tree.root, &full),
            Err(_) => {
                problems.push(Problem::error(format!("--from-path {path} lies outside the stack root")));
                continue;
            }
        };
        let below = if shown == "." { "" } else { shown.as_str() };
        let mut any = false;
        for &position in all {
            let declaration = &tree.releases[universe.releases[position].declaration];
            let inside = below.is_empty()
                || declaration.path == below
                || declaration.dir == below
                || declaration.dir.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'));
            if inside {
                any = true;
                found.entry(position).or_default().insert(format!("explicit:path:{shown}"));
            }
        }
        if !any && !full.exists() {
            let dirs = tree.releases.iter().map(|release| release.dir.as_str());
            let problem =
                Problem::error(format!("--from-path {path}: there is no such directory in the stack"));
            problems.push(problem.did_you_mean(below, dirs));
        }
    }
    found
}

/// Maps changed files to releases.
fn by_change(universe: &Universe<'_>, changes: &Changes, selection: &mut Selection) -> Found {
    let mut found = Found::new();
    if changes.files.is_empty() {
        return found;
    }
    let (tree, releases) = (universe.tree, universe.releases);
    let map = Map::new(universe);
    for file in &changes.files {
        let full = changes.top.join(file);
        let below = full.strip_prefix(&tree.root).ok();
        let shown = match below {
            Some(_) => paths::shown(&tree.root, &full),
            None => format!(":/{}", file.to_string_lossy()),
        };
        let dir = below.and_then(Path::parent).map(|dir| dir.to_string_lossy().into_owned());
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut hits: BTreeSet<usize> = BTreeSet::new();
        if let Some(dir) = dir.as_deref().filter(|_| matches!(name, "stack.yaml" | "stack.yml")) {
            // Defaults are inherited, so everything below may have changed.
            hits.extend((0..releases.len()).filter(|&position| {
                let own = &tree.releases[releases[position].declaration].dir;
                dir.is_empty()
                    || own == dir
                    || own.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
            }));
        }
        if hits.is_empty() {
            hits.extend(map.precise(&full));
        }
        let is_release_file = matches!(name, "release.yaml" | "release.yml");
        if hits.is_empty() && is_release_file && below.is_some() && !full.exists() {
            selection
                .notices
                .push(format!("release definition removed: {shown} (the live release is not touched)"));
            continue;
        }
        if hits.is_empty()
            && let Some(dir) = dir.as_deref()
        {
            hits.extend(map.closest(dir));
        }
        if hits.is_empty() {
            selection.unmapped += 1;
        }
        for position in hits {
            found.entry(position).or_default().insert(format!("explicit:git:{shown}"));
        }
    }
    found
}

/// Finds the releases a path belongs to.
struct Map<'u> {
    /// Values files and `release.yaml`s.
    files: HashMap<PathBuf, Vec<usize>>,
    /// Sources.
    trees: HashMap<PathBuf, Vec<usize>>,
    /// Releases by the directory that declares them.
    declared: BTreeMap<&'u str, Vec<usize>>,
}

impl<'u> Map<'u> {
    fn new(universe: &Universe<'u>) -> Self {
        let mut map = Self { files: HashMap::new(), trees: HashMap::new(), declared: BTreeMap::new() };
        let mut links = Links::default();
        let mut finder = Finder::new(universe.tree, universe.home);
        // What is missing is reported for the releases that are selected.
        let mut ignored = Problems::new();
        for (position, release) in universe.releases.iter().enumerate() {
            let declaration = &universe.tree.releases[release.declaration];
            map.declared.entry(&declaration.dir).or_default().push(position);
            if declaration.index.is_none() {
                links.add(&mut map.files, universe.tree.root.join(&declaration.path), position);
            }
            let Some(inputs) = finder.find(release, &mut ignored) else { continue };
            for values in inputs.values {
                links.add(&mut map.files, values.path, position);
            }
            for part in sources::parts(&inputs.source) {
                links.add(&mut map.trees, part, position);
            }
        }
        map
    }

    /// The releases a file is an input of.
    fn precise(&self, file: &Path) -> BTreeSet<usize> {
        let mut hits: BTreeSet<usize> = self.files.get(file).into_iter().flatten().copied().collect();
        if !hits.is_empty() {
            return hits;
        }
        for directory in file.ancestors() {
            hits.extend(self.trees.get(directory).into_iter().flatten());
        }
        hits
    }

    /// The releases declared in the closest directory upwards that declares any.
    fn closest(&self, dir: &str) -> impl Iterator<Item = usize> {
        let mut dir = dir;
        loop {
            if let Some(declared) = self.declared.get(dir) {
                return declared.clone().into_iter();
            }
            dir = match dir.rfind('/') {
                Some(slash) => &dir[..slash],
                None if dir.is_empty() => return Vec::new().into_iter(),
                None => "",
            };
        }
    }
}

/// The targets of links, each directory looked at once.
#[derive(Default)]
struct Links {
    directories: HashMap<PathBuf, Option<PathBuf>>,
    known: HashMap<PathBuf, Option<PathBuf>>,
}

impl Links {
    /// Remembers a path, and where links lead from it.
    fn add(&mut self, map: &mut HashMap<PathBuf, Vec<usize>>, path: PathBuf, position: usize) {
        if let Some(real) = self.real(&path).filter(|real| *real != path) {
            map.entry(real).or_default().push(position);
        }
        map.entry(path).or_default().push(position);
    }

    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let real = self.look(path);
        self.known.insert(path.to_owned(), real.clone());
        real
    }

    fn look(&mut self, path: &Path) -> Option<PathBuf> {
        let (directory, name) = (path.parent()?, path.file_name()?);
        if std::fs::symlink_metadata(path).ok()?.is_symlink() {
            return path.canonicalize().ok();
        }
        let known = match self.directories.get(directory) {
            Some(known) => known.as_deref(),
            None => {
                let real = directory.canonicalize().ok();
                self.directories.entry(directory.to_owned()).or_insert(real).as_deref()
            }
        };
        known.map(|directory| directory.join(name))
    }
}

/// Adds what the chosen releases need and what needs them, with the reasons.
fn expand(universe: &Universe<'_>, selector: &Selector, selection: &mut Selection) {
    let (releases, needs) = (universe.releases, universe.needs);
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); releases.len()];
    for (position, needed) in needs.iter().enumerate() {
        for &need in needed {
            dependents[need].push(position);
        }
    }
    // Dependents of what was chosen, then dependencies of both: a shared database must not drag in
    // everything else that happens to use it.
    let mut upper = selection.initial.clone();
    if selector.include_dependents {
        upper = reach(&upper, &dependents);
        for &position in &upper {
            for &dependent in &dependents[position] {
                let reason = format!("expand:dependent-of:{}", releases[position].id);
                selection.reasons.entry(dependent).or_default().insert(reason);
            }
        }
    }
    if selector.include_deps {
        for &position in &reach(&upper, needs) {
            for &need in &needs[position] {
                let reason = format!("expand:dep-of:{}", releases[position].id);
                selection.reasons.entry(need).or_default().insert(reason);
            }
        }
    }
}

/// Everything that can be reached, the start included.
fn reach(from: &BTreeSet<usize>, edges: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut reached = from.clone();
    let mut open: Vec<usize> = from.iter().copied().collect();
    while let Some(position) = open.pop() {
        for &next in &edges[position] {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}

/// Checks the needs of all releases as a graph; cycles are problems in the catalogue's words.
pub(crate) fn check_cycles(
    releases: &[Release],
    needs: &[Vec<usize>],
    tree: &Tree,
    problems: &mut Problems,
) -> bool {
    let mut builder = Graph::<()>::builder();
    for (release, needed) in releases.iter().zip(needs) {
        let needed = needed.iter().map(|&need| releases[need].id.to_string());
        builder.add(release.id.to_string(), (), needed).at(tree.releases[release.declaration].at.clone());
    }
    match builder.try_build() {
        Ok(_) => true,
        Err(defects) => {
            for defect in defects {
                let problem = match defect {
                    slipway_graph::Defect::SelfNeed { id, at } => {
                        let mut problem = Problem::error(format!("needs form a cycle: {id} -> {id}"));
                        problem.at = at;
                        problem
                    }
                    other => Problem::from(other),
                };
                problems.push(problem.code("ST023"));
            }
            false
        }
    }
}

//! Chosen releases → plan: everything wrong with the stack at once, or a value ready to run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use slipway_journal::digest;
use slipway_problem::{Problem, Problems};
use slipway_source::SourceDigests;

use super::value::{
    ApplySettings, Chosen, ClusterRef, Command, DeclaredAt, DeleteSettings, ExternalNeed, NeedsPolicy, Node,
    RUN_FORMAT, StackPlan, Tool,
};
use crate::check;
use crate::discover::{self, Tree};
use crate::error::Error;
use crate::git::Git;
use crate::inherit::{self, Profile, Release};
use crate::paths;
use crate::select::{self, Selection, Selector, Universe};
use crate::sources::{self, Finder, Inputs};

/// A request for a plan.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The directory of the root `stack.yaml`, or that file itself.
    pub root: PathBuf,
    pub profile: Profile,
    pub selector: Selector,
    pub command: Command,
    pub needs: NeedsPolicy,
    /// True if releases may be deleted that others still need.
    pub orphan: bool,
    /// The directory `~` stands for.
    pub home: Option<PathBuf>,
}

/// A stack with every layer merged.
#[derive(Debug)]
pub struct Stack {
    pub tree: Tree,
    pub name: String,
    pub profile: Option<String>,
    /// In the order of their ids.
    pub releases: Vec<Release>,
    /// The needs of each release, by position.
    pub needs: Vec<Vec<usize>>,
}

impl Stack {
    /// The releases a name, `namespace/name` or id stands for.
    pub fn find(&self, name: &str) -> Result<&Release, Problem> {
        let fits = |release: &&Release| {
            release.id.name == name
                || format!("{}/{}", release.id.namespace, release.id.name) == name
                || release.id.to_string() == name
        };
        let hits: Vec<&Release> = self.releases.iter().filter(fits).collect();
        match hits.as_slice() {
            [only] => Ok(only),
            [] => {
                let known = self.releases.iter().map(|release| release.id.name.as_str());
                Err(Problem::error(format!("no release named \"{name}\""))
                    .code("ST030")
                    .did_you_mean(name, known))
            }
            several => {
                let ids: Vec<String> = several.iter().map(|release| release.id.to_string()).collect();
                let message =
                    format!("release name \"{name}\" is ambiguous ({}); write its id", ids.join(", "));
                Err(Problem::error(message).code("ST031"))
            }
        }
    }
}

/// A plan, the stack it was made from, and what else is worth saying.
#[derive(Debug)]
pub struct Compiled {
    pub plan: StackPlan,
    pub stack: Stack,
    pub warnings: Vec<Problem>,
    pub notices: Vec<String>,
    /// Changed files that belong to no release.
    pub unmapped: usize,
}

/// Reads and merges a stack. Problems go to `problems`; what can be made is made all the same, so that
/// whatever follows finds its problems too.
pub fn load(root: &Path, profile: &Profile, problems: &mut Problems) -> Stack {
    let root = directory(root);
    let tree = discover::discover(root, problems);
    let profile = inherit::profile(&tree, profile, problems);
    let releases = inherit::inherit(&tree, profile.as_deref(), problems);
    let needs = inherit::needs(&tree, &releases, problems);
    let needs = if select::check_cycles(&releases, &needs, &tree, problems) {
        needs
    } else {
        vec![Vec::new(); releases.len()]
    };
    let named = tree.root_file().and_then(|file| file.name.as_ref()).map(|name| name.value.clone());
    let name = named.unwrap_or_else(|| name_of(&tree.root));
    Stack { tree, name, profile, releases, needs }
}

/// The directory a user means who names it, or its root file.
pub(crate) fn directory(root: &Path) -> &Path {
    let known = ["stack.yaml", "stack.yml", "release.yaml"];
    let is_file = root.file_name().is_some_and(|name| known.into_iter().any(|known| name == known));
    match root.parent().filter(|_| is_file && root.is_file()) {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None if root.as_os_str().is_empty() => Path::new("."),
        None => root,
    }
}

/// The name of a stack that gives itself none: that of its directory.
pub(crate) fn name_of(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches(['.', '_', '-']);
    if plain.is_empty() { "stack".to_owned() } else { plain.chars().take(63).collect() }
}

/// Makes a plan, or reports everything that is wrong.
pub fn compile(request: &Request, git: &Git) -> Result<Compiled, Error> {
    let mut problems = Problems::new();
    let stack = load(&request.root, &request.profile, &mut problems);
    let mut selector = request.selector.clone();
    selector.include_deps |= request.needs == NeedsPolicy::Include;
    let home = request.home.as_deref();
    let universe = Universe { tree: &stack.tree, releases: &stack.releases, needs: &stack.needs, home };
    let selection = select::select(&universe, &selector, git, &mut problems);
    check_targets(&stack, &selection, &mut problems);
    check_unselected(&stack, &selection, request, &mut problems);
    let mut finder = Finder::new(&stack.tree, home);
    let inputs: BTreeMap<usize, Inputs> = selection
        .reasons
        .keys()
        // A deletion reads no input: it must work when the chart is long gone.
        .filter_map(|&position| match request.command {
            Command::Apply => Some((position, finder.find(&stack.releases[position], &mut problems)?)),
            Command::Delete => {
                let inputs = finder.find(&stack.releases[position], &mut Problems::new());
                Some((position, inputs.unwrap_or_else(|| written(&stack, position))))
            }
        })
        .collect();
    let mut warnings = std::mem::take(&mut finder.shadowed);
    if request.command == Command::Delete && selector.include_deps {
        warnings
            .push(Problem::warning("--include-deps on delete also removes what the selected releases need"));
    }
    if request.command == Command::Apply {
        check::check_inputs(&stack, &inputs, &mut problems);
    }
    let digests = SourceDigests::new();
    hash_all(&inputs, &digests);
    let mut plan = StackPlan {
        api_version: RUN_FORMAT.to_owned(),
        tool: Tool::default(),
        stack_root: stack.tree.root.to_string_lossy().into_owned(),
        stack_name: stack.name.clone(),
        command: request.command,
        profile: stack.profile.clone(),
        selector,
        concurrency: 1,
        needs_policy: request.needs,
        retry: 1,
        ..StackPlan::default()
    };
    for (&position, inputs) in &inputs {
        let made = node(&stack, &selection, position, inputs, &plan.tool, &digests, request.command);
        plan.nodes.extend(problems.take(made));
    }
    if problems.has_errors() {
        problems.sort();
        return Err(problems.into());
    }
    if plan.nodes.is_empty() {
        // Nothing declared and nothing asked for is an empty stack, not a mistake.
        let asked = plan.selector != Selector::default();
        if asked || !stack.releases.is_empty() {
            let notices = selection.notices;
            return Err(Error::Empty { git_only: plan.selector.is_git_only(), notices });
        }
    }
    arrange(&mut plan)?;
    let ids = |positions: &mut dyn Iterator<Item = usize>| {
        positions.map(|position| stack.releases[position].id.to_string()).collect()
    };
    plan.selection = Chosen {
        initial: ids(&mut selection.initial.iter().copied()),
        expanded: ids(&mut selection.reasons.keys().copied().filter(|at| !selection.initial.contains(at))),
    };
    warnings.extend(problems);
    let Selection { notices, unmapped, .. } = selection;
    Ok(Compiled { plan, stack, warnings, notices, unmapped })
}

/// Gives what a deletion knows of a release whose files are gone.
fn written(stack: &Stack, position: usize) -> Inputs {
    let declaration = &stack.tree.releases[stack.releases[position].declaration];
    let shown = declaration.chart.value.clone();
    let source = sources::Source { kind: sources::SourceKind::Remote, shown, path: None };
    Inputs { source, values: Vec::new() }
}

/// Puts the nodes in the order of execution and numbers their waves.
pub(crate) fn arrange(plan: &mut StackPlan) -> Result<(), Problems> {
    let graph = plan.graph()?;
    let waves: BTreeMap<String, usize> =
        graph.nodes().map(|node| (node.id().to_string(), node.wave())).collect();
    plan.order = graph.ids().map(ToString::to_string).collect();
    for node in &mut plan.nodes {
        node.execution_group = waves.get(&node.id).copied().unwrap_or_default();
    }
    plan.nodes.sort_by(|a, b| (a.execution_group, &a.id).cmp(&(b.execution_group, &b.id)));
    Ok(())
}

/// One name of a cluster must stand for one place.
fn check_targets(stack: &Stack, selection: &Selection, problems: &mut Problems) {
    let mut targets: BTreeMap<&str, &Release> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for &position in selection.reasons.keys() {
        let release = &stack.releases[position];
        let first = *targets.entry(&release.target.name).or_insert(release);
        if first.target != release.target && told.insert(release.target.shown()) {
            let message = format!(
                "cluster \"{}\" maps to two targets: {} ({}) and {} ({})",
                release.target.name,
                first.target.shown(),
                first.id,
                release.target.shown(),
                release.id
            );
            let at = stack.tree.releases[release.declaration].at.clone();
            let hint = "give them different cluster names, or the same kubeconfig and context";
            problems.push(Problem::error(message).code("ST012").at(at).hint(hint));
        }
    }
}

/// Needs outside an apply and dependents outside a deletion.
fn check_unselected(stack: &Stack, selection: &Selection, request: &Request, problems: &mut Problems) {
    match request.command {
        Command::Apply if request.needs == NeedsPolicy::Strict => {
            for &position in selection.reasons.keys() {
                for &need in stack.needs[position].iter().filter(|need| !selection.contains(**need)) {
                    let message = format!(
                        "{}: need \"{}\" is not selected (add --include-deps, or --needs check)",
                        stack.releases[position].id, stack.releases[need].id.name
                    );
                    problems.push(Problem::error(message).code("ST033"));
                }
            }
        }
        Command::Apply => {}
        Command::Delete if request.orphan => {}
        Command::Delete => {
            let mut blockers: BTreeMap<usize, Vec<String>> = BTreeMap::new();
            for (position, needs) in stack.needs.iter().enumerate() {
                if selection.contains(position) {
                    continue;
                }
                for &need in needs.iter().filter(|need| selection.contains(**need)) {
                    blockers.entry(need).or_default().push(stack.releases[position].id.to_string());
                }
            }
            for (needed, by) in blockers {
                let message = format!(
                    "{} is still needed by {} (add --include-dependents, or --force-orphan)",
                    stack.releases[needed].id,
                    by.join(", ")
                );
                problems.push(Problem::error(message).code("ST034"));
            }
        }
    }
}

/// Hashes every file the releases read, on all cores.
fn hash_all(inputs: &BTreeMap<usize, Inputs>, digests: &SourceDigests) {
    let mut all: HashSet<PathBuf> = HashSet::new();
    for inputs in inputs.values() {
        all.extend(sources::parts(&inputs.source));
        all.extend(inputs.values.iter().map(|file| file.path.clone()));
    }
    let all: Vec<PathBuf> = all.into_iter().collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let size = all.len().div_ceil(workers).max(16);
    std::thread::scope(|scope| {
        for some in all.chunks(size) {
            // The answers are remembered; who needs one asks again.
            scope.spawn(move || some.iter().for_each(|path| drop(digests.of(path))));
        }
    });
}

/// The digest of a source and of each values file.
pub(crate) struct InputDigests {
    pub chart: Option<String>,
    pub values: Vec<String>,
}

/// The digest of a source: of its only part, or of all parts by name.
pub(crate) fn source_digest(
    root: &Path,
    source: &sources::Source,
    digests: &SourceDigests,
) -> Result<Option<String>, (PathBuf, String)> {
    let parts = sources::parts(source);
    let mut all = Vec::new();
    for part in &parts {
        let digest = digests.of(part).map_err(|error| (part.clone(), discover::plain(&error)))?;
        all.push(Value::from(vec![paths::shown(root, part), digest.to_string()]));
    }
    Ok(match all.as_slice() {
        [] => None,
        [only] => only[1].as_str().map(str::to_owned),
        _ => Some(digest::json(&Value::from(all))),
    })
}

fn node(
    stack: &Stack,
    selection: &Selection,
    position: usize,
    inputs: &Inputs,
    tool: &Tool,
    digests: &SourceDigests,
    command: Command,
) -> Result<Node, Problems> {
    let release = &stack.releases[position];
    let declaration = &stack.tree.releases[release.declaration];
    let mut problems = Problems::new();
    let unreadable = |path: &Path, error: &str| {
        let shown = paths::shown(&stack.tree.root, path);
        Problem::error(format!("release {}: cannot read {shown}: {error}", release.id))
            .at(declaration.at.clone())
    };
    let mut made = InputDigests { chart: None, values: Vec::new() };
    if command == Command::Apply {
        match source_digest(&stack.tree.root, &inputs.source, digests) {
            Ok(digest) => made.chart = digest,
            Err((path, error)) => problems.push(unreadable(&path, &error)),
        }
        for file in &inputs.values {
            match digests.of(&file.path) {
                Ok(digest) => made.values.push(digest.to_string()),
                Err(error) => problems.push(unreadable(&file.path, &discover::plain(&error))),
            }
        }
    }
    let (inside, outside): (Vec<usize>, Vec<usize>) =
        stack.needs[position].iter().partition(|need| selection.contains(**need));
    let milliseconds =
        |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let secret = |value: &&Value| value.as_str().is_some_and(slipway_secrets::is_reference);
    let mut node = Node {
        id: release.id.to_string(),
        name: release.id.name.clone(),
        cluster: ClusterRef {
            name: release.target.name.clone(),
            kubeconfig: release.target.kubeconfig.clone(),
            context: release.target.context.clone(),
        },
        namespace: release.id.namespace.clone(),
        chart: inputs.source.shown.clone(),
        chart_version: declaration.chart_version.as_ref().map(|version| version.value.clone()),
        source_kind: inputs.source.kind,
        chart_digest: made.chart.clone(),
        values: inputs.values.iter().map(|file| file.shown.clone()).collect(),
        values_digests: made.values.clone(),
        set: release.set.clone(),
        tags: release.tags.clone(),
        needs: inside.iter().map(|&need| stack.releases[need].id.to_string()).collect(),
        external_needs: outside
            .iter()
            .map(|&need| &stack.releases[need].id)
            .map(|id| ExternalNeed {
                id: id.to_string(),
                name: id.name.clone(),
                namespace: id.namespace.clone(),
            })
            .collect(),
        selected_by: selection.reasons[&position].iter().cloned().collect(),
        effective_input_hash: String::new(),
        options_hash: String::new(),
        execution_group: 0,
        dir: declaration.dir.clone(),
        declared_at: DeclaredAt { file: declaration.path.clone(), line: declaration.at.line },
        apply: ApplySettings {
            atomic: release.apply.atomic,
            wait: release.apply.wait,
            timeout_ms: milliseconds(release.apply.timeout),
            create_namespace: release.apply.create_namespace,
        },
        delete: DeleteSettings { timeout_ms: milliseconds(release.delete_timeout) },
        secret_refs: release
            .set
            .values()
            .filter(secret)
            .map(|value| value.as_str().unwrap_or_default().to_owned())
            .collect(),
    };
    node.effective_input_hash = node.input_hash(tool, made.chart.as_deref(), &made.values);
    node.options_hash = node.hash_options();
    problems.into_result(node)
}

//! Layers → effective releases: defaults from the root down, then the profile's overlays from the root
//! down, then the release's own words.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};

use crate::discover::Tree;
use crate::id::ReleaseId;
use crate::model::{Declaration, Located, Settings};
use crate::paths;
use crate::schema;

/// The profile to lay over the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The root's `defaultProfile`, if it names one.
    #[default]
    Default,
    /// One the user asked for; it must exist.
    Named(String),
}

/// A set of settings a release inherits, and which it is.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'t> {
    pub kind: LayerKind<'t>,
    /// The directory of its file, relative to the root.
    pub dir: &'t str,
    pub settings: &'t Settings,
}

/// The kind of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind<'t> {
    Defaults,
    Profile(&'t str),
    Release,
}

impl std::fmt::Display for LayerKind<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Defaults => f.write_str("defaults"),
            Self::Profile(name) => write!(f, "profile {name}"),
            Self::Release => f.write_str("release"),
        }
    }
}

/// The layers of a release, weakest first.
pub fn layers<'t>(tree: &'t Tree, declaration: &'t Declaration, profile: Option<&str>) -> Vec<Layer<'t>> {
    let mut files = Vec::new();
    let ends = declaration.dir.match_indices('/').map(|(at, _)| at).chain([declaration.dir.len()]);
    let below = ends.filter(|end| *end > 0).map(|end| &declaration.dir[..end]);
    for dir in std::iter::once("").chain(below) {
        files.extend(tree.stacks.get(dir));
    }
    let mut layers: Vec<Layer<'t>> = files
        .iter()
        .map(|file| Layer { kind: LayerKind::Defaults, dir: &file.dir, settings: &file.defaults })
        .collect();
    if let Some(profile) = profile {
        layers.extend(files.iter().filter_map(|file| {
            let (name, settings) = file.profiles.iter().find(|(name, _)| name == profile)?;
            Some(Layer { kind: LayerKind::Profile(name), dir: &file.dir, settings })
        }));
    }
    layers.push(Layer { kind: LayerKind::Release, dir: &declaration.dir, settings: &declaration.own });
    layers
}

/// The cluster a release goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    /// As written, except that a relative path is relative to the root.
    pub kubeconfig: Option<String>,
    pub context: Option<String>,
}

impl Target {
    /// The target the name stands for, in messages.
    pub fn shown(&self) -> String {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        format!("{}|{}", or_dash(&self.kubeconfig), or_dash(&self.context))
    }
}

/// A values file a release names.
#[derive(Clone, Debug, PartialEq)]
pub struct ValuesEntry {
    pub written: String,
    pub at: Location,
    /// The directory of the declaring file, relative to the root.
    pub dir: String,
    /// True if the release itself names it, so that the chart's directory is looked in too.
    pub own: bool,
}

/// Settings of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyOptions {
    pub atomic: bool,
    pub wait: bool,
    pub timeout: Duration,
    pub create_namespace: bool,
}

const TIMEOUT: Duration = Duration::from_secs(300);

/// A release with everything it inherits.
#[derive(Clone, Debug)]
pub struct Release {
    pub id: ReleaseId,
    /// Its place in [`Tree::releases`].
    pub declaration: usize,
    pub target: Target,
    pub values: Vec<ValuesEntry>,
    pub set: BTreeMap<String, Value>,
    pub tags: Vec<String>,
    pub apply: ApplyOptions,
    pub delete_timeout: Duration,
}

impl Release {
    /// The cluster, namespace and name in one.
    pub fn id(&self) -> &ReleaseId {
        &self.id
    }
}

/// Settles which profile is meant.
pub(crate) fn profile(tree: &Tree, wanted: &Profile, problems: &mut Problems) -> Option<String> {
    match wanted {
        // A default nobody defines has no overlay; it still names the run.
        Profile::Default => tree.root_file()?.default_profile.as_ref().map(|name| name.value.clone()),
        Profile::Named(name) => {
            let mut known: Vec<&str> = tree
                .stacks
                .values()
                .flat_map(|file| file.profiles.iter().map(|(name, _)| name.as_str()))
                .collect();
            known.sort_unstable();
            known.dedup();
            if !known.contains(&name.as_str()) {
                let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let problem =
                    Problem::error(format!("unknown profile \"{name}\" (known: {list})")).code("ST010");
                problems.push(problem.did_you_mean(name, known));
            }
            Some(name.clone())
        }
    }
}

/// Merges the layers of every release; gives the releases in the order of their ids.
pub(crate) fn inherit(tree: &Tree, profile: Option<&str>, problems: &mut Problems) -> Vec<Release> {
    let mut releases: Vec<Release> = tree
        .releases
        .iter()
        .enumerate()
        .map(|(index, declaration)| merge(index, declaration, &layers(tree, declaration, profile)))
        .collect();
    releases.sort_by(|a, b| a.id.cmp(&b.id).then(a.declaration.cmp(&b.declaration)));
    for pair in releases.windows(2).filter(|pair| pair[0].id == pair[1].id) {
        let [first, second] = [&pair[0], &pair[1]].map(|release| &tree.releases[release.declaration]);
        let message =
            format!("release id {} is declared twice ({}, {})", pair[0].id, first.place(), second.place());
        problems.push(Problem::error(message).code("ST011").at(second.at.clone()));
    }
    releases.dedup_by(|second, first| second.id == first.id);
    releases
}

fn merge(index: usize, declaration: &Declaration, layers: &[Layer<'_>]) -> Release {
    fn last<T: Clone>(
        layers: &[Layer<'_>],
        pick: impl Fn(&Settings) -> Option<&Located<T>>,
    ) -> Option<(T, String)> {
        let found =
            layers.iter().rev().find_map(|layer| pick(layer.settings).map(|value| (value, layer.dir)));
        found.map(|(value, dir)| (value.value.clone(), dir.to_owned()))
    }
    let value = |pick: fn(&Settings) -> Option<&Located<String>>| last(layers, pick).map(|(value, _)| value);
    let target = Target {
        name: value(|s| s.cluster.as_ref()).unwrap_or_else(|| "default".to_owned()),
        kubeconfig: last(layers, |s| s.kubeconfig.as_ref()).map(|(path, dir)| paths::kubeconfig(&dir, &path)),
        context: value(|s| s.context.as_ref()),
    };
    let namespace = value(|s| s.namespace.as_ref()).unwrap_or_else(|| "default".to_owned());
    let (mut values, mut tags) = (Vec::new(), Vec::new());
    let mut set = BTreeMap::new();
    for layer in layers {
        if layer.settings.reset_values {
            values.clear();
        }
        if layer.settings.reset_tags {
            tags.clear();
        }
        values.extend(layer.settings.values.iter().map(|entry| ValuesEntry {
            written: entry.value.clone(),
            at: entry.at.clone(),
            dir: layer.dir.to_owned(),
            own: layer.kind == LayerKind::Release,
        }));
        tags.extend(layer.settings.tags.iter().map(|tag| tag.value.clone()));
        for (key, value) in &layer.settings.set {
            set.insert(key.clone(), value.value.clone());
        }
    }
    let flag = |pick: fn(&Settings) -> Option<&Located<bool>>, default: bool| {
        last(layers, pick).map_or(default, |(value, _)| value)
    };
    let time = |pick: fn(&Settings) -> Option<&Located<Duration>>| {
        last(layers, pick).map_or(TIMEOUT, |(value, _)| value)
    };
    Release {
        id: ReleaseId::new(target.name.clone(), namespace, declaration.name.value.clone()),
        declaration: index,
        target,
        values,
        set,
        tags,
        apply: ApplyOptions {
            atomic: flag(|s| s.atomic.as_ref(), true),
            wait: flag(|s| s.wait.as_ref(), true),
            timeout: time(|s| s.apply_timeout.as_ref()),
            create_namespace: flag(|s| s.create_namespace.as_ref(), true),
        },
        delete_timeout: time(|s| s.delete_timeout.as_ref()),
    }
}

/// Resolves the needs of every release, by position; what cannot be resolved is a problem.
pub(crate) fn needs(tree: &Tree, releases: &[Release], problems: &mut Problems) -> Vec<Vec<usize>> {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, release) in releases.iter().enumerate() {
        by_name.entry(&release.id.name).or_default().push(position);
    }
    releases
        .iter()
        .enumerate()
        .map(|(position, release)| {
            let declared = &tree.releases[release.declaration].needs;
            let mut found: Vec<usize> = declared
                .iter()
                .filter_map(|need| problems.collect_from(resolve(tree, releases, &by_name, position, need)))
                .collect();
            found.sort_unstable();
            found.dedup();
            found
        })
        .collect()
}

fn resolve(
    tree: &Tree,
    releases: &[Release],
    by_name: &BTreeMap<&str, Vec<usize>>,
    position: usize,
    need: &Located<String>,
) -> Result<usize, Problem> {
    let own = &releases[position].id;
    let (namespace, name) = match need.value.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, need.value.as_str()),
    };
    let all: &[usize] = by_name.get(name).map_or(&[], Vec::as_slice);
    let fits = |&&at: &&usize| namespace.is_none_or(|namespace| releases[at].id.namespace == namespace);
    let here: Vec<usize> =
        all.iter().filter(fits).copied().filter(|&at| releases[at].id.cluster == own.cluster).collect();
    let found = match here.as_slice() {
        [] => None,
        [only] => Some(*only),
        several => {
            let near = several.iter().copied().find(|&at| releases[at].id.namespace == own.namespace);
            if near.is_none() {
                let list: Vec<String> = several
                    .iter()
                    .map(|&at| format!("{}/{}", releases[at].id.namespace, releases[at].id.name))
                    .collect();
                let message = format!(
                    "{own}: need \"{}\" is ambiguous in cluster \"{}\" ({}); write \"<namespace>/{name}\"",
                    need.value,
                    own.cluster,
                    list.join(", "),
                );
                return Err(Problem::error(message).code("ST022").at(need.at.clone()));
            }
            near
        }
    };
    if let Some(found) = found {
        return Ok(found);
    }
    if let Some(&elsewhere) = all.iter().find(fits) {
        let cluster = &releases[elsewhere].id.cluster;
        let message =
            format!("{own}: need \"{}\" lives in cluster {cluster}; needs cannot cross clusters", need.value);
        return Err(Problem::error(message).code("ST021").at(need.at.clone()));
    }
    let message = format!("{own}: need \"{}\" does not exist in this stack", need.value);
    let problem = Problem::error(message).code("ST020").at(need.at.clone());
    let others: Vec<&str> = by_name.keys().copied().filter(|other| *other != own.name).collect();
    let near = schema::near(name, others.iter().copied());
    Err(if !near.is_empty() {
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        problem.hint(format!("did you mean {}?", near.join(" or ")))
    } else if tree.incomplete {
        problem.hint("some files could not be read; they may declare it")
    } else {
        problem.hint(match others.len() {
            0 => "there is no other release in this stack".to_owned(),
            1..=8 => format!("there are `{}`", others.join("`, `")),
            many => format!("`slipway stack plan` lists the {many} others"),
        })
    })
}

//! Flags the stack commands share.

use std::path::PathBuf;

use clap::ValueEnum;
use slipway_stack::{Command, NeedsPolicy, Profile, Request, SelectMode, Selector};

use crate::help::Usual;

/// Which stack.
#[derive(Debug, clap::Args)]
pub struct RootFlags {
    /// Directory of the root stack.yaml
    #[arg(long, value_name = "DIR", default_value = ".", env = "SLIPWAY_STACK_ROOT", hide_env = true, add = Usual)]
    pub root: PathBuf,

    /// Profile to lay over the defaults; the root's defaultProfile unless given
    #[arg(long, value_name = "NAME", env = "SLIPWAY_STACK_PROFILE", hide_env = true, add = Usual)]
    pub profile: Option<String>,
}

impl RootFlags {
    pub fn profile(&self) -> Profile {
        self.profile.clone().filter(|name| !name.is_empty()).map_or(Profile::Default, Profile::Named)
    }
}

/// Which releases.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectFlags {
    /// Only releases of these clusters
    #[arg(long, value_name = "NAME", value_delimiter = ',', env = "SLIPWAY_STACK_CLUSTER", hide_env = true, add = Usual)]
    cluster: Vec<String>,

    /// Releases with any of these tags
    #[arg(long, value_name = "TAG", value_delimiter = ',', env = "SLIPWAY_STACK_TAG", hide_env = true, add = Usual)]
    tag: Vec<String>,

    /// Releases declared in or below this directory, relative to the root
    #[arg(
        long,
        value_name = "PATH",
        value_delimiter = ',',
        env = "SLIPWAY_STACK_FROM_PATH",
        hide_env = true
    )]
    from_path: Vec<String>,

    /// Releases by name, `namespace/name` or id
    #[arg(long, value_name = "NAME", value_delimiter = ',', env = "SLIPWAY_STACK_RELEASE", hide_env = true, add = Usual)]
    release: Vec<String>,

    /// Releases with inputs that changed between two revisions (`origin/main...HEAD`), or between one
    /// and the work tree
    #[arg(long, value_name = "RANGE", env = "SLIPWAY_STACK_GIT_RANGE", hide_env = true, add = Usual)]
    git_range: Option<String>,

    /// Also what the selected releases need
    #[arg(long, visible_alias = "git-include-deps", add = Usual)]
    include_deps: bool,

    /// Also what needs the selected releases
    #[arg(long, visible_alias = "git-include-dependents")]
    include_dependents: bool,

    /// How several kinds of selectors combine
    #[arg(long, value_name = "MODE", default_value = "union")]
    select_mode: Mode,

    /// What becomes of needs that are not selected
    #[arg(long, value_name = "POLICY", default_value = "check")]
    needs: Needs,

    /// End well when nothing is selected
    #[arg(long)]
    pub allow_empty: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Releases any of them selects
    Union,
    /// Releases every kind given selects
    Intersect,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Needs {
    /// They must be deployed already
    Check,
    /// Select them too
    Include,
    /// Do not look at them
    Ignore,
    /// Refuse
    Strict,
}

fn clean(words: &[String]) -> Vec<String> {
    words.iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

/// What the flags ask for.
pub fn request(root: &RootFlags, select: &SelectFlags, command: Command) -> Request {
    Request {
        root: root.root.clone(),
        profile: root.profile(),
        selector: Selector {
            clusters: clean(&select.cluster),
            tags: clean(&select.tag),
            from_paths: clean(&select.from_path),
            releases: clean(&select.release),
            git_range: select.git_range.clone().filter(|range| !range.is_empty()),
            include_deps: select.include_deps,
            include_dependents: select.include_dependents,
            mode: match select.select_mode {
                Mode::Union => SelectMode::Union,
                Mode::Intersect => SelectMode::Intersect,
            },
        },
        command,
        needs: match select.needs {
            Needs::Check => NeedsPolicy::Check,
            Needs::Include => NeedsPolicy::Include,
            Needs::Ignore => NeedsPolicy::Ignore,
            Needs::Strict => NeedsPolicy::Strict,
        },
        orphan: false,
        home: crate::config::user_home(),
    }
}

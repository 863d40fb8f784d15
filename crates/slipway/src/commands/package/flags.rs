//! Which package, and with which parameters.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, ValueEnum};
use slipway_package::{BuildInputs, LoadOptions, LocalExtension, Package, SetKind, SetValue, ValuesFile};
use slipway_problem::{Problem, Problems};
use slipway_secrets::NodeContext;
use slipway_source::SecretResolver as _;

use crate::cli::Output;
use crate::commands::secrets::flags::ReferenceFlags;
use crate::commands::secrets::resolution::{self, ReferenceMode, ReferenceResolver};
use crate::files;
use crate::help::Usual;
use crate::session::Session;

/// `package build --output DIR`, as packages are built elsewhere: the directory is `--output-dir` here,
/// because `--output` is the form every command shows its result in.
pub fn spelled(words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    let Some(build) = words.windows(2).position(|pair| pair[0] == "package" && pair[1] == "build") else {
        return words;
    };
    let is_form = |value: &str| Output::from_str(value, true).is_ok();
    for at in build + 2..words.len() {
        let Some(word) = words[at].to_str() else { continue };
        let renamed = match word.strip_prefix("--output") {
            Some("") => {
                let form = words.get(at + 1).and_then(|value| value.to_str()).is_some_and(is_form);
                (!form).then(|| "--output-dir".to_owned())
            }
            Some(rest) => rest
                .strip_prefix('=')
                .filter(|value| !is_form(value))
                .map(|value| format!("--output-dir={value}")),
            None => None,
        };
        if let Some(renamed) = renamed {
            words[at] = renamed.into();
        }
    }
    words
}

/// Which package.
#[derive(Clone, Debug, clap::Args)]
pub struct PackageFlags {
    /// The package's directory
    #[arg(value_name = "PACKAGE")]
    pub package: PathBuf,

    #[command(flatten)]
    pub loading: LoadFlags,
}

/// How a package is loaded.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LoadFlags {
    /// The local extension; the one beside the package unless given
    #[arg(long, value_name = "DIR", conflicts_with = "no_local")]
    pub local: Option<PathBuf>,

    /// Leave the local extension out
    #[arg(long)]
    pub no_local: bool,

    /// Keep `status`, `uid` and other fields a server wrote
    #[arg(long)]
    pub keep_server_fields: bool,
}

impl LoadFlags {
    pub fn load(&self, package: &Path) -> Result<Package, Problems> {
        let local = match (&self.local, self.no_local) {
            (Some(directory), _) => LocalExtension::At(directory.clone()),
            (None, true) => LocalExtension::None,
            (None, false) => LocalExtension::Beside,
        };
        Package::load(package, &LoadOptions { local, keep_server_fields: self.keep_server_fields })
    }
}

impl PackageFlags {
    pub fn load(&self) -> Result<Package, Problems> {
        self.loading.load(&self.package)
    }
}

/// Values for the parameters.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Parameters")]
pub struct ParameterFlags {
    /// Parameters file; repeat for more
    #[arg(short = 'f', long, value_name = "FILE", add = Usual)]
    pub values: Vec<PathBuf>,

    /// Set a parameter, its value read as YAML
    #[arg(long, value_name = "PATH=VALUE", add = Usual)]
    pub set: Vec<String>,

    /// Set a parameter to text
    #[arg(long, value_name = "PATH=TEXT")]
    pub set_string: Vec<String>,

    /// Set a parameter, its value read as JSON
    #[arg(long, value_name = "PATH=JSON")]
    pub set_json: Vec<String>,
}

/// What counts as a mistake.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Checks")]
pub struct CheckFlags {
    /// Warnings are errors
    #[arg(long)]
    pub strict: bool,

    /// Fields no schema knows are errors
    #[arg(long)]
    pub strict_schema: bool,

    /// Patches that set one field to different values are an error
    #[arg(long)]
    pub no_contention: bool,

    /// CRDs, Namespaces, RBAC and Secrets without a phase go to pre-install
    #[arg(long)]
    pub auto_phase: bool,

    /// Kubernetes version the package is for
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,
}

impl ParameterFlags {
    /// Whether nothing is set.
    fn is_empty(&self) -> bool {
        [&self.set, &self.set_string, &self.set_json].iter().all(|list| list.is_empty())
            && self.values.is_empty()
    }

    pub fn inputs(&self, checks: &CheckFlags) -> Result<BuildInputs, Problem> {
        let read = |path: &PathBuf| {
            files::read_text(path).map(|file| ValuesFile { name: file.name, text: file.text })
        };
        let sets = |texts: &[String], kind: SetKind| {
            texts.iter().map(|text| SetValue { kind, text: text.clone() }).collect::<Vec<_>>()
        };
        Ok(BuildInputs {
            values: self.values.iter().map(read).collect::<Result<_, _>>()?,
            sets: [
                sets(&self.set, SetKind::Yaml),
                sets(&self.set_string, SetKind::Text),
                sets(&self.set_json, SetKind::Json),
            ]
            .concat(),
            strict: checks.strict,
            strict_schema: checks.strict_schema,
            no_contention: checks.no_contention,
            auto_phase: checks.auto_phase,
            kube_version: checks.kube_version.clone(),
        })
    }
}

/// Parameters without references to secrets.
pub fn resolved(mut inputs: BuildInputs, resolver: &ReferenceResolver) -> anyhow::Result<BuildInputs> {
    resolver.resolve_inputs(&mut inputs, &NodeContext::default()).map_err(resolution::failure)?;
    Ok(inputs)
}

/// A package with values.
#[derive(Clone, Debug, clap::Args)]
pub struct Selected {
    #[command(flatten)]
    pub package: PackageFlags,
    #[command(flatten)]
    pub parameters: ParameterFlags,
    #[command(flatten)]
    pub checks: CheckFlags,
    #[command(flatten)]
    pub references: ReferenceFlags,
}

impl Selected {
    pub fn load(&self) -> Result<Package, Problems> {
        self.package.load()
    }

    /// The parameters, with references to secrets named.
    pub fn inputs(&self, session: &Session) -> anyhow::Result<BuildInputs> {
        self.inputs_with(ReferenceMode::Show, session)
    }

    /// The parameters, with references to secrets treated as asked.
    pub fn inputs_with(&self, mode: ReferenceMode, session: &Session) -> anyhow::Result<BuildInputs> {
        let resolver = ReferenceResolver::new(&self.references, mode, "package", session);
        resolved(self.parameters.inputs(&self.checks)?, &resolver)
    }
}

/// The parameters of the two sides of a comparison: what stands after `--against` is the other side's.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    /// What stands before `--against`, or everything without one.
    pub before: ParameterFlags,
    pub after: Option<ParameterFlags>,
}

impl Sides {
    /// Whether there are no parameters on either side.
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_none()
    }
}

const AGAINST: &str = "against";

impl clap::FromArgMatches for Sides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let all = ParameterFlags::from_arg_matches(matches)?;
        if !matches.get_flag(AGAINST) {
            return Ok(Self { before: all, after: None });
        }
        let middle = matches.index_of(AGAINST).unwrap_or_default();
        // Clap numbers what it reads, so the place of a value tells its side.
        fn split<T>(matches: &ArgMatches, id: &str, list: Vec<T>, middle: usize) -> (Vec<T>, Vec<T>) {
            let places = matches.indices_of(id).into_iter().flatten();
            let (mut before, mut after) = (Vec::new(), Vec::new());
            for (place, value) in places.zip(list) {
                if place < middle { before.push(value) } else { after.push(value) }
            }
            (before, after)
        }
        let values = split(matches, "values", all.values, middle);
        let set = split(matches, "set", all.set, middle);
        let set_string = split(matches, "set_string", all.set_string, middle);
        let set_json = split(matches, "set_json", all.set_json, middle);
        Ok(Self {
            before: ParameterFlags {
                values: values.0,
                set: set.0,
                set_string: set_string.0,
                set_json: set_json.0,
            },
            after: Some(ParameterFlags {
                values: values.1,
                set: set.1,
                set_string: set_string.1,
                set_json: set_json.1,
            }),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Sides {
    fn augment_args(command: clap::Command) -> clap::Command {
        let against = clap::Arg::new(AGAINST)
            .long(AGAINST)
            .action(clap::ArgAction::SetTrue)
            .help("The parameters before it are of the first side, those after it of the second");
        ParameterFlags::augment_args(command).arg(against)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

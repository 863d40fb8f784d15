//! `slipway package`: Kurel packages, built without templates.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use slipway_package::{
    Build, BuildDiff, Emit, Inputs, Layout, LoadOptions, Local, OutFile, Package, SetKind, SetValue,
    ValuesFile, plan_directory, show_segs,
};
use slipway_problem::{Location, Problem, Problems};

use crate::cli::Output;
use crate::exit::Exit;
use crate::files;
use crate::logs::Verbosity;
use crate::session::Session;
use crate::term::style::{ADDED, DIM, ERROR, GOOD, REMOVED, paint};
use crate::term::table::Table;
use crate::term::{report, show};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build a package and print its objects, or write them to a directory
    Build(BuildArgs),
    /// Check everything, disabled patches too
    Validate(Selected),
    /// Print a JSON Schema of the parameters for editors
    Schema {
        #[command(flatten)]
        package: PackageFlags,
    },
    /// Show what a package holds
    Info(Selected),
    /// List the patches and why each applies or not
    Patches {
        #[command(flatten)]
        selected: Selected,
        /// Print how they require each other, for Graphviz
        #[arg(long)]
        dot: bool,
    },
    /// Say which manifest, patch and parameter set a field: `Deployment/apps/web.spec.replicas`
    Explain {
        #[command(flatten)]
        selected: Selected,
        #[arg(value_name = "FIELD")]
        field: String,
    },
    /// Run the tests under the package's tests/
    Test {
        #[command(flatten)]
        package: PackageFlags,
        /// Write golden files as they are now
        #[arg(long)]
        update: bool,
    },
    /// Show what changes between two packages, or between two sets of parameters
    Diff(DiffArgs),
    /// Start a new package, or make one of existing manifests
    Init {
        /// The package's name; the directory is NAME.kurel
        name: String,
        /// Manifests to import: files or directories
        #[arg(long, value_name = "PATH")]
        from: Vec<PathBuf>,
    },
}

/// Which package.
#[derive(Clone, Debug, clap::Args)]
struct PackageFlags {
    /// The package's directory
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,

    /// The local extension; the one beside the package unless given
    #[arg(long, value_name = "DIR", conflicts_with = "no_local")]
    local: Option<PathBuf>,

    /// Leave the local extension out
    #[arg(long)]
    no_local: bool,
}

/// Values for the parameters.
#[derive(Clone, Debug, Default, clap::Args)]
struct ParameterFlags {
    /// Parameters file; repeat for more
    #[arg(short = 'f', long, value_name = "FILE")]
    values: Vec<PathBuf>,

    /// Set a parameter, its value read as YAML
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,

    /// Set a parameter to text
    #[arg(long, value_name = "PATH=TEXT")]
    set_string: Vec<String>,

    /// Set a parameter, its value read as JSON
    #[arg(long, value_name = "PATH=JSON")]
    set_json: Vec<String>,

    /// Warnings are errors
    #[arg(long)]
    strict: bool,
}

/// A package with values.
#[derive(Clone, Debug, clap::Args)]
struct Selected {
    #[command(flatten)]
    package: PackageFlags,
    #[command(flatten)]
    parameters: ParameterFlags,
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    #[command(flatten)]
    selected: Selected,

    /// Write files here instead of standard output
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// How the files are laid out
    #[arg(long, value_name = "LAYOUT", default_value = "phases", requires = "output_dir")]
    layout: LayoutWord,

    /// Write beside files that are not from a build
    #[arg(long, requires = "output_dir")]
    force: bool,

    /// Sort all keys
    #[arg(long)]
    sort_keys: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutWord {
    /// A directory per phase that kustomize accepts
    Phases,
    /// One file
    Flat,
    /// A file per kind
    ByKind,
    /// A file per object
    ByResource,
}

#[derive(Debug, clap::Args)]
struct DiffArgs {
    #[command(flatten)]
    package: PackageFlags,

    /// The other package; the same one unless given
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,

    /// Parameters file of the first side
    #[arg(short = 'f', long, value_name = "FILE")]
    values: Vec<PathBuf>,

    /// Parameters file of the second side
    #[arg(long, value_name = "FILE")]
    other_values: Vec<PathBuf>,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Build(args) => build(args, session),
        Command::Validate(selected) => validate(selected, session),
        Command::Schema { package } => {
            let (schema, warnings) = load(package)?.schema()?;
            warn(&warnings);
            show::print(&schema.to_text())?;
            Ok(Exit::Done)
        }
        Command::Info(selected) => {
            let info = load(&selected.package)?.info(&selected.parameters.inputs()?)?;
            show::show(data_form(session.output()), &info, |_| String::new())?;
            Ok(Exit::Done)
        }
        Command::Patches { selected, dot } => patches(selected, *dot, session),
        Command::Explain { selected, field } => {
            let built = load(&selected.package)?.build(&selected.parameters.inputs()?)?;
            let explanation = built.explain(field)?;
            show::show(session.output(), &explanation, ToString::to_string)?;
            Ok(Exit::Done)
        }
        Command::Test { package, update } => test(package, *update),
        Command::Diff(args) => diff(args),
        Command::Init { name, from } => init(name, from),
    }
}

/// Builds a package and prints its stream: what `slipway render` does with one.
pub fn print(
    path: &Path,
    values: &[String],
    sets: &[String],
    set_strings: &[String],
    session: &Session,
) -> anyhow::Result<Exit> {
    let parameters = ParameterFlags {
        values: values.iter().map(PathBuf::from).collect(),
        set: sets.to_vec(),
        set_string: set_strings.to_vec(),
        ..ParameterFlags::default()
    };
    let package = PackageFlags { package: path.to_owned(), local: None, no_local: false };
    let built = load(&package)?.build(&parameters.inputs()?)?;
    warn_of(&built, session);
    show::print(&built.stream(Emit::default()))?;
    Ok(Exit::Done)
}

fn load(flags: &PackageFlags) -> Result<Package, Problems> {
    let local = match (&flags.local, flags.no_local) {
        (Some(directory), _) => Local::At(directory.clone()),
        (None, true) => Local::None,
        (None, false) => Local::Beside,
    };
    Package::load(&flags.package, &LoadOptions { local, ..LoadOptions::default() })
}

impl ParameterFlags {
    fn inputs(&self) -> Result<Inputs, Problem> {
        let sets = |texts: &[String], kind: SetKind| {
            texts.iter().map(|text| SetValue { kind, text: text.clone() }).collect::<Vec<_>>()
        };
        Ok(Inputs {
            values: values_files(&self.values)?,
            sets: [
                sets(&self.set, SetKind::Yaml),
                sets(&self.set_string, SetKind::Text),
                sets(&self.set_json, SetKind::Json),
            ]
            .concat(),
            strict: self.strict,
            ..Inputs::default()
        })
    }
}

fn values_files(paths: &[PathBuf]) -> Result<Vec<ValuesFile>, Problem> {
    let read =
        |path: &PathBuf| files::read_text(path).map(|file| ValuesFile { name: file.name, text: file.text });
    paths.iter().map(read).collect()
}

fn warn(problems: &Problems) {
    for problem in problems {
        anstream::eprint!("{}", report::render(problem));
    }
}

/// Says on standard error what a build wants known.
fn warn_of(built: &Build, session: &Session) {
    if session.verbosity == Verbosity::Quiet {
        return;
    }
    warn(&built.problems);
    if session.verbosity >= Verbosity::Verbose {
        for line in built.report() {
            anstream::eprintln!("{line}");
        }
    }
}

/// Data has no table form: YAML for people.
fn data_form(output: Output) -> Output {
    if output == Output::Json { Output::Json } else { Output::Yaml }
}

fn build(args: &BuildArgs, session: &Session) -> anyhow::Result<Exit> {
    let built = load(&args.selected.package)?.build(&args.selected.parameters.inputs()?)?;
    warn_of(&built, session);
    let emit = Emit { sort_keys: args.sort_keys };
    let Some(directory) = &args.output_dir else {
        let text = if session.output() == Output::Json { built.json_list() } else { built.stream(emit) };
        show::print(&text)?;
        return Ok(Exit::Done);
    };
    let layout = match args.layout {
        LayoutWord::Phases => Layout::Phases,
        LayoutWord::Flat => Layout::Flat,
        LayoutWord::ByKind => Layout::ByKind,
        LayoutWord::ByResource => Layout::ByResource,
    };
    let plan = plan_directory(&built, &built.files(layout, emit), &existing(directory)?, args.force)?;
    write_all(directory, &plan.write)?;
    for path in &plan.delete {
        let path = directory.join(path);
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        anstream::eprintln!("removed {}", path.display());
    }
    Ok(Exit::Done)
}

/// Every file below a directory, by its path in it.
fn existing(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("read {}", directory.display()))?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                found.insert(name.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

fn write_all(directory: &Path, files: &[OutFile]) -> anyhow::Result<()> {
    for file in files {
        let path = directory.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        files::replace(&path, file.text.as_bytes())?;
        anstream::eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn validate(selected: &Selected, session: &Session) -> anyhow::Result<Exit> {
    let package = load(&selected.package)?;
    let validation = package.validate(&selected.parameters.inputs()?);
    show::show(session.output(), &validation.problems, |problems| {
        let mut text: String = problems.iter().map(report::render).collect();
        for line in validation.report(&package) {
            let _ = writeln!(text, "{line}");
        }
        text
    })?;
    Ok(if validation.problems.has_errors() { Exit::Failed } else { Exit::Done })
}

fn patches(selected: &Selected, dot: bool, session: &Session) -> anyhow::Result<Exit> {
    let package = load(&selected.package)?;
    if dot {
        show::print(&package.patch_graph_dot())?;
        return Ok(Exit::Done);
    }
    let rows = package.patch_list(&selected.parameters.inputs()?)?;
    show::show(session.output(), &rows, |rows| {
        let mut table = Table::new(&["order", "patch", "state", "reason"]);
        for row in rows {
            let order = row.order.map(|order| order.to_string()).unwrap_or_default();
            table.row([order, row.id.clone(), row.state.to_owned(), row.reason.clone()]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

fn test(flags: &PackageFlags, update: bool) -> anyhow::Result<Exit> {
    let mut failed = 0;
    let results = load(flags)?.test()?;
    for result in &results {
        if let Some(golden) = result.update.as_ref().filter(|_| update) {
            write_all(&flags.package, std::slice::from_ref(golden))?;
            continue;
        }
        let word = if result.passed() { paint(GOOD, "ok") } else { paint(ERROR, "failed") };
        show::print(&format!("{word} {} {}\n", result.name, paint(DIM, &result.file)))?;
        for failure in &result.failures {
            show::print(&format!("  {failure}\n"))?;
        }
        failed += usize::from(!result.passed());
    }
    show::print(&format!("{} passed, {failed} failed\n", results.len() - failed))?;
    Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
}

fn diff(args: &DiffArgs) -> anyhow::Result<Exit> {
    let other = PackageFlags {
        package: args.other.clone().unwrap_or_else(|| args.package.package.clone()),
        ..args.package.clone()
    };
    let side = |flags: &PackageFlags, values: &[PathBuf]| -> anyhow::Result<Build> {
        let inputs = Inputs { values: values_files(values)?, ..Inputs::default() };
        Ok(load(flags)?.build(&inputs)?)
    };
    let difference = side(&args.package, &args.values)?.diff(&side(&other, &args.other_values)?);
    show::print(&diff_text(&difference))?;
    Ok(Exit::Done)
}

fn diff_text(difference: &BuildDiff) -> String {
    let mut text = String::new();
    for id in &difference.removed {
        let _ = writeln!(text, "{}", paint(REMOVED, format!("- {id}")));
    }
    for id in &difference.added {
        let _ = writeln!(text, "{}", paint(ADDED, format!("+ {id}")));
    }
    for (id, changes) in &difference.changed {
        let _ = writeln!(text, "~ {id}");
        for change in changes {
            let shown = |value: &Option<serde_json::Value>| {
                value.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string)
            };
            let _ = writeln!(
                text,
                "    {}: {} {} {}",
                show_segs(&change.path),
                paint(REMOVED, shown(&change.old)),
                paint(DIM, "->"),
                paint(ADDED, shown(&change.new))
            );
        }
    }
    text
}

fn init(name: &str, from: &[PathBuf]) -> anyhow::Result<Exit> {
    let scaffold = if from.is_empty() {
        slipway_package::scaffold(name)?
    } else {
        slipway_package::import(name, &manifests(from)?)?
    };
    let directory = Path::new(&scaffold.directory);
    if directory.exists() {
        bail!(
            Problem::error("something of that name is there already")
                .at(Location::file(scaffold.directory.as_str()))
                .hint("choose another name, or remove it first")
        );
    }
    write_all(directory, &scaffold.files)?;
    Ok(Exit::Done)
}

/// The YAML files among `paths` and directly in the directories among them, in order.
fn manifests(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, String)>> {
    let mut chosen = Vec::new();
    for path in paths {
        if path.is_dir() {
            let entries = fs::read_dir(path).with_context(|| format!("read {}", path.display()))?;
            let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            inside.retain(|path| path.extension().is_some_and(|end| end == "yaml" || end == "yml"));
            inside.sort();
            chosen.extend(inside);
        } else {
            chosen.push(path.clone());
        }
    }
    let read = |path: &PathBuf| files::read_text(path).map(|file| (file.name, file.text));
    Ok(chosen.iter().map(read).collect::<Result<_, _>>()?)
}

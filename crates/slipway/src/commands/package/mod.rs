//! `slipway package`: Kurel packages, built without templates.

pub mod diff;
pub mod flags;
mod output;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_package::template::{ParamPath, ParamStep, parse_path};
use slipway_package::{
    EXPORTED_SCHEMA, EmitOptions, FieldContention, OutFile, Package, PackageBuild, ParamData, ParamValue,
    ResolvedParams, TouchedField,
};
use slipway_problem::{Problem, ProblemSeverity, Problems};

use self::flags::{CheckFlags, LoadFlags, PackageFlags, ParameterFlags, Selected};
use crate::cli::Output;
use crate::commands::secrets::flags::{ReferenceFlags, RevealFlag};
use crate::commands::secrets::resolution::ReferenceResolver;
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::logs::Verbosity;
use crate::session::Session;
use crate::term::style::{DIM, ERROR, GOOD, paint};
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
    Build(Box<output::Args>),
    /// Check everything, disabled patches too
    Validate(Selected),
    /// Print a JSON Schema of the parameters for editors
    Schema(SchemaArgs),
    /// Show what a package holds
    Info(Selected),
    /// List the patches and why each applies or not
    Patches(Box<PatchesArgs>),
    /// Show every parameter, where its value is from and what it is made of
    Params(Selected),
    /// List the fields a parameter or a patch reaches
    #[command(group = clap::ArgGroup::new("of").required(true))]
    Trace {
        /// The parameter
        #[arg(long, value_name = "PATH", group = "of")]
        param: Option<String>,
        /// The patch, such as `features/10-monitoring.kpatch`
        #[arg(long, value_name = "ID", group = "of")]
        patch: Option<String>,
        #[command(flatten)]
        selected: Selected,
    },
    /// Say which manifest, patch and parameter set a field: `Deployment/apps/web.spec.replicas`
    Explain {
        #[command(flatten)]
        selected: Selected,
        /// The object and its field: `Deployment/web.spec.replicas`
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
    Diff(diff::Args),
    /// Start a new package, or make one of existing manifests
    Init {
        /// The package's name; the directory is NAME.kurel
        name: String,
        /// Manifests to import: files or directories
        #[arg(long, value_name = "PATH")]
        from: Vec<PathBuf>,
    },
}

/// `schema PACKAGE`, or `schema generate PACKAGE`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct SchemaArgs {
    #[command(subcommand)]
    command: Option<SchemaCommand>,

    /// The package's directory
    #[arg(value_name = "PACKAGE", required = true)]
    package: Option<PathBuf>,

    /// Write it into the package, to schemas/parameters.schema.json
    #[arg(long)]
    write: bool,

    #[command(flatten)]
    loading: LoadFlags,
}

#[derive(Debug, clap::Subcommand)]
enum SchemaCommand {
    /// Print a JSON Schema of the parameters for editors, or keep it in the package
    Generate {
        #[command(flatten)]
        package: PackageFlags,
        /// Write it into the package, to schemas/parameters.schema.json
        #[arg(long)]
        write: bool,
    },
}

/// `patches PACKAGE`, or `patches list PACKAGE`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct PatchesArgs {
    #[command(subcommand)]
    command: Option<PatchesCommand>,
    /// The package's directory
    #[arg(value_name = "PACKAGE", required = true)]
    package: Option<PathBuf>,
    #[command(flatten)]
    form: ListForm,
    #[command(flatten)]
    loading: LoadFlags,
    #[command(flatten)]
    parameters: ParameterFlags,
    #[command(flatten)]
    checks: CheckFlags,
    #[command(flatten)]
    references: ReferenceFlags,
}

#[derive(Debug, clap::Subcommand)]
enum PatchesCommand {
    /// List the patches and why each applies or not
    List {
        #[command(flatten)]
        form: ListForm,
        #[command(flatten)]
        selected: Box<Selected>,
    },
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct ListForm {
    /// Print how they require each other, for Graphviz
    #[arg(long, conflicts_with = "conflicts")]
    dot: bool,
    /// List the fields several patches write
    #[arg(long)]
    conflicts: bool,
}

/// A command that was given neither its arguments nor a command below it.
fn incomplete(usage: &str) -> anyhow::Error {
    UsageError(
        Problem::error("which package?").hint(format!("write `slipway package {usage} PACKAGE`")).into(),
    )
    .into()
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Build(args) => output::run(args, session),
        Command::Validate(selected) => validate(selected, session),
        Command::Schema(args) => match (&args.command, &args.package) {
            (Some(SchemaCommand::Generate { package, write }), _) => schema(package, *write),
            (None, Some(package)) => {
                let package = PackageFlags { package: package.clone(), loading: args.loading.clone() };
                schema(&package, args.write)
            }
            (None, None) => Err(incomplete("schema generate")),
        },
        Command::Info(selected) => {
            let info = selected.load()?.info(&selected.inputs(session)?)?;
            show::show(data_form(session.output()), &info, |_| String::new())?;
            Ok(Exit::Done)
        }
        Command::Patches(args) => match (&args.command, &args.package) {
            (Some(PatchesCommand::List { selected, form }), _) => list_patches(selected, *form, session),
            (None, Some(package)) => {
                let selected = Selected {
                    package: PackageFlags { package: package.clone(), loading: args.loading.clone() },
                    parameters: args.parameters.clone(),
                    checks: args.checks.clone(),
                    references: args.references.clone(),
                };
                list_patches(&selected, args.form, session)
            }
            (None, None) => Err(incomplete("patches list")),
        },
        Command::Params(selected) => params(selected, session),
        Command::Trace { selected, param, patch } => {
            trace(selected, param.as_deref(), patch.as_deref(), session)
        }
        Command::Explain { selected, field } => {
            let built = selected.load()?.build(&selected.inputs(session)?)?;
            let explanation = built.explain(field)?;
            show::show(session.output(), &explanation, ToString::to_string)?;
            Ok(Exit::Done)
        }
        Command::Test { package, update } => test(package, *update, session),
        Command::Diff(args) => diff::run(args, session),
        Command::Init { name, from } => init(name, from),
    }
}

/// Builds a package and prints its stream: what `slipway render` does with one.
pub fn print(
    package: &Package,
    values: &[String],
    [set, set_string, set_json]: [&[String]; 3],
    references: &ReferenceResolver,
    reveal: RevealFlag,
    session: &Session,
) -> anyhow::Result<()> {
    let parameters = ParameterFlags {
        values: values.iter().map(PathBuf::from).collect(),
        set: set.to_vec(),
        set_string: set_string.to_vec(),
        set_json: set_json.to_vec(),
    };
    let inputs = flags::resolved(parameters.inputs(&CheckFlags::default())?, references)?;
    let built = package.build(&inputs)?;
    warn_of(&built, session);
    reveal.print(&built.stream(EmitOptions::default()))
}

fn warn(problems: &Problems) {
    for problem in problems {
        report::show(problem);
    }
}

/// Says on standard error what a build wants known.
fn warn_of(built: &PackageBuild, session: &Session) {
    if session.verbosity == Verbosity::Quiet {
        return;
    }
    warn(&built.problems);
    if session.verbosity < Verbosity::Verbose {
        // Nobody asked for these patches by name.
        for line in built.required_patches() {
            say!("{line}");
        }
    }
    if session.verbosity >= Verbosity::Verbose {
        for line in built.report() {
            say!("{line}");
        }
    }
}

/// Data has no table form: YAML for people.
fn data_form(output: Output) -> Output {
    if output == Output::Json { Output::Json } else { Output::Yaml }
}

fn validate(selected: &Selected, session: &Session) -> anyhow::Result<Exit> {
    let package = selected.load()?;
    let validation = package.validate(&selected.inputs(session)?);
    // The report is for reading and keeping; the lines that are wrong go beside it.
    if session.output() == Output::Table && session.verbosity != Verbosity::Quiet {
        for problem in validation.problems.iter().filter(|problem| problem.severity == ProblemSeverity::Error)
        {
            report::show(problem);
        }
    }
    show::show(session.output(), &validation.problems, |_| validation.report(&package).join("\n") + "\n")?;
    Ok(if validation.problems.has_errors() { Exit::Invalid } else { Exit::Done })
}

fn schema(package: &PackageFlags, write: bool) -> anyhow::Result<Exit> {
    let (schema, warnings) = package.load()?.schema()?;
    warn(&warnings);
    let text = schema.to_text();
    if write {
        let file = OutFile { path: EXPORTED_SCHEMA.to_owned(), text };
        output::write(&package.package, &[file])?;
    } else {
        show::print(&text)?;
    }
    Ok(Exit::Done)
}

fn list_patches(selected: &Selected, form: ListForm, session: &Session) -> anyhow::Result<Exit> {
    if form.conflicts {
        return contention(selected, session);
    }
    let package = selected.load()?;
    if form.dot {
        show::print(&package.patch_graph_dot())?;
        return Ok(Exit::Done);
    }
    let rows = package.patch_list(&selected.inputs(session)?)?;
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

/// One test of a package and how it went.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PackageTestResult")]
pub struct TestRow {
    name: String,
    file: String,
    passed: bool,
    /// True if `--update` wrote its golden file.
    updated: bool,
    /// Differences from what was expected.
    failures: Vec<String>,
}

fn test(flags: &PackageFlags, update: bool, session: &Session) -> anyhow::Result<Exit> {
    let mut rows = Vec::new();
    for result in flags.load()?.test()? {
        let golden = result.update.as_ref().filter(|_| update);
        if let Some(golden) = golden {
            output::write(&flags.package, std::slice::from_ref(golden))?;
        }
        let updated = golden.is_some();
        let failures = if updated { Vec::new() } else { result.failures };
        rows.push(TestRow {
            passed: failures.is_empty(),
            name: result.name,
            file: result.file,
            updated,
            failures,
        });
    }
    let failed = rows.iter().filter(|row| !row.passed).count();
    show::show(session.output(), &rows, |rows| {
        let mut text = String::new();
        for row in rows.iter().filter(|row| !row.updated) {
            let word = if row.passed { paint(GOOD, "ok") } else { paint(ERROR, "failed") };
            let _ = writeln!(text, "{word} {} {}", row.name, paint(DIM, &row.file));
            for failure in &row.failures {
                let _ = writeln!(text, "  {failure}");
            }
        }
        let _ = writeln!(text, "{} passed, {failed} failed", rows.len() - failed);
        text
    })?;
    Ok(if failed > 0 { Exit::Failed } else { Exit::Done })
}

/// Fields several patches wrote, with what each wrote.
fn contention(selected: &Selected, session: &Session) -> anyhow::Result<Exit> {
    let built = selected.load()?.build(&selected.inputs(session)?)?;
    let row = |found: &FieldContention| -> Vec<(String, String, String)> {
        let field = format!("{} {}", built.resources[found.resource].id, found.path);
        let patch = |patch: usize, line: u32| format!("{}:{line}", built.patches[patch].file);
        let writes = found.writes.iter();
        writes.map(|(by, line, value)| (field.clone(), patch(*by, *line), value.to_string())).collect()
    };
    let rows: Vec<_> = built.contention().iter().flat_map(row).collect();
    show::show(session.output(), &rows, |rows| {
        let mut table = Table::new(&["field", "patch", "value"]);
        for (field, patch, value) in rows {
            table.row([field.clone(), patch.clone(), value.clone()]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

fn trace(
    selected: &Selected,
    param: Option<&str>,
    patch: Option<&str>,
    session: &Session,
) -> anyhow::Result<Exit> {
    let built = selected.load()?.build(&selected.inputs(session)?)?;
    let touched: Vec<TouchedField> = match (param, patch) {
        (Some(text), _) => {
            let path = parse_path(text).map_err(|why| {
                UsageError(Problem::error(format!("`{text}` names no parameter: {why}")).into())
            })?;
            if built.params.get(&path).is_none() {
                bail!(Problem::error(format!("there is no parameter `{text}`")));
            }
            built.trace_param(&path)
        }
        (None, patch) => {
            let id = patch.unwrap_or_default();
            if !built.patches.iter().any(|patch| patch.id == id || patch.shown() == id) {
                let known = built.patches.iter().map(|patch| &*patch.id);
                bail!(Problem::error(format!("there is no patch `{id}`")).did_you_mean(id, known));
            }
            built.trace_patch(id)
        }
    };
    show::show(session.output(), &touched, |touched| {
        let mut table = Table::new(&["object", "field", "statement", "parameters"]);
        for one in touched {
            let statement = format!("{}:{}", one.file, one.line);
            table.row([one.object.clone(), one.path.clone(), statement, one.parameters.join(", ")]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

/// One parameter: its path, its value, the place it was written and the parameters it is made of.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PackageParameter")]
pub struct ParamRow {
    path: String,
    value: serde_json::Value,
    from: String,
    made_of: Vec<String>,
}

fn params(selected: &Selected, session: &Session) -> anyhow::Result<Exit> {
    let params = selected.load()?.params(&selected.inputs(session)?)?;
    let mut rows = Vec::new();
    param_rows(&params, &mut Vec::new(), params.root(), &mut rows);
    show::show(session.output(), &rows, |rows| {
        let mut table = Table::new(&["parameter", "value", "from", "made of"]);
        for row in rows {
            table.row([row.path.clone(), row.value.to_string(), row.from.clone(), row.made_of.join(", ")]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

/// Lists the single values below a parameter. Depth is limited where parameters are read.
fn param_rows(
    params: &ResolvedParams,
    path: &mut Vec<ParamStep>,
    param: &ParamValue,
    rows: &mut Vec<ParamRow>,
) {
    match &param.data {
        ParamData::Map(map) if !map.is_empty() => {
            for (key, value) in map {
                path.push(ParamStep::Key(key.clone()));
                param_rows(params, path, value, rows);
                path.pop();
            }
        }
        ParamData::List(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                path.push(ParamStep::Index(index));
                param_rows(params, path, value, rows);
                path.pop();
            }
        }
        _ => {
            let here = ParamPath(path.clone());
            let at = params.location(param.pos);
            let chain = params.chain(&here);
            rows.push(ParamRow {
                path: here.to_string(),
                value: param.to_json(),
                from: if at.line == 0 { at.file.to_string() } else { format!("{}:{}", at.file, at.line) },
                made_of: chain.iter().skip(1).map(|(path, _)| path.to_string()).collect(),
            });
        }
    }
}

fn init(name: &str, from: &[PathBuf]) -> anyhow::Result<Exit> {
    // Whoever names the directory means it.
    let name = name.strip_suffix(".kurel").unwrap_or(name);
    let scaffold = if from.is_empty() {
        slipway_package::scaffold(name)?
    } else {
        slipway_package::import(name, &manifests(from)?)?
    };
    let directory = Path::new(&scaffold.directory);
    if directory.exists() {
        bail!(
            Problem::error(format!("`{}` is there already", scaffold.directory))
                .hint("choose another name, or remove it first")
        );
    }
    output::write(directory, &scaffold.files)?;
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

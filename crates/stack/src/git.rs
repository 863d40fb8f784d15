//! Changes as Git tells them, without running anything a repository asks for.
//!
//! A repository's own configuration can name programs: filters, monitors, hooks, pagers, drivers, transports. None
//! of them runs here. The user's and the machine's configuration are left out, transports are forbidden, and filters,
//! which only a comparison with the work tree would run, are switched off one by one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use slipway_problem::Problem;

/// The `git` program.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
}

impl Default for Git {
    fn default() -> Self {
        Self { program: "git".into() }
    }
}

/// The changes of a range of commits.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The top of the work tree.
    pub top: PathBuf,
    /// Relative to the top, sorted.
    pub files: Vec<PathBuf>,
}

/// The commit a run started from.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    pub commit: Option<String>,
    pub branch: Option<String>,
    /// True if tracked or new files under the root differ from the commit.
    pub dirty: bool,
}

impl Git {
    /// Uses this program instead of the `git` on the path.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// A call that reads the repository at `top` and nothing of the user's settings.
    fn command(&self, top: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-C").arg(top).args(["--no-pager", "--literal-pathspecs"]);
        for setting in INERT {
            command.args(["-c", setting]);
        }
        // What a caller, such as a hook of Git's, says of another repository does not count here.
        for name in
            ["GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX"]
        {
            command.env_remove(name);
        }
        for name in ["GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND"] {
            command.env_remove(name);
        }
        // The work tree is the directory above `.git`, whatever `core.worktree` says.
        command.env("GIT_DIR", top.join(".git")).env("GIT_WORK_TREE", top);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_SYSTEM", NOTHING);
        command.env("GIT_CONFIG_GLOBAL", NOTHING).env("GIT_ATTR_NOSYSTEM", "1");
        // Objects that are not here are not fetched.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        // Texts we look at must be the ones we know, and reading must not write.
        command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        command.stdin(Stdio::null());
        command
    }

    /// A call that may look at files of the work tree: no filter is left that could read them.
    fn work_tree_command(&self, top: &Path) -> Result<Command, String> {
        let mut list = self.command(top);
        list.args(["config", "--list", "--name-only", "-z"]);
        let output = list.output().map_err(|error| no_program(&error))?;
        if !output.status.success() {
            return Err(reason(&String::from_utf8_lossy(&output.stderr)));
        }
        let text = String::from_utf8(output.stdout)
            .map_err(|_| "a key of the repository's configuration is not UTF-8".to_owned())?;
        let mut command = self.command(top);
        for name in filters(&text) {
            if name.contains('=') {
                return Err(format!(
                    "the filter \"{name}\" of the repository's configuration cannot be switched off"
                ));
            }
            for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                command.args(["-c", &format!("filter.{name}.{key}={value}")]);
            }
        }
        Ok(command)
    }

    /// The files a range changed, both sides of a rename among them. One revision alone means the work
    /// tree against it.
    pub fn changes(&self, root: &Path, range: &str) -> Result<Changes, Problem> {
        let wrong = |reason: &str| Problem::error(format!("git range \"{range}\": {reason}")).code("ST040");
        if range.is_empty() || range.starts_with('-') || range.contains(char::is_whitespace) {
            return Err(wrong("not a range").hint("write `origin/main...HEAD`, or one revision"));
        }
        let Some(top) = top(root) else {
            let message = format!("--git-range requires a git work tree (root {})", root.display());
            return Err(Problem::error(message).code("ST040"));
        };
        let mut command = if has_two_sides(range) {
            self.command(&top)
        } else {
            self.work_tree_command(&top).map_err(|why| wrong(&why))?
        };
        command.args(["diff", "--name-only", "-z", "--no-renames", "--no-relative"]);
        // A submodule has a configuration of its own; only its commit is compared.
        command.args(["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", range, "--"]);
        let output = command.output().map_err(|error| wrong(&no_program(&error)))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(wrong(&reason(&text)));
        }
        let mut files: Vec<PathBuf> =
            output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(path).collect();
        files.sort_unstable();
        files.dedup();
        Ok(Changes { top, files })
    }

    /// The commit, the branch and whether anything under `root` is not committed; nothing outside a work
    /// tree or without the program.
    pub fn head(&self, root: &Path) -> Option<Head> {
        let top = top(root)?;
        let mut command = self.work_tree_command(&top).ok()?;
        command.args([
            "status",
            "--porcelain=v2",
            "--branch",
            "--no-ahead-behind",
            "--ignore-submodules=dirty",
        ]);
        command.arg("--").arg(root);
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut head = Head::default();
        for line in text.lines() {
            if let Some(commit) = line.strip_prefix("# branch.oid ") {
                head.commit = (commit != "(initial)").then(|| commit.to_owned());
            } else if let Some(branch) = line.strip_prefix("# branch.head ") {
                head.branch = (branch != "(detached)").then(|| branch.to_owned());
            } else if !line.starts_with('#') && !line.ends_with(".slipway/") {
                head.dirty = true;
            }
        }
        Some(head)
    }
}

/// Settings under which nothing but Git itself runs.
const INERT: [&str; 8] = [
    "core.quotepath=off",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "core.askPass=",
    "credential.helper=",
    "status.submoduleSummary=false",
];

/// A configuration without settings.
const NOTHING: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// The filters that keys of a configuration, separated by NUL, define.
fn filters(keys: &str) -> BTreeSet<&str> {
    fn name(key: &str) -> Option<&str> {
        Some(key.strip_prefix("filter.")?.rsplit_once('.')?.0)
    }
    keys.split('\0').filter_map(name).collect()
}

/// Tells that a range leaves the work tree out of account.
pub fn ignores_work_tree(range: &str) -> bool {
    range.contains("..")
}

/// Tells that a range surely names two commits, so that Git reads no file of the work tree. Dots inside a search or a
/// path (`:/fix..`) are no range.
fn has_two_sides(range: &str) -> bool {
    range.contains("..") && !range.contains([':', '{'])
}

/// The closest directory upwards that holds `.git`, a directory or, in linked work trees, a file.
fn top(root: &Path) -> Option<PathBuf> {
    root.ancestors().find(|directory| directory.join(".git").exists()).map(Path::to_owned)
}

fn no_program(error: &io::Error) -> String {
    format!("cannot run git: {}", crate::discover::plain(error))
}

fn reason(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed");
    let line = line.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
    if line.contains("no merge base") {
        return "no merge base (shallow clone? fetch more history)".to_owned();
    }
    if [
        "unknown revision",
        "bad revision",
        "ambiguous argument",
        "Invalid revision range",
        "Invalid symmetric",
    ]
    .iter()
    .any(|known| line.contains(known))
    {
        return "unknown revision (fetch it, or check the spelling)".to_owned();
    }
    line.to_owned()
}

#[cfg(unix)]
fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[cfg(not(unix))]
fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from(String::from_utf8_lossy(bytes).into_owned()))
}

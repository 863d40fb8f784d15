//! What changed, as Git tells it: one call of the program, paths from the top of the work tree.

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

/// What a range of commits changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// The top of the work tree.
    pub top: PathBuf,
    /// Relative to the top, sorted.
    pub files: Vec<PathBuf>,
}

/// Which commit a run started from.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    pub commit: Option<String>,
    pub branch: Option<String>,
    /// Whether tracked or new files under the root differ from the commit.
    pub dirty: bool,
}

impl Git {
    /// Uses this program instead of the `git` on the path.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-C").arg(directory).args(["-c", "core.quotepath=off", "-c", "core.fsmonitor=false"]);
        // Texts we look at must be the ones we know, and reading must not write.
        command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
        command.stdin(Stdio::null());
        command
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
        let mut command = self.command(&top);
        command.args([
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-relative",
            range,
            "--",
        ]);
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
        top(root)?;
        let mut command = self.command(root);
        command.args(["status", "--porcelain=v2", "--branch", "--", "."]);
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

/// Whether a range leaves the work tree out of account.
pub fn ignores_work_tree(range: &str) -> bool {
    range.contains("..")
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

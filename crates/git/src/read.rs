//! Work trees of users, read as Git tells them, without running anything a repository asks for.
//!
//! Filters, which only a comparison with the work tree would run, are switched off one by one.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use slipway_process::{ProgramError, ProgramOutput, block_on};

use crate::program::{Git, GitCall, GitProgram as _};

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

/// The reason a range gives no changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("not a range")]
    NotARange,
    #[error("{} is in no git work tree", root.display())]
    NoWorkTree { root: PathBuf },
    #[error("no merge base (shallow clone? fetch more history)")]
    NoMergeBase,
    #[error("unknown revision (fetch it, or check the spelling)")]
    UnknownRevision,
    #[error("the filter \"{name}\" of the repository's configuration cannot be switched off")]
    StubbornFilter { name: String },
    #[error("{reason}")]
    Failed { reason: String },
}

impl Git {
    /// A call that reads the repository at `top`.
    fn reading(top: &Path) -> GitCall {
        // The work tree is the directory above `.git`, whatever `core.worktree` says. Objects that are not here are
        // not fetched.
        GitCall::default().directory(&top.join(".git")).work_tree(top).variable("GIT_NO_LAZY_FETCH", "1")
    }

    /// A call that may look at files of the work tree: no filter is left that could read them.
    fn reading_files(&self, top: &Path) -> Result<GitCall, RangeError> {
        let list = Self::reading(top).args(["config", "--list", "--name-only", "-z"]);
        let output = self.ask(list)?;
        let unreadable = "a key of the repository's configuration is not UTF-8";
        let text = String::from_utf8(output.stdout)
            .map_err(|_| RangeError::Failed { reason: unreadable.to_owned() })?;
        let mut call = Self::reading(top);
        for name in filters(&text) {
            if name.contains('=') {
                return Err(RangeError::StubbornFilter { name: name.to_owned() });
            }
            for (key, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                call = call.setting(format!("filter.{name}.{key}"), value);
            }
        }
        Ok(call)
    }

    /// The output of a call that succeeds.
    fn ask(&self, call: GitCall) -> Result<ProgramOutput, RangeError> {
        let failed = |reason: String| RangeError::Failed { reason };
        let output = block_on(self.run(call))
            .map_err(|error| failed(format!("cannot run git: {error}")))?
            .map_err(|error| failed(no_program(&error)))?;
        if output.is_success() { Ok(output) } else { Err(reason(&String::from_utf8_lossy(&output.stderr))) }
    }

    /// The files a range changed, both sides of a rename among them. One revision alone means the work
    /// tree against it.
    pub fn changes(&self, root: &Path, range: &str) -> Result<Changes, RangeError> {
        if range.is_empty() || range.starts_with('-') || range.contains(char::is_whitespace) {
            return Err(RangeError::NotARange);
        }
        let top = top(root).ok_or_else(|| RangeError::NoWorkTree { root: root.to_owned() })?;
        let call = if has_two_sides(range) { Self::reading(&top) } else { self.reading_files(&top)? };
        let call = call.args(["diff", "--name-only", "-z", "--no-renames", "--no-relative"]);
        // A submodule has a configuration of its own; only its commit is compared.
        let call = call.args(["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", range, "--"]);
        let output = self.ask(call)?;
        let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut files: Vec<PathBuf> = names.map(path_of).collect();
        files.sort_unstable();
        files.dedup();
        Ok(Changes { top, files })
    }

    /// The commit, the branch and whether anything under `root` is not committed; nothing outside a work
    /// tree or without the program.
    pub fn head(&self, root: &Path) -> Option<Head> {
        let top = top(root)?;
        let call = self.reading_files(&top).ok()?;
        let call = call.args(["status", "--porcelain=v2", "--branch", "--no-ahead-behind"]);
        let output = self.ask(call.args(["--ignore-submodules=dirty", "--"]).arg(root)).ok()?;
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

/// The filters that keys of a configuration, separated by NUL, define.
fn filters(keys: &str) -> BTreeSet<&str> {
    fn name(key: &str) -> Option<&str> {
        Some(key.strip_prefix("filter.")?.rsplit_once('.')?.0)
    }
    keys.split('\0').filter_map(name).collect()
}

/// Whether a range leaves the work tree out of account.
pub fn ignores_work_tree(range: &str) -> bool {
    range.contains("..")
}

/// Whether a range surely names two commits, so that Git reads no file of the work tree. Dots inside a search or a
/// path (`:/fix..`) are no range.
fn has_two_sides(range: &str) -> bool {
    range.contains("..") && !range.contains([':', '{'])
}

/// The closest directory upwards that holds `.git`, a directory or, in linked work trees, a file.
fn top(root: &Path) -> Option<PathBuf> {
    root.ancestors().find(|directory| directory.join(".git").exists()).map(Path::to_owned)
}

fn no_program(error: &ProgramError) -> String {
    match error.source() {
        Some(_) if error.is_missing_program() => format!("{error}: no such file or directory"),
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Git's explanation, sorted. It has one exit code for every mistake, and `LC_ALL=C` fixes its words.
fn reason(text: &str) -> RangeError {
    const UNKNOWN: [&str; 5] = [
        "unknown revision",
        "bad revision",
        "ambiguous argument",
        "Invalid revision range",
        "Invalid symmetric",
    ];
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git failed");
    let line = line.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
    if line.contains("no merge base") {
        RangeError::NoMergeBase
    } else if UNKNOWN.iter().any(|known| line.contains(known)) {
        RangeError::UnknownRevision
    } else {
        RangeError::Failed { reason: line.to_owned() }
    }
}

#[cfg(unix)]
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[cfg(not(unix))]
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from(String::from_utf8_lossy(bytes).into_owned()))
}

//! Names Git is given: branches, commits, paths and operations that cannot be taken for anything else.

use std::fmt;

/// A name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}: {reason}")]
pub struct InvalidName {
    pub kind: &'static str,
    pub text: String,
    pub reason: &'static str,
}

fn refused(kind: &'static str, text: &str, reason: &'static str) -> InvalidName {
    let text = text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    InvalidName { kind, text, reason }
}

/// The name of a branch, by the rules of `git check-ref-format`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchName(String);

impl BranchName {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let wrong = |reason| Err(refused("branch", text, reason));
        if text.is_empty() || text.len() > 240 {
            return wrong("it has 1 to 240 characters");
        }
        if text.starts_with('-') || text.starts_with("refs/") || text == "HEAD" || text == "@" {
            return wrong("it would be taken for something else");
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c)) {
            return wrong("it has characters a branch cannot have");
        }
        if text.contains("..") || text.contains("@{") || text.ends_with('.') {
            return wrong("it has `..`, `@{` or a dot at its end");
        }
        let bad = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
        if text.split('/').any(bad) {
            return wrong("a part of it is empty, begins with a dot or ends in `.lock`");
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full name on the remote.
    pub(crate) fn remote_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }

    /// The full name in a mirror.
    pub(crate) fn mirror_ref(&self) -> String {
        format!("refs/remotes/origin/{}", self.0)
    }
}

/// The full id of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct CommitId(String);

impl CommitId {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if matches!(text.len(), 40 | 64) && is_hex {
            Ok(Self(text.to_owned()))
        } else {
            Err(refused("commit", text, "it has 40 or 64 digits of lower-case hexadecimal"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The seven digits people read.
    pub fn short(&self) -> &str {
        &self.0[..7]
    }
}

/// The first digits of a commit's id, seven of them or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommitPrefix(String);

impl CommitPrefix {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if (7..=64).contains(&text.len()) && is_hex {
            Ok(Self(text.to_owned()))
        } else {
            Err(refused("commit", text, "it has 7 to 64 digits of lower-case hexadecimal"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A path inside a work tree: relative, without `..`, outside of `.git`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreePath(String);

impl TreePath {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let wrong = |reason| Err(refused("path", text, reason));
        if text.len() > 4096 || text.chars().any(char::is_control) || text.contains('\\') {
            return wrong("it has characters a path in a repository cannot have");
        }
        if text.starts_with('/') {
            return wrong("it is not relative");
        }
        let mut parts = Vec::new();
        for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part == ".." {
                return wrong("it leaves the repository");
            }
            if is_git_directory(part) {
                return wrong("`.git` is not part of a work tree");
            }
            parts.push(part);
        }
        Ok(Self(parts.join("/")))
    }

    /// The top of the work tree.
    pub fn root() -> Self {
        Self(String::new())
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of something below this one.
    pub fn join(&self, below: &TreePath) -> Self {
        match (self.is_root(), below.is_root()) {
            (true, _) => below.clone(),
            (_, true) => self.clone(),
            _ => Self(format!("{}/{}", self.0, below.0)),
        }
    }

    /// Without slashes at its ends; empty for the top.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names that some file system takes for `.git`.
fn is_git_directory(part: &str) -> bool {
    let part = part.trim_end_matches(['.', ' ']);
    part.eq_ignore_ascii_case(".git") || part.eq_ignore_ascii_case("git~1")
}

/// The name of one operation: its work tree is called after it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(String);

impl OperationId {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_plain = text.chars().all(fits) && text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !is_plain || text.len() > 100 || text.ends_with(".lock") {
            return Err(refused("operation", text, "it has 1 to 100 letters, digits, `-`, `_` and `.`"));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! shows_its_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

shows_its_text!(BranchName, CommitId, CommitPrefix, TreePath, OperationId);

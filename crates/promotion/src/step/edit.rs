//! Edits: changes of files that come out the same whenever they are made on the same base.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use slipway_git::{Repository, TreePath, WorkTree};

use crate::kinds::{BundleSpec, PromotionStepSpec, StepSpec};

use super::outcome::StepError;
use super::workspace::ConfigChanges;

/// Everything an edit depends on besides the files themselves.
pub(super) struct EditInputs {
    pub(super) step: Arc<PromotionStepSpec>,
    pub(super) bundle: Arc<BundleSpec>,
    /// The entry of the sequence, with its settings.
    pub(super) entry: StepSpec,
    /// What happens to the configuration.
    pub(super) config: Option<ConfigChanges>,
    pub(super) repository: Repository,
}

/// The trees an edit works on.
#[derive(Clone, Copy)]
pub(super) struct EditTrees<'t> {
    /// The files people write.
    pub(super) source: &'t WorkTree,
    /// The files that are committed; the same tree unless manifests are rendered to a branch of their own.
    pub(super) target: &'t WorkTree,
}

impl EditTrees<'_> {
    /// Tells that rendered manifests have a branch of their own.
    pub(super) fn has_rendered_branch(&self) -> bool {
        self.source.directory() != self.target.directory()
    }
}

/// What an edit has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EditNote {
    pub(super) message: String,
    pub(super) outputs: BTreeMap<String, String>,
    /// Versions before and after, for the pull request.
    pub(super) changes: Vec<VersionChange>,
}

/// A version of an image before and after an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionChange {
    pub(super) image: String,
    pub(super) old: String,
    pub(super) new: String,
}

impl EditInputs {
    /// The directory of the environment.
    pub(super) fn path(&self) -> Result<TreePath, StepError> {
        environment_path(&self.step)
    }

    /// A setting of the entry that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.entry.config.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty())
    }

    /// A path of the entry's settings, below the directory of the environment.
    pub(super) fn path_below(&self, relative: &str) -> Result<TreePath, StepError> {
        Ok(self.path()?.join(&TreePath::parse(relative)?))
    }
}

/// The directory of an environment in the repository.
pub(super) fn environment_path(step: &PromotionStepSpec) -> Result<TreePath, StepError> {
    Ok(TreePath::parse(&step.path)?)
}

/// Reads a text file of a tree; `None` when there is none.
pub(super) fn read_text(tree: &WorkTree, path: &TreePath) -> Result<Option<String>, StepError> {
    match fs::read_to_string(tree.locate(path)?) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StepError::failed("UnreadableFile", format!("`{path}`: {error}"))),
    }
}

/// Writes a file of a tree where it differs; directories on the way are made.
pub(super) fn write_file(tree: &WorkTree, path: &TreePath, content: &[u8]) -> Result<(), StepError> {
    let file: PathBuf = tree.locate(path)?;
    if fs::read(&file).is_ok_and(|known| known == content) {
        return Ok(());
    }
    let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, content));
    Ok(written.map_err(slipway_git::GitError::files(file))?)
}

//! `config-merge`: brings the change of a configuration commit into the directory of an environment.

use std::collections::BTreeSet;
use std::fs;

use slipway_git::{CommitChange, CommitId, FileChange, FileContent, GitError, TextMerge, TreePath, WorkTree};

use crate::kinds::ConfigStrategy;
use crate::step::edit::{EditInputs, EditNote, EditTrees, write_file};
use crate::step::outcome::StepError;
use crate::step::workspace::ConfigChanges;

pub(super) async fn edit(inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
    let strategy = inputs.step.update.config.clone().unwrap_or_default().strategy;
    match &inputs.config {
        None => Err(StepError::failed("NoConfigCommit", "the bundle names no commit to merge")),
        Some(ConfigChanges::Apply(change)) => {
            let merged = merge_change(inputs, trees, change, strategy).await?;
            let (short, root) = (change.commit.short(), inputs.path()?);
            let message = match merged.len() {
                0 => format!("{short} is in `{root}` already"),
                count => format!("merged {count} files of {short}"),
            };
            Ok(note(message, &merged, &change.commit))
        }
        Some(ConfigChanges::TakeBack(changes)) => {
            let mut merged = BTreeSet::new();
            for change in changes.iter() {
                // A copy of whole files would take back what others have changed since.
                merged.extend(
                    merge_change(inputs, trees, &reversed(change), ConfigStrategy::CherryPick).await?,
                );
            }
            let commits: Vec<&str> = changes.iter().map(|change| change.commit.short()).collect();
            let message = format!("took {} back in {} files", commits.join(", "), merged.len());
            let newest = changes.first().map(|change| &change.commit);
            Ok(newest.map_or_else(EditNote::default, |commit| note(message, &merged, commit)))
        }
    }
}

fn note<'f>(message: String, files: impl IntoIterator<Item = &'f String>, commit: &CommitId) -> EditNote {
    let files: Vec<&str> = files.into_iter().map(String::as_str).collect();
    let outputs =
        [("mergedFiles".to_owned(), files.join(",")), ("configCommit".to_owned(), commit.to_string())];
    EditNote { message, outputs: outputs.into(), changes: Vec::new() }
}

/// The change that undoes another.
fn reversed(change: &CommitChange) -> CommitChange {
    let swap = |file: &FileChange| FileChange {
        path: file.path.clone(),
        before: file.after.clone(),
        after: file.before.clone(),
    };
    CommitChange { files: change.files.iter().map(swap).collect(), ..change.clone() }
}

/// Merges the files of one commit; returns those that have changed.
async fn merge_change(
    inputs: &EditInputs,
    trees: EditTrees<'_>,
    change: &CommitChange,
    strategy: ConfigStrategy,
) -> Result<Vec<String>, StepError> {
    let root = inputs.path()?;
    let (mut merged, mut conflicts) = (Vec::new(), Vec::new());
    for file in &change.files {
        let path = root.join(&file.path);
        let ours = read_bytes(trees.source, &path)?;
        let made = match strategy {
            ConfigStrategy::Overlay => Merged::To(file.after.clone().map(|after| after.bytes)),
            ConfigStrategy::CherryPick => merge_file(inputs, file, ours.as_deref()).await?,
        };
        match made {
            Merged::Conflict => conflicts.push(path.to_string()),
            Merged::To(content) if content == ours => {}
            Merged::To(Some(content)) => {
                write_file(trees.source, &path, &content)?;
                set_mode(trees.source, &path, file.after.as_ref())?;
                merged.push(path.to_string());
            }
            Merged::To(None) => {
                remove(trees.source, &path)?;
                merged.push(path.to_string());
            }
        }
    }
    if conflicts.is_empty() {
        return Ok(merged);
    }
    let message = format!("{} conflicts with {}", change.commit.short(), conflicts.join(", "));
    Err(StepError::failed("MergeConflict", message))
}

/// The content a file gets; `None` for a file that goes.
enum Merged {
    To(Option<Vec<u8>>),
    Conflict,
}

/// Merges one file: the commit's parent is what both sides started from.
async fn merge_file(
    inputs: &EditInputs,
    file: &FileChange,
    ours: Option<&[u8]>,
) -> Result<Merged, StepError> {
    let (before, after) = (bytes(file.before.as_ref()), bytes(file.after.as_ref()));
    Ok(match (ours, before, after) {
        (ours, _, after) if ours == after => Merged::To(ours.map(<[u8]>::to_vec)),
        (ours, before, after) if ours == before => Merged::To(after.map(<[u8]>::to_vec)),
        (Some(ours), Some(before), Some(after)) => {
            match inputs.repository.merge_text(ours, before, after).await? {
                TextMerge::Merged(content) => Merged::To(Some(content)),
                TextMerge::Conflict => Merged::Conflict,
            }
        }
        // Deleted by the commit, and not there.
        (None, Some(_), None) => Merged::To(None),
        _ => Merged::Conflict,
    })
}

fn bytes(content: Option<&FileContent>) -> Option<&[u8]> {
    content.map(|content| content.bytes.as_slice())
}

fn read_bytes(tree: &WorkTree, path: &TreePath) -> Result<Option<Vec<u8>>, StepError> {
    let file = tree.locate(path)?;
    match fs::read(&file) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(GitError::Files { path: file, source }.into()),
    }
}

fn remove(tree: &WorkTree, path: &TreePath) -> Result<(), StepError> {
    let file = tree.locate(path)?;
    match fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(GitError::Files { path: file, source: error }.into())
        }
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn set_mode(tree: &WorkTree, path: &TreePath, after: Option<&FileContent>) -> Result<(), StepError> {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(after) = after else { return Ok(()) };
    let file = tree.locate(path)?;
    let mode = if after.is_executable { 0o755 } else { 0o644 };
    let set = fs::set_permissions(&file, fs::Permissions::from_mode(mode));
    set.map_err(|source| GitError::Files { path: file, source }.into())
}

#[cfg(not(unix))]
fn set_mode(_: &WorkTree, _: &TreePath, _: Option<&FileContent>) -> Result<(), StepError> {
    Ok(())
}

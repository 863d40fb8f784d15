//! The work trees of a step. They live no longer than one turn: a later turn makes them anew and replays the edits.
//!
//! An edit depends on its base and on the spec alone, and a commit's time is the step's, so that a replay on the recorded
//! base gives the same commit. Nothing on disk has to survive.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use slipway_git::{
    BranchLease, BranchName, CheckoutBase, CheckoutRequest, CommitChange, CommitId, CommitPrefix, GitError,
    TreePath, WorkTree,
};

use crate::kinds::{DeploymentLayout, GitCommit};

use super::access::RepositoryAccess;
use super::actions::StepAction;
use super::context::{StepContext, TreeUse, is_carried_out, outputs};
use super::edit::{EditInputs, EditNote, EditTrees, environment_path};
use super::outcome::{StepError, StepOutput, StepProgressed};

/// The work trees of one turn, and what was fetched for it.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) access: Option<Arc<RepositoryAccess>>,
    /// The tree that is committed.
    pub(super) target: Option<WorkTree>,
    /// The tree of the source branch, where that is another.
    pub(super) source: Option<Arc<WorkTree>>,
    /// The commit of a configuration bundle, or those a rollback takes back.
    pub(super) config: Option<ConfigChanges>,
    /// The entries whose edits the trees have.
    edited: usize,
}

/// What happens to the configuration of an environment.
#[derive(Clone)]
pub(super) enum ConfigChanges {
    Apply(Arc<CommitChange>),
    /// Newest first.
    TakeBack(Arc<Vec<CommitChange>>),
}

impl Workspace {
    /// Drops the trees; they are made anew when they are needed.
    pub(super) fn clear(&mut self) {
        (self.target, self.source, self.edited) = (None, None, 0);
    }

    fn trees(&self) -> Option<EditTrees<'_>> {
        let target = self.target.as_ref()?;
        Some(EditTrees { source: self.source.as_deref().unwrap_or(target), target })
    }
}

/// Carries out an entry that edits files.
pub(super) async fn run_edit(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    prepare(context).await?;
    let note = edit_entry(context, context.index).await?;
    context.workspace.edited = context.index + 1;
    let mut output = StepOutput { message: note.message, outputs: note.outputs };
    if !note.changes.is_empty()
        && let Ok(changes) = serde_json::to_string(&note.changes)
    {
        output = output.output(outputs::CHANGES, changes);
    }
    Ok(output.into())
}

/// Makes sure that the trees are there with the edits of every entry before this one.
pub(super) async fn prepare(context: &mut StepContext<'_>) -> Result<(), StepError> {
    if context.workspace.target.is_none() {
        check_out(context).await?;
    }
    for index in context.workspace.edited..context.index {
        if is_carried_out(context.status, index) {
            edit_entry(context, index).await?;
        }
    }
    context.workspace.edited = context.workspace.edited.max(context.index);
    Ok(())
}

async fn edit_entry(context: &mut StepContext<'_>, index: usize) -> Result<EditNote, StepError> {
    let Some(action) = edit_action(context, index) else { return Ok(EditNote::default()) };
    if action == StepAction::ConfigMerge {
        read_config(context).await?;
    }
    let access = context.access().await?;
    let inputs = edit_inputs(context, &access, index);
    let Some(trees) = context.workspace.trees() else {
        return Err(StepError::failed("NoWorkTree", "`git-clone` has to come before steps that edit files"));
    };
    action.edit(&inputs, trees).await
}

fn edit_action(context: &StepContext<'_>, index: usize) -> Option<StepAction> {
    StepAction::parse(&context.sequence[index].uses).filter(|action| action.edits_files())
}

fn edit_inputs(context: &StepContext<'_>, access: &RepositoryAccess, index: usize) -> EditInputs {
    EditInputs {
        step: Arc::new(context.step.spec.clone()),
        bundle: Arc::new(context.bundle.spec.clone()),
        entry: context.sequence[index].clone(),
        config: context.workspace.config.clone(),
        repository: access.repository.clone(),
    }
}

/// Every edit of the sequence before this entry, for a tree on another base.
pub(super) fn replay(
    context: &StepContext<'_>,
    access: &RepositoryAccess,
) -> impl for<'t> Fn(&'t WorkTree) -> BoxFuture<'t, Result<(), StepError>> + use<> {
    let edits: Vec<(StepAction, EditInputs)> = (0..context.index)
        .filter(|index| is_carried_out(context.status, *index))
        .filter_map(|index| Some((edit_action(context, index)?, edit_inputs(context, access, index))))
        .collect();
    let edits = Arc::new(edits);
    let source = context.workspace.source.clone();
    move |tree| {
        let (edits, source) = (edits.clone(), source.clone());
        // The source branch stays as it was read; only the rendered one moves on.
        async move {
            let source = source.as_deref().unwrap_or(tree);
            for (action, inputs) in edits.iter() {
                action.edit(inputs, EditTrees { source, target: tree }).await?;
            }
            Ok(())
        }
        .boxed()
    }
}

/// Checks the trees out at the recorded commits, or at the tips of their branches where there are none.
pub(super) async fn check_out(context: &mut StepContext<'_>) -> Result<(), StepError> {
    let access = context.access().await?;
    let branches = context.branches()?;
    let reads_all = context
        .sequence
        .iter()
        .any(|entry| StepAction::parse(&entry.uses).is_some_and(StepAction::reads_whole_repository));
    let own = environment_path(&context.step.spec)?;
    let paths = if reads_all { Vec::new() } else { vec![own] };
    let recorded = |name: &str| context.output(name).and_then(|text| CommitId::parse(text).ok());
    let target_paths = match context.step.spec.layout {
        DeploymentLayout::Directory => paths.clone(),
        DeploymentLayout::Branch => Vec::new(),
    };
    let target = TreeRequest {
        branch: &branches.base,
        recorded: recorded(outputs::BASE_COMMIT),
        paths: target_paths,
        // A rendered branch begins with the first promotion; a branch people write has to be there.
        may_be_absent: context.step.spec.layout == DeploymentLayout::Branch,
    };
    let operation = context.operation(TreeUse::Target)?;
    if target.may_be_absent && branches.head != branches.base {
        begin_branch(context, &access, &branches.base, operation.clone()).await?;
    }
    let tree = target.check_out(&access, operation).await?;
    let source = match &branches.source {
        Some(branch) => {
            let recorded = recorded(outputs::SOURCE_COMMIT);
            let wanted = TreeRequest { branch, recorded, paths, may_be_absent: false };
            Some(wanted.check_out(&access, context.operation(TreeUse::Source)?).await?)
        }
        None => None,
    };
    context.workspace.target = Some(tree);
    context.workspace.source = source.map(Arc::new);
    context.workspace.edited = 0;
    Ok(())
}

/// Makes a rendered branch that does not exist yet: a pull request needs something to be against.
async fn begin_branch(
    context: &StepContext<'_>,
    access: &RepositoryAccess,
    branch: &BranchName,
    operation: slipway_git::OperationId,
) -> Result<(), StepError> {
    if access.repository.remote_head(branch).await?.is_some() {
        return Ok(());
    }
    let base = CheckoutBase::BranchOrEmpty(branch.clone());
    let tree = access.repository.check_out(&CheckoutRequest { operation, base, paths: Vec::new() }).await?;
    context.check_running()?;
    // Whoever was faster has made the same.
    tree.push(tree.base(), branch, &BranchLease::Absent).await?;
    Ok(())
}

/// A tree to check out.
struct TreeRequest<'b> {
    branch: &'b BranchName,
    recorded: Option<CommitId>,
    paths: Vec<TreePath>,
    may_be_absent: bool,
}

impl TreeRequest<'_> {
    async fn check_out(
        self,
        access: &RepositoryAccess,
        operation: slipway_git::OperationId,
    ) -> Result<WorkTree, StepError> {
        let tip = match self.may_be_absent {
            true => CheckoutBase::BranchOrEmpty(self.branch.clone()),
            false => CheckoutBase::Branch(self.branch.clone()),
        };
        let request = |base: CheckoutBase| CheckoutRequest {
            operation: operation.clone(),
            base,
            paths: self.paths.clone(),
        };
        let tree = access.repository.check_out(&request(tip.clone())).await?;
        let Some(commit) = self.recorded.filter(|commit| tree.base() != commit) else { return Ok(tree) };
        drop(tree);
        let base = CheckoutBase::Commit { branch: self.branch.clone(), commit };
        match access.repository.check_out(&request(base)).await {
            // History was rewritten: there is only what is there now.
            Err(GitError::CommitMissing { .. } | GitError::BranchMissing { .. }) => {
                Ok(access.repository.check_out(&request(tip)).await?)
            }
            result => Ok(result?),
        }
    }
}

/// Reads the commit of a configuration bundle, once a turn.
pub(super) async fn read_config(context: &mut StepContext<'_>) -> Result<(), StepError> {
    if context.workspace.config.is_some() {
        return Ok(());
    }
    let reverted = context.bundle.spec.provenance.as_ref().map(|provenance| &provenance.reverted_commits);
    if let Some(reverted) = reverted.filter(|commits| !commits.is_empty()) {
        let mut changes = Vec::new();
        for commit in reverted {
            changes.push(read_change(context, commit).await?);
        }
        context.workspace.config = Some(ConfigChanges::TakeBack(Arc::new(changes)));
        return Ok(());
    }
    let Some(commit) = &context.bundle.spec.artifacts.git_commit else { return Ok(()) };
    let change = read_change(context, commit).await?;
    context.workspace.config = Some(ConfigChanges::Apply(Arc::new(change)));
    Ok(())
}

/// Reads one commit, as far as the pipeline and the bundle want it.
async fn read_change(context: &StepContext<'_>, commit: &GitCommit) -> Result<CommitChange, StepError> {
    let repository = context.shared.connect_config(context.step, commit).await?;
    let bad = |error: GitError| match error {
        GitError::UnknownCommit { .. } | GitError::CommitMissing { .. } | GitError::Name(_) => {
            StepError::failed("BadConfigCommit", super::outcome::explain(&error))
        }
        other => other.into(),
    };
    let wanted = CommitPrefix::parse(&commit.sha).map_err(|error| bad(error.into()))?;
    let update = context.step.spec.update.config.clone().unwrap_or_default();
    let path = update.source_path.or_else(|| commit.path.clone()).unwrap_or_default();
    let path = TreePath::parse(&path)?;
    let mut change = repository.commit_change(&wanted, &path).await.map_err(bad)?;
    // The bundle may narrow down what the pipeline takes.
    if let (Some(wide), Some(narrow)) =
        (context.step.spec.update.config.as_ref().and_then(|one| one.source_path.as_ref()), &commit.path)
    {
        let narrow = TreePath::parse(narrow)?;
        let wide = TreePath::parse(wide)?;
        let inside = |file: &slipway_git::FileChange| {
            let full = wide.join(&file.path);
            full == narrow || full.as_str().starts_with(&format!("{narrow}/")) || narrow.is_root()
        };
        change.files.retain(inside);
    }
    Ok(change)
}

/// The outputs of an entry, within what a status may hold.
pub(super) fn merge_outputs(status: &mut BTreeMap<String, String>, new: BTreeMap<String, String>) {
    const LONGEST_VALUE: usize = 4 << 10;
    const LONGEST_TOTAL: usize = 64 << 10;
    let mut total: usize = status.iter().map(|(name, value)| name.len() + value.len()).sum();
    for (name, value) in new {
        let end =
            value.char_indices().map(|(at, _)| at).find(|at| *at > LONGEST_VALUE).unwrap_or(value.len());
        let value = value[..end].to_owned();
        total += name.len() + value.len();
        if total <= LONGEST_TOTAL {
            status.insert(name, value);
        }
    }
}

//! The intent of a request: the record to write, the objects it holds, and what is said about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use slipway_chart::{Capabilities, KubeVersion};
use slipway_cluster::Cluster;
use slipway_cluster::helm::{Release, RevisionStatus};
use slipway_event::Redactor;
use slipway_manifest::object;
use slipway_problem::{Problem, ProblemSeverity, Problems};
use slipway_source::{Document, RecordPart, RenderedSource, SecretState};

use super::request::{PlanPurpose, PruneOrder, ReleaseContent, ReleaseRequest, TestFilter};
use super::secrets;
use super::situation::{ReleaseSituation, previous_documents, rollback_target};
use crate::failure::Failure;
use crate::lookup::RenderRequest;
use crate::name::Revision;
use crate::ops::RecordChanges;
use crate::record::{self, RevisionHeading};
use crate::resource::DeployType;
use crate::resource::annotations::ReadMode;
use crate::resource::transform::transform_documents;
use crate::stage::Stage;

/// The state of a release that is to come about.
pub(super) struct ReleaseIntent {
    pub(super) deploy_type: DeployType,
    /// The revision to be written, pending; of a delete or a test, the one it is about.
    pub(super) release: Release,
    pub(super) documents: Vec<Document>,
    pub(super) reading: ReadMode,
    /// Objects earlier revisions may have left.
    pub(super) previous: Vec<Document>,
    /// The stage in which what is no longer wanted goes; none if nothing goes.
    pub(super) prune: Option<Stage>,
    pub(super) records: RecordChanges,
    /// The reason for a revision even if no object changes.
    pub(super) reason: Option<String>,
    pub(super) warnings: Problems,
    /// Problems of the documents themselves.
    pub(super) problems: Problems,
    /// The last revision did not come to be, so what it left is looked at again.
    pub(super) previous_failed: bool,
}

/// A new revision: from a source, from what was rendered, or from a stored revision.
pub(super) async fn deploy_intent(
    cluster: &Cluster,
    request: &ReleaseRequest,
    situation: &ReleaseSituation,
    purpose: PlanPurpose,
    redactor: &Redactor,
) -> Result<ReleaseIntent, Failure> {
    let RenderedRelease { release, documents, warnings, problems, deploy_type } =
        render_release(cluster, request, situation, purpose, redactor).await?;
    let history = &situation.history;
    let supersede = history.releases.iter().filter(|old| old.info.status == RevisionStatus::Deployed);
    let records = RecordChanges {
        create: Some(release.version.into()),
        supersede: supersede.map(|old| old.version.into()).collect(),
        ..RecordChanges::default()
    };
    let prune = match request.options.prune_order {
        PruneOrder::Before => Stage::PrePreUninstall,
        PruneOrder::After => Stage::Uninstall,
    };
    Ok(ReleaseIntent {
        deploy_type,
        reason: record::revision_reason(history.last_release(), &release)
            .or(request.options.new_revision.then_some("a new revision was asked for"))
            .map(str::to_owned),
        release,
        documents,
        reading: ReadMode::Strict,
        previous: previous_documents(history),
        prune: Some(prune),
        records,
        warnings,
        problems,
        previous_failed: situation.previous_failed,
    })
}

/// The end of a release.
pub(super) fn delete_intent(
    request: &ReleaseRequest,
    situation: &ReleaseSituation,
) -> Result<ReleaseIntent, Failure> {
    let ReleaseRequest { name, options, .. } = request;
    let history = &situation.history;
    let Some(last) = history.last_release() else {
        return Err(Failure::NotFound(format!("release `{name}` not found")));
    };
    let revision = Revision::from(last.version);
    let all = history.releases.iter().map(|old| Revision::from(old.version));
    let records = RecordChanges {
        delete: Some(revision),
        forget: if options.keep_history { Vec::new() } else { all.collect() },
        keep: options.keep_history.then_some(revision),
        ..RecordChanges::default()
    };
    let previous = previous_documents(history);
    let documents = if options.no_hooks { Vec::new() } else { previous.clone() };
    Ok(ReleaseIntent {
        deploy_type: DeployType::Delete,
        release: last.clone(),
        documents,
        reading: ReadMode::Lenient,
        previous,
        prune: Some(Stage::Uninstall),
        records,
        reason: Some("the release is deleted".to_owned()),
        warnings: Problems::new(),
        problems: Problems::new(),
        previous_failed: false,
    })
}

/// The tests of a release.
pub(super) fn test_intent(
    request: &ReleaseRequest,
    filter: &TestFilter,
    situation: &ReleaseSituation,
) -> Result<ReleaseIntent, Failure> {
    let history = &situation.history;
    let Some(last) = history.last_deployed().or(history.last_release()) else {
        return Err(Failure::NotFound(format!("release `{}` not found", request.name)));
    };
    let (mut documents, warnings) = record::read_documents(last);
    documents.retain(|document| filter.admits(object::name(&document.object).unwrap_or_default()));
    Ok(ReleaseIntent {
        deploy_type: DeployType::Test,
        release: last.clone(),
        documents,
        reading: ReadMode::Lenient,
        previous: Vec::new(),
        prune: None,
        records: RecordChanges::default(),
        reason: None,
        warnings,
        problems: Problems::new(),
        previous_failed: false,
    })
}

/// The content of a request as a record with its documents.
struct RenderedRelease {
    release: Release,
    documents: Vec<Document>,
    warnings: Problems,
    problems: Problems,
    deploy_type: DeployType,
}

async fn render_release(
    cluster: &Cluster,
    request: &ReleaseRequest,
    situation: &ReleaseSituation,
    purpose: PlanPurpose,
    redactor: &Redactor,
) -> Result<RenderedRelease, Failure> {
    let ReleaseRequest { name, namespace, options, .. } = request;
    let first_deployed = situation.history.releases.first().map(|first| first.info.first_deployed.clone());
    let mut heading = RevisionHeading {
        name,
        namespace,
        revision: situation.revision,
        deploy_type: situation.deploy_type,
        now: jiff::Timestamp::now(),
        first_deployed: first_deployed.filter(|time| !time.is_zero()),
    };
    let rendered = match &request.content {
        ReleaseContent::Source(source) => {
            let request = RenderRequest {
                name: name.to_string(),
                namespace: namespace.to_string(),
                revision: situation.revision.get().into(),
                is_upgrade: situation.deploy_type == DeployType::Upgrade,
                capabilities: read_capabilities(cluster).await?,
                skip_crds: options.no_install_crds,
                skip_schema_validation: options.skip_schema_validation,
                subchart_notes: options.subchart_notes,
            };
            crate::lookup::render_source(cluster, Arc::clone(source), request).await?
        }
        ReleaseContent::Rendered(rendered) => (**rendered).clone(),
        ReleaseContent::Record(release, deploy_type, aside) => {
            let (mut documents, warnings) = record::read_documents(release);
            documents.extend(aside.iter().cloned());
            let mut release = (**release).clone();
            release.version = situation.revision.get();
            return Ok(RenderedRelease {
                release,
                documents,
                warnings,
                problems: Problems::new(),
                deploy_type: *deploy_type,
            });
        }
        ReleaseContent::Revision(wanted) => {
            let target = rollback_target(&situation.history, *wanted, name)?;
            let (mut documents, warnings) = record::read_documents(target);
            if options.no_hooks {
                documents.retain(|document| document.stored != RecordPart::Hook);
            }
            heading.deploy_type = DeployType::Rollback;
            let rendered = RenderedSource {
                notes: target.info.notes.clone(),
                values: target.config.clone(),
                ..RenderedSource::default()
            };
            let mut release = record::build_record(&rendered, &mut documents, &heading);
            release.chart = target.chart.clone();
            release.info.rollback_revision = target.version;
            release.labels = target.labels.clone();
            release.labels.extend(options.release_labels.clone());
            release.info.annotations = target.info.annotations.clone();
            add_annotations(&mut release, &options.info_annotations);
            let (deploy_type, problems) = (DeployType::Rollback, Problems::new());
            return Ok(RenderedRelease { release, documents, warnings, problems, deploy_type });
        }
        ReleaseContent::Nothing | ReleaseContent::Tests(_) => RenderedSource::default(),
    };
    let (mut documents, found) =
        transform_documents(rendered.documents.clone(), &options.extra, options.normalise);
    if rendered.secrets == SecretState::Named {
        secrets::keep_known_secrets(&mut documents, &situation.history, redactor);
    }
    let mut warnings = rendered.warnings.clone();
    let found = found.into_iter().chain(secrets::unresolved_references(&rendered.documents, purpose));
    let (errors, soft): (Vec<Problem>, Vec<Problem>) =
        found.into_iter().partition(|problem| problem.severity == ProblemSeverity::Error);
    warnings.extend(soft);
    if options.no_hooks {
        documents.retain(|document| document.stored != RecordPart::Hook);
    }
    let mut release = record::build_record(&rendered, &mut documents, &heading);
    release.labels.clone_from(&options.release_labels);
    add_annotations(&mut release, &options.info_annotations);
    // What is deployed is exactly what is stored.
    let problems = errors.into_iter().collect();
    Ok(RenderedRelease { release, documents, warnings, problems, deploy_type: situation.deploy_type })
}

fn add_annotations(release: &mut Release, annotations: &BTreeMap<String, String>) {
    let pairs = annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
    release.info.annotations.extend(pairs);
}

/// Asks the cluster what templates may ask of it.
pub async fn read_capabilities(cluster: &Cluster) -> Result<Capabilities, Failure> {
    let (version, kinds) = futures::try_join!(cluster.server_version(), cluster.served_kinds())?;
    let kube_version = KubeVersion::parse(&version.git_version).map_err(|e| Problem::error(e.to_string()))?;
    Ok(Capabilities { kube_version, api_versions: kinds.api_versions().into() })
}

//! Bundles of groups: one bundle a member, and what becomes of all of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use slipway_cluster::ListOptions;

use super::outcome::{StatusDraft, condition};
use super::reconcile::{BundleReconciler, ReconcileError};
use super::supersede::compare_age;
use crate::Requeue;
use crate::kinds::{
    self, Artifacts, Bundle, BundlePhase, BundleSpec, BundleType, ConditionStatus, GroupMember,
    GroupMemberStatus, KindError, Metadata, NewCondition, Pipeline, PipelineGroup, PipelineGroupSpec,
    PipelineSpec, PolicyGate, StepState, labels, set_condition,
};
use crate::translate::{GroupInput, orphan_gates};

impl BundleReconciler {
    /// Brings the bundle of a group forward: makes the bundles of its members, and sums them up.
    pub(super) async fn reconcile_group(
        &self,
        bundle: &Bundle,
        now: Timestamp,
    ) -> Result<Requeue, ReconcileError> {
        let mut draft = StatusDraft::new(bundle, now);
        let name = bundle.spec.group.as_deref().unwrap_or_default();
        let group = kinds::get::<PipelineGroupSpec>(&self.cluster, bundle.namespace(), name).await?;
        let Some(group) = group else {
            let message = format!("there is no PipelineGroup `{name}` in the namespace of the bundle");
            return self.refuse_group(bundle, draft, "GroupMissing", message).await;
        };
        if let Some(newer) = self.overtaken_by(bundle).await? {
            // One that was refused stays so: its members would be younger than those of the newer one.
            if bundle.phase() != BundlePhase::Failed {
                draft.phase(BundlePhase::Superseded, "Superseded", format!("{newer} took over"));
                draft.status.superseded_by = Some(newer);
                self.write(bundle, draft).await?;
            }
            return Ok(Requeue::Done);
        }
        let pipelines = self.pipelines_of(&group).await?;
        let input = GroupInput { group: &group, pipelines: &pipelines };
        let mut problems: Vec<String> = input.problems().iter().map(ToString::to_string).collect();
        let unknown = bundle.spec.members.keys().filter(|alias| group.member(alias).is_none());
        problems.extend(unknown.map(|alias| format!("the group has no member `{alias}`")));
        if bundle.spec.members.is_empty() {
            problems.push("the bundle has no version of any member".to_owned());
        }
        // Once members are under way a change of the group does not stop them: their gates were made before.
        if !problems.is_empty() && bundle.status.members.is_empty() {
            return self.refuse_group(bundle, draft, "InvalidGroup", problems.join("; ")).await;
        }
        draft.settle(condition::INVALID_SPEC, ConditionStatus::False, "Valid", "");
        let mut artifacts = BTreeMap::new();
        for (alias, version) in &bundle.spec.members {
            let Some(member) = group.member(alias) else { continue };
            match self.member_artifacts(&group, member, version).await? {
                Some(found) => drop(artifacts.insert(alias.clone(), (member, found))),
                None if bundle.status.members.contains_key(alias) => {}
                None => {
                    let message =
                        format!("member {alias}: its bundle does not exist, and it has no artifacts");
                    return self.refuse_group(bundle, draft, "MemberMissing", message).await;
                }
            }
        }
        // Who the members are is on record before they exist: gates trust the record alone.
        let is_new = |alias: &String| !bundle.status.members.contains_key(alias);
        for (alias, (member, _)) in artifacts.iter().filter(|(alias, _)| is_new(alias)) {
            let name = format!("{}-{alias}", bundle.name());
            let status = GroupMemberStatus {
                namespace: group.namespace_of(member).to_owned(),
                bundle: labels::bounded_name(&name, &bundle.metadata.uid),
                ..GroupMemberStatus::default()
            };
            draft.status.members.insert(alias.clone(), status);
        }
        if draft.status.members != bundle.status.members {
            draft.phase(BundlePhase::Promoting, "Promoting", "members are made");
            self.write(bundle, draft).await?;
            return Ok(Requeue::At(now));
        }
        for (alias, status) in &mut draft.status.members {
            let found = kinds::get::<BundleSpec>(&self.cluster, &status.namespace, &status.bundle).await?;
            let found = found.filter(|found| is_member(found, bundle, alias));
            let found = match (found, artifacts.remove(alias)) {
                (Some(found), _) => Some(found),
                (None, Some((member, artifacts))) if status.phase.is_none() => {
                    Some(self.create_member(bundle, member, status, artifacts).await?)
                }
                (None, _) => None,
            };
            if let Some(found) = found {
                status.phase = Some(found.phase());
                let verified = |name: &&String| {
                    found
                        .status
                        .environments
                        .get(*name)
                        .is_some_and(|one| one.state == Some(StepState::Verified))
                };
                status.verified = found.status.environments.keys().filter(verified).cloned().collect();
            }
        }
        let phases: Vec<(String, BundlePhase)> = draft
            .status
            .members
            .iter()
            .map(|(alias, status)| (alias.clone(), status.phase.unwrap_or_default()))
            .collect();
        let (phase, reason, message) = sum_up(&phases);
        draft.phase(phase, reason, message);
        let bundle = self.write(bundle, draft).await?;
        self.write_group(&group, &bundle, &problems, now).await?;
        Ok(Requeue::Done)
    }

    /// The newer bundles of the group of a bundle.
    async fn newer_of_group(&self, bundle: &Bundle) -> Result<Vec<Bundle>, KindError> {
        let options = ListOptions::default();
        let mut found = kinds::list::<BundleSpec>(&self.cluster, Some(bundle.namespace()), &options).await?;
        found.retain(|other| other.spec.group == bundle.spec.group && compare_age(bundle, other).is_lt());
        Ok(found)
    }

    /// The newer bundle a bundle without members gives way to.
    async fn overtaken_by(&self, bundle: &Bundle) -> Result<Option<String>, KindError> {
        if !bundle.status.members.is_empty() {
            return Ok(None);
        }
        let takes_over = |newer: &&Bundle| {
            let mut aliases = bundle.spec.members.keys();
            let has = |alias: &String| newer.spec.members.contains_key(alias);
            if bundle.phase() == BundlePhase::Failed { aliases.any(has) } else { aliases.all(has) }
        };
        let newer = self.newer_of_group(bundle).await?;
        Ok(newer.iter().find(takes_over).map(|newer| newer.name().to_owned()))
    }

    async fn refuse_group(
        &self,
        bundle: &Bundle,
        mut draft: StatusDraft<'_>,
        reason: &str,
        message: String,
    ) -> Result<Requeue, ReconcileError> {
        draft.set(condition::INVALID_SPEC, ConditionStatus::True, reason, &message);
        draft.phase(BundlePhase::Failed, reason, message);
        self.write(bundle, draft).await?;
        Ok(Requeue::Done)
    }

    /// The pipelines of a group that exist, by alias.
    async fn pipelines_of(&self, group: &PipelineGroup) -> Result<BTreeMap<String, Pipeline>, KindError> {
        let mut found = BTreeMap::new();
        for member in &group.spec.members {
            let pipeline =
                kinds::get::<PipelineSpec>(&self.cluster, group.namespace_of(member), &member.pipeline)
                    .await?;
            found.extend(pipeline.map(|pipeline| (member.alias.clone(), pipeline)));
        }
        Ok(found)
    }

    async fn member_artifacts(
        &self,
        group: &PipelineGroup,
        member: &GroupMember,
        version: &kinds::GroupVersion,
    ) -> Result<Option<(BundleType, Artifacts)>, KindError> {
        if let Some(artifacts) = &version.artifacts {
            let kind = match (artifacts.images.is_empty(), artifacts.git_commit.is_some()) {
                (true, true) => BundleType::Config,
                (false, true) => BundleType::Mixed,
                (_, false) => BundleType::Image,
            };
            return Ok(Some((kind, artifacts.clone())));
        }
        let Some(name) = &version.bundle else { return Ok(None) };
        let found = kinds::get::<BundleSpec>(&self.cluster, group.namespace_of(member), name).await?;
        let found = found.filter(|found| found.pipeline() == Some(member.pipeline.as_str()));
        Ok(found.map(|found| (found.spec.kind, found.spec.artifacts)))
    }

    async fn create_member(
        &self,
        bundle: &Bundle,
        member: &GroupMember,
        status: &GroupMemberStatus,
        (kind, artifacts): (BundleType, Artifacts),
    ) -> Result<Bundle, ReconcileError> {
        let mut metadata = Metadata::named(&status.namespace, status.bundle.clone());
        metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(&member.pipeline));
        for (key, value) in &bundle.metadata.labels {
            if !key.starts_with(labels::PREFIX) {
                metadata.labels.insert(key.clone(), value.clone());
            }
        }
        metadata.annotations.insert(labels::GROUP_BUNDLE.to_owned(), group_key(bundle));
        metadata.annotations.insert(labels::GROUP_ALIAS.to_owned(), member.alias.clone());
        metadata.annotations.insert(labels::CREATED_THROUGH.to_owned(), "group".to_owned());
        if status.namespace == bundle.namespace() {
            metadata.owner_references.push(bundle.owner_reference());
        }
        let spec = BundleSpec {
            kind,
            pipeline: Some(member.pipeline.clone()),
            artifacts,
            provenance: bundle.spec.provenance.clone(),
            intent: bundle.spec.intent.clone(),
            ..BundleSpec::default()
        };
        match kinds::create(&self.cluster, &Bundle::new(metadata, spec)).await {
            Err(error) if error.is_already_there() => {
                let found =
                    kinds::get::<BundleSpec>(&self.cluster, &status.namespace, &status.bundle).await?;
                found.filter(|found| is_member(found, bundle, &member.alias)).ok_or_else(|| error.into())
            }
            made => Ok(made?),
        }
    }

    /// Keeps the status of the group: its newest bundle, and what is wrong with it.
    async fn write_group(
        &self,
        group: &PipelineGroup,
        bundle: &Bundle,
        problems: &[String],
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        if !self.newer_of_group(bundle).await?.is_empty() {
            return Ok(());
        }
        let mut status = group.status.clone();
        status.observed_generation = Some(group.metadata.generation);
        status.active_bundle = Some(bundle.name().to_owned());
        status.phase = Some(bundle.phase());
        status.members.clone_from(&bundle.status.members);
        let (truth, reason) = match problems.is_empty() {
            true => (ConditionStatus::True, "Valid"),
            false => (ConditionStatus::False, "InvalidGroup"),
        };
        let new = NewCondition {
            kind: "Ready",
            status: truth,
            reason,
            message: problems.join("; "),
            observed_generation: group.metadata.generation,
        };
        set_condition(&mut status.conditions, new, now);
        kinds::patch_status(&self.cluster, group, &status).await?;
        Ok(())
    }

    /// The gates a bundle has as a member of a group; none for others.
    pub(super) async fn group_gates(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
    ) -> Result<Vec<PolicyGate>, ReconcileError> {
        let Some(key) = bundle.metadata.annotation(labels::GROUP_BUNDLE) else { return Ok(Vec::new()) };
        let alias = bundle.metadata.annotation(labels::GROUP_ALIAS).unwrap_or_default();
        let Some((namespace, name)) = key.split_once('/') else { return Ok(orphan_gates(pipeline, key)) };
        let of = kinds::get::<BundleSpec>(&self.cluster, namespace, name).await?;
        let group = match of.as_ref().and_then(|of| of.spec.group.as_deref()) {
            Some(group) => kinds::get::<PipelineGroupSpec>(&self.cluster, namespace, group).await?,
            None => None,
        };
        let Some(group) = group.filter(|group| group.member(alias).is_some()) else {
            return Ok(orphan_gates(pipeline, key));
        };
        let mut pipelines = self.pipelines_of(&group).await?;
        // Members without a version in this bundle stay where they are: nobody waits for them.
        pipelines.retain(|alias, _| of.as_ref().is_some_and(|of| of.spec.members.contains_key(alias)));
        Ok(GroupInput { group: &group, pipelines: &pipelines }.gates(alias))
    }
}

/// The name of a group's bundle as its members keep it.
fn group_key(bundle: &Bundle) -> String {
    format!("{}/{}", bundle.namespace(), bundle.name())
}

fn is_member(found: &Bundle, bundle: &Bundle, alias: &str) -> bool {
    found.metadata.annotation(labels::GROUP_BUNDLE) == Some(group_key(bundle).as_str())
        && found.metadata.annotation(labels::GROUP_ALIAS) == Some(alias)
}

/// The phase of a group's bundle by those of its members.
fn sum_up(members: &[(String, BundlePhase)]) -> (BundlePhase, &'static str, String) {
    let of = |wanted: &[BundlePhase]| {
        let fits = members.iter().filter(|(_, phase)| wanted.contains(phase));
        fits.map(|(alias, _)| alias.as_str()).collect::<Vec<_>>()
    };
    let failed = of(&[BundlePhase::Failed, BundlePhase::SkipDenied]);
    let superseded = of(&[BundlePhase::Superseded]);
    let left = of(&[BundlePhase::Available, BundlePhase::Promoting]);
    if !failed.is_empty() {
        return (BundlePhase::Failed, "MemberFailed", format!("failed: {}", failed.join(", ")));
    }
    if !superseded.is_empty() && left.is_empty() {
        let message = format!("newer versions took over: {}", superseded.join(", "));
        return (BundlePhase::Superseded, "Superseded", message);
    }
    match left.is_empty() {
        true => (BundlePhase::Verified, "Verified", "every member is verified".to_owned()),
        false => (BundlePhase::Promoting, "Promoting", format!("under way: {}", left.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stands_as_its_members_do() {
        use BundlePhase::{Failed, Promoting, Superseded, Verified};
        for (phases, expected) in [
            (vec![Verified, Verified], Verified),
            (vec![Verified, Promoting], Promoting),
            (vec![Failed, Promoting], Failed),
            (vec![Superseded, Verified], Superseded),
            (vec![Superseded, Promoting], Promoting),
        ] {
            let members: Vec<_> = phases.iter().map(|phase| ("m".to_owned(), *phase)).collect();
            assert_eq!(sum_up(&members).0, expected, "{phases:?}");
        }
    }
}

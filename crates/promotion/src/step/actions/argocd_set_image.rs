//! `argocd-set-image`: writes the version into an Application. Off unless the controller allows it: Git should say it.

use serde_json::{Value, json};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_manifest::{Gvk, ObjectRef};

use crate::kinds::labels;
use crate::step::context::StepContext;
use crate::step::outcome::{StepError, StepOutput, StepProgressed};
use crate::step::reconciler::ArgoCdWrites;

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    if context.shared.options.argocd_writes == ArgoCdWrites::Denied {
        let message = "this controller does not write to Applications: let Git hold the version";
        return Err(StepError::failed("ArgoCDWritesDenied", message));
    }
    let settings = context.step.spec.update.argocd.clone().unwrap_or_default();
    let name = match settings.application.as_str() {
        "" => format!("{}-{}", context.step.spec.pipeline, context.step.spec.environment),
        name => name.to_owned(),
    };
    let at =
        ObjectRef::new(Gvk::new("argoproj.io", "v1alpha1", "Application"), Some(&settings.namespace), &name);
    let Some(application) = context.shared.cluster.get(&at).await? else {
        return Err(StepError::failed("ApplicationNotFound", format!("there is no {at}")));
    };
    let source = &application["spec"]["source"];
    let images = &context.bundle.spec.artifacts.images;
    let patch = if source.get("kustomize").is_some() {
        let known = source["kustomize"]["images"].as_array().cloned().unwrap_or_default();
        let mut wanted = known.clone();
        for image in images {
            let entry = format!("{}={}", image.name, image.reference);
            let is_same = |one: &Value| {
                one.as_str().is_some_and(|text| text.split(['=', ':']).next() == Some(image.name.as_str()))
            };
            match wanted.iter_mut().find(|one| is_same(one)) {
                Some(one) => *one = json!(entry),
                None => wanted.push(json!(entry)),
            }
        }
        (wanted != known).then(|| json!({"spec": {"source": {"kustomize": {"images": wanted}}}}))
    } else {
        let Some(tag) = images.first().and_then(|image| image.tag()) else {
            return Err(StepError::failed("ImageIncomplete", "the first image of the bundle has no tag"));
        };
        let known = source["helm"]["parameters"].as_array().cloned().unwrap_or_default();
        let mut wanted = known.clone();
        let entry = json!({"name": settings.image_key, "value": tag, "forceString": true});
        match wanted.iter_mut().find(|one| one["name"] == settings.image_key.as_str()) {
            Some(one) if one["value"] == tag => {}
            Some(one) => *one = entry,
            None => wanted.push(entry),
        }
        (wanted != known).then(|| json!({"spec": {"source": {"helm": {"parameters": wanted}}}}))
    };
    let version = context.bundle.spec.version();
    let Some(patch) = patch else {
        return Ok(StepOutput::new(format!("{at} is at {version} already")).into());
    };
    context.check_running()?;
    let options = WriteOptions::for_manager(labels::FIELD_MANAGER);
    context.shared.cluster.patch(&at, &ObjectPatch::Merge(patch), &options, None).await?;
    context.status.promoted_at = context.status.promoted_at.or(Some(context.now()));
    Ok(StepOutput::new(format!("set {version} in {at}")).into())
}

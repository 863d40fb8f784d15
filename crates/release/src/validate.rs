//! Helm's `template --validate`: rendered documents held against a cluster that nothing is written to.

use serde_json::Value;
use slipway_chart::RenderOptions;
use slipway_cluster::Cluster;
use slipway_go::GoError;
use slipway_manifest::{ObjectRef, object};
use slipway_problem::Problem;

use crate::failure::Failure;

/// The treatment of objects that are in the cluster already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingObjects {
    /// They must belong to the release.
    MustBelong,
    /// They may belong to anybody.
    Allowed,
}

/// Checks rendered documents as installing them would: the cluster serves every kind, and nothing is there already
/// without belonging to the release.
pub async fn validate_rendered(
    cluster: &Cluster,
    text: &[u8],
    options: &RenderOptions,
    existing: ExistingObjects,
) -> Result<(), Failure> {
    let places = find_places(cluster, text, options).await?;
    if options.is_upgrade || existing == ExistingObjects::Allowed {
        return Ok(());
    }
    let live = cluster.get_many(&places).await;
    for (at, live) in places.iter().zip(live) {
        if at.name.is_empty() {
            let (kind, namespace) = (&at.gvk.kind, at.namespace.as_deref().unwrap_or_default());
            let message = format!(
                "Unable to continue with install: could not get information about the resource {kind} \"\" in namespace \"{namespace}\": resource name may not be empty"
            );
            return Err(Failure::Problems(Problem::error(message).into()));
        }
        if let Some(live) = live?
            && let Some(message) = ownership_message(at, &live, options)
        {
            let hint = "--take-ownership renders all the same";
            return Err(Failure::Ownership(Problem::error(message).hint(hint).into()));
        }
    }
    Ok(())
}

/// Finds where every object belongs; one of a kind the cluster does not serve is an error.
async fn find_places(
    cluster: &Cluster,
    text: &[u8],
    options: &RenderOptions,
) -> Result<Vec<ObjectRef>, Failure> {
    let mut found = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    for piece in slipway_chart::split_documents(text) {
        let document: Value = slipway_yaml::from_str_helm(&String::from_utf8_lossy(piece))
            .map_err(|error| Failure::Problems(Problem::error(error.to_string()).into()))?;
        if document.is_null() {
            continue;
        }
        match find_place(cluster, &document, options).await {
            Ok(at) => found.push(at),
            Err(error) => wrong.push(error.into()),
        }
    }
    let message = match wrong.as_slice() {
        [] => return Ok(found),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let message = format!("unable to build kubernetes objects from release manifest: {message}");
    Err(Failure::Problems(Problem::error(message).into()))
}

async fn find_place(
    cluster: &Cluster,
    document: &Value,
    options: &RenderOptions,
) -> Result<ObjectRef, GoError> {
    let unset: Vec<String> = ["apiVersion", "kind"]
        .iter()
        .filter(|key| document.get(**key).and_then(Value::as_str).is_none_or(str::is_empty))
        .map(|key| format!("{key} not set"))
        .collect();
    match unset.as_slice() {
        [] => {}
        [one] => return Err(format!("error validating \"\": error validating data: {one}").into()),
        both => {
            return Err(format!("error validating \"\": error validating data: [{}]", both.join(", ")).into());
        }
    }
    let gvk = object::gvk(document);
    let kind = cluster.find_kind(&gvk).await.map_err(|error| GoError::new(error.to_string()))?;
    let Some(kind) = kind else {
        let name = object::name(document).unwrap_or_default();
        let namespace = object::namespace(document).unwrap_or_default();
        return Err(GoError::new(format!(
            "resource mapping not found for name: \"{name}\" namespace: \"{namespace}\" from \"\": no matches for kind \"{}\" in version \"{}\"\nensure CRDs are installed first",
            gvk.kind,
            gvk.api_version()
        )));
    };
    Ok(kind.object_ref(document, &options.namespace))
}

/// Says in Helm's words why a live object cannot become the release's.
fn ownership_message(at: &ObjectRef, live: &Value, options: &RenderOptions) -> Option<String> {
    let wanted = [
        ("label", "/metadata/labels", "app.kubernetes.io/managed-by", "Helm"),
        ("annotation", "/metadata/annotations", "meta.helm.sh/release-name", &options.name),
        ("annotation", "/metadata/annotations", "meta.helm.sh/release-namespace", &options.namespace),
    ];
    let problems: Vec<String> = wanted
        .into_iter()
        .filter_map(|(what, place, key, wanted)| {
            let has = live.pointer(place).and_then(|entries| entries.get(key)).and_then(Value::as_str);
            match has {
                Some(has) if has == wanted => None,
                Some(has) => Some(format!(
                    "{what} validation error: key \"{key}\" must equal \"{wanted}\": current value is \"{has}\""
                )),
                None => {
                    Some(format!("{what} validation error: missing key \"{key}\": must be set to \"{wanted}\""))
                }
            }
        })
        .collect();
    if problems.is_empty() {
        return None;
    }
    Some(format!(
        "Unable to continue with install: {} \"{}\" in namespace \"{}\" exists and cannot be imported into the current release: invalid ownership metadata; {}",
        at.gvk.kind,
        at.name,
        at.namespace.as_deref().unwrap_or_default(),
        problems.join("; ")
    ))
}

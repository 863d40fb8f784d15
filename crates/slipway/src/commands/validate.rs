//! `slipway render --validate` and `--dry-run=server`: rendering with a cluster behind it, as Helm does.
//!
//! `--validate` takes the capabilities from the cluster and checks that it serves every kind and that
//! nothing rendered is there already without belonging to the release. `--dry-run=server` lets `lookup`
//! ask the cluster.

use serde_json::Value;
use slipway_chart::{Capabilities, RenderOptions, RenderedChart};
use slipway_cluster::Cluster;
use slipway_manifest::{ObjectRef, object};
use slipway_problem::Problem;
use tokio::runtime::Runtime;

use super::flags::ClusterFlags;
use crate::session::Session;

/// A cluster that answers while a chart is rendered.
pub struct Live {
    runtime: Runtime,
    cluster: Cluster,
}

impl Live {
    pub fn connect(flags: &ClusterFlags, session: &Session) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cluster = runtime.block_on(async {
            let connection = session.connect_with(flags).await?;
            super::release::reached(connection.cluster, &connection.server).await
        })?;
        Ok(Self { runtime, cluster })
    }

    /// What templates see of the cluster.
    pub fn capabilities(&self) -> anyhow::Result<Capabilities> {
        Ok(self.runtime.block_on(slipway_release::plan::capabilities(&self.cluster))?)
    }

    /// What `lookup` finds.
    pub fn find(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        let (group, version) = object::split_api_version(api_version);
        let gvk = slipway_manifest::Gvk::new(group, version, kind);
        let found = slipway_release::lookup::find(&self.cluster, gvk, namespace, name);
        self.runtime.block_on(found).map_err(|error| error.to_string())
    }

    /// Checks what was rendered as installing it would.
    pub fn check(
        &self,
        rendered: &RenderedChart,
        options: &RenderOptions,
        take_ownership: bool,
    ) -> anyhow::Result<()> {
        let found = self.places(rendered, options)?;
        if options.is_upgrade || take_ownership {
            return Ok(());
        }
        let places: Vec<ObjectRef> = found.iter().map(|(at, _)| at.clone()).collect();
        let unnamed = |at: &ObjectRef| {
            let (kind, namespace) = (&at.gvk.kind, at.namespace.as_deref().unwrap_or_default());
            format!(
                "Unable to continue with install: could not get information about the resource {kind} \"\" in namespace \"{namespace}\": resource name may not be empty"
            )
        };
        let live = self.runtime.block_on(self.cluster.get_many(&places));
        for (at, live) in places.iter().zip(live) {
            if at.name.is_empty() {
                return Err(Problem::error(unnamed(at)).into());
            }
            if let Some(live) = live?
                && let Some(problem) = foreign(at, &live, options)
            {
                let hint = "--take-ownership renders all the same";
                return Err(Problem::error(problem).hint(hint).into());
            }
        }
        Ok(())
    }

    /// Where every object belongs; one of a kind the cluster does not serve is an error.
    fn places(
        &self,
        rendered: &RenderedChart,
        options: &RenderOptions,
    ) -> anyhow::Result<Vec<(ObjectRef, Value)>> {
        let text = match &rendered.post_rendered {
            Some(text) => text.clone(),
            None => rendered.manifest_text(options),
        };
        let mut found = Vec::new();
        let mut problems = Vec::new();
        for piece in slipway_chart::split(&text) {
            let document = slipway_yaml::from_str_helm(&String::from_utf8_lossy(piece))?;
            if document.is_null() {
                continue;
            }
            match self.place(&document, options) {
                Ok(at) => found.push((at, document)),
                Err(problem) => problems.push(problem),
            }
        }
        let said = match problems.as_slice() {
            [] => return Ok(found),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Err(Problem::error(format!("unable to build kubernetes objects from release manifest: {said}"))
            .into())
    }

    fn place(&self, document: &Value, options: &RenderOptions) -> Result<ObjectRef, String> {
        let unset: Vec<String> = ["apiVersion", "kind"]
            .iter()
            .filter(|key| document.get(**key).and_then(Value::as_str).is_none_or(str::is_empty))
            .map(|key| format!("{key} not set"))
            .collect();
        match unset.as_slice() {
            [] => {}
            [one] => return Err(format!("error validating \"\": error validating data: {one}")),
            both => {
                return Err(format!("error validating \"\": error validating data: [{}]", both.join(", ")));
            }
        }
        let gvk = object::gvk(document);
        let kind = self.runtime.block_on(self.cluster.kind(&gvk)).map_err(|error| error.to_string())?;
        let Some(kind) = kind else {
            let name = object::name(document).unwrap_or_default();
            let namespace = object::namespace(document).unwrap_or_default();
            return Err(format!(
                "resource mapping not found for name: \"{name}\" namespace: \"{namespace}\" from \"\": no matches for kind \"{}\" in version \"{}\"\nensure CRDs are installed first",
                gvk.kind,
                gvk.api_version()
            ));
        };
        Ok(kind.object_ref(document, &options.namespace))
    }
}

/// Why a live object cannot become the release's, in Helm's words.
fn foreign(at: &ObjectRef, live: &Value, options: &RenderOptions) -> Option<String> {
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

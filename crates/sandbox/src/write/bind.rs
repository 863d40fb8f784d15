//! Binding a pod to a node.

use serde_json::json;

use crate::core::Core;
use crate::status::{NamedResource, Result, Status};
use crate::store::{ExpectedState, ObjectDraft, ObjectKey};
use crate::write::WriteAuthor;
use crate::write::admit::meta;
use crate::write::admit::prepare::ObjectPart;

/// Assigns a pod to a node and says that it is scheduled.
pub(crate) fn bind_pod(core: &Core, key: &ObjectKey, node: &str, author: &WriteAuthor) -> Result<()> {
    let served = core.of_table("pods").ok_or_else(Status::no_such_resource)?;
    let pods = NamedResource { group: "", what: "pods" };
    let _ = ObjectPart::Main;
    loop {
        let live = core.live_object(&served, key)?;
        let mut pod = live.value.clone();
        if live.object.deleting {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
            return Err(Status::conflict(NamedResource { group: "", what: "pods/binding" }, &key.name, &why));
        }
        if let Some(host) = pod["spec"]["nodeName"].as_str().filter(|h| !h.is_empty()) {
            let why = format!("pod {} is already assigned to node \"{host}\"", key.name);
            return Err(Status::conflict(NamedResource { group: "", what: "pods/binding" }, &key.name, &why));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|g| !g.is_empty()) {
            let why = format!("pod {} has non-empty .spec.schedulingGates", key.name);
            return Err(Status::conflict(pods, &key.name, &why));
        }
        if author.dry_run {
            return Ok(());
        }
        pod["spec"]["nodeName"] = node.into();
        let generation = pod["metadata"]["generation"].as_i64().unwrap_or(1);
        let condition = json!({
            "type": "PodScheduled", "observedGeneration": generation, "status": "True",
            "lastProbeTime": null, "lastTransitionTime": core.now(),
        });
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|c| c["type"] != "PodScheduled");
        conditions.push(condition);
        pod["status"]["conditions"] = conditions.into();
        let mut pod =
            crate::write::typed::decode_typed(pod, served.type_ref(), &[]).map_err(Status::internal)?.value;
        meta::order_metadata(&mut pod, false);
        let draft = ObjectDraft::new(&pod);
        let stored = core.store.put::<crate::store::WriteRaced>(
            &served.table,
            key,
            ExpectedState::Rev(live.object.rev),
            &draft,
            |_| Ok(()),
        );
        if stored.is_ok() {
            return Ok(());
        }
    }
}

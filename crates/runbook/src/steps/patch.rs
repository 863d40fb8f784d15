//! `patch`: one change to one object that exists.

use serde_json::{Value, json};
use slipway_cluster::{ErrorClass, ObjectPatch as Change};
use slipway_manifest::ObjectRef;

use super::{StepAction, StepFuture, StepOutcome, StepType};
use crate::context::{StepContext, shown};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::decode::json;
use crate::diagnostic::At as FieldPath;
use crate::error::{AttemptError, ErrorKind};
use crate::model::{Action, Patch, PatchType, Step};
use crate::plan::look::PlanRequest;
use crate::plan::{Show, StepPreview, StepVerb};
use crate::references::StepResolver;
use crate::schema::{LABEL_OR_NONE, NAMED_RESOURCE, like, object, or_reference, with, word};
use slipway_problem::Problem;
use slipway_yaml::YamlNode;

async fn run(attempt: &StepContext<'_>, patch: &Patch) -> Result<StepOutcome, AttemptError> {
    let Some(kind) = attempt.world.named(&patch.kind).await? else {
        let message = format!("the cluster serves no type `{}`", patch.kind);
        return Err(
            AttemptError::new(ErrorKind::NotFound, message).hint("`kubectl api-resources` lists them")
        );
    };
    let at = ObjectRef::new(
        kind.gvk.clone(),
        kind.namespaced.then_some(patch.namespace.as_str()),
        patch.name.as_str(),
    );
    match attempt.patch(&at, &change(patch)).await {
        Ok(_) => Ok(StepOutcome::noted(format!("{} patched", shown(&at)))),
        Err(error) => Err(explain(error, patch, &at)),
    }
}

pub(crate) fn change(patch: &Patch) -> Change {
    let body = patch.body.clone();
    match patch.how {
        PatchType::Strategic => Change::Strategic(body),
        PatchType::Merge => Change::Merge(body),
        PatchType::Json => Change::Json(body),
    }
}

fn explain(error: slipway_cluster::Error, patch: &Patch, at: &ObjectRef) -> AttemptError {
    let (class, code) = (error.class, error.status_code());
    let failed = AttemptError::from(error);
    match (class, code, patch.how) {
        (ErrorClass::NotFound, ..) => {
            let message = format!("{} must exist by the time this step runs", shown(at));
            AttemptError::new(ErrorKind::NotFound, message)
        }
        (_, Some(415), PatchType::Strategic) => {
            failed.hint("custom resources take no strategic patch: write `type: merge`")
        }
        (_, Some(422), PatchType::Json) => {
            failed.hint("a `test`, `remove` or indexed `add` that was done once fails when it is done again")
        }
        _ => failed,
    }
}

impl StepAction for Patch {
    fn describe(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    fn plan<'a>(
        &'a self,
        cx: &'a StepContext<'a>,
        request: &'a PlanRequest<'a>,
    ) -> StepFuture<'a, StepPreview> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(run(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a patch cannot be undone")
    }

    fn is_default(&self, _: &Step, key: &str, value: &Value) -> bool {
        match key {
            "namespace" => value == "default",
            "type" => value == "strategic",
            _ => false,
        }
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn resolve<'a>(&'a self, resolver: &'a StepResolver<'a>) -> StepFuture<'a, Option<Action>> {
        Box::pin(async {
            let body = resolver.tree(&self.body).await?;
            Ok(body.map(|body| Action::Patch(Self { body, ..self.clone() })))
        })
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    patch: &Patch,
    request: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let Some(kind) = attempt.world.named(&patch.kind).await? else {
        return Ok(StepPreview::new(StepVerb::Unknown, format!("type {} is not served yet", patch.kind)));
    };
    let at = ObjectRef::new(
        kind.gvk.clone(),
        kind.namespaced.then_some(patch.namespace.as_str()),
        patch.name.as_str(),
    );
    let Some(live) = attempt.cluster().get(&at).await? else {
        return Ok(StepPreview::new(StepVerb::Unknown, format!("{} is not there yet", shown(&at))));
    };
    let mut seen = StepPreview::new(StepVerb::Configure, shown(&at));
    if request.show == Show::Differences {
        seen.diff = Some(crate::diff::of_patch(attempt, patch, &at, &live).await);
    }
    Ok(seen)
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "patch",
    needed: "target and patch are required",
    decode: |block, _| decode(block).map(Action::Patch),
    definition: "PatchOp",
    about: "Changes an object in place.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<Patch> {
    let target = block.filled("target").map(|(node, text)| match fields::resource(text) {
        Some((kind, Some(name))) => Some((kind.to_owned(), name.to_owned())),
        _ => {
            let problem = Problem::error(format!("target must be TYPE/NAME, found `{text}`"));
            block.report(node, "target", "E340", problem);
            None
        }
    });
    if target.is_none() && block.get("target").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E340", Problem::error("target is required"));
    }
    let namespace = fields::namespace(block, "E308").unwrap_or_else(|| "default".into());
    let words = [("strategic", PatchType::Strategic), ("merge", PatchType::Merge), ("json", PatchType::Json)];
    let how = block.word("type", "E341", &words, &[]);
    let is_bad = how.is_none() && block.get("type").is_some();
    let how = how.unwrap_or_default();
    let Some(node) = block.get("patch") else {
        block.missing("E342", Problem::error("patch is required"));
        return None;
    };
    let body = json(node);
    let fits = match how {
        PatchType::Json => body.is_array(),
        _ => body.is_object(),
    };
    if !is_bad && !fits {
        let expected = if how == PatchType::Json { "a list of operations" } else { "a mapping" };
        block.error(
            node,
            "patch",
            "E343",
            format!("a patch of this type is {expected}, found {}", node.kind_name()),
        );
        return None;
    }
    if how == PatchType::Json {
        for (index, item) in node.as_seq().unwrap_or_default().iter().enumerate() {
            json_operation(block, item, &block.at.field("patch").item(index));
        }
    } else if body.as_object().is_some_and(serde_json::Map::is_empty) {
        block.report(node, "patch", "W013", Problem::warning("the patch is empty"));
    }
    let (kind, name) = target??;
    Some(Patch { kind, name, namespace, how, body })
}

fn json_operation(block: &Block<'_, '_>, node: &YamlNode, at: &FieldPath<'_>) {
    let bad =
        |node: &YamlNode, message: String| block.findings.add(node, at, "E344", Problem::error(message));
    let Some(entries) = node.as_map() else {
        return bad(node, format!("an operation is a mapping, found {}", node.kind_name()));
    };
    let operation = entries.get("op").and_then(YamlNode::as_str).unwrap_or_default();
    let place = entries.get("op").unwrap_or(node);
    if !["add", "remove", "replace", "move", "copy", "test"].contains(&operation) {
        return bad(
            place,
            format!("op must be add, remove, replace, move, copy or test, found `{operation}`"),
        );
    }
    let path = entries.get("path").and_then(YamlNode::as_str);
    match path {
        None => bad(node, "an operation needs path".into()),
        Some(path) if !path.is_empty() && !path.starts_with('/') => {
            bad(entries.get("path").unwrap_or(node), format!("path must start with `/`, found `{path}`"));
        }
        Some(path) => {
            let indexed =
                operation == "add" && path.rsplit('/').next().is_some_and(|last| last.parse::<u32>().is_ok());
            if operation == "remove" || indexed {
                let problem = Problem::warning(format!(
                    "`{operation}` of `{path}` fails or repeats itself when run again"
                ));
                block.findings.add(place, at, "W016", problem);
            }
        }
    }
    if matches!(operation, "add" | "replace" | "test") && !entries.contains_key("value") {
        bad(node, format!("{operation} needs value"));
    }
    if matches!(operation, "move" | "copy") && entries.get("from").and_then(YamlNode::as_str).is_none() {
        bad(node, format!("{operation} needs from"));
    }
}

fn schema() -> Value {
    let schema = object(
        &["target", "patch"],
        vec![
            ("target", like("A type and a name, such as `daemonset/aws-node`.", NAMED_RESOURCE)),
            ("namespace", like("The target's namespace.", LABEL_OR_NONE)),
            ("type", word(&["strategic", "merge", "json"], "How the patch is read.")),
            ("patch", json!({ "type": ["object", "array"], "description": "The patch itself." })),
        ],
    );
    let body = |kind: &str| json!({ "properties": { "patch": { "type": kind } } });
    let needs = |words: &[&str], key: &str| {
        json!({
            "if": { "properties": { "op": { "enum": words } } }, "then": { "required": [key] },
        })
    };
    let operations = json!({
        "type": "array",
        "items": {
            "type": "object", "required": ["op", "path"],
            "properties": {
                "op": or_reference(json!({ "enum": ["add", "remove", "replace", "move", "copy", "test"] })),
                "path": { "type": "string", "anyOf": [{ "pattern": "^(/.*)?$" }, { "$ref": "#/$defs/Reference" }] },
                "from": { "type": "string" },
            },
            "allOf": [needs(&["add", "replace", "test"], "value"), needs(&["move", "copy"], "from")],
        },
    });
    let is_json = json!({ "properties": { "type": { "const": "json" } }, "required": ["type"] });
    let is_reference =
        json!({ "properties": { "type": { "$ref": "#/$defs/Reference" } }, "required": ["type"] });
    with(
        schema,
        "allOf",
        json!([
            { "if": is_json, "then": { "properties": { "patch": operations } }, "else": { "if": is_reference, "else": body("object") } },
        ]),
    )
}

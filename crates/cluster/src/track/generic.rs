//! Readiness of kinds without a built-in rule: conventions first, well-known words after.

use serde_json::Value;
use slipway_manifest::object;

use super::status::{Readiness, condition_text};

/// A rule for one kind of a known controller.
struct KindRule {
    group: &'static str,
    kinds: &'static [&'static str],
    /// A condition's type, or a path beginning with `/`.
    place: &'static str,
    ready: &'static [&'static str],
    failed: &'static [&'static str],
}

const KIND_RULES: &[KindRule] = &[
    KindRule {
        group: "acid.zalan.do",
        kinds: &["postgresql"],
        place: "/status/PostgresClusterStatus",
        ready: &["Running"],
        failed: &["CreateFailed", "UpdateFailed", "DeleteFailed"],
    },
    KindRule {
        group: "external-secrets.io",
        kinds: &["ExternalSecret"],
        place: "Ready",
        ready: &["True"],
        failed: &["False"],
    },
    KindRule {
        group: "bitnami.com",
        kinds: &["SealedSecret"],
        place: "Synced",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "argoproj.io",
        kinds: &["Application"],
        place: "/status/health/status",
        ready: &["Healthy"],
        failed: &["Degraded"],
    },
    KindRule {
        group: "argoproj.io",
        kinds: &["ApplicationSet"],
        place: "ResourcesUpToDate",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "monitoring.coreos.com",
        kinds: &["Prometheus", "Alertmanager", "ThanosRuler"],
        place: "Available",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "kyverno.io",
        kinds: &["Policy", "ClusterPolicy"],
        place: "Ready",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "cert-manager.io",
        kinds: &["Certificate"],
        place: "Ready",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "helm.toolkit.fluxcd.io",
        kinds: &["HelmRelease"],
        place: "Ready",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "kustomize.toolkit.fluxcd.io",
        kinds: &["Kustomization"],
        place: "Ready",
        ready: &["True"],
        failed: &[],
    },
    KindRule {
        group: "longhorn.io",
        kinds: &["Volume"],
        place: "/status/state",
        ready: &["attached", "detached"],
        failed: &[],
    },
    KindRule {
        group: "longhorn.io",
        kinds: &["Backup"],
        place: "/status/state",
        ready: &["Completed"],
        failed: &["Error"],
    },
    KindRule {
        group: "managed-services.deckhouse.io",
        kinds: &[],
        place: "Available",
        ready: &["True"],
        failed: &[],
    },
];

/// Conditions that mean ready, the most telling first.
const CONDITIONS: &[&str] = &[
    "ready",
    "success",
    "succeeded",
    "complete",
    "completed",
    "finished",
    "finalized",
    "done",
    "available",
    "running",
    "ok",
    "active",
    "live",
    "healthy",
    "started",
    "initialized",
    "approved",
];

const FIELDS: &[&str] = &[
    "/status/phase",
    "/status/currentPhase",
    "/status/state",
    "/status/currentState",
    "/status/status",
    "/status/currentStatus",
    "/status/health",
    "/status/currentHealth",
];

const PENDING: &[&str] = &[
    "creating",
    "updating",
    "waiting",
    "awaiting",
    "pending",
    "finishing",
    "starting",
    "readying",
    "inprogress",
    "progressing",
    "initialization",
    "initializing",
    "approving",
    "unknown",
    "yellow",
];

const FAILED: &[&str] = &[
    "failure",
    "failed",
    "abort",
    "aborted",
    "terminated",
    "error",
    "errored",
    "rejection",
    "rejected",
    "invalid",
    "red",
];

const ALSO_READY: &[&str] = &["valid", "green"];

/// A word without case and separators: `In Progress`, `in-progress` and `IN_PROGRESS` are one.
fn normalise_word(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A generation, which some controllers write as text.
fn parse_generation(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn is_behind(seen: &Value, object: &Value) -> bool {
    match (parse_generation(seen), parse_generation(&object["metadata"]["generation"])) {
        (Some(seen), Some(wanted)) => seen < wanted,
        _ => false,
    }
}

/// Returns true if the status of an object is from before its last change: its controller has yet to see that one.
pub fn has_stale_status(object: &Value) -> bool {
    is_behind(&object["status"]["observedGeneration"], object)
}

pub(super) fn generic_readiness(object: &Value) -> Readiness {
    if has_stale_status(object) {
        return Readiness::Progressing("not seen by its controller yet".into());
    }
    let conditions = || object["status"]["conditions"].as_array().into_iter().flatten();
    let named = |name: &str| conditions().find(|condition| condition["type"] == name);
    if let Some(stalled) = named("Stalled")
        && stalled["status"] == "True"
    {
        return Readiness::Failed(condition_text(stalled));
    }
    let gvk = object::gvk(object);
    let exact = KIND_RULES.iter().find(|rule| {
        rule.group == gvk.group && (rule.kinds.is_empty() || rule.kinds.contains(&gvk.kind.as_str()))
    });
    if let Some(rule) = exact {
        return readiness_by_rule(rule, object);
    }
    if let Some(reconciling) = named("Reconciling")
        && reconciling["status"] == "True"
    {
        return Readiness::Progressing(condition_text(reconciling));
    }
    for word in CONDITIONS {
        let found = conditions()
            .find(|condition| condition["type"].as_str().is_some_and(|kind| normalise_word(kind) == *word));
        let Some(condition) = found else { continue };
        if is_behind(&condition["observedGeneration"], object) {
            return Readiness::Progressing("not seen by its controller yet".into());
        }
        match condition["status"].as_str().map(normalise_word).as_deref() {
            Some("true") => return Readiness::Ready,
            Some("false" | "unknown") => return Readiness::Progressing(condition_text(condition)),
            _ => {}
        }
    }
    for field in FIELDS {
        let Some(word) = object.pointer(field).and_then(Value::as_str) else { continue };
        let name = normalise_word(word);
        let is_one_of = |words: &[&str]| words.contains(&name.as_str());
        let said = || format!("{} {word}", field.trim_start_matches("/status/"));
        if is_one_of(CONDITIONS) || is_one_of(ALSO_READY) {
            return Readiness::Ready;
        }
        if is_one_of(PENDING) {
            return Readiness::Progressing(said());
        }
        if is_one_of(FAILED) {
            return Readiness::Failed(said());
        }
    }
    Readiness::Ready
}

fn readiness_by_rule(rule: &KindRule, object: &Value) -> Readiness {
    let (word, why) = if rule.place.starts_with('/') {
        let word = object.pointer(rule.place).and_then(Value::as_str).unwrap_or_default();
        (word, format!("{} {word}", rule.place.trim_start_matches('/').replace('/', ".")))
    } else {
        let condition = super::status::find_condition(object, rule.place);
        if condition.is_some_and(|condition| is_behind(&condition["observedGeneration"], object)) {
            return Readiness::Progressing("not seen by its controller yet".into());
        }
        let word = condition.and_then(|condition| condition["status"].as_str()).unwrap_or_default();
        (word, condition.map_or_else(|| format!("no condition {} yet", rule.place), condition_text))
    };
    if rule.ready.contains(&word) {
        Readiness::Ready
    } else if rule.failed.contains(&word) {
        Readiness::Failed(why)
    } else {
        Readiness::Progressing(why)
    }
}

/// Returns true if a custom object's controller has not written a status yet.
pub(super) fn has_no_status(object: &Value) -> bool {
    match &object["status"] {
        Value::Null => true,
        Value::Object(status) => status.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn custom_kinds() {
        let thing = |status: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"generation": 2}, "status": status});
        let conditions = |list: Value| thing(json!({"conditions": list}));
        for (object, expected) in [
            (thing(json!({})), "ready"),
            (thing(json!({"observedGeneration": 1, "phase": "Ready"})), "wait"),
            (thing(json!({"observedGeneration": "1", "phase": "Ready"})), "wait"),
            (thing(json!({"observedGeneration": "2", "phase": "Ready"})), "ready"),
            (conditions(json!([{"type": "Ready", "status": "True"}])), "ready"),
            (conditions(json!([{"type": "Ready", "status": "False"}])), "wait"),
            (conditions(json!([{"type": "Ready", "status": "True", "observedGeneration": 1}])), "wait"),
            (conditions(json!([{"type": "Available", "status": "True"}])), "ready"),
            (
                conditions(
                    json!([{"type": "Available", "status": "True"}, {"type": "Ready", "status": "False"}]),
                ),
                "wait",
            ),
            (
                conditions(
                    json!([{"type": "Reconciling", "status": "True"}, {"type": "Ready", "status": "True"}]),
                ),
                "wait",
            ),
            (conditions(json!([{"type": "Stalled", "status": "True", "message": "stuck"}])), "failed"),
            (conditions(json!([{"type": "Unheard", "status": "False"}])), "ready"),
            (thing(json!({"phase": "In Progress"})), "wait"),
            (thing(json!({"phase": "IN_PROGRESS"})), "wait"),
            (thing(json!({"phase": "Succeeded"})), "ready"),
            (thing(json!({"state": "ERROR"})), "failed"),
            (thing(json!({"state": "invalid"})), "failed"),
            (thing(json!({"health": "green"})), "ready"),
            (thing(json!({"phase": "SomethingElse"})), "ready"),
            (thing(json!({"phase": 7})), "ready"),
            (json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate"}), "wait"),
            (
                json!({"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "status": {"conditions": [
                    {"type": "Ready", "status": "False", "message": "no such key"}]}}),
                "failed",
            ),
            (
                json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                    "status": {"health": {"status": "Healthy"}}}),
                "ready",
            ),
        ] {
            let found = match generic_readiness(&object) {
                Readiness::Ready | Readiness::Resting(_) => "ready",
                Readiness::Progressing(_) => "wait",
                Readiness::Failed(_) => "failed",
            };
            assert_eq!(found, expected, "{object}");
        }
    }
}

//! Reviews: kinds that are answered, not stored. And service account tokens.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::rbac::{AccessDecision, RequestAttributes, decide_access, visit_rules};
use super::token::ISSUER;
use super::{BoundObject, TokenClaims, User};
use crate::api::handlers::ResourceRequest;
use crate::core::Core;
use crate::http::respond::Reply;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::store::ObjectKey;

/// Answers a review; `None` for kinds that are stored.
pub(crate) fn answer_review(request: &ResourceRequest, object: &Value) -> Result<Option<Reply>> {
    let mut object = object.clone();
    check_review(request, &object)?;
    let status = match (request.served.def.group.as_str(), request.served.def.kind.as_str()) {
        ("authentication.k8s.io", "SelfSubjectReview") => json!({"userInfo": request.user.user_info()}),
        ("authentication.k8s.io", "TokenReview") => {
            if object["spec"]["token"].as_str().unwrap_or("").is_empty() {
                return Err(Status::bad_request("token is required for TokenReview in authentication"));
            }
            token_review(request, &object)
        }
        ("authorization.k8s.io", "SelfSubjectRulesReview") => {
            if object["spec"]["namespace"].as_str().unwrap_or("").is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            rules_review(request, &object)
        }
        ("authorization.k8s.io", "SelfSubjectAccessReview") => {
            let access = ReviewedAccess::of(&object["spec"]);
            access.status(&decide_access(&request.core, &request.user, &access.request_attributes()))
        }
        ("authorization.k8s.io", "SubjectAccessReview" | "LocalSubjectAccessReview") => {
            let user = reviewed_user(&object["spec"]);
            let access = ReviewedAccess::of(&object["spec"]);
            access.status(&decide_access(&request.core, &user, &access.request_attributes()))
        }
        ("", "Binding") => {
            let key = ObjectKey::new(
                &request.path.namespace,
                crate::write::admit::meta::metadata_text(&object, "name"),
            );
            let author = request.write_author("CreateOptions")?;
            let target = object["target"]["name"].as_str().unwrap_or("");
            crate::write::bind::bind_pod(&request.core, &key, target, &author)?;
            let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
            return Ok(Some(Reply::value(201, body)));
        }
        _ => return Ok(None),
    };
    crate::write::admit::meta::metadata_mut(&mut object).insert("creationTimestamp".into(), Value::Null);
    object["status"] = status;
    Ok(Some(Reply::value(201, object)))
}

/// The access a review asks about, owned.
struct ReviewedAccess {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    path: String,
    /// The selectors that could not be read.
    ignored: Vec<&'static str>,
}

impl ReviewedAccess {
    fn of(spec: &Value) -> ReviewedAccess {
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        let text = |v: &Value, key: &str| v[key].as_str().unwrap_or("").to_owned();
        let known = |requirement: &Value| {
            let operator = requirement["operator"].as_str().unwrap_or("");
            matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist")
        };
        let unread = |key: &&str| {
            let requirements = resource[*key]["requirements"].as_array();
            requirements.is_some_and(|all| !all.iter().all(known))
        };
        ReviewedAccess {
            verb: if resource.is_null() { text(path, "verb") } else { text(resource, "verb") },
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
            path: text(path, "path"),
            ignored: ["fieldSelector", "labelSelector"].into_iter().filter(unread).collect(),
        }
    }

    fn status(&self, decision: &AccessDecision) -> Value {
        let mut out = Map::new();
        out.insert("allowed".into(), decision.allowed.into());
        if !decision.reason.is_empty() {
            out.insert("reason".into(), decision.reason.as_str().into());
        }
        if !self.ignored.is_empty() {
            let say = |key: &&str| format!("spec.resourceAttributes.{key} ignored due to parse error");
            let all: Vec<String> = self.ignored.iter().map(say).collect();
            out.insert("evaluationError".into(), all.join("; ").into());
        }
        Value::Object(out)
    }

    fn request_attributes(&self) -> RequestAttributes<'_> {
        RequestAttributes {
            verb: &self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            path: &self.path,
        }
    }
}

/// Refuses a review of access that asks for too much, for nothing, or is more than a question.
fn check_review(request: &ResourceRequest, object: &Value) -> Result<()> {
    let kind = request.served.def.kind.as_str();
    let (whose, local) = (kind != "SelfSubjectAccessReview", kind == "LocalSubjectAccessReview");
    if request.served.def.group != "authorization.k8s.io" || kind == "SelfSubjectRulesReview" {
        return Ok(());
    }
    let spec = &object["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or("").to_owned();
    let asked_path = if path.is_null() {
        Value::Null
    } else {
        json!({"Path": text(path, "path"), "Verb": text(path, "verb")})
    };
    let mut causes = Vec::new();
    if resource.is_null() == path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.push(StatusCause::invalid("spec", &asked_path, why));
    }
    let user = reviewed_user(spec);
    if whose && user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        causes.push(StatusCause::invalid("spec.user", &json!(""), why));
    }
    for key in ["fieldSelector", "labelSelector"] {
        let selector = &resource[key];
        let at = format!("spec.resourceAttributes.{key}");
        let listed = selector["requirements"].as_array().is_some_and(|all| !all.is_empty());
        match (selector.is_object(), text(selector, "rawSelector").is_empty(), listed) {
            (true, false, true) => {
                let why = "may not specified at the same time as requirements";
                causes.push(StatusCause::invalid(format!("{at}.rawSelector"), &selector["rawSelector"], why));
            }
            (true, true, false) => {
                let why = format!("when {at} is specified, requirements or rawSelector is required");
                causes.push(StatusCause::required(format!("{at}.requirements"), &why));
            }
            _ => {}
        }
    }
    let mut rest = object["metadata"].as_object().cloned().unwrap_or_default();
    rest.retain(|key, value| !value.is_null() && key != "managedFields" && !(local && key == "namespace"));
    if !rest.is_empty() {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        causes.push(StatusCause::invalid("metadata", &object["metadata"], why));
    }
    if local && !resource.is_null() && text(resource, "namespace") != request.path.namespace {
        let why = "must match metadata.namespace";
        let asked = json!(text(resource, "namespace"));
        causes.push(StatusCause::invalid("spec.resourceAttributes.namespace", &asked, why));
    }
    if local && !path.is_null() {
        let why = "disallowed on this kind of request";
        causes.push(StatusCause::invalid("spec.nonResourceAttributes", &asked_path, why));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(NamedResource { group: "authorization.k8s.io", what: "" }, "", causes))
}

fn reviewed_user(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten();
    User {
        name: spec["user"].as_str().unwrap_or("").to_owned(),
        uid: spec["uid"].as_str().unwrap_or("").to_owned(),
        groups: groups.filter_map(|g| g.as_str().map(str::to_owned)).collect(),
        impersonated: true,
        ..User::default()
    }
}

fn rules_review(request: &ResourceRequest, object: &Value) -> Value {
    let namespace = object["spec"]["namespace"].as_str().unwrap_or("");
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    let all = request.user.is_master() || (!request.core.options.rbac && !request.user.impersonated);
    if all {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    } else {
        visit_rules(&request.core, &request.user, namespace, &mut |_, rule| {
            if rule["nonResourceURLs"].as_array().is_some_and(|u| !u.is_empty()) {
                paths.push(json!({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}));
            } else {
                resources.push(rule.clone());
            }
            true
        });
    }
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

fn token_review(request: &ResourceRequest, object: &Value) -> Value {
    let token = object["spec"]["token"].as_str().unwrap_or("");
    let asked = object["spec"]["audiences"].as_array().into_iter().flatten();
    let asked: Vec<String> = asked.filter_map(|a| a.as_str().map(str::to_owned)).collect();
    match request.core.auth.bearer_user_for(&request.core, token, &asked) {
        Ok((user, shared)) => json!({"authenticated": true, "user": user.user_info(), "audiences": shared}),
        Err(why) => json!({"user": {}, "error": why}),
    }
}

const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// POST `serviceaccounts/NAME/token`.
pub(crate) fn create_token(request: &ResourceRequest) -> Result<Reply> {
    let core = &request.core;
    let parsed = request.parse_body()?.value;
    crate::api::handlers::check_registered_kind(&parsed, "TokenRequest", "authentication.k8s.io/v1")?;
    let account = core
        .store
        .get("serviceaccounts", &request.object_key())
        .ok_or_else(|| Status::not_found(request.served.resource_name(), &request.path.name))?;
    let named = crate::write::admit::meta::metadata_text(&parsed, "name");
    if !named.is_empty() && named != request.path.name {
        return Err(Status::invalid(
            NamedResource { group: "authentication.k8s.io", what: "TokenRequest" },
            &request.path.name,
            vec![StatusCause::invalid(
                "metadata.name",
                &named.into(),
                "must match the service account name if specified",
            )],
        ));
    }
    let namespace = crate::write::admit::meta::metadata_text(&parsed, "namespace");
    if !namespace.is_empty() && namespace != request.path.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let asked = parsed["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let refuse = |why: &str| {
        Status::invalid(
            NamedResource { group: "authentication.k8s.io", what: "TokenRequest" },
            "",
            vec![StatusCause::invalid("spec.expirationSeconds", &asked.into(), why)],
        )
    };
    if asked < SHORTEST {
        return Err(refuse("may not specify a duration less than 10 minutes"));
    }
    if asked > LONGEST {
        return Err(refuse("may not specify a duration larger than 2^32 seconds"));
    }
    let bound = &parsed["spec"]["boundObjectRef"];
    let bound = if bound.is_object() {
        let text = |key: &str| bound[key].as_str().unwrap_or("");
        let (group, version) = slipway_manifest::object::split_api_version(text("apiVersion"));
        // Only the group counts; of the version nothing is read.
        let table = match (group, text("kind")) {
            ("", "Pod") => "pods",
            ("", "Secret") => "secrets",
            ("", "Node") => "nodes",
            (_, kind) => {
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        if text("name").is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let place = if table == "nodes" { "" } else { &request.path.namespace };
        let named = NamedResource { group: "", what: table };
        let found = core
            .store
            .get(table, &ObjectKey::new(place, text("name")))
            .ok_or_else(|| Status::not_found(named, text("name")))?;
        if !text("uid").is_empty() && text("uid") != &*found.uid {
            return Err(Status::conflict(
                NamedResource { group: "", what: text("kind") },
                text("name"),
                &format!(
                    "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                    text("uid")
                ),
            ));
        }
        Some(BoundObject { table, name: found.name().to_owned(), uid: found.uid.to_string() })
    } else {
        None
    };
    let audiences: Vec<String> = parsed["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    let claims = TokenClaims {
        namespace: request.path.namespace.clone(),
        service_account: request.path.name.clone(),
        uid: account.uid.to_string(),
        audiences: audiences.clone(),
        id: core.ids.new_uid(),
        node: bound.as_ref().and_then(|bound| node_of(core, &request.path.namespace, bound)),
        bound,
    };
    let given: Map<String, Value> = parsed["spec"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, v)| !v.is_null())
        .map(|(k, _)| (format!("f:{k}"), json!({})))
        .collect();
    let now = core.clock.now();
    let expires = now + Duration::from_secs(u64::try_from(asked).unwrap_or(3600));
    let token = core.auth.key.sign_claims(&claims, now, expires);
    Ok(Reply::value(
        201,
        json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": request.path.name,
                "namespace": request.path.namespace,
                "uid": core.ids.new_uid(),
                "creationTimestamp": core.now(),
                "managedFields": [{
                    "manager": request.write_author("CreateOptions")?.manager,
                    "operation": "Update",
                    "apiVersion": "authentication.k8s.io/v1",
                    "time": core.now(),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": given},
                    "subresource": "token",
                }],
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": asked,
                "boundObjectRef": parsed["spec"]["boundObjectRef"],
            },
            "status": {"token": token, "expirationTimestamp": crate::clock::rfc3339(expires)},
        }),
    ))
}

/// The node of a pod that a token is bound to.
fn node_of(core: &Core, namespace: &str, bound: &BoundObject) -> Option<BoundObject> {
    if bound.table != "pods" {
        return None;
    }
    let pod = core.store.get("pods", &ObjectKey::new(namespace, &bound.name))?.value();
    let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
    let node = core.store.get("nodes", &ObjectKey::new("", name))?;
    Some(BoundObject { table: "nodes", name: name.to_owned(), uid: node.uid.to_string() })
}

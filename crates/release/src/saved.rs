//! A plan in a file: what was decided, bound to what it was decided on.
//!
//! The file holds the release record and the state of every object it was planned against. Applying it plans
//! again from that record and goes on only if the same operations on the same objects come out. With a key it
//! is encrypted and signed, and whoever has a key accepts nothing else. Without one it has a checksum against
//! accidents (anybody can make another), holds values and objects in clear, and is refused for a release with
//! anything secret in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use slipway_chart::secret::EncryptionKey;
use slipway_cluster::Cluster;
use slipway_cluster::helm::Release;
use slipway_event::Redactor;
use slipway_manifest::diff::Sensitivity;
use slipway_manifest::diff::redact::sensitivity_of;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::{Problem, Problems};

use crate::failure::Failure;
use crate::name::Revision;
use crate::plan::{Content, PlanOptions, ReleasePlan, ReleaseRequest};
use crate::record;
use crate::resource::{DeployType, Origin, Stored};
use slipway_source::Document;

const FORMAT: &str = "slipway.plan/v1";

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    format: String,
    release: String,
    namespace: String,
    revision: u32,
    created: jiff::Timestamp,
    encrypted: bool,
    content: String,
    /// HMAC of everything above with the key, or a checksum of it without one.
    seal: String,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inside {
    release: Release,
    #[serde(rename = "moment")]
    deploy_type: DeployType,
    aside: Vec<(String, Value)>,
    options: PlanOptions,
    state: Vec<State>,
    graph: String,
    /// The cluster it was made for; empty if that is not known.
    #[serde(default)]
    cluster: String,
}

/// The state of an object when the plan was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    object: String,
    uid: String,
    resource_version: String,
    action: String,
}

/// The fate of a saved plan when somebody changed its objects since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    Refuse,
    Allow,
}

/// A plan read from a file.
pub struct SavedPlan {
    pub request: ReleaseRequest,
    pub revision: Revision,
    pub created: jiff::Timestamp,
    state: Vec<State>,
    graph: String,
    cluster: String,
}

/// The identity of a cluster; empty for who may not see it.
pub async fn identity(cluster: &Cluster) -> String {
    let at = ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, "kube-system");
    let found = cluster.get(&at).await.ok().flatten();
    let uid = found.as_ref().and_then(|found| found.pointer("/metadata/uid")).and_then(Value::as_str);
    uid.unwrap_or_default().to_owned()
}

fn states(plan: &ReleasePlan) -> Vec<State> {
    let text = |live: Option<&Value>, field: &str| {
        let found = live.and_then(|live| live.pointer(&format!("/metadata/{field}"))).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let objects = plan.objects.iter().map(|object| State {
        object: object.resource.id.to_string(),
        uid: text(object.live.as_ref(), "uid"),
        resource_version: text(object.live.as_ref(), "resourceVersion"),
        action: object.first_change().map_or("none", |change| change.verb()).to_owned(),
    });
    let deletions = plan.deletions.iter().map(|deletion| State {
        object: deletion.resource.id.to_string(),
        uid: text(Some(&deletion.live), "uid"),
        resource_version: text(Some(&deletion.live), "resourceVersion"),
        action: "delete".to_owned(),
    });
    objects.chain(deletions).collect()
}

/// Everything a seal is over, so written that no two files give the same bytes.
fn sealed(file: &File) -> Vec<u8> {
    let File { format, release, namespace, revision, created, encrypted, content, seal: _ } = file;
    let fields = serde_json::json!([format, release, namespace, revision, created, encrypted, content]);
    fields.to_string().into_bytes()
}

fn signature(file: &File, key: &str) -> Result<Hmac<Sha256>, Problem> {
    let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes());
    let mut mac = mac.map_err(|error| Problem::error(format!("the key cannot be used: {error}")))?;
    mac.update(&sealed(file));
    Ok(mac)
}

fn seal(file: &File, key: Option<&str>) -> Result<String, Problem> {
    Ok(match key {
        Some(key) => HEXLOWER.encode(&signature(file, key)?.finalize().into_bytes()),
        None => HEXLOWER.encode(&Sha256::digest(sealed(file))),
    })
}

/// Tells whether a file is as it was written, by somebody with the key if there is one. Takes as long for a seal
/// that is nearly right as for one that is not.
fn is_sealed(file: &File, key: Option<&str>) -> Result<bool, Problem> {
    let Ok(found) = HEXLOWER.decode(file.seal.as_bytes()) else { return Ok(false) };
    Ok(match key {
        Some(key) => signature(file, key)?.verify_slice(&found).is_ok(),
        None => Sha256::digest(sealed(file)).as_slice() == found,
    })
}

fn bad_key(error: &slipway_chart::ChartError) -> Problem {
    Problem::error(format!("the key cannot be used: {error}"))
}

/// Problems with what must not be written in clear: objects with something sensitive in them, and values that are
/// known to be secret (`known`) wherever they turn up.
fn secrets(plan: &ReleasePlan, text: &str, known: &Redactor) -> Problems {
    let sensitive = plan.objects.iter().map(|object| &object.resource).filter(|resource| {
        let is_secret = resource.gvk.group.is_empty() && resource.gvk.kind == "Secret";
        is_secret || !matches!(sensitivity_of(&resource.object), Sensitivity::None)
    });
    let mut problems: Problems = sensitive
        .map(|resource| {
            let problem = Problem::error(format!("{} is secret and would be written in clear", resource.id));
            resource.origin.blame(&resource.object, "", problem)
        })
        .collect();
    if problems.is_empty() && matches!(known.redact(text), Cow::Owned(_)) {
        problems.push(Problem::error("a secret value is part of the plan and would be written in clear"));
    }
    problems
}

/// Writes a plan down. `key` is 32, 48 or 64 hexadecimal digits; without one nothing that `known` masks may be
/// part of the plan.
///
/// `cluster` is the [`identity`] of the one the plan is for: the file is refused on another.
pub fn save(
    plan: &ReleasePlan,
    cluster: &str,
    key: Option<&str>,
    known: &Redactor,
) -> Result<Vec<u8>, Failure> {
    if matches!(plan.deploy_type, DeployType::Delete | DeployType::Test) {
        return Err(Problem::error("only a plan that makes a revision can be saved").into());
    }
    let aside = plan.aside.iter().map(|document| (document.origin.path.to_string(), document.object.clone()));
    let inside = Inside {
        release: plan.release.clone(),
        deploy_type: plan.deploy_type,
        aside: aside.collect(),
        options: plan.options.clone(),
        state: states(plan),
        graph: plan.graph.fingerprint(b"").to_string(),
        cluster: cluster.to_owned(),
    };
    let text = serde_json::to_string(&inside).map_err(|error| Problem::error(error.to_string()))?;
    let content = match key {
        Some(key) => {
            let key = EncryptionKey::parse(key).map_err(|error| bad_key(&error))?;
            key.encrypt(text.as_bytes()).map_err(|error| bad_key(&error))?
        }
        None => {
            let secrets = secrets(plan, &text, known);
            if !secrets.is_empty() {
                let hint = |problem: Problem| problem.hint("give a key to encrypt the plan with");
                return Err(Failure::Problems(secrets.into_iter().map(hint).collect()));
            }
            text
        }
    };
    let mut file = File {
        format: FORMAT.to_owned(),
        release: plan.name.to_string(),
        namespace: plan.namespace.to_string(),
        revision: plan.release.version,
        created: jiff::Timestamp::now(),
        encrypted: key.is_some(),
        content,
        seal: String::new(),
    };
    file.seal = seal(&file, key)?;
    serde_json::to_vec_pretty(&file).map_err(|error| Problem::error(error.to_string()).into())
}

/// Reads a plan back; refuses what was changed, is encrypted with another key, or is not a plan. With a key
/// only what was encrypted with it is a plan.
pub fn load(bytes: &[u8], key: Option<&str>) -> Result<SavedPlan, Failure> {
    let file: File = serde_json::from_slice(bytes)
        .map_err(|error| Problem::error(format!("this is no saved plan: {error}")))?;
    if file.format != FORMAT {
        return Err(
            Problem::error(format!("this plan has the form `{}`, expected `{FORMAT}`", file.format)).into()
        );
    }
    match (file.encrypted, key) {
        (true, None) => {
            return Err(Problem::error("the plan is encrypted")
                .hint("give the key it was saved with")
                .into());
        }
        // Who can write the file could otherwise take a signed plan's place by saying it is none.
        (false, Some(_)) => {
            return Err(Problem::error(
                "the plan is not encrypted, and there is a key: nobody can tell who made it",
            )
            .hint("make it again with the key, or apply it without one")
            .into());
        }
        (true, Some(_)) | (false, None) => {}
    }
    if !is_sealed(&file, key)? {
        let why = match key {
            Some(_) => "the plan was changed, or the key is not the one it was saved with",
            None => "the plan was changed after it was saved",
        };
        return Err(Problem::error(why).into());
    }
    let text = match key {
        Some(key) => {
            let key = EncryptionKey::parse(key).map_err(|error| bad_key(&error))?;
            key.decrypt(&file.content).map_err(|error| bad_key(&error))?
        }
        None => file.content.clone().into_bytes(),
    };
    let inside: Inside = serde_json::from_slice(&text)
        .map_err(|error| Problem::error(format!("the plan cannot be read: {error}")))?;
    let aside = inside.aside.into_iter().map(|(path, object)| Document {
        object,
        origin: Origin::new(path),
        stored: Stored::Aside,
    });
    let content = Content::Record(Box::new(inside.release), inside.deploy_type, aside.collect());
    Ok(SavedPlan {
        request: ReleaseRequest {
            name: file.release.into(),
            namespace: file.namespace.into(),
            content,
            options: inside.options,
        },
        revision: file.revision.into(),
        created: file.created,
        state: inside.state,
        graph: inside.graph,
        cluster: inside.cluster,
    })
}

impl SavedPlan {
    /// Refuses a plan made for another cluster.
    pub fn check_cluster(&self, identity: &str) -> Result<(), Failure> {
        if self.cluster.is_empty() || identity.is_empty() || self.cluster == identity {
            return Ok(());
        }
        let problem = Problem::error("the plan was made for another cluster");
        Err(Failure::Stale(problem.hint("check --context, or make the plan again for this one").into()))
    }

    /// Refuses a plan made too long ago.
    pub fn check_age(&self, now: jiff::Timestamp, lifetime: Duration) -> Result<(), Failure> {
        let age = now.duration_since(self.created).unsigned_abs();
        if age <= lifetime {
            return Ok(());
        }
        let problem = Problem::error(format!("the plan is {} minutes old", age.as_secs() / 60));
        Err(Failure::Stale(problem.hint("make it again, or allow it to be older").into()))
    }

    /// Checks that what would be done now is what was planned; tells everything that moved.
    pub fn check(&self, now: &ReleasePlan, drift: Drift) -> Result<(), Failure> {
        let mut problems = Problems::new();
        if now.revision() != self.revision {
            problems.push(Problem::error(format!(
                "the plan makes revision {}, but the next one is {}",
                self.revision,
                now.revision()
            )));
        }
        let current = states(now);
        let known: BTreeMap<&str, &State> =
            current.iter().map(|state| (state.object.as_str(), state)).collect();
        let expected: BTreeSet<&str> = self.state.iter().map(|state| state.object.as_str()).collect();
        for planned in &self.state {
            match known.get(planned.object.as_str()) {
                Some(state) if state.action != planned.action => problems.push(Problem::error(format!(
                    "{}: planned to {}, would now {}",
                    planned.object, planned.action, state.action
                ))),
                Some(state)
                    if drift == Drift::Refuse
                        && (&state.uid, &state.resource_version)
                            != (&planned.uid, &planned.resource_version) =>
                {
                    let problem = Problem::error(format!("{}: somebody changed it since", planned.object));
                    problems.push(problem.hint("plan again, or go on all the same with --allow-drift"));
                }
                Some(_) => {}
                None => problems
                    .push(Problem::error(format!("{}: is no longer part of the plan", planned.object))),
            }
        }
        for state in current.iter().filter(|state| !expected.contains(state.object.as_str())) {
            problems.push(Problem::error(format!("{}: was not part of the plan", state.object)));
        }
        if problems.is_empty() && now.graph.fingerprint(b"").to_string() != self.graph {
            problems.push(Problem::error("the operations have another order now"));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Failure::Stale(problems))
    }

    /// The number of objects in the record of the file.
    pub fn objects(&self) -> usize {
        match &self.request.content {
            Content::Record(release, ..) => record::documents(release).0.len(),
            _ => 0,
        }
    }
}

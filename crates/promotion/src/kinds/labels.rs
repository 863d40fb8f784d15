//! Labels, annotations and other well-known names on objects of promotion.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The API group of every kind.
pub const GROUP: &str = "kardinal.io";
/// The version of every kind.
pub const VERSION: &str = "v1alpha1";

/// Held by steps that own a branch or a pull request.
pub const FINALIZER: &str = "kardinal.io/finalizer";
/// The field manager of everything written here.
pub const FIELD_MANAGER: &str = "slipway-promotion";

/// Label: the pipeline an object belongs to.
pub const PIPELINE: &str = "kardinal.io/pipeline";
/// Label: the bundle an object belongs to; the annotation of the same name holds a name too long for a label.
pub const BUNDLE: &str = "kardinal.io/bundle";
/// Label: the environment an object belongs to.
pub const ENVIRONMENT: &str = "kardinal.io/environment";
pub const REGION: &str = "kardinal.io/region";
/// Label: the agent that carries a step out.
pub const SHARD: &str = "kardinal.io/shard";
/// Label: `true` on bundles that take an environment back, and on their steps.
pub const ROLLBACK: &str = "kardinal.io/rollback";
/// Label: `true` on bundles that go first.
pub const EMERGENCY: &str = "kardinal.io/emergency";
pub const SUBSCRIPTION: &str = "kardinal.io/subscription";
pub const SOURCE_DIGEST: &str = "kardinal.io/source-digest";
/// Label on gate templates: `org`, `team` or `system`.
pub const SCOPE: &str = "kardinal.io/scope";
/// Label (one environment) or annotation (a list with globs) on gate templates.
pub const APPLIES_TO: &str = "kardinal.io/applies-to";
/// Label on gate templates: `gate`, `skip-permission` or `freeze-bypass`.
pub const GATE_TYPE: &str = "kardinal.io/type";
/// Label: `true` on gates that hold a paused pipeline.
pub const FREEZE: &str = "kardinal.io/freeze";
/// Label: `true` on the gates of a bundle, which are no templates.
pub const INSTANCE: &str = "kardinal.io/instance";
/// Labels of a gate instance: where its template is.
pub const GATE_NAME: &str = "kardinal.io/gate-name";
pub const GATE_NAMESPACE: &str = "kardinal.io/gate-namespace";
pub const GATE_TEMPLATE: &str = "kardinal.io/gate-template";
/// Label of Graphs made by the translator.
pub const ENGINE: &str = "kardinal.io/engine";
/// The value of [`ENGINE`] for Graphs our own controller carries out.
pub const ENGINE_EMBEDDED: &str = "embedded";

/// Annotation: `true` keeps a bundle from being superseded or collected.
pub const PIN: &str = "kardinal.io/pin";
/// Annotation: `true` promotes a version again that was taken back.
pub const FORCE: &str = "kardinal.io/force";
/// Annotation: a moment; changing it reconciles the object.
pub const REFRESH: &str = "kardinal.io/refresh";
/// Annotation on bundles: the way they were asked for (`api`, `subscription`, a command).
pub const CREATED_THROUGH: &str = "kardinal.io/created-through";
/// Annotation: the bundle a manual promotion was copied from.
pub const PROMOTED_FROM: &str = "kardinal.io/promoted-from";
/// Annotations on bundles of a group's members: the bundle of the group as `namespace/name`, and the member.
pub const GROUP_BUNDLE: &str = "kardinal.io/group-bundle";
pub const GROUP_ALIAS: &str = "kardinal.io/group-alias";
/// Annotation on bundles: the Graph to use instead of a generated one.
pub const GRAPH_TEMPLATE: &str = "kardinal.io/graph-template";
pub const PIPELINE_GENERATION: &str = "kardinal.io/pipeline-generation";
pub const SPEC_HASH: &str = "kardinal.io/spec-hash";
pub const BUILDER_VERSION: &str = "kardinal.io/builder-version";
/// Annotation on a Secret: namespaces whose pipelines may use it; on a pipeline: whose groups may promote it.
pub const ALLOW_NAMESPACES: &str = "kardinal.io/allow-namespaces";
/// Annotation on pipelines: `true` deletes their bundles with them.
pub const CASCADE: &str = "kardinal.io/cascade";

/// The prefix of labels that are ours and not exposed to gates as a user's.
pub const PREFIX: &str = "kardinal.io/";

/// The longest label value and name of a Graph's objects.
const LONGEST: usize = 63;

/// Turns a name into a label value: itself, or cut with a hash of the whole where it is too long.
pub fn label_value(name: &str) -> String {
    bounded_name(name, name)
}

/// Keeps a name that fits a label; cuts a longer one to 50 characters and appends a hash of `identity`.
pub fn bounded_name(name: &str, identity: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let cut = name.char_indices().take_while(|(at, _)| *at < 50).map(|(_, c)| c).collect::<String>();
    format!("{}-{}", cut.trim_end_matches(['-', '.', '_']), short_hash(identity, 8))
}

/// The first hexadecimal digits of the SHA-256 of a text.
pub fn short_hash(text: &str, digits: usize) -> String {
    let mut hash = HEXLOWER.encode(&Sha256::digest(text));
    hash.truncate(digits);
    hash
}

//! `.Capabilities`: what the cluster, or the assumed one, can do.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use slipway_go::semver::Version;
use slipway_gotmpl::{
    FuncArgs, FuncContext, FuncError, FuncResult, FuncSignature, GoKind, GoList, GoObject, GoString, GoType,
    GoValue, ListKind, ObjectJson,
};

use crate::error::{ChartError, ChartFault};

/// The versions a chart is rendered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    /// `apps/v1` and, when discovered or given, `apps/v1/Deployment`.
    pub api_versions: Arc<[String]>,
}

/// A Kubernetes version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// With the `v`: `v1.32.0`.
    pub version: String,
    pub major: String,
    pub minor: String,
}

impl KubeVersion {
    /// Reads a version loosely written: `1.20`, `v1.20.3-gke.1+b`.
    pub fn parse(text: &str) -> Result<Self, ChartError> {
        let version = Version::parse(text).map_err(|error| {
            let fault = ChartFault::new(format!("invalid kube version '{text}': {error}"));
            ChartError::Values(fault.hint("write a version such as 1.31 or v1.31.2"))
        })?;
        Ok(Self {
            version: format!("v{version}"),
            major: version.major.to_string(),
            minor: version.minor.to_string(),
        })
    }
}

impl Default for Capabilities {
    /// The version Helm assumes without a cluster.
    fn default() -> Self {
        Self {
            kube_version: KubeVersion { version: "v1.32.0".into(), major: "1".into(), minor: "32".into() },
            api_versions: DEFAULT_API_VERSIONS.split_whitespace().map(str::to_owned).collect(),
        }
    }
}

impl Capabilities {
    /// Adds API versions to the set.
    #[must_use]
    pub fn with_api_versions(mut self, more: impl IntoIterator<Item = String>) -> Self {
        let all: Vec<String> = self.api_versions.iter().cloned().chain(more).collect();
        self.api_versions = all.into();
        self
    }

    pub(super) fn to_value(&self) -> GoValue {
        GoValue::ptr(CapabilitiesObject {
            kube_version: GoValue::object(KubeVersionObject(self.kube_version.clone())),
            api_versions: GoValue::object(VersionSet::new(self.api_versions.clone())),
            helm_version: GoValue::object(BuildInfo),
        })
    }
}

/// The Helm release whose behaviour this crate has.
pub const HELM_VERSION: &str = "v3.17.3";

struct CapabilitiesObject {
    kube_version: GoValue,
    api_versions: GoValue,
    helm_version: GoValue,
}

impl GoObject for CapabilitiesObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.Capabilities".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        vec![
            ("KubeVersion", self.kube_version.clone()),
            ("APIVersions", self.api_versions.clone()),
            ("HelmVersion", self.helm_version.clone()),
        ]
    }

    fn field_named(&self, name: &str) -> Option<GoValue> {
        match name {
            "KubeVersion" => Some(self.kube_version.clone()),
            "APIVersions" => Some(self.api_versions.clone()),
            "HelmVersion" => Some(self.helm_version.clone()),
            _ => None,
        }
    }

    fn method_signature(&self, name: &str, addressable: bool) -> Option<FuncSignature> {
        (name == "Copy" && addressable)
            .then(|| FuncSignature::new(&[], GoType::Named("*chartutil.Capabilities")))
    }

    fn call(&self, _name: &str, _ctx: &mut FuncContext<'_>, _args: FuncArgs<'_>) -> FuncResult {
        Ok(GoValue::ptr(Self {
            kube_version: self.kube_version.clone(),
            api_versions: self.api_versions.clone(),
            helm_version: self.helm_version.clone(),
        }))
    }
}

struct KubeVersionObject(KubeVersion);

impl GoObject for KubeVersionObject {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.KubeVersion".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        vec![
            ("Version", GoValue::str(self.0.version.as_str())),
            ("Major", GoValue::str(self.0.major.as_str())),
            ("Minor", GoValue::str(self.0.minor.as_str())),
        ]
    }

    fn method_signature(&self, name: &str, addressable: bool) -> Option<FuncSignature> {
        (addressable && matches!(name, "String" | "GitVersion"))
            .then(|| FuncSignature::new(&[], GoType::String))
    }

    fn call(&self, _name: &str, _ctx: &mut FuncContext<'_>, _args: FuncArgs<'_>) -> FuncResult {
        Ok(GoValue::str(self.0.version.as_str()))
    }

    fn string_form(&self, addressable: bool) -> Option<GoString> {
        addressable.then(|| self.0.version.as_str().into())
    }
}

struct BuildInfo;

impl GoObject for BuildInfo {
    fn type_name(&self) -> Cow<'static, str> {
        "version.BuildInfo".into()
    }

    fn field_list(&self) -> Vec<(&'static str, GoValue)> {
        vec![
            ("Version", GoValue::str(HELM_VERSION)),
            ("GitCommit", GoValue::str("e4da49785aa6e6ee2b86efd5dd9e43400318262b")),
            ("GitTreeState", GoValue::str("clean")),
            ("GoVersion", GoValue::str("go1.23.7")),
        ]
    }

    fn json_form(&self) -> ObjectJson {
        let names = ["version", "git_commit", "git_tree_state", "go_version"];
        let members = names.into_iter().zip(self.field_list());
        ObjectJson::Fields(members.map(|(name, (_, value))| (GoString::from(name), value)).collect())
    }
}

struct VersionSet {
    versions: Arc<[String]>,
    list: Rc<GoValue>,
}

impl VersionSet {
    fn new(versions: Arc<[String]>) -> Self {
        let items = versions.iter().map(|version| GoValue::str(version.as_str())).collect();
        Self { list: Rc::new(GoValue::List(GoList::of(ListKind::String, items))), versions }
    }
}

impl GoObject for VersionSet {
    fn type_name(&self) -> Cow<'static, str> {
        "chartutil.VersionSet".into()
    }

    fn kind(&self) -> GoKind {
        GoKind::Slice
    }

    fn underlying_value(&self) -> Option<GoValue> {
        Some((*self.list).clone())
    }

    fn method_signature(&self, name: &str, _addressable: bool) -> Option<FuncSignature> {
        (name == "Has").then(|| FuncSignature::new(&[GoType::String], GoType::Bool))
    }

    fn call(&self, name: &str, _ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        if name != "Has" {
            return Err(FuncError::new(format!("no method {name}")));
        }
        let wanted = args.str(0);
        Ok(GoValue::Bool(self.versions.iter().any(|version| version.as_bytes() == wanted)))
    }

    fn json_form(&self) -> ObjectJson {
        ObjectJson::Value((*self.list).clone())
    }
}

const DEFAULT_API_VERSIONS: &str = "\
v1 admissionregistration.k8s.io/v1 admissionregistration.k8s.io/v1alpha1 admissionregistration.k8s.io/v1beta1 \
internal.apiserver.k8s.io/v1alpha1 apps/v1 apps/v1beta1 apps/v1beta2 authentication.k8s.io/v1 \
authentication.k8s.io/v1alpha1 authentication.k8s.io/v1beta1 authorization.k8s.io/v1 \
authorization.k8s.io/v1beta1 autoscaling/v1 autoscaling/v2 autoscaling/v2beta1 autoscaling/v2beta2 batch/v1 \
batch/v1beta1 certificates.k8s.io/v1 certificates.k8s.io/v1beta1 certificates.k8s.io/v1alpha1 \
coordination.k8s.io/v1alpha2 coordination.k8s.io/v1beta1 coordination.k8s.io/v1 discovery.k8s.io/v1 \
discovery.k8s.io/v1beta1 events.k8s.io/v1 events.k8s.io/v1beta1 extensions/v1beta1 \
flowcontrol.apiserver.k8s.io/v1 flowcontrol.apiserver.k8s.io/v1beta1 flowcontrol.apiserver.k8s.io/v1beta2 \
flowcontrol.apiserver.k8s.io/v1beta3 networking.k8s.io/v1 networking.k8s.io/v1alpha1 \
networking.k8s.io/v1beta1 node.k8s.io/v1 node.k8s.io/v1alpha1 node.k8s.io/v1beta1 policy/v1 policy/v1beta1 \
rbac.authorization.k8s.io/v1 rbac.authorization.k8s.io/v1beta1 rbac.authorization.k8s.io/v1alpha1 \
resource.k8s.io/v1beta1 resource.k8s.io/v1alpha3 scheduling.k8s.io/v1alpha1 scheduling.k8s.io/v1beta1 \
scheduling.k8s.io/v1 storage.k8s.io/v1beta1 storage.k8s.io/v1 storage.k8s.io/v1alpha1 \
storagemigration.k8s.io/v1alpha1 apiextensions.k8s.io/v1beta1 apiextensions.k8s.io/v1";

//! The kinds of configuration objects.

use slipway_problem::Problem;

use crate::resource::Resource;

/// A built-in transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransformerKind {
    Annotations,
    Labels,
    Namespace,
    Prefix,
    Suffix,
    PrefixSuffix,
    ImageTag,
    ReplicaCount,
    Patch,
    JsonPatch,
    StrategicPatch,
    Replacement,
    ValueAdd,
    Hash,
}

/// A built-in generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeneratorKind {
    ConfigMap,
    Secret,
    IamPolicy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PluginKind {
    Transformer(TransformerKind),
    Generator(GeneratorKind),
}

const KINDS: [(&str, PluginKind); 17] = [
    ("AnnotationsTransformer", PluginKind::Transformer(TransformerKind::Annotations)),
    ("LabelTransformer", PluginKind::Transformer(TransformerKind::Labels)),
    ("NamespaceTransformer", PluginKind::Transformer(TransformerKind::Namespace)),
    ("PrefixTransformer", PluginKind::Transformer(TransformerKind::Prefix)),
    ("SuffixTransformer", PluginKind::Transformer(TransformerKind::Suffix)),
    ("PrefixSuffixTransformer", PluginKind::Transformer(TransformerKind::PrefixSuffix)),
    ("ImageTagTransformer", PluginKind::Transformer(TransformerKind::ImageTag)),
    ("ReplicaCountTransformer", PluginKind::Transformer(TransformerKind::ReplicaCount)),
    ("PatchTransformer", PluginKind::Transformer(TransformerKind::Patch)),
    ("PatchJson6902Transformer", PluginKind::Transformer(TransformerKind::JsonPatch)),
    ("PatchStrategicMergeTransformer", PluginKind::Transformer(TransformerKind::StrategicPatch)),
    ("ReplacementTransformer", PluginKind::Transformer(TransformerKind::Replacement)),
    ("ValueAddTransformer", PluginKind::Transformer(TransformerKind::ValueAdd)),
    ("HashTransformer", PluginKind::Transformer(TransformerKind::Hash)),
    ("ConfigMapGenerator", PluginKind::Generator(GeneratorKind::ConfigMap)),
    ("SecretGenerator", PluginKind::Generator(GeneratorKind::Secret)),
    ("IAMPolicyGenerator", PluginKind::Generator(GeneratorKind::IamPolicy)),
];

impl PluginKind {
    /// The plugin an object configures.
    pub(super) fn of(resource: &Resource) -> Result<Self, Box<Problem>> {
        let gvk = resource.gvk();
        let refused = |message: String, hint: &str| {
            Box::new(Problem::error(message).code("KZ001").at(resource.at.clone()).hint(hint))
        };
        if !gvk.group.is_empty() || gvk.version != "builtin" {
            return Err(refused(
                format!("`{gvk}` is a plugin, and no program is ever run"),
                "only the transformers and generators built into kustomize (`apiVersion: builtin`) are supported",
            ));
        }
        if gvk.kind == "HelmChartInflationGenerator" {
            return Err(refused(
                format!("`{}` is not supported", gvk.kind),
                "render the chart first and list the result under `resources`",
            ));
        }
        let found = KINDS.iter().find(|(kind, _)| *kind == gvk.kind).map(|(_, found)| *found);
        found.ok_or_else(|| {
            let problem = Problem::error(format!("there is no built-in plugin `{}`", gvk.kind));
            Box::new(
                problem.at(resource.at.clone()).did_you_mean(&gvk.kind, KINDS.iter().map(|(kind, _)| *kind)),
            )
        })
    }
}

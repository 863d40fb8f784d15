//! Environments: names for places, and the order units move through them.

use std::collections::BTreeMap;

use slipway_problem::{Problem, Problems};
use slipway_yaml::{FieldReader, YamlReader};

/// A place with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// The context of the kubeconfig.
    pub context: Option<String>,
    pub namespace: Option<String>,
}

/// The environments of `slipway.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environments {
    known: BTreeMap<String, Environment>,
    order: Vec<String>,
}

/// A target as a user writes it: `env[/cluster[/namespace]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetChoice {
    pub env: Option<String>,
    pub place: Environment,
}

impl Environments {
    /// Reads the `environments` and the `promotion.order` of a settings file over those known already.
    pub fn read(&mut self, text: &str, file: &str) -> Result<(), Problems> {
        let mut problems = Problems::new();
        let Some(root) = YamlReader::new().gather_one(text, file, &mut problems) else {
            return Err(problems);
        };
        let mut fields = FieldReader::new(&root, &mut problems);
        fields.ignore_unknown();
        let known = fields.entries("environments", |name, node, problems| {
            let mut fields = FieldReader::new(node, problems);
            let context = fields.string("context").or_else(|| fields.string("cluster"));
            fields.ignore("cluster");
            let env = Environment { context, namespace: fields.string("namespace") };
            fields.finish();
            Some((name.key_text().into_owned(), env))
        });
        let order = fields.fields("promotion", |promotion| promotion.strings("order")).unwrap_or_default();
        fields.finish();
        self.known.extend(known);
        if !order.is_empty() {
            self.order = order;
        }
        problems.into_result(())
    }

    /// Environments a unit has been in before it comes to this one.
    pub fn before<'e>(&'e self, env: &str) -> &'e [String] {
        let place = self.order.iter().position(|name| name == env).unwrap_or_default();
        &self.order[..place]
    }

    /// Reads a target.
    pub fn choose(&self, text: &str) -> Result<TargetChoice, Problem> {
        let mut parts = text.split('/');
        let (env, cluster, namespace) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        if env.is_empty() || parts.next().is_some() {
            return Err(
                Problem::error(format!("`{text}` is not a target")).hint("write ENV[/CLUSTER[/NAMESPACE]]")
            );
        }
        let known = self.known.get(env);
        if known.is_none() && cluster.is_none() {
            let names: Vec<&str> = self.known.keys().map(String::as_str).collect();
            let hint = match names.as_slice() {
                [] => "name its cluster (ENV/CONTEXT), or list it under `environments` in slipway.yaml"
                    .to_owned(),
                _ => format!("known: {}", names.join(", ")),
            };
            return Err(Problem::error(format!("there is no environment `{env}`")).hint(hint));
        }
        let mut place = known.cloned().unwrap_or_default();
        let given = |part: Option<&str>| part.filter(|part| !part.is_empty()).map(str::to_owned);
        place.context = given(cluster).or(place.context);
        place.namespace = given(namespace).or(place.namespace);
        Ok(TargetChoice { env: Some(env.to_owned()), place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_nobody_heeds_is_reported() {
        let mut environments = Environments::default();
        let text = "environments:\n  prod: {context: prod, kubeconfig: other}\n";
        let problems = environments.read(text, "slipway.yaml").expect_err("is refused");
        let told = problems.to_string();
        assert!(told.contains("slipway.yaml:2:") && told.contains("`kubeconfig`"), "{told}");
    }
}

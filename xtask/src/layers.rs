//! The order of the rooms: a crate may use only crates that stand above it.

/// Every crate under `crates/`, in the order of `ARCHITECTURE.md`.
#[cfg(test)]
const ORDER: &[&str] = &[
    "problem",
    "graph",
    "go",
    "yaml",
    "manifest",
    "event",
    "process",
    "http",
    "journal",
    "primes",
    "gotmpl",
    "cel", // kernel
    "chart",
    "package",
    "kustomize",
    "secrets",
    "git",
    "source", // sources
    "cluster",
    "sandbox", // cluster
    "policy",  // above the engines that fill its input from their plans
    "release",
    "stack",
    "runbook",
    "scm",
    "kro",
    "promotion",
    "rehearsal",
    "unit", // engines
    "rpc",
    "console",
    "controller",
    "slipway", // surfaces
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::ORDER;
    use crate::shell;

    /// What no library may depend on: the terminal and the command line are the binary's.
    const TERMINAL: &[&str] = &["anstream", "clap", "indicatif", "etcetera"];
    /// What stands beside the house and may use any room of it.
    const BESIDE: &[&str] = &["xtask", "slipway-fuzz"];
    /// What only the cluster layer and those below it may depend on.
    const CLUSTER: &[&str] = &["kube", "kube-client", "k8s-openapi"];

    /// Each workspace crate with the dependencies of its library or binary (tests may use anything).
    fn dependencies() -> BTreeMap<String, Vec<String>> {
        let metadata = shell::output(&mut shell::cargo(&["metadata", "--format-version", "1", "--no-deps"]));
        let metadata: Value = serde_json::from_str(&metadata.expect("cargo metadata runs")).expect("is JSON");
        let packages = metadata["packages"].as_array().expect("lists packages");
        let text = |value: &Value| value.as_str().expect("is text").to_owned();
        packages
            .iter()
            .map(|package| {
                let all = package["dependencies"].as_array().expect("lists dependencies");
                let shipped = all.iter().filter(|dependency| dependency["kind"] != "dev");
                (text(&package["name"]), shipped.map(|dependency| text(&dependency["name"])).collect())
            })
            .collect()
    }

    fn place(package: &str) -> Option<usize> {
        let name = package.strip_prefix("slipway-").unwrap_or(package);
        ORDER.iter().position(|known| *known == name)
    }

    #[test]
    fn crates_use_only_what_stands_above_them() {
        let mut wrong = Vec::new();
        for (package, dependencies) in dependencies() {
            if BESIDE.contains(&package.as_str()) {
                continue;
            }
            let Some(own) = place(&package) else {
                wrong.push(format!("{package} has no place in the order of layers"));
                continue;
            };
            let is_binary = package == "slipway";
            let is_above_cluster = Some(own) < place("cluster");
            for dependency in &dependencies {
                let ours = dependency.starts_with("slipway-");
                if ours && place(dependency).is_none_or(|theirs| theirs >= own) {
                    wrong.push(format!("{package} must not use {dependency}: it stands below"));
                }
                // A rehearsal is a run on the sandbox.
                let may_know_sandbox = is_binary || package == "slipway-rehearsal";
                if dependency == "slipway-sandbox" && !may_know_sandbox {
                    wrong.push(format!("{package} must not know the sandbox: a cluster is a kube::Client"));
                }
                if TERMINAL.contains(&dependency.as_str()) && !is_binary {
                    wrong.push(format!(
                        "{package} must not use {dependency}: only the binary knows the terminal"
                    ));
                }
                if CLUSTER.contains(&dependency.as_str()) && is_above_cluster {
                    wrong.push(format!("{package} must not use {dependency}: it must not talk to a cluster"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    /// The third-party crates of a build with their features.
    fn features(selected: &[&str]) -> BTreeSet<String> {
        let mut tree = shell::cargo(&["tree", "--locked", "--prefix", "none", "--format", "{p} {f}"]);
        let tree = shell::output(tree.args(selected)).expect("cargo tree runs");
        let lines = tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
        lines.filter(|line| !line.contains("slipway")).collect()
    }

    /// Otherwise `cargo xtask test` after `cargo run` builds every dependency again.
    #[test]
    fn the_binary_alone_uses_the_features_its_tests_use() {
        let run = features(&["--package", "slipway", "--edges", "normal,build"]);
        let test = features(&["--workspace", "--edges", "normal,build,dev"]);
        let other: Vec<_> = run.difference(&test).collect();
        assert!(other.is_empty(), "built twice, add the features tests ask for to crates/slipway: {other:?}");
    }
}

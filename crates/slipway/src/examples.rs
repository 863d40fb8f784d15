//! Examples at the end of `--help`: one list for all commands, each line read by the parser in a test.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};

use crate::cli::Cli;

/// Examples of a command: its name, and lines as a user types them after `slipway`.
type Examples = (&'static str, &'static [&'static str]);

const EXAMPLES: &[Examples] = &[
    ("", &["sandbox up --detach", "chart create web", "apply web ./web --sandbox", "status web --sandbox"]),
    (
        "render",
        &[
            "render web ./chart -f values.yaml",
            "render ./overlays/prod",
            "render ./chart --explain Deployment/web:spec.replicas",
        ],
    ),
    (
        "plan",
        &[
            "plan web ./chart -n shop",
            "plan web ./chart --set replicas=3 --exit-code",
            "plan web ./chart --out web.plan",
        ],
    ),
    (
        "apply",
        &[
            "apply web ./chart -n shop -f prod.yaml",
            "apply web oci://registry.example.com/charts/web --version 1.4.0 --auto-rollback",
            "apply --plan web.plan",
            "apply web ./chart --sandbox",
        ],
    ),
    ("rollback", &["rollback web", "rollback web 3 -n shop --dry-run"]),
    ("delete", &["delete web -n shop", "delete web --keep-history"]),
    ("list", &["list", "list --all-namespaces -o json"]),
    ("status", &["status web -n shop", "status web --show-resources"]),
    ("history", &["history web -n shop"]),
    ("get", &["get values web", "get manifest web --revision 2", "get all web -o json"]),
    ("diff", &["diff web", "diff web 2 3"]),
    ("logs", &["logs web -n shop", "logs web --follow"]),
    ("test", &["test web -n shop", "test web --filter name=web-reachable"]),
    ("lint", &["lint ./chart", "lint ./chart -f prod.yaml --strict"]),
    ("chart", &["chart create web", "chart show values ./web", "chart package ./web"]),
    ("chart create", &["chart create web", "chart create web --starter company"]),
    (
        "chart show",
        &[
            "chart show values ./web",
            "chart show values bitnami/nginx --version 18.1.0 --jsonpath {.image.tag}",
        ],
    ),
    (
        "chart package",
        &[
            "chart package ./web",
            "chart package ./web --version 1.2.0 -d dist",
            "chart package ./web --sign --key release@example.com",
        ],
    ),
    ("chart verify", &["chart verify web-1.0.0.tgz --keyring keys.gpg"]),
    (
        "chart pull",
        &[
            "chart pull oci://registry.example.com/charts/web --version 1.0.0",
            "chart pull bitnami/nginx --untar",
        ],
    ),
    ("chart push", &["chart push web-1.0.0.tgz oci://registry.example.com/charts"]),
    ("chart search", &["chart search repo nginx"]),
    ("chart search repo", &["chart search repo nginx --versions"]),
    ("chart registry", &["chart registry login registry.example.com -u ci --password-stdin"]),
    ("chart registry login", &["chart registry login registry.example.com -u ci --password-stdin"]),
    ("chart registry logout", &["chart registry logout registry.example.com"]),
    ("chart secret", &["chart secret key create", "chart secret values edit secret-values.yaml"]),
    ("chart secret key", &["chart secret key create"]),
    ("chart secret key create", &["chart secret key create"]),
    ("chart secret key rotate", &["chart secret key rotate --chart ./web --old-secret-key 0123"]),
    ("chart secret values", &["chart secret values edit secret-values.yaml"]),
    (
        "chart secret values encrypt",
        &["chart secret values encrypt plain.yaml --save-output-to secret-values.yaml"],
    ),
    ("chart secret values decrypt", &["chart secret values decrypt secret-values.yaml"]),
    ("chart secret values edit", &["chart secret values edit secret-values.yaml"]),
    ("chart secret file", &["chart secret file encrypt key.pem --save-output-to secret/key.pem"]),
    ("chart secret file encrypt", &["chart secret file encrypt key.pem --save-output-to secret/key.pem"]),
    ("chart secret file decrypt", &["chart secret file decrypt secret/key.pem"]),
    ("chart secret file edit", &["chart secret file edit secret/key.pem"]),
    ("chart deps", &["chart deps update ./web"]),
    ("chart deps list", &["chart deps list ./web"]),
    ("chart deps update", &["chart deps update ./web"]),
    ("chart deps build", &["chart deps build ./web"]),
    ("repo", &["repo add bitnami https://charts.bitnami.com/bitnami", "repo update"]),
    ("repo add", &["repo add bitnami https://charts.bitnami.com/bitnami"]),
    ("repo list", &["repo list"]),
    ("repo remove", &["repo remove bitnami"]),
    ("repo update", &["repo update", "repo update bitnami"]),
    ("repo index", &["repo index ./dist --url https://charts.example.com"]),
    ("package", &["package init web.kurel", "package build web.kurel", "package validate web.kurel"]),
    ("package init", &["package init web.kurel"]),
    (
        "package build",
        &["package build web.kurel", "package build web.kurel -f prod.yaml --output-dir manifests"],
    ),
    ("package validate", &["package validate web.kurel --strict"]),
    ("package schema", &["package schema web.kurel --write"]),
    ("package schema generate", &["package schema generate web.kurel"]),
    ("package info", &["package info web.kurel"]),
    ("package patches", &["package patches web.kurel", "package patches list web.kurel --conflicts"]),
    ("package patches list", &["package patches list web.kurel"]),
    ("package params", &["package params web.kurel -f prod.yaml"]),
    ("package trace", &["package trace web.kurel --param image.tag"]),
    ("package explain", &["package explain web.kurel Deployment/web.spec.replicas"]),
    ("package test", &["package test web.kurel"]),
    ("package diff", &["package diff web.kurel web-new.kurel", "package diff web.kurel --against prod.yaml"]),
    ("kustomize", &["kustomize build overlays/prod"]),
    ("kustomize build", &["kustomize build overlays/prod"]),
    ("kustomize edit", &["kustomize edit set image nginx=nginx:1.27"]),
    ("kustomize edit set", &["kustomize edit set image nginx=nginx:1.27"]),
    ("kustomize edit set image", &["kustomize edit set image nginx=registry.example.com/nginx:1.27"]),
    ("kustomize edit set namespace", &["kustomize edit set namespace shop"]),
    ("kustomize edit add", &["kustomize edit add resource service.yaml"]),
    ("kustomize edit add resource", &["kustomize edit add resource service.yaml"]),
    ("run", &["run plan -f bootstrap.yaml", "run apply -f bootstrap.yaml"]),
    ("run validate", &["run validate -f bootstrap.yaml"]),
    ("run plan", &["run plan -f bootstrap.yaml --set CLUSTER=prod", "run plan -f bootstrap.yaml --offline"]),
    ("run diff", &["run diff -f bootstrap.yaml --exit-code"]),
    (
        "run apply",
        &[
            "run apply -f bootstrap.yaml --set CLUSTER=prod",
            "run apply -f bootstrap.yaml --rehearse",
            "run apply -f bootstrap.yaml --sandbox",
        ],
    ),
    ("run destroy", &["run destroy -f bootstrap.yaml --dry-run"]),
    ("run status", &["run status -f bootstrap.yaml"]),
    ("run graph", &["run graph -f bootstrap.yaml --format mermaid"]),
    ("run schema", &["run schema"]),
    ("stack", &["stack plan", "stack apply --yes"]),
    ("stack plan", &["stack plan --profile prod", "stack plan --git-range origin/main...HEAD --diff"]),
    (
        "stack apply",
        &[
            "stack apply --profile prod --yes",
            "stack apply --tag frontend --concurrency 4",
            "stack apply --resume",
        ],
    ),
    ("stack delete", &["stack delete --release shop/web"]),
    ("stack graph", &["stack graph --format mermaid"]),
    ("stack explain", &["stack explain web", "stack explain web values.replicas"]),
    ("stack status", &["stack status"]),
    ("stack runs", &["stack runs"]),
    ("stack runs prune", &["stack runs prune --keep 20"]),
    (
        "unit",
        &[
            "unit bundle shop ./shop --image shop=ghcr.io/acme/shop:1.4 -O shop.unit.sqlite",
            "unit apply shop.unit.sqlite --to staging",
            "unit promote shop.unit.sqlite --to prod",
        ],
    ),
    (
        "unit apply",
        &["unit apply shop.unit.sqlite --to dev", "unit apply shop.unit.sqlite --sandbox --soak 0s"],
    ),
    ("unit promote", &["unit promote shop.unit.sqlite --from staging --to prod --overlay prod.yaml"]),
    (
        "unit bundle",
        &[
            "unit bundle shop ./chart -n shop -f values.yaml --image api=ghcr.io/acme/api:1.4@sha256:… -O shop.unit.sqlite",
            "unit bundle shop ./chart --image api=ghcr.io/acme/api:1.4 --pin-all --settings unit.yaml -O shop.unit.sqlite",
            "unit bundle shop ./chart --build api=ghcr.io/acme/api:1.4=./api --builder 'docker buildx build --push -t {{ref}} --metadata-file {{metadata}} {{context}}' -O shop.unit.sqlite",
        ],
    ),
    ("unit diff", &["unit diff shop-1.3.unit.sqlite shop-1.4.unit.sqlite"]),
    (
        "unit export",
        &[
            "unit export shop.unit.sqlite --format flux --to-dir deploy/shop --path deploy/shop",
            "unit export shop.unit.sqlite --format flux --to-dir deploy/shop --external-secrets --secret-store vault=prod-vault",
            "unit export shop.unit.sqlite --format flux --git https://github.com/acme/deploy --path apps/shop --pr",
        ],
    ),
    ("unit inspect", &["unit inspect shop.unit.sqlite", "unit inspect shop.unit.sqlite -o json"]),
    ("unit merge-ledger", &["unit merge-ledger shop.unit.sqlite shop.unit.sqlite.ledger.ci.sqlite"]),
    (
        "unit plan",
        &[
            "unit plan shop.unit.sqlite --to staging",
            "unit plan shop.unit.sqlite --to prod --overlay prod.yaml -o json",
        ],
    ),
    ("unit replay", &["unit replay shop.unit.sqlite", "unit replay shop.unit.sqlite --apply 2 -o json"]),
    ("unit resume", &["unit resume shop.unit.sqlite --to prod --overlay prod.yaml"]),
    ("unit abort", &["unit abort shop.unit.sqlite --to prod"]),
    ("unit rollback", &["unit rollback shop.unit.sqlite --to prod"]),
    ("unit sign", &["unit sign shop.unit.sqlite --key release.key"]),
    ("unit generate-key", &["unit generate-key release.key"]),
    ("unit push", &["unit push shop.unit.sqlite oci://registry.example.com/units/shop:1.4"]),
    ("unit pull", &["unit pull oci://registry.example.com/units/shop:1.4 -O shop.unit.sqlite"]),
    (
        "unit verify",
        &[
            "unit verify shop.unit.sqlite --to staging --soak 5m",
            "unit verify shop.unit.sqlite --gitops ./deploy/shop --format flux",
        ],
    ),
    (
        "pipeline",
        &[
            "pipeline rehearse -f pipeline.yaml --at \"Friday 16:00\"",
            "pipeline list",
            "pipeline explain my-app --env prod",
        ],
    ),
    (
        "pipeline init",
        &[
            "pipeline init -f slipway-pipeline.yaml --stdout",
            "pipeline init -f slipway-pipeline.yaml --scaffold-gitops ./gitops",
        ],
    ),
    (
        "pipeline rehearse",
        &[
            "pipeline rehearse",
            "pipeline rehearse -f pipeline.yaml --at \"Friday 16:00\"",
            "pipeline rehearse -f policies/ --gitops ./gitops --image ghcr.io/myorg/my-app:1.29.0",
            "pipeline rehearse -f pipeline.yaml --approve-after prod=2h --unhealthy staging",
        ],
    ),
    ("pipeline list", &["pipeline list", "pipeline list --all-namespaces"]),
    ("pipeline show", &["pipeline show my-app"]),
    ("pipeline explain", &["pipeline explain my-app --env prod"]),
    ("pipeline history", &["pipeline history my-app"]),
    ("pipeline diff", &["pipeline diff my-app 1.29.0 1.30.0"]),
    ("pipeline graph", &["pipeline graph my-app"]),
    ("pipeline validate", &["pipeline validate -f pipeline.yaml"]),
    ("pipeline promote", &["pipeline promote my-app --env prod"]),
    ("pipeline rollback", &["pipeline rollback my-app --env prod"]),
    ("pipeline pause", &["pipeline pause my-app"]),
    ("pipeline resume", &["pipeline resume my-app"]),
    ("pipeline retry", &["pipeline retry my-app --env staging"]),
    ("pipeline approve", &["pipeline approve my-app --env prod"]),
    ("pipeline demo", &["pipeline demo"]),
    ("bundle", &["bundle create my-app --image ghcr.io/myorg/my-app:1.29.0", "bundle list my-app"]),
    (
        "bundle create",
        &[
            "bundle create my-app --image ghcr.io/myorg/my-app:1.29.0",
            "bundle create my-app --image app=ghcr.io/myorg/my-app:1.29.0 --dry-run",
            "bundle create my-app --type config --git-repo https://git.example/config --git-sha 0a1b2c3d",
        ],
    ),
    ("bundle list", &["bundle list my-app"]),
    ("bundle show", &["bundle show my-app-v1-29"]),
    ("bundle wait", &["bundle wait my-app-v1-29 --env prod --timeout 30m"]),
    ("bundle delete", &["bundle delete my-app-v1-29"]),
    ("gate", &["gate list", "gate test gates.yaml"]),
    ("gate list", &["gate list", "gate list -n team-a"]),
    ("gate explain", &["gate explain no-weekend-deploys"]),
    ("gate test", &["gate test gates.yaml cases.yaml"]),
    (
        "gate override",
        &[
            "gate override platform-policies/no-weekend --pipeline my-app --env prod --reason \"incident 4711\" --expires-in 1h",
        ],
    ),
    (
        "gate simulate",
        &[
            "gate simulate \"Saturday 3pm\" --pipeline my-app --env prod",
            "gate simulate -f gates.yaml --env prod --set bundle.labels.hotfix=true",
            "gate simulate -f changed.yaml --pipeline my-app --env prod --from-history 20",
        ],
    ),
    ("secrets", &["secrets discover", "secrets test secret://vault/app/db#password"]),
    ("secrets test", &["secrets test secret://vault/app/db#password", "secrets test --all"]),
    ("secrets list", &["secrets list --provider vault --path app"]),
    ("secrets discover", &["secrets discover --scope ./chart"]),
    ("secrets login", &["secrets login vault"]),
    ("secrets logout", &["secrets logout vault"]),
    ("secrets policy", &["secrets policy check --ci"]),
    ("secrets policy check", &["secrets policy check --scope ./stack --ci"]),
    ("secrets audit", &["secrets audit --since 2026-01-01T00:00:00Z"]),
    (
        "audit",
        &["audit summary --since 30d", "audit timeline --pipeline my-app --actor alice", "audit verify"],
    ),
    ("audit summary", &["audit summary"]),
    ("audit verify", &["audit verify"]),
    ("audit timeline", &["audit timeline --pipeline my-app"]),
    (
        "agent",
        &[
            "agent --shard eu --control-plane-kubeconfig /etc/slipway/kubeconfig",
            "agent --shard eu --control-plane-kubeconfig cp.yaml --control-namespace kardinal-system",
        ],
    ),
    (
        "controller install",
        &[
            "controller install -n kardinal-system",
            "controller install -n kardinal-system --set replicaCount=2 -f values.yaml",
            "controller install -n kardinal-system --dry-run",
        ],
    ),
    ("controller uninstall", &["controller uninstall -n kardinal-system"]),
    (
        "controller",
        &[
            "controller run --sandbox --metrics-address '' --probe-address ''",
            "controller install -n kardinal-system --set replicaCount=2",
            "controller uninstall -n kardinal-system",
        ],
    ),
    (
        "controller run",
        &[
            "controller run --sandbox",
            "controller run -n kardinal-system --distributed --policy-namespace platform-policies",
            "controller run --api-address 0.0.0.0:8443 --tls-cert-file tls.crt --tls-key-file tls.key",
        ],
    ),
    (
        "doctor",
        &[
            "doctor -n kardinal-system",
            "doctor -n kardinal-system --api-url https://promotion.example.com -o json",
        ],
    ),
    ("sandbox", &["sandbox up --detach", "sandbox status", "sandbox down"]),
    ("sandbox up", &["sandbox up --detach", "sandbox up --write-kubeconfig ./kubeconfig"]),
    ("sandbox down", &["sandbox down"]),
    ("sandbox status", &["sandbox status"]),
    ("sandbox kubeconfig", &["sandbox kubeconfig"]),
    ("sandbox reset", &["sandbox reset"]),
    ("sandbox save", &["sandbox save cluster.jsonl"]),
    ("sandbox load", &["sandbox load cluster.jsonl"]),
    ("sandbox clone", &["sandbox clone --context staging -n shop"]),
    ("graph", &["graph steps.yaml", "graph steps.yaml --run"]),
    ("config", &["config", "config -o json"]),
    ("completions", &["completions bash", "completions zsh"]),
    ("man", &["man ./man1"]),
];

/// The whole command tree with examples at the end of each help page.
pub fn tree_with_examples() -> Command {
    let mut root = Cli::command();
    root.build();
    add_examples(&mut root, "");
    with_plain_arguments(root)
}

/// Arguments stand under their own heading: that of a group of flags before them would hold for them as well.
fn with_plain_arguments(command: Command) -> Command {
    let command = command.mut_args(|arg| match arg.is_positional() {
        true => arg.help_heading(None::<&'static str>),
        false => arg,
    });
    command.mut_subcommands(with_plain_arguments)
}

/// The widest line of an example; help pages are wrapped at 100 columns.
const WIDEST: usize = 96;

/// A line of a shell, broken before a flag where it is long, so that it can be pasted.
fn shell_line(line: &str) -> String {
    let mut lines = vec![format!("  slipway {line}")];
    while let Some(last) = lines.last_mut().filter(|last| last.chars().count() > WIDEST) {
        let fits = |at: &usize| last[..*at].chars().count() < WIDEST - 1;
        let flags: Vec<usize> = last.match_indices(" -").map(|(at, _)| at).filter(|at| *at > 8).collect();
        let Some(at) = flags.into_iter().rfind(fits) else { break };
        let rest = format!("     {}", &last[at..]);
        last.truncate(at);
        last.push_str(" \\");
        lines.push(rest);
    }
    lines.join("\n")
}

fn add_examples(command: &mut Command, name: &str) {
    if let Some((_, lines)) = EXAMPLES.iter().find(|(known, _)| *known == name) {
        let lines: Vec<String> = lines.iter().map(|line| shell_line(line)).collect();
        let examples = format!("Examples:\n{}", lines.join("\n"));
        let below = |text: Option<&StyledStr>| match text {
            Some(text) => format!("{text}\n\n{examples}"),
            None => examples.clone(),
        };
        let (help, long) =
            (below(command.get_after_help()), command.get_after_long_help().map(|long| below(Some(long))));
        let changed = std::mem::take(command).after_help(help);
        *command = match long {
            Some(long) => changed.after_long_help(long),
            None => changed,
        };
    }
    for child in command.get_subcommands_mut() {
        let name = format!("{name} {}", child.get_name());
        add_examples(child, name.trim_start());
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn without_examples(command: &Command, name: &str, missing: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if !help.contains("Example") && !command.is_hide_set() {
            missing.push(name.to_owned());
        }
        for child in command.get_subcommands() {
            without_examples(child, format!("{name} {}", child.get_name()).trim_start(), missing);
        }
    }

    /// Splits a line as a shell does; quotes here hold whole words.
    fn shell_words(line: &str) -> impl Iterator<Item = String> {
        let mut quote = None;
        let mut words = vec![String::new()];
        for letter in line.chars() {
            match letter {
                '"' | '\'' if quote.is_none() => quote = Some(letter),
                _ if quote == Some(letter) => quote = None,
                ' ' if quote.is_none() => words.push(String::new()),
                _ => words.last_mut().expect("there is always a word").push(letter),
            }
        }
        words.into_iter()
    }

    #[test]
    fn examples_are_not_wrapped() {
        for (_, lines) in EXAMPLES {
            for line in lines.iter().map(|line| shell_line(line)) {
                assert!(line.lines().all(|line| line.chars().count() <= WIDEST), "{line}");
                assert!(line.lines().rev().skip(1).all(|line| line.ends_with(" \\")), "{line}");
            }
        }
    }

    /// A heading of flags that come before holds for what follows, and an argument without a text says nothing.
    #[test]
    fn arguments_stand_in_their_place_and_say_what_they_are() {
        fn look(command: &Command, path: &str, wrong: &mut Vec<String>) {
            for arg in command.get_positionals().filter(|arg| !arg.is_hide_set()) {
                if arg.get_help_heading().is_some() || arg.get_help().is_none() {
                    wrong.push(format!("{path} {}", arg.get_id()));
                }
            }
            for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
                look(child, &format!("{path} {}", child.get_name()), wrong);
            }
        }
        let mut wrong = Vec::new();
        look(&tree_with_examples(), "slipway", &mut wrong);
        wrong.retain(|place| !place.ends_with("subcommand"));
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn every_help_page_has_examples() {
        let mut missing = Vec::new();
        without_examples(&tree_with_examples(), "", &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_example_is_a_line_we_take() {
        let mut wrong = Vec::new();
        for (name, lines) in EXAMPLES {
            for line in *lines {
                let words: Vec<OsString> =
                    std::iter::once("slipway".into()).chain(shell_words(line).map(OsString::from)).collect();
                if let Err(error) = Cli::read(&words) {
                    wrong.push(format!("{line}: {}", error.to_string().lines().next().unwrap_or_default()));
                }
                if !line.starts_with(name) {
                    wrong.push(format!("{line}: no example of `{name}`"));
                }
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}

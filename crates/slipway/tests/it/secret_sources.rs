//! References to secrets in everything that is deployed: releases, stacks, runbooks and packages. What is shown names the
//! secret; the cluster gets the value.

use crate::sandbox::Down;
use crate::support::{Place, Ran};

const CANARY: &str = "s3nt1nel-canary-value";
const CANARY_BASE64: &str = "czNudDFuZWwtY2FuYXJ5LXZhbHVl";

/// A place with a provider, a chart that uses a secret in several ways, and a running sandbox.
pub fn furnished() -> Place {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place.write(
        "slipway.yaml",
        "secrets:\n  audit: {file: .slipway/audit.jsonl}\n  providers:\n    local: {type: file, path: dev.yaml}\n",
    );
    place.write("dev.yaml", format!("db: {{password: {CANARY}, user: app-user-name}}\n"));
    place.write("values.yaml", "password: secret://local/db#password\n");
    place.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    place.write(
        "chart/templates/all.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData:\n  password: {{ .Values.password | quote }}\n  \
         plain: {{ .Values.plain | default \"as-it-is\" | quote }}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  dsn: \"user:{{ .Values.password }}@db\"\n  \
         checksum: {{ .Values.password | sha256sum }}\n  level: {{ .Values.level | default \"low\" }}\n",
    );
    place
}

/// Runs a command whose words are separated by spaces; nothing it says holds the secret.
pub fn run(place: &Place, line: &str) -> Ran {
    let ran = place.run(&line.split(' ').collect::<Vec<_>>());
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains(CANARY) && !text.contains(CANARY_BASE64), "{line}: {text}");
    }
    ran
}

#[test]
fn live_values_are_hidden_on_both_sides_and_changes_are_told_per_key() {
    let place = furnished();
    let _down = Down(&place);
    let here = "--sandbox -n shop -f values.yaml";
    run(&place, &format!("apply web chart {here}")).ok();
    let plan = run(&place, &format!("plan web chart {here}"));
    assert!(plan.err.contains("secrets are named, not fetched"), "{}", plan.err);
    assert!(
        plan.out.contains("nothing to do") || plan.out.contains("up to date"),
        "no false change: {}",
        plan.out
    );

    // Another field changes: the derived ones are hidden and said to be the same.
    let plan = run(&place, &format!("plan web chart {here} --set level=high --diff-context-lines 9")).ok();
    assert!(plan.contains("dsn: <value supplied by local path db#password, unchanged>"), "{plan}");
    assert!(plan.contains("checksum: <value derived from a secret, unchanged>"), "{plan}");
    assert!(plan.contains("+   level: high"), "{plan}");

    // The secret was rotated.
    place.write("dev.yaml", "db: {password: another-canary-value, user: app-user-name}\n");
    let plan = run(&place, &format!("plan web chart {here} --check-secrets --diff-context-lines 9")).ok();
    assert!(!plan.contains("another-canary-value"), "{plan}");
    assert!(plan.contains("-   password: <value supplied by local path db#password>"), "{plan}");
    assert!(plan.contains("+   password: <value supplied by local path db#password, changed>"), "{plan}");
    assert!(plan.contains("plain: <hidden, unchanged>"), "Secrets are hidden whoever filled them: {plan}");
    assert!(plan.contains("checksum: <value derived from a secret, changed>"), "{plan}");

    run(&place, &format!("apply web chart {here} --set plain=other")).ok();
    for line in
        ["diff web 1 2", "rollback web 1 --dry-run", "diff web", "get manifest web", "get all web -o json"]
    {
        let ran = run(&place, &format!("{line} --sandbox -n shop"));
        assert!(matches!(ran.code, Some(0)), "{line}: {}", ran.err);
        assert!(!ran.out.contains("another-canary-value"), "{line}: {}", ran.out);
    }
    let diff = run(&place, "diff web 1 2 --sandbox -n shop").ok();
    assert!(diff.contains("password: <value supplied by local path db#password, changed>"), "{diff}");
    run(&place, "rollback web 1 --sandbox -n shop").ok();
}

#[test]
fn a_chart_whose_defaults_hold_a_reference_gets_no_secret() {
    let place = furnished();
    let _down = Down(&place);
    place.write("chart/values.yaml", "password: secret://local/db#password\n");
    let plan = run(&place, "plan web chart --sandbox -n shop");
    assert_eq!(plan.code, Some(0), "{}", plan.err);
    assert!(plan.err.contains("unresolved secret reference in Secret/web at"), "{}", plan.err);
    let applied = run(&place, "apply web chart --sandbox -n shop");
    assert_ne!(applied.code, Some(0), "{}", applied.out);
    assert!(applied.err.contains("unresolved secret reference"), "{}", applied.err);
    let linted = run(&place, "lint chart").ok();
    assert!(
        linted.contains("[WARNING] values.yaml:1:11: secret://local/db#password stays as it is"),
        "{linted}"
    );
    assert_eq!(run(&place, "lint chart --strict").code, Some(10));
    assert!(!place.path().join(".slipway/audit.jsonl").exists(), "no provider was asked");
}

#[test]
fn a_secret_that_must_be_parsed_takes_a_stand_in() {
    let place = furnished();
    let _down = Down(&place);
    place.write("dev.yaml", "db: {password: '{\"size\": 7}'}\n");
    place.write(
        "chart/templates/all.yaml",
        "{{- $c := .Values.password | fromJson }}\n{{- if hasKey $c \"Error\" }}{{ fail \"no JSON\" }}{{ end }}\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: \"{{ $c.size }}\"}\n",
    );
    let here = "--sandbox -n shop -f values.yaml";
    let plan = run(&place, &format!("plan web chart {here}"));
    assert!(
        plan.err.contains("cannot render without secrets") && plan.err.contains("standins"),
        "{}",
        plan.err
    );
    run(&place, &format!("plan web chart {here} --check-secrets")).ok();
    let bundle = "unit bundle web chart -n shop -f values.yaml -O web.unit";
    let bundled = run(&place, bundle);
    assert_ne!(bundled.code, Some(0), "{}", bundled.out);
    assert!(bundled.err.contains("standins") && !place.path().join("web.unit").exists(), "{}", bundled.err);
    place.write(
        "slipway.yaml",
        "secrets:\n  standins: {\"secret://local/*#password\": '{\"size\": 0}'}\n  providers:\n    \
         local: {type: file, path: dev.yaml}\n",
    );
    run(&place, &format!("plan web chart {here}")).ok();
    run(&place, bundle).ok();
    place.write(
        "chart/templates/more.yaml",
        "{{- if contains \"7\" .Values.password }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n{{- end }}\n",
    );
    let applied = run(&place, &format!("apply web chart {here}"));
    assert_ne!(applied.code, Some(0), "{}", applied.out);
    assert!(applied.err.contains("a secret value changes which objects exist"), "{}", applied.err);
    assert_eq!(run(&place, "list --short --sandbox -n shop").ok(), "", "nothing was written");
}

#[test]
fn a_stack_resolves_each_release_and_reads_a_path_once() {
    let place = furnished();
    let _down = Down(&place);
    place.write(
        "stack.yaml",
        "apiVersion: ktl.dev/v1\nkind: Stack\nname: shop\ndefaultProfile: dev\ndefaults: {namespace: shop, \
         values: [values.yaml]}\nreleases:\n- {name: one, chart: ./one}\n- {name: two, chart: ./two, set: {password: \
         \"secret://local/db#user\"}}\n",
    );
    for name in ["one", "two"] {
        place.write(&format!("{name}/Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n"));
        place.write(
            &format!("{name}/templates/all.yaml"),
            format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{p: \"{{{{ .Values.password }}}}\"}}\n"),
        );
    }
    let plan = run(&place, "stack plan --diff --sandbox").ok();
    assert!(plan.contains("<value supplied by local path db#user, added>"), "{plan}");
    assert!(!place.path().join(".slipway/audit.jsonl").exists(), "a plan asks nobody");
    run(&place, "stack apply --yes --sandbox").ok();
    let audit = std::fs::read_to_string(place.path().join(".slipway/audit.jsonl")).unwrap();
    assert_eq!(audit.lines().count(), 2, "{audit}");
    assert!(audit.contains("\"nodeId\":\"default/shop/one\"") && audit.contains("shop/two"), "{audit}");
    let values = run(&place, "get values two --sandbox -n shop").ok();
    assert!(values.contains("secret://local/db#user"), "{values}");

    place.write(
        "slipway.yaml",
        "secrets:\n  providers:\n    local: {type: file, path: dev.yaml}\n  policy:\n    rules: [{id: no-files, when: \
         {profile: [dev], namespace: [shop]}, deny: {types: [file]}}]\n",
    );
    let refused = run(&place, "stack apply --yes --sandbox");
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    let told = format!("{}{}", refused.out, refused.err);
    assert!(told.contains("denied by rule `no-files`"), "{told}");
}

#[test]
fn a_runbook_keeps_references_and_gives_values_to_the_cluster() {
    let place = furnished();
    let _down = Down(&place);
    let runbook = |level: &str| {
        format!(
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: boot}}\nstate: {{namespace: default}}\nsteps:\n\
             - name: put\n  apply:\n    namespace: shop\n    createNamespace: true\n    manifests:\n    - inline: |\n        \
             apiVersion: v1\n        kind: ConfigMap\n        metadata: {{name: boot}}\n        data:\n          \
             dsn: \"user:${{secret://local/db#password}}@db\"\n          level: {level}\n\
             - name: release\n  needs: [put]\n  helm:\n    chart: ./chart\n    release: web\n    \
             namespace: shop\n    values: {{password: \"${{PASSWORD}}\"}}\n"
        )
    };
    place.write("boot.yaml", runbook("low"));
    let here = "-f boot.yaml --set PASSWORD=secret://local/db#password --sandbox";
    run(&place, &format!("run validate {}", here.trim_end_matches(" --sandbox"))).ok();
    run(&place, &format!("run plan {here} --diff")).ok();
    let applied = run(&place, &format!("run apply {here}"));
    assert_eq!(applied.code, Some(0), "{} {}", applied.out, applied.err);
    let values = run(&place, "get values web --sandbox -n shop").ok();
    assert!(values.contains("secret://local/db#password"), "{values}");
    let again = run(&place, &format!("run apply {here}")).ok();
    assert!(again.contains("2 skipped"), "the record knows references, not values: {again}");
    place.write("boot.yaml", runbook("high"));
    let diff = run(&place, &format!("run diff {here}")).ok();
    assert!(
        diff.contains("level: high") && diff.contains("<value supplied by local path db#password"),
        "{diff}"
    );
    place.write("dev.yaml", "db: {user: none-at-all}\n");
    let failed = run(&place, &format!("run apply {here}"));
    assert_eq!(failed.code, Some(1), "{}", failed.out);
    assert!(format!("{}{}", failed.out, failed.err).contains("it has no key `password`"), "{}", failed.out);
}

#[test]
fn packages_name_secrets_when_they_are_built() {
    let place = furnished();
    let package = "kurel:\n  name: demo\n  version: 1.0.0\n  appVersion: \"1\"\nlevel: low\n";
    place.write("demo.kurel/parameters.yaml", package);
    place.write("demo.kurel/patches/00-base.kpatch", "[configmap.settings]\ndata.level: \"${level}\"\n");
    place.write(
        "demo.kurel/resources/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: low}\n",
    );
    let _down = Down(&place);
    for line in [
        "package build demo.kurel --set level=secret://local/db#password",
        "render demo.kurel --set level=secret://local/db#password",
    ] {
        let built = run(&place, line).ok();
        assert!(built.contains("⟦secret:local/db#password⟧"), "{line}: {built}");
        let wrong = run(&place, &line.replace("local", "nowhere/../x"));
        assert_eq!(wrong.code, Some(10), "{line}: {}", wrong.err);
        let revealed = run(&place, &format!("{line} --reveal"));
        assert!(revealed.code == Some(64) && revealed.err.contains("no terminal"), "{}", revealed.err);
    }
    run(&place, "apply demo demo.kurel --set level=secret://local/db#password --sandbox -n shop").ok();
    let manifest = run(&place, "get manifest demo --sandbox -n shop").ok();
    assert!(manifest.contains("level: <value supplied by local path db#password>"), "{manifest}");
}

#[test]
fn an_apply_with_a_backend_down_fails_before_any_write() {
    let place = furnished();
    let _down = Down(&place);
    place.write(
        "home/slipway/config.yaml",
        "secrets: {providers: {vault: {type: vault, address: \"http://127.0.0.1:1\"}}}\n",
    );
    place.write("values.yaml", "# of the shop\npassword: secret://vault/app/db#password\n");
    let vault = |line: &str| {
        let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
        command.env("XDG_CONFIG_HOME", place.path().join("home")).env("VAULT_TOKEN", CANARY);
        let ran = Ran::from(command.output().unwrap());
        assert!(!format!("{ran:?}").contains(CANARY), "{line}: {ran:?}");
        ran
    };
    let plan = vault("plan web chart --sandbox -n shop -f values.yaml");
    assert_eq!(plan.code, Some(0), "a plan asks no backend: {}", plan.err);
    let applied = vault("apply web chart --sandbox -n shop -f values.yaml");
    assert_eq!(applied.code, Some(16), "{}", applied.err);
    for part in [
        "values.yaml:2:11",
        "secret://vault/app/db#password",
        "vault unavailable",
        "hint: is the backend reachable",
    ] {
        assert!(applied.err.contains(part), "{part}: {}", applied.err);
    }
    assert_eq!(run(&place, "list --short --sandbox -n shop").ok(), "", "nothing was written");
}

#[cfg(unix)]
#[test]
fn an_untrusted_repository_gets_no_credential_and_runs_no_program() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = furnished();
    let _down = Down(&place);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (plugin, marker) = (place.path().join("plugin"), place.path().join("it-ran"));
    let reply = "{\"v\":1,\"items\":[{\"id\":\"0\",\"ok\":true,\"data\":\"from-the-program\"}]}";
    place.write("plugin", format!("#!/bin/sh\nread request\ntouch {}\necho '{reply}'\n", marker.display()));
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plugin = plugin.display();
    let providers = [
        ("sets address", format!("{{type: vault, address: 'http://{address}'}}")),
        ("sets address", format!("{{type: vault, address: ['http://{address}'], token: 'env:VAULT_TOKEN'}}")),
        ("sets endpoint", format!("{{type: aws-sm, region: eu-west-1, endpoint: 'http://{address}'}}")),
        ("sets stsEndpoint", format!("{{type: vault, authMethod: aws, stsEndpoint: 'http://{address}'}}")),
        ("sets vaultUrl", format!("{{type: azure-kv, vaultUrl: 'http://{address}'}}")),
        ("runs a program", format!("{{type: exec, command: ['{plugin}']}}")),
        ("runs a program", format!("{{type: vault, token: 'cmd:[\"{plugin}\"]'}}")),
        ("sets tlsSkipVerify", "{type: vault, tlsSkipVerify: true}".to_owned()),
        ("outside of the repository", "{type: file, path: /etc/hostname}".to_owned()),
    ];
    place.write("values.yaml", "password: secret://p/app#k\n");
    let with_credentials = |line: &str| {
        let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
        command.env("VAULT_TOKEN", "ambient-token").env("AWS_ACCESS_KEY_ID", "AKIDAMBIENT");
        Ran::from(command.env("AWS_SECRET_ACCESS_KEY", "ambient-secret").output().unwrap())
    };
    for (offence, provider) in &providers {
        place.write("slipway.yaml", format!("secrets:\n  providers:\n    p: {provider}\n"));
        for line in [
            "plan web chart -f values.yaml --sandbox --check-secrets",
            "apply web chart -f values.yaml --sandbox",
        ] {
            let ran = with_credentials(line);
            assert_eq!(ran.code, Some(15), "{provider}: {}", ran.err);
            assert!(ran.err.contains(offence) && ran.err.contains("hint:"), "{provider}: {}", ran.err);
            assert!(!ran.err.contains("ambient"), "{provider}: {}", ran.err);
        }
        assert!(listener.accept().is_err() && !marker.exists(), "{provider}: nothing was sent or run");
        let plan = with_credentials("plan web chart -f values.yaml --sandbox");
        assert_eq!(plan.code, Some(0), "an offline plan is fine: {}", plan.err);
    }
    // A user who trusts the repository lets it do what it says.
    place.write(
        "slipway.yaml",
        format!("secrets: {{providers: {{p: {{type: exec, command: ['{plugin}']}}}}}}\n"),
    );
    place.write("values.yaml", "password: secret://p/app\n");
    let trusted = with_credentials("plan web chart -f values.yaml --sandbox --check-secrets --trust-repo");
    assert_eq!(trusted.code, Some(0), "{}", trusted.err);
    assert!(marker.exists());
    assert!(trusted.err.contains("secrets: resolved 1 reference (exec 1)"), "{}", trusted.err);
    std::fs::remove_file(&marker).unwrap();
    place.write(
        ".config/slipway/config.yaml",
        format!("secrets: {{trustedRepos: ['{}']}}\n", place.path().canonicalize().unwrap().display()),
    );
    let listed = with_credentials("plan web chart -f values.yaml --sandbox --check-secrets");
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    assert!(marker.exists());
}

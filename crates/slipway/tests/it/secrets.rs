//! `slipway secrets`, with files and programs as backends. No output ever holds a value.

use crate::sandbox::Down;
use crate::support::{Place, Ran};

const CANARY: &str = "s3nt1nel-canary-value";

fn place() -> Place {
    let place = Place::new();
    place.write(
        "slipway.yaml",
        "secrets:\n  defaultProvider: local\n  audit: {file: .slipway/audit.jsonl}\n  providers:\n    \
         local: {type: file, path: dev.yaml}\n    plugin: {type: exec, command: [/bin/false]}\n  policy:\n    \
         rules: [{id: no-local-in-ci, when: {ci: true}, deny: {types: [file]}}]\n",
    );
    place.write("dev.yaml", format!("db: {{password: {CANARY}, user: app-user}}\n"));
    place
        .write("app/values.yaml", "db:\n  password: secret://local/db#password\n  user: secret:///db#user\n");
    place
}

fn run(place: &Place, line: &str) -> Ran {
    let ran = place.run(&line.split(' ').collect::<Vec<_>>());
    for text in [&ran.out, &ran.err] {
        assert!(!text.contains(CANARY), "{line}: {text}");
    }
    ran
}

#[test]
fn references_are_found_tested_and_audited() {
    let place = place();
    let out = run(&place, "secrets discover --scope app").ok();
    assert!(out.contains("local     db#password  1      app/values.yaml:2:13"), "{out}");
    let out = run(&place, "secrets test --all --scope app").ok();
    assert!(out.contains("ok      secret://local/db#password  local (file)"), "{out}");
    let out = run(&place, "secrets test --secret-provider local --path db --key user -o json").ok();
    assert!(out.contains("\"reference\": \"secret://local/db#user\""), "{out}");
    assert_eq!(run(&place, "secrets list --provider local --path db").ok(), "password\nuser\n");
    assert!(run(&place, "secrets login local").ok().starts_with("logged in to local as file "));
    assert_eq!(run(&place, "secrets logout local").code, Some(0));
    let out = run(&place, "secrets audit").ok();
    assert_eq!(out.lines().count(), 4, "a head and three uses: {out}");
    assert_eq!(run(&place, "secrets audit --since 2100-01-01T00:00:00Z").ok().lines().count(), 1);
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let place = place();
    let cases = [
        ("secrets test secret://local/db#none", 16, "it has no key `none`; there are password, user"),
        ("secrets test secret://local/nothing", 16, "dev.yaml has no `nothing`"),
        ("secrets test secret://locl/db", 10, "did you mean `local`?"),
        ("secrets test secret://local", 10, "has no path"),
        ("secrets test secret://plugin/x", 15, "untrusted repo config: provider `plugin` runs a program"),
        ("secrets test secret://plugin/x --trust-repo", 16, "failed: exit status: 1"),
        ("secrets policy check --scope app", 0, "policy: 2 references are allowed"),
        ("secrets policy check --scope app --ci", 15, "denied by rule `no-local-in-ci`"),
        ("secrets test", 64, "no reference is given"),
        ("secrets list --provider a_b", 64, "is no name of a provider"),
        (
            "secrets test secret://local/db#user --secret-config none.yaml",
            10,
            "cannot read the secrets configuration",
        ),
    ];
    for (line, code, message) in cases {
        let ran = run(&place, line);
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.err);
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
    }
}

#[test]
fn nothing_of_the_users_reaches_an_untrusted_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let place = Place::new();
    let address = listener.local_addr().unwrap();
    place.write(
        "slipway.yaml",
        format!("secrets: {{providers: {{v: {{type: vault, address: 'http://{address}'}}}}}}\n"),
    );
    let mut command = place.command(&["secrets", "test", "secret://v/app#k"]);
    let ran = Ran::from(command.env("VAULT_TOKEN", "ambient-token").output().unwrap());
    assert_eq!(ran.code, Some(15), "{}", ran.err);
    assert!(ran.err.contains("sets address") && !ran.err.contains("ambient-token"), "{}", ran.err);
    assert!(listener.accept().is_err(), "nobody connected");
}

#[cfg(unix)]
#[test]
fn notes_of_programs_are_masked() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let answer = format!("echo '{{\"v\":1,\"items\":[{{\"id\":\"0\",\"ok\":true,\"data\":\"{CANARY}\"}}]}}'");
    place.write("plugin", format!("#!/bin/sh\nread request\necho \"note of {CANARY}\" >&2\n{answer}\n"));
    place.write("torn", format!("#!/bin/sh\necho '{CANARY}' >&2\necho 'torn {CANARY}'\n"));
    for name in ["plugin", "torn"] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path().join(name), mode).unwrap();
        let path = place.path().join(name);
        let text = format!("providers: {{{name}: {{type: exec, command: ['{}']}}}}\n", path.display());
        place.write(&format!("{name}.yaml"), text);
    }
    let ran = run(&place, "-vv secrets test secret://plugin/x --secret-config plugin.yaml");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("note of ***"), "{}", ran.err);
    let ran = run(&place, "-vv secrets test secret://torn/x --secret-config torn.yaml");
    assert_eq!(ran.code, Some(16), "what cannot be understood is not repeated: {}", ran.err);
}

#[test]
fn the_users_own_file_holds_providers_too() {
    let place = Place::new();
    place.write(
        "home/slipway/config.yaml",
        "color: never\nsecrets: {providers: {e: {type: env, prefix: APP_}}}\n",
    );
    let mut command = place.command(&["secrets", "test", "secret:///TOKEN"]);
    command
        .env("XDG_CONFIG_HOME", place.path().join("home"))
        .env("SLIPWAY_SECRET_PROVIDER", "e")
        .env("APP_TOKEN", CANARY);
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("e (env)") && !ran.out.contains(CANARY), "{}", ran.out);
}

const TEMPLATE: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}}\nstringData:\n  \
                        password: {{ .Values.db.password | quote }}\n";

#[test]
fn an_apply_fetches_what_a_plan_only_names() {
    let place = place();
    place.write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    place.write("chart/templates/all.yaml", TEMPLATE);
    let _down = Down(&place);
    let here = "--sandbox -n shop -f app/values.yaml";
    let plan = run(&place, &format!("plan web chart {here}")).ok();
    assert!(plan.contains("create Secret/web"), "{plan}");
    let rendered = run(&place, "render web chart -f app/values.yaml").ok();
    assert!(rendered.contains("⟦secret:local/db#password⟧"), "{rendered}");
    run(&place, &format!("apply web chart {here}")).ok();
    let values = run(&place, "get values web --sandbox -n shop").ok();
    assert!(values.contains("password: secret://local/db#password"), "the record keeps references: {values}");
    let manifest = run(&place, "get manifest web --sandbox -n shop").ok();
    assert!(manifest.contains("password: <value supplied by local path db#password>"), "{manifest}");
    let again = run(&place, &format!("apply web chart {here}")).ok();
    assert!(again.contains("up to date"), "{again}");
    let saved = run(&place, &format!("plan web chart {here} --out plan.slip"));
    assert!(saved.code == Some(1) && saved.err.contains("cannot be saved"), "{}", saved.err);

    place.write("dev.yaml", "db: {user: app-user}\n");
    for (line, code) in [
        (format!("plan other chart {here}"), 0),
        (format!("plan other chart {here} --check-secrets"), 16),
        (format!("apply other chart {here}"), 16),
        (format!("apply other chart {here} --set db.password=secret://locl/x"), 10),
    ] {
        let ran = run(&place, &line);
        assert_eq!(ran.code, Some(code), "{line}: {}", ran.err);
    }
    assert_eq!(run(&place, "list --short --sandbox -n shop").ok(), "web\n", "nothing was written");
}

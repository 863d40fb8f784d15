//! JSON Schemas of small files that commands of promotion read, for editors.

use serde_json::{Value, json};

/// The schema of the file `pipeline init -f` reads.
pub fn pipeline_init_schema() -> Value {
    let label = |longest: u32, about: &str| json!({"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": longest, "description": about});
    let text = |about: &str| json!({"type": "string", "description": about});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The lines a pipeline is made of",
        "type": "object",
        "additionalProperties": false,
        "required": ["app", "image", "git", "environments"],
        "properties": {
            "app": label(63, "Name of the application and its Pipeline"),
            "image": text("Image without tag"),
            "git": {
                "type": "object",
                "additionalProperties": false,
                "required": ["url"],
                "properties": {
                    "url": {
                        "type": "string", "pattern": "^(https://|http://|ssh://|git@|file://)",
                        "description": "Address of the GitOps repository",
                    },
                    "secret": text("Secret with its token"),
                    "branch": text("Branch that is promoted to"),
                    "provider": {"enum": ["github", "gitlab", "gitea", "forgejo", "bitbucket", "azuredevops", "none"]},
                },
            },
            "environments": {
                "type": "array", "minItems": 1, "items": label(40, "Name of an environment"),
                "description": "Environments in the order they are promoted to",
            },
            "prodApproval": {"enum": ["auto", "pr-review"], "description": "Approval of the last environment; pr-review where left out"},
            "strategy": {"enum": ["kustomize", "helm"], "description": "How the repository names versions; kustomize where left out"},
        },
    })
}

/// The schema of a document with cases of gates (`gate test`).
pub fn gate_tests_schema() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let case = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "gate", "expect"],
        "properties": {
            "name": text("Name of the case in the result"),
            "gate": text("Name of the gate"),
            "environment": text("Environment the gate is asked for; prod where left out"),
            "time": text("Moment, as `gate simulate` takes it: `Saturday 3pm`"),
            "set": {"type": "object", "description": "Attributes by path: `bundle.labels.hotfix: true`"},
            "expect": {"enum": ["pass", "block", "error"]},
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cases of gates",
        "type": "object",
        "required": ["tests"],
        "not": {"required": ["kind"]},
        "properties": {"tests": {"type": "array", "items": case}},
    })
}

#[cfg(test)]
mod tests {
    use slipway_problem::Problems;
    use slipway_promotion::act::read_config;
    use slipway_promotion::files::PromotionFiles;
    use slipway_secrets::{ConfigLayer, ConfigOrigin, SecretsConfig};
    use slipway_unit::{Environments, ImageMapping, image_map_schema, settings_schema};

    use super::*;
    use crate::cli::Globals;
    use crate::commands::graph;
    use crate::commands::unit::settings;
    use crate::config::Settings;
    use crate::files::Text;

    /// A format: its schema, its reader, a complete file, and words of the rules that no schema can say.
    struct Format {
        name: &'static str,
        schema: Value,
        read: fn(&str) -> Result<(), Problems>,
        complete: &'static [&'static str],
        beyond: &'static [&'static str],
        /// Keys whose empty text the reader takes and the schema does not: nobody means it.
        empty: &'static [&'static str],
        scalars: Scalars,
    }

    /// How a reader takes a number or a boolean where a text belongs; schemas always refuse it.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Scalars {
        Typed,
        /// It is the text it is written as.
        AsText,
    }

    /// A document with one place changed.
    struct Mutation {
        place: String,
        whole: Value,
    }

    impl Mutation {
        /// The same with texts at the changed place instead of numbers and booleans.
        fn with_texts(&self) -> Value {
            fn text(value: &Value) -> Value {
                match value {
                    Value::Bool(_) | Value::Number(_) => value.to_string().into(),
                    Value::Array(items) => items.iter().map(text).collect(),
                    other => other.clone(),
                }
            }
            let mut whole = self.whole.clone();
            if let Some(value) = whole.pointer_mut(&self.place) {
                *value = text(value);
            }
            whole
        }
    }

    fn formats() -> Vec<Format> {
        vec![
            Format {
                name: "unit settings",
                schema: settings_schema(),
                read: |text| settings::parse(text, "f").map(drop),
                complete: &[
                    "apiVersion: ktl.dev/unit/v1\noverlaySlots: {prod: [replicas], dev: []}\nstrategy:\n  type: canary\n  \
                     targets: [{kind: Deployment, name: a}, {name: b}]\n  canary: {steps: [{weight: 10}, {pause: 1h30m}, {pause: manual}, \
                     {check: verify}, {weight: 100}], maxWeightError: 5, provider: gateway-api, service: s}\n  signals: {readiness: true, \
                     restartBudget: 2, events: false, probes: [{http: x}, {tcp: y}, {exec: {image: i, command: [c]}}]}\n  onFailure: hold\n",
                    "apiVersion: ktl.dev/unit/v1\nstrategy:\n  type: bluegreen\n  targets: [{name: a}]\n  bluegreen: {service: s, \
                     preview: p, prePromotion: [verify], scaleDownDelay: 1d2h, autoPromote: true}\n",
                    "apiVersion: ktl.dev/unit/v1\nstrategy: {type: rolling, targets: [{name: a}]}\n",
                ],
                beyond: &["is named twice", "follows", "nothing comes after", "are the same Service"],
                empty: &[],
                scalars: Scalars::Typed,
            },
            Format {
                name: "image map",
                schema: image_map_schema(),
                read: |text| ImageMapping::parse(text, "f").map(drop),
                complete: &[
                    "apiVersion: ktl.dev/image-map/v1\nimages:\n  api: {set: {api.image: '{{repo}}'}}\n  web: {postRender: [{kind: Pod, name: a, \
                     container: c, repository: r, image: i, fieldPaths: [x]}]}\nignore: [a.b]\nautodetect: false\n",
                ],
                beyond: &["is not a pattern", "path"],
                empty: &["/apiVersion"],
                scalars: Scalars::Typed,
            },
            Format {
                name: "pipeline init",
                schema: pipeline_init_schema(),
                read: |text| read_config(text, "f").map(drop),
                complete: &[
                    "app: a\nimage: i\ngit: {url: 'https://h/r', secret: s, branch: b, provider: gitea}\nenvironments: [dev, prod-1]\n\
                     prodApproval: auto\nstrategy: helm\n",
                ],
                beyond: &[],
                empty: &["/app", "/git/url"],
                scalars: Scalars::Typed,
            },
            Format {
                name: "stack",
                schema: slipway_stack::stack_schema(),
                read: |text| slipway_stack::check_stack_file(text, "f"),
                complete: &[
                    "apiVersion: ktl.dev/v1\nkind: Stack\nname: shop\ndefaultProfile: dev\nx-note: 1\ndefaults: {cluster: {name: c, kubeconfig: k, \
                     context: x}, namespace: n, values: [v.yaml], set: {a.b: 1}, tags: [t/a], apply: {atomic: true, timeout: 90s, wait: false, \
                     createNamespace: true}, delete: {timeout: 1h30m}, resetValues: false, resetTags: true}\nprofiles: {dev: {defaults: {namespace: m}}}\n\
                     runner: {concurrency: 2, concurrencyPerCluster: {c: 1}}\nreleases:\n- {name: web, chart: ./web, chartVersion: 1.2.3, needs: [db, \
                     shop/cache]}\n",
                    "runner: {concurrencyPerCluster: 3}\n",
                ],
                beyond: &["is not a path such as", "has an empty part", "write `"],
                empty: &["/chartVersion"],
                scalars: Scalars::AsText,
            },
            Format {
                name: "release",
                schema: slipway_stack::release_schema(),
                read: |text| slipway_stack::check_release_file(text, "f"),
                complete: &[
                    "apiVersion: ktl.dev/v1\nkind: Release\nname: web\nchart: ./web\nnamespace: n\nneeds: [db]\n",
                ],
                beyond: &[],
                empty: &[],
                scalars: Scalars::AsText,
            },
            Format {
                name: "graph",
                schema: graph::schema(),
                read: |text| graph::file::load(&Text { name: "f".into(), text: text.into() }).map(drop),
                complete: &["nodes: {a: {}, b: {needs: [a], run: x, timeout: 1d2h, retries: 1}, c: null}\n"],
                beyond: &["needs `"],
                empty: &[],
                scalars: Scalars::Typed,
            },
            Format {
                name: "configuration",
                schema: crate::config::schema(),
                read: read_configuration,
                complete: &[
                    "kubeconfig: k\ncontext: c\nnamespace: n\noutput: json\ncolor: never\nlogFormat: json\nprogressInterval: 5s\n\
                     environments: {dev: {context: c, namespace: n}}\npromotion: {order: [dev]}\nsecrets:\n  defaultProvider: local\n  interpolate: true\n  \
                     limits: {concurrency: 8, timeout: 10s, phase: 60s, maxBytes: 65536, retries: 3}\n  audit: {file: a.jsonl, webhook: 'https://h/x', \
                     webhookToken: 'env:TOKEN', failClosed: true}\n  standins: {'secret://vault/app/*#config': '{}'}\n  trustedRepos: [/src]\n  providers:\n    \
                     local: {type: file, path: dev.env, format: auto, keySeparator: /}\n    vars: {type: env, prefix: APP_}\n    \
                     own: {type: exec, command: [/bin/p, a], env: {A: b}, timeout: 20s, persistent: true}\n  policy:\n    implicitProviders: false\n    \
                     forbidLiteralCredentials: true\n    allowChartDefaults: true\n    approvedProviders: [local]\n    approvedTypes: [file]\n    \
                     rules: [{id: ci, when: {cluster: [a*], namespace: [n], profile: [p], ci: true}, allow: {providers: [local], paths: [x/*], types: [file]}, \
                     deny: {types: [exec]}, require: {version: true}}]\n",
                    "secrets: {providers: {v: {type: vault, address: ['https://v:8200'], namespace: n, mount: m, kvVersion: auto, key: k, caCert: c, tlsSkipVerify: \
                     true, authMount: a, authMethod: approle, roleId: 'env:A', secretId: 'file:/b'}, w: {type: openbao, address: 'https://v:8200', authMethod: jwt, \
                     jwt: 'env:J', jwtRole: r}, k: {type: vault, authMethod: kubernetes, kubernetesRole: r, kubernetesToken: 'env:T', kubernetesTokenPath: t}, x: {type: \
                     vault, authMethod: aws, awsRole: r, awsRegion: eu-1, awsHeaderValue: v, stsEndpoint: 'https://s'}}}\n",
                    "secrets: {providers: {a: {type: aws-sm, region: eu-1, profile: p, roleArn: r, externalId: e, sessionName: s, webIdentityTokenFile: f, endpoint: \
                     'https://e', prefix: p/, accessKeyId: 'env:A', secretAccessKey: 'env:S', sessionToken: 'env:T', batch: false}, p: {type: aws-ssm, withDecryption: \
                     false}, g: {type: gcp-sm, project: p, location: l, endpoint: 'https://e', credentialsFile: c, impersonate: i, quotaProject: q}, z: {type: azure-kv, \
                     vault: v, tenantId: t, clientId: c, clientSecret: 'env:S', federatedTokenFile: f, useManagedIdentity: true, cloud: public, apiVersion: '7.4', \
                     endpoint: 'https://e'}}}\n",
                ],
                beyond: &[],
                empty: &[],
                scalars: Scalars::Typed,
            },
            Format {
                name: "gate tests",
                schema: gate_tests_schema(),
                read: |text| PromotionFiles::default().read(text, "f"),
                complete: &[
                    "tests: [{name: n, gate: g, environment: e, time: Saturday 3pm, set: {a.b: 1}, expect: block}]\n",
                ],
                beyond: &[],
                empty: &[],
                scalars: Scalars::Typed,
            },
        ]
    }

    /// Reads a configuration file as everybody together who uses a part of it.
    fn read_configuration(text: &str) -> Result<(), Problems> {
        let mut problems = Problems::new();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, text).unwrap();
        let globals = Globals { config: Some(path.clone()), ..Globals::default() };
        problems.collect_from(Settings::resolve(&globals).map(drop));
        let layer = ConfigLayer { path, text: text.to_owned(), origin: ConfigOrigin::User };
        problems.collect_from(SecretsConfig::load(&[layer]).map(drop));
        problems.collect_from(Environments::default().read(text, "f"));
        problems.into_result(())
    }

    /// The document with one place changed, for every place: a key removed or added, a value of another kind, and words
    /// that look alike.
    fn mutations(whole: &Value) -> Vec<Mutation> {
        let mut places = vec![String::new()];
        let mut next = 0;
        while next < places.len() {
            let place = places[next].clone();
            match whole.pointer(&place) {
                Some(Value::Object(fields)) => {
                    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
                    places.extend(fields.keys().map(|key| format!("{place}/{}", escape(key))));
                }
                Some(Value::Array(items)) => {
                    places.extend((0..items.len()).map(|index| format!("{place}/{index}")));
                }
                _ => {}
            }
            next += 1;
        }
        let others = [
            json!(true),
            json!(0),
            json!(7),
            json!(-1),
            json!(101),
            json!(1.5),
            json!("other"),
            json!(""),
            json!("5m"),
            json!("Deployment"),
            json!([]),
            json!(["other"]),
            json!([7]),
            json!({}),
            json!({"other": "x"}),
            json!([{"name": "x"}]),
            json!([{"weight": 5}]),
            json!("canary"),
            json!("bluegreen"),
        ];
        let mut made = Vec::new();
        for place in &places {
            for other in &others {
                let mut changed = whole.clone();
                *changed.pointer_mut(place).unwrap() = other.clone();
                made.push(Mutation { place: place.clone(), whole: changed });
            }
            let mut changed = whole.clone();
            let Some(fields) = changed.pointer_mut(place).and_then(Value::as_object_mut) else { continue };
            fields.insert("surplus".to_owned(), json!(1));
            made.push(Mutation { place: place.clone(), whole: changed });
            let keys: Vec<String> =
                whole.pointer(place).unwrap().as_object().unwrap().keys().cloned().collect();
            for key in keys {
                let mut changed = whole.clone();
                changed.pointer_mut(place).unwrap().as_object_mut().unwrap().shift_remove(&key);
                made.push(Mutation { place: place.clone(), whole: changed });
            }
        }
        made
    }

    #[test]
    fn schemas_and_readers_agree() {
        let mut wrong = Vec::new();
        for format in formats() {
            let mut schemas = boon::Schemas::new();
            let mut compiler = boon::Compiler::new();
            compiler.add_resource("schema.json", format.schema.clone()).unwrap();
            let schema = compiler.compile("schema.json", &mut schemas).unwrap();
            for complete in format.complete {
                let whole = slipway_yaml::parse_one(complete, "f").unwrap().to_json();
                assert!((format.read)(complete).is_ok(), "{}: {:?}", format.name, (format.read)(complete));
                assert!(schemas.validate(&whole, schema).is_ok(), "{}: {complete}", format.name);
                for mutation in mutations(&whole) {
                    let changed = &mutation.whole;
                    let is_valid = schemas.validate(changed, schema).is_ok();
                    let read = (format.read)(&changed.to_string());
                    let agree = match (&read, is_valid) {
                        (Ok(()), true) | (Err(_), false) => true,
                        (Ok(()), false) => {
                            format.empty.iter().any(|key| changed.pointer(key) == Some(&json!("")))
                                || format.scalars == Scalars::AsText
                                    && schemas.validate(&mutation.with_texts(), schema).is_ok()
                        }
                        (Err(problems), true) => problems
                            .iter()
                            .all(|problem| format.beyond.iter().any(|words| problem.message.contains(words))),
                    };
                    if !agree {
                        let said =
                            read.err().map(|problems| problems.to_string()).unwrap_or("accepted".into());
                        let part = changed.pointer(&mutation.place);
                        wrong.push(format!(
                            "{}: schema {is_valid}: {} is {}\n  {said}",
                            format.name,
                            mutation.place,
                            part.unwrap_or(&Value::Null)
                        ));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{} disagree:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    }
}

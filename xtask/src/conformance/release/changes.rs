//! What a plan decides: create, update, leave alone, recreate, adopt, delete.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Case;
use super::stage::{Scene, config_map, deployment, job, path, text};

pub const CASES: &[&Case] = &[
    &Case { number: 1, name: "a fresh install makes namespace, objects and revision 1", play: fresh },
    &Case { number: 2, name: "an unchanged second run writes nothing", play: idle },
    &Case { number: 3, name: "values without effect make a revision", play: unused_value },
    &Case { number: 4, name: "notes alone make a revision", play: notes },
    &Case { number: 5, name: "only what changed is updated", play: one_change },
    &Case { number: 7, name: "manual edits are reverted", play: manual_edit },
    &Case { number: 8, name: "fields of other managers survive", play: foreign_fields },
    &Case { number: 9, name: "replicas set by a scaler stay", play: scaled },
    &Case { number: 10, name: "replicas on creation stay", play: replicas_on_creation },
    &Case { number: 11, name: "an immutable field stops the plan", play: immutable },
    &Case { number: 12, name: "a changed Job is made anew", play: recreated_job },
    &Case {
        number: 13,
        name: "immutable fields of other kinds are found in the plan",
        play: immutable_kinds,
    },
    &Case { number: 22, name: "definition and custom resource in one chart", play: definitions },
    &Case { number: 23, name: "removed objects are deleted unless kept", play: removals },
    &Case { number: 24, name: "a failed revision leaks no removal", play: leaked_removal },
    &Case { number: 25, name: "an API version that is gone does not hurt", play: gone_api },
    &Case { number: 26, name: "foreign objects are refused, or adopted", play: adoption },
    &Case { number: 27, name: "an object of anyone outlives the release", play: anyone },
    &Case { number: 28, name: "resource policies", play: policies },
    &Case { number: 36, name: "planning only reads", play: reads_only },
    &Case { number: 37, name: "exit codes of a plan", play: exit_codes },
    &Case { number: 38, name: "secrets are not shown", play: redaction },
    &Case { number: 39, name: "a second plan is empty", play: empty_plan },
    &Case { number: 49, name: "duplicate list entries are found in the plan", play: duplicates },
    &Case { number: 54, name: "an invalid annotation in the last revision does not block", play: bad_past },
    &Case { number: 55, name: "lists, odd labels and empty documents", play: odd_documents },
    &Case { number: 56, name: "objects in other namespaces", play: namespaces },
];

fn fresh(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    s.apply(&[])?.ok()?;
    for what in ["configmap/a", "deployment/web"] {
        let object = s.must(what)?;
        let notes = &object["metadata"]["annotations"];
        ensure!(notes["meta.helm.sh/release-name"] == "demo", "{what}: {notes}");
        ensure!(notes["meta.helm.sh/release-namespace"] == s.namespace.as_str(), "{what}: {notes}");
        ensure!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm", "{what}");
        let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let ours = |entry: &Value| entry["manager"] == "helm" && entry["operation"] == "Apply";
        ensure!(managers.iter().any(ours), "{what}: {managers:?}");
    }
    ensure!(s.must("deployment/web")?["status"]["availableReplicas"] == 1, "it was waited for");
    s.expect_statuses("deployed")?;
    let record = s.must("secret/sh.helm.release.v1.demo.v1")?;
    ensure!(record["type"] == "helm.sh/release.v1", "{}", record["type"]);
    for (label, value) in [("name", "demo"), ("owner", "helm"), ("status", "deployed"), ("version", "1")] {
        ensure!(record["metadata"]["labels"][label] == value, "label {label}");
    }
    Ok(())
}

fn idle(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    s.apply(&[])?.ok()?;
    let (map, web) = (s.version("configmap/a")?, s.version("deployment/web")?);
    let mark = s.mark()?;
    let said = s.apply(&["--save-report-to", "report.json"])?.ok()?;
    ensure!(said.contains("up to date"), "{said}");
    s.expect_statuses("deployed")?;
    ensure!((map, web) == (s.version("configmap/a")?, s.version("deployment/web")?), "objects were written");
    let report = std::fs::read_to_string(s.directory.join("report.json"))?;
    ensure!(report.contains("\"skipped\""), "{report}");
    let writes = s.writes(mark)?;
    ensure!(writes.is_empty(), "a no-op wrote: {writes:?}");
    Ok(())
}

fn unused_value(s: &Scene<'_>) -> Result<()> {
    s.one(&config_map("a", "1", ""))?;
    s.apply(&[])?.ok()?;
    let before = s.version("configmap/a")?;
    s.plan(&["--set", "unused=1", "--exit-code"])?.fails(3)?;
    s.apply(&["--set", "unused=1"])?.ok()?;
    s.expect_statuses("superseded,deployed")?;
    ensure!(before == s.version("configmap/a")?, "the object was written");
    Ok(())
}

fn notes(s: &Scene<'_>) -> Result<()> {
    let map = config_map("a", "1", "");
    s.chart(&[("all.yaml", &map), ("NOTES.txt", "one")])?;
    s.apply(&[])?.ok()?;
    s.chart(&[("all.yaml", &map), ("NOTES.txt", "two")])?;
    let said = s.plan(&["--exit-code"])?.fails(3)?;
    ensure!(said.contains("notes"), "{said}");
    s.apply(&[])?.ok()?;
    s.expect_statuses("superseded,deployed")
}

fn one_change(s: &Scene<'_>) -> Result<()> {
    let rest = deployment("web", "nginx:1", "", "")
        + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n  ports: [{port: 80}]\n";
    s.one(&(config_map("a", "1", "") + &rest))?;
    s.apply(&[])?.ok()?;
    let before = (s.version("service/web")?, text(&s.must("deployment/web")?, "/metadata/generation"));
    let map = s.version("configmap/a")?;
    s.one(&(config_map("a", "2", "") + &rest))?;
    let said = s.plan(&[])?.ok()?;
    ensure!(said.contains("1 to update"), "{said}");
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    ensure!(map != s.version("configmap/a")?, "the ConfigMap is the old one");
    ensure!(before == (s.version("service/web")?, text(&s.must("deployment/web")?, "/metadata/generation")));
    let touched: Vec<String> = s
        .writes(mark)?
        .into_iter()
        .filter(|w| w.contains("deployments/") || w.contains("services/"))
        .collect();
    ensure!(touched.is_empty(), "{touched:?}");
    Ok(())
}

fn manual_edit(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "", ""))?;
    s.apply(&[])?.ok()?;
    let edit = |s: &Scene<'_>| {
        let patch = r#"{"metadata":{"annotations":{"by":"hand"}},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:9"}]}}}}"#;
        s.kubectl(&["patch", "deployment", "web", "--field-manager=kubectl-edit", "-p", patch])
    };
    edit(s)?;
    let drift = s.slipway(&["diff", "demo", "--exit-code"])?.fails(2)?;
    ensure!(drift.contains("nginx:9"), "{drift}");
    s.apply(&["--no-remove-manual-changes"])?.ok()?;
    let image = |s: &Scene<'_>| -> Result<String> {
        Ok(text(&s.must("deployment/web")?, "/spec/template/spec/containers/0/image"))
    };
    ensure!(image(s)? == "nginx:1", "the image stayed {}", image(s)?);
    ensure!(s.must("deployment/web")?["metadata"]["annotations"]["by"] == "hand", "the annotation went");
    edit(s)?;
    s.apply(&[])?.ok()?;
    ensure!(image(s)? == "nginx:1" && s.must("deployment/web")?["metadata"]["annotations"]["by"].is_null());
    s.slipway(&["diff", "demo", "--exit-code"])?.ok().map(drop)
}

fn foreign_fields(s: &Scene<'_>) -> Result<()> {
    s.one(&config_map("a", "1", ""))?;
    s.apply(&[])?.ok()?;
    s.kubectl(&["patch", "configmap", "a", "--field-manager=injector", "-p", r#"{"data":{"bundle":"x"}}"#])?;
    s.one(&config_map("a", "2", ""))?;
    s.apply(&[])?.ok()?;
    let data = s.must("configmap/a")?["data"].clone();
    ensure!(data["bundle"] == "x" && data["text"] == "2", "{data}");
    Ok(())
}

fn scaled(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "", ""))?;
    s.apply(&[])?.ok()?;
    s.kubectl(&["scale", "deployment", "web", "--replicas=3"])?;
    s.one(&deployment("web", "nginx:2", "", ""))?;
    s.apply(&[])?.ok()?;
    ensure!(s.must("deployment/web")?["spec"]["replicas"] == 3, "replicas were taken back");
    // The chart sets them, and brings an autoscaler for them.
    let both = |image: &str| {
        deployment("web", image, "", "").replace("spec:\n  selector", "spec:\n  replicas: 1\n  selector")
            + "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec:\n  \
               scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  maxReplicas: 9\n"
    };
    s.one(&both("nginx:3"))?;
    s.apply(&[])?.ok()?;
    s.kubectl(&["scale", "deployment", "web", "--replicas=3"])?;
    s.one(&both("nginx:4"))?;
    let ran = s.plan(&[])?;
    ensure!(ran.code == 0 && ran.err.contains("spec.replicas is left to others"), "{}", ran.err);
    s.apply(&[])?.ok()?;
    let live = s.must("deployment/web")?;
    ensure!(live["spec"]["replicas"] == 3, "replicas were taken back from the autoscaler");
    ensure!(text(&live, "/spec/template/spec/containers/0/image") == "nginx:4");
    Ok(())
}

fn replicas_on_creation(s: &Scene<'_>) -> Result<()> {
    s.one(&deployment("web", "nginx:1", "werf.io/replicas-on-creation: \"2\"", ""))?;
    s.apply(&[])?.ok()?;
    ensure!(s.must("deployment/web")?["spec"]["replicas"] == 2, "not on creation");
    s.one(&deployment("web", "nginx:2", "werf.io/replicas-on-creation: \"2\"", ""))?;
    s.apply(&[])?.ok()?;
    ensure!(s.must("deployment/web")?["spec"]["replicas"] == 2, "not after");
    Ok(())
}

fn immutable(s: &Scene<'_>) -> Result<()> {
    s.one(&(deployment("web", "nginx:1", "", "") + &config_map("a", "1", "")))?;
    s.apply(&[])?.ok()?;
    let other = deployment("web", "nginx:1", "", "").replace("app: web", "app: other");
    s.one(&(other + &config_map("a", "2", "")))?;
    let mark = s.mark()?;
    for ran in [s.plan(&[])?, s.apply(&[])?] {
        let said = ran.fails(1)?;
        ensure!(said.contains("immutable") && said.contains("Deployment/web"), "{said}");
    }
    ensure!(s.must("configmap/a")?["data"]["text"] == "1", "something was written");
    ensure!(s.writes(mark)?.is_empty(), "something was written: {:?}", s.writes(mark)?);
    s.expect_statuses("deployed")
}

fn recreated_job(s: &Scene<'_>) -> Result<()> {
    s.one(&job("once", "", ""))?;
    s.apply(&[])?.ok()?;
    let before = s.uid("job/once")?;
    s.one(&job("once", "", "").replace("busybox", "busybox:2"))?;
    let said = s.plan(&[])?.ok()?;
    ensure!(said.contains("recreate Job/once"), "{said}");
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    ensure!(before != s.uid("job/once")?, "it is the same Job");
    let ours: Vec<String> = s
        .writes(mark)?
        .into_iter()
        .filter(|write| write == "delete jobs/once" || write == "patch jobs/once")
        .collect();
    ensure!(ours == ["delete jobs/once", "patch jobs/once"], "{ours:?}");
    s.expect_statuses("superseded,deployed")
}

/// Every way a server says that something cannot change, found by the plan; with the policy for it, made anew.
fn immutable_kinds(s: &Scene<'_>) -> Result<()> {
    let last = s.stage.real.port() % 200 + 20;
    let unique = format!("conformance-{last}");
    let meta = |name: &str, policy: &str| {
        format!(
            "metadata: {{name: {name}, annotations: {{werf.io/track-termination-mode: NonBlocking{policy}}}}}\n"
        )
    };
    let workload = |kind: &str, label: &str, more: &str, meta: &str| {
        format!(
            "---\napiVersion: apps/v1\nkind: {kind}\n{meta}spec:\n  replicas: 0\n{more}  selector: {{matchLabels: {{app: {label}}}}}\n  \
             template: {{metadata: {{labels: {{app: {label}}}}}, spec: {{containers: [{{name: c, image: nginx}}]}}}}\n"
        )
    };
    // What changes is `one` or `two`.
    type Make<'m> = Box<dyn Fn(&str, &str) -> String + 'm>;
    let plain = |api: &'static str, kind: &'static str, name: String, rest: &'static str| -> Make<'_> {
        Box::new(move |word, policy| {
            let rest = rest.replace("WORD", word);
            format!("---\napiVersion: {api}\nkind: {kind}\n{}{rest}\n", meta(&name, policy))
        })
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let name = || "x".to_owned();
    let kinds: Vec<(&str, Make<'_>)> = vec![
        (
            "PersistentVolumeClaim/x",
            plain(
                "v1",
                "PersistentVolumeClaim",
                name(),
                "spec: {accessModes: [ReadWriteOnce], storageClassName: WORD, resources: {requests: {storage: 1Gi}}}",
            ),
        ),
        (
            "Service/x",
            Box::new(|word, policy| {
                let address =
                    if word == "one" { format!("10.96.77.{last}") } else { format!("10.96.78.{last}") };
                format!(
                    "---\napiVersion: v1\nkind: Service\n{}spec: {{clusterIP: {address}, ports: [{{port: 80}}]}}\n",
                    meta("x", policy)
                )
            }),
        ),
        ("ConfigMap/x", plain("v1", "ConfigMap", name(), "immutable: true\ndata: {a: WORD}")),
        ("Secret/x", plain("v1", "Secret", name(), "type: example.com/WORD")),
        (
            "Secret/frozen",
            plain("v1", "Secret", "frozen".into(), "immutable: true\nstringData: {a: value-WORD}"),
        ),
        (
            "Pod/x",
            plain("v1", "Pod", name(), "spec: {hostname: WORD, containers: [{name: c, image: nginx}]}"),
        ),
        (
            "RoleBinding/x",
            plain(
                rbac,
                "RoleBinding",
                name(),
                "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: WORD}",
            ),
        ),
        (
            "ClusterRoleBinding/",
            plain(
                rbac,
                "ClusterRoleBinding",
                unique.clone(),
                "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: WORD}",
            ),
        ),
        (
            "PriorityClass/",
            plain("scheduling.k8s.io/v1", "PriorityClass", unique.clone(), "value: 1\ndescription: WORD"),
        ),
        (
            "StorageClass/",
            plain(
                "storage.k8s.io/v1",
                "StorageClass",
                unique.clone(),
                "provisioner: example.com/p\nparameters: {type: WORD}",
            ),
        ),
        (
            "IngressClass/",
            plain(
                "networking.k8s.io/v1",
                "IngressClass",
                unique.clone(),
                "spec: {controller: example.com/WORD}",
            ),
        ),
        ("Deployment/x", Box::new(|word, policy| workload("Deployment", word, "", &meta("x", policy)))),
        (
            "StatefulSet/x",
            Box::new(|word, policy| {
                workload("StatefulSet", "x", &format!("  serviceName: {word}\n"), &meta("x", policy))
            }),
        ),
        (
            "StatefulSet/claims",
            Box::new(|word, policy| {
                let size = if word == "one" { 1 } else { 2 };
                let claims = format!(
                    "  volumeClaimTemplates: [{{metadata: {{name: d}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {size}Gi}}}}}}}}]\n"
                );
                workload("StatefulSet", "claims", &claims, &meta("claims", policy))
            }),
        ),
    ];
    let all = |word: &str, policy: &str| -> String {
        let made = kinds.iter().map(|(_, make)| make(word, policy)).collect::<String>();
        // The value of a class is a number.
        if word == "one" { made } else { made.replace("value: 1\n", "value: 2\n") }
    };
    s.one(&all("one", ""))?;
    s.apply(&[])?.ok()?;
    s.one(&all("two", ""))?;
    let mark = s.mark()?;
    let said = s.plan(&[])?.fails(1)?;
    for (what, _) in &kinds {
        let named =
            said.lines().any(|line| line.contains(what) && line.contains("cannot be changed in place"));
        ensure!(named, "{what} is not named: {said}");
    }
    s.apply(&[])?.fails(1)?;
    ensure!(s.writes(mark)?.is_empty(), "something was written: {:?}", s.writes(mark)?);
    s.expect_statuses("deployed")?;
    s.one(&all("two", ", werf.io/delete-policy: before-creation-if-immutable"))?;
    let said = s.plan(&[])?.ok()?;
    ensure!(said.contains(&format!("{} to recreate", kinds.len())), "{said}");
    s.slipway(&["delete", "demo"])?.ok().map(drop)
}

fn crd(kind: &str, more: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.conformance.example}}\nspec:\n  \
         group: conformance.example\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  \
         - name: v1\n    served: true\n    storage: true\n    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true{more}}}}}\n"
    )
}

fn definitions(s: &Scene<'_>) -> Result<()> {
    let thing = "---\napiVersion: conformance.example/v1\nkind: Boat\nmetadata: {name: one}\nspec: {a: 1}\n";
    let def = crd("Boat", "");
    s.chart(&[("all.yaml", thing), ("crds/boat.yaml", &def)])?;
    let began = std::time::Instant::now();
    s.apply(&[])?.ok()?;
    ensure!(began.elapsed().as_secs() < 20, "it took {:?}", began.elapsed());
    s.must("boats.conformance.example/one")?;
    let changed = crd("Boat", ", description: newer");
    s.chart(&[("all.yaml", thing), ("crds/boat.yaml", &changed)])?;
    s.apply(&[])?.ok()?;
    let live = s.must("customresourcedefinition/boats.conformance.example")?;
    let described = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] == "newer";
    ensure!(described, "definitions of crds/ are not brought up to date");
    s.slipway(&["delete", "demo"])?.ok()?;
    s.must("customresourcedefinition/boats.conformance.example")?;
    s.kubectl(&["delete", "customresourcedefinition", "boats.conformance.example"])?;
    Ok(())
}

fn removals(s: &Scene<'_>) -> Result<()> {
    let keep = "helm.sh/resource-policy: keep";
    let all = [("gone", ""), ("kept", keep), ("live", ""), ("foreign", ""), ("rest", "")];
    s.one(&all.iter().map(|(name, notes)| config_map(name, "1", notes)).collect::<String>())?;
    s.apply(&[])?.ok()?;
    s.kubectl(&["annotate", "configmap", "live", "helm.sh/resource-policy=keep"])?;
    s.kubectl(&["annotate", "--overwrite", "configmap", "foreign", "meta.helm.sh/release-name=other"])?;
    s.one(&config_map("rest", "1", ""))?;
    let said = s.plan(&[])?.ok()?;
    ensure!(said.contains("delete ConfigMap/gone") && said.contains("keep ConfigMap/foreign"), "{said}");
    s.apply(&[])?.ok()?;
    s.must_not("configmap/gone")?;
    for kept in ["kept", "live", "foreign", "rest"] {
        s.must(&format!("configmap/{kept}"))?;
    }
    Ok(())
}

fn leaked_removal(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("goes", "1", "") + &config_map("stays", "1", "")))?;
    s.apply(&[])?.ok()?;
    s.one(&(config_map("stays", "1", "") + &job("bad", "", "sim/fail: \"true\"")))?;
    s.apply(&[])?.fails(1)?;
    s.must("configmap/goes")?;
    s.one(&config_map("stays", "1", ""))?;
    s.apply(&[])?.ok()?;
    s.must_not("configmap/goes")?;
    s.must_not("job/bad")?;
    s.expect_statuses("superseded,failed,deployed")
}

fn gone_api(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    s.apply(&[])?.ok()?;
    let before = s.uid("deployment/web")?;
    s.rewrite_record(1, "apiVersion: apps/v1", "apiVersion: apps/v1beta1")?;
    s.rewrite_record(1, "kind: ConfigMap", "kind: PodSecurityPolicy")?;
    s.one(&(config_map("a", "2", "") + &deployment("web", "nginx:1", "", "")))?;
    // Three tries each: a busy machine is slow now and then, a wait for kinds is always.
    let quickest = |s: &Scene<'_>| -> Result<f64> {
        let mut quickest = f64::MAX;
        for _ in 0..3 {
            let began = std::time::Instant::now();
            s.plan(&[])?.ok()?;
            quickest = quickest.min(began.elapsed().as_secs_f64());
        }
        Ok(quickest)
    };
    let gone = quickest(s)?;
    s.apply(&[])?.ok()?;
    let usual = quickest(s)?;
    ensure!(gone < usual + 1.0, "kinds that are gone cost {:.1} s", gone - usual);
    ensure!(before == s.uid("deployment/web")?, "the Deployment was made anew");
    ensure!(s.must("configmap/a")?["data"]["text"] == "2");
    Ok(())
}

fn adoption(s: &Scene<'_>) -> Result<()> {
    s.stage.real.kubectl(&["create", "namespace", &s.namespace])?;
    s.send(&["apply"], &(config_map("a", "0", "") + &config_map("b", "0", "")))?;
    s.one(&(config_map("a", "1", "") + &config_map("b", "1", "") + &config_map("c", "1", "")))?;
    let said = s.apply(&[])?.fails(1)?;
    ensure!(said.contains("ConfigMap/a") && said.contains("ConfigMap/b"), "{said}");
    s.must_not("configmap/c")?;
    ensure!(
        s.must("configmap/a")?["data"]["text"] == "0" && s.statuses()?.is_empty(),
        "something was written"
    );
    let said = s.plan(&["--force-adoption"])?.ok()?;
    ensure!(said.contains("update ConfigMap/a"), "{said}");
    s.apply(&["--force-adoption"])?.ok()?;
    ensure!(s.must("configmap/b")?["data"]["text"] == "1");
    Ok(())
}

fn anyone(s: &Scene<'_>) -> Result<()> {
    let free = config_map("free", "1", "werf.io/ownership: anyone");
    s.one(&(free.clone() + &config_map("own", "1", "")))?;
    s.apply(&[])?.ok()?;
    let object = s.must("configmap/free")?;
    for key in ["meta.helm.sh/release-name", "meta.helm.sh/release-namespace"] {
        ensure!(object["metadata"]["annotations"][key].is_null(), "it is owned");
    }
    ensure!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"].is_null(), "it is owned");
    s.one(&config_map("own", "1", ""))?;
    s.apply(&[])?.ok()?;
    s.must("configmap/free")?;
    s.one(&(free + &config_map("own", "1", "")))?;
    s.apply(&[])?.ok()?;
    s.slipway(&["delete", "demo"])?.ok()?;
    s.must("configmap/free")?;
    s.must_not("configmap/own")
}

fn policies(s: &Scene<'_>) -> Result<()> {
    let with = |name: &str, content: &str, policy: &str| {
        config_map(name, content, &format!("werf.io/resource-policy: {policy}"))
    };
    let all = |content: &str| {
        with("absent", content, "skip-create")
            + &with("drifts", content, "skip-update")
            + &with("stays", content, "skip-delete")
            + &config_map("rest", content, "")
    };
    // What may not be updated has to exist first.
    s.one(
        &(config_map("drifts", "1", "") + &with("stays", "1", "skip-delete") + &config_map("rest", "1", "")),
    )?;
    s.apply(&[])?.ok()?;
    let again = with("again", "1", "skip-recreate").replace(
        "resource-policy: skip-recreate",
        "resource-policy: skip-recreate, werf.io/delete-policy: before-creation",
    );
    s.kubectl(&[
        "patch",
        "configmap",
        "drifts",
        "--field-manager=kubectl-edit",
        "-p",
        r#"{"data":{"text":"by hand"}}"#,
    ])?;
    s.one(&(all("2") + &again))?;
    s.apply(&[])?.ok()?;
    s.must_not("configmap/absent")?;
    ensure!(s.must("configmap/drifts")?["data"]["text"] == "by hand", "skip-update");
    ensure!(s.must("configmap/rest")?["data"]["text"] == "2");
    let before = s.uid("configmap/again")?;
    s.one(&(config_map("rest", "3", "") + &again))?;
    s.apply(&[])?.ok()?;
    ensure!(before == s.uid("configmap/again")?, "skip-recreate");
    s.must("configmap/stays")?;
    s.one(&(config_map("rest", "3", "") + &with("left", "1", "skip-delete")))?;
    s.apply(&[])?.ok()?;
    let said = s.slipway(&["delete", "demo"])?.ok()?;
    ensure!(said.contains("kept ConfigMap/left"), "{said}");
    s.must("configmap/left").map(drop)
}

fn reads_only(s: &Scene<'_>) -> Result<()> {
    s.one(&(config_map("a", "1", "") + &deployment("web", "nginx:1", "", "")))?;
    let mark = s.mark()?;
    s.plan(&[])?.ok()?;
    ensure!(s.get("configmap/werf-synchronization").is_ok_and(|found| found.is_none()));
    ensure!(s.writes(mark)?.is_empty(), "a plan wrote: {:?}", s.writes(mark)?);
    let spaces = s.stage.real.kubectl(&["get", "namespaces", "-o", "name"])?;
    ensure!(!spaces.contains(&format!("namespace/{}\n", s.namespace)), "a plan made the namespace");
    s.apply(&[])?.ok()?;
    s.kubectl(&[
        "patch",
        "configmap",
        "a",
        "--field-manager=kubectl-edit",
        "-p",
        r#"{"data":{"text":"0"}}"#,
    ])?;
    let mark = s.mark()?;
    s.plan(&[])?.ok()?;
    s.plan(&["--out", "plan.slip"])?.ok()?;
    let writes = s.writes(mark)?;
    ensure!(writes.is_empty(), "a plan wrote: {writes:?}");
    Ok(())
}

fn exit_codes(s: &Scene<'_>) -> Result<()> {
    s.one(&config_map("a", "1", ""))?;
    s.plan(&["--exit-code"])?.fails(2)?;
    s.apply(&[])?.ok()?;
    s.plan(&["--exit-code"])?.ok()?;
    s.plan(&["--exit-code", "--set", "x=1"])?.fails(3)?;
    s.one("---\napiVersion: v1\nkind: Nonsense\nmetadata: {name: x}\n")?;
    s.plan(&["--exit-code"])?.fails(10).map(drop)
}

fn redaction(s: &Scene<'_>) -> Result<()> {
    let secret = |a: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{a: {a}, b: unchanged-word}}\n"
        )
    };
    s.one(&secret("first-word"))?;
    s.apply(&[])?.ok()?;
    s.one(&secret("other-word"))?;
    // `other-word` and `first-word` in base64.
    let forms = ["other-word", "first-word", "b3RoZXItd29yZA", "Zmlyc3Qtd29yZA", "unchanged-word"];
    for words in [&["-vv"][..], &["-o", "json"], &["--log-format", "json"]] {
        let ran = s.plan(words)?;
        ensure!(ran.code == 0, "{}", ran.err);
        for form in forms {
            ensure!(!ran.out.contains(form) && !ran.err.contains(form), "{words:?} shows {form}");
        }
    }
    let shown = s.plan(&["--show-sensitive-diffs"])?.ok()?;
    ensure!(shown.contains("b3RoZXItd29yZA"), "{shown}");
    Ok(())
}

/// Charts whose second plan has to be empty: a scaffold, a platform of fifty objects, our examples, and, where
/// `SLIPWAY_CHARTS` names a directory, every chart in it, as its own defaults make it.
fn empty_plan(s: &Scene<'_>) -> Result<()> {
    s.slipway(&["chart", "create", "web"])?;
    let scaffold = ["web", "--set", "autoscaling.enabled=true", "--set", "ingress.enabled=true"];
    let root = crate::shell::root();
    let mut charts = vec![scaffold.map(str::to_owned).to_vec()];
    for own in ["crates/release/tests/data/harbour", "examples/charts/shop"] {
        charts.push(vec![path(&root.join(own))?.to_owned()]);
    }
    if let Some(more) = std::env::var_os("SLIPWAY_CHARTS") {
        for entry in std::fs::read_dir(more)? {
            charts.push(vec![path(&entry?.path())?.to_owned()]);
        }
    }
    let mut noisy = Vec::new();
    for chart in &mut charts {
        // Nobody here makes volumes or addresses, so nobody waits for them.
        let loose = ["--annotations", "werf.io/track-termination-mode=NonBlocking"];
        chart.extend(loose.map(str::to_owned));
    }
    for chart in &charts {
        let words: Vec<&str> = chart.iter().map(String::as_str).collect();
        let ran = s.slipway(&[&["apply", "demo"], &words[..]].concat())?;
        if ran.code != 0 {
            ensure!(charts.len() > 3, "{}", ran.err);
            println!("         {} cannot be installed as it is", words[0]);
            continue;
        }
        let ran = s.slipway(&[&["plan", "demo"], &words[..], &["--exit-code"]].concat())?;
        if ran.code != 0 || !ran.out.contains("nothing to do") {
            noisy.push(format!("{}\n{}{}", words[0], ran.out, ran.err));
        }
        s.slipway(&["delete", "demo"])?.ok()?;
    }
    ensure!(noisy.is_empty(), "{}", noisy.join("\n"));
    Ok(())
}

fn duplicates(s: &Scene<'_>) -> Result<()> {
    let text = deployment("web", "nginx:1", "", "").replace(
        "image: \"nginx:1\"}",
        "image: \"nginx:1\", env: [{name: A, value: \"1\"}, {name: A, value: \"2\"}]}",
    );
    // Only a namespace that is there can be asked.
    s.stage.real.kubectl(&["create", "namespace", &s.namespace])?;
    s.one(&text)?;
    let said = s.plan(&[])?.fails(10)?;
    ensure!(said.contains("templates/all.yaml") && said.contains("Deployment/web"), "{said}");
    let ran = s.apply(&["--normalise"])?;
    ensure!(ran.code == 0 && ran.err.contains("twice"), "{}", ran.err);
    let live = s.must("deployment/web")?;
    ensure!(live["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "2", "the last counts");
    Ok(())
}

fn bad_past(s: &Scene<'_>) -> Result<()> {
    s.one(&config_map("a", "1", "note: fine"))?;
    s.apply(&[])?.ok()?;
    s.rewrite_record(1, "note: fine", "werf.io/weight: heavy")?;
    s.one(&config_map("a", "2", ""))?;
    s.apply(&[])?.ok()?;
    s.expect_statuses("superseded,deployed")
}

fn odd_documents(s: &Scene<'_>) -> Result<()> {
    let text = "---\n# nothing but a comment\n---\n---\napiVersion: v1\nkind: List\nitems:\n\
                - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {ok: yes-text, bad: 5}}}\n\
                - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n---\n";
    s.one(text)?;
    let ran = s.apply(&[])?;
    ensure!(ran.code == 0, "{}", ran.err);
    ensure!(ran.err.contains("bad"), "the label is dropped silently: {}", ran.err);
    let labels = s.must("configmap/a")?["metadata"]["labels"].clone();
    ensure!(labels["ok"] == "yes-text" && labels["bad"].is_null(), "{labels}");
    s.must("configmap/b").map(drop)
}

fn namespaces(s: &Scene<'_>) -> Result<()> {
    let other = format!("{}-2", s.namespace);
    s.stage.real.kubectl(&["create", "namespace", &other])?;
    let far = |content: &str| {
        config_map("far", content, "")
            .replace("  name: far\n", &format!("  name: far\n  namespace: {other}\n"))
    };
    s.one(&(far("1") + &config_map("near", "1", "")))?;
    s.apply(&[])?.ok()?;
    let found = |s: &Scene<'_>| -> Result<Value> {
        Ok(serde_json::from_str(&s.stage.real.kubectl(&[
            "get",
            "configmap",
            "far",
            "-o",
            "json",
            "-n",
            &other,
        ])?)?)
    };
    ensure!(found(s)?["metadata"]["annotations"]["meta.helm.sh/release-namespace"] == s.namespace.as_str());
    s.one(&(far("2") + &config_map("near", "1", "")))?;
    s.apply(&[])?.ok()?;
    ensure!(found(s)?["data"]["text"] == "2");
    let twice = config_map("near", "1", "")
        + &config_map("near", "1", "")
            .replace("  name: near\n", &format!("  name: near\n  namespace: {}\n", s.namespace));
    s.one(&twice)?;
    let said = s.plan(&[])?.fails(10)?;
    ensure!(said.contains("ConfigMap/near"), "{said}");
    s.slipway(&["delete", "demo"])?.ok()?;
    ensure!(found(s).is_err(), "the object of the other namespace is left");
    Ok(())
}

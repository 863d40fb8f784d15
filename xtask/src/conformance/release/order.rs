//! What comes before what: hooks, weights, dependencies, readiness.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::Case;
use super::stage::{Scene, config_map, deployment, job, text, wait};

pub const CASES: &[&Case] = &[
    &Case { number: 14, name: "a hook Job runs anew each time, after its account", play: hook_again },
    &Case { number: 14, name: "webhook configurations come before hooks that patch them", play: webhooks },
    &Case { number: 15, name: "succeeded hooks go at the end of their stage", play: hook_succeeded },
    &Case { number: 16, name: "a failed hook goes if it asked to", play: hook_failed },
    &Case { number: 17, name: "weights are an order", play: weights },
    &Case { number: 18, name: "a dependency has to be ready", play: dependency },
    &Case { number: 19, name: "references are dependencies", play: references },
    &Case { number: 20, name: "references never make a ring, dependencies may", play: rings },
    &Case { number: 21, name: "something outside is waited for", play: outside },
    &Case { number: 46, name: "readiness of sets, hook pods and custom resources", play: readiness },
    &Case { number: 52, name: "waiting takes no place of working", play: starvation },
];

fn account(name: &str, notes: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n  annotations: {{{notes}}}\n"
    )
}

fn hook_again(s: &Scene<'_>) -> Result<()> {
    let hook = "helm.sh/hook: \"pre-install,pre-upgrade\"";
    let with = |content: &str| {
        let run = job("migrate", hook, "")
            .replace("restartPolicy: Never", "serviceAccountName: mover\n      restartPolicy: Never");
        config_map("a", content, "") + &account("mover", hook) + &run
    };
    s.one(&with("1"))?;
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    let writes: Vec<String> = s.writes(mark)?;
    let place = |what: &str| writes.iter().position(|write| write.ends_with(what));
    ensure!(place("serviceaccounts/mover") < place("jobs/migrate"), "{writes:?}");
    ensure!(place("jobs/migrate") < place("configmaps/a"), "{writes:?}");
    let before = s.uid("job/migrate")?;
    s.one(&with("2"))?;
    s.apply(&[])?.ok()?;
    ensure!(before != s.uid("job/migrate")?, "the hook did not run again");
    Ok(())
}

/// As controllers with admission webhooks are packaged: a Job before makes the certificate, a Job after writes
/// it into the configurations.
fn webhooks(s: &Scene<'_>) -> Result<()> {
    let hook = |name: &str, moments: &str| {
        let notes = format!(
            "helm.sh/hook: \"{moments}\", helm.sh/hook-delete-policy: \"before-hook-creation,hook-succeeded\""
        );
        job(name, &notes, "")
    };
    let configuration = |kind: &str| {
        format!(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {}}}\nwebhooks:\n\
             - name: check.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  failurePolicy: Fail\n\
             \x20 clientConfig: {{service: {{namespace: {}, name: admission}}}}\n\
             \x20 rules: [{{apiGroups: [example.invalid], apiVersions: [v1], operations: [CREATE], resources: [nothing]}}]\n",
            s.namespace, s.namespace
        )
    };
    let with = |image: &str| {
        configuration("ValidatingWebhookConfiguration")
            + &configuration("MutatingWebhookConfiguration")
            + &hook("create", "pre-install,pre-upgrade")
            + &hook("patch", "post-install,post-upgrade")
            + &deployment("controller", image, "", "")
            + "---\napiVersion: v1\nkind: Service\nmetadata: {name: admission}\nspec:\n  selector: {app: controller}\n  ports: [{port: 443}]\n"
    };
    let kinds = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"];
    let in_order = |writes: &[String], steps: &[&str]| {
        let places: Vec<_> =
            steps.iter().map(|step| writes.iter().position(|write| write.ends_with(step))).collect();
        ensure!(places.iter().all(Option::is_some) && places.is_sorted(), "{steps:?}: {writes:?}");
        Ok(())
    };
    s.one(&with("nginx:1"))?;
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    let writes = s.all_writes(mark)?;
    for kind in kinds {
        let own = format!("{kind}/{}", s.namespace);
        in_order(&writes, &["jobs/create", "deployments/controller", &own, "jobs/patch"])?;
    }
    s.one(&with("nginx:2"))?;
    s.apply(&[])?.ok()?;
    s.expect_statuses("superseded,deployed")?;
    let mark = s.mark()?;
    s.slipway(&["delete", "demo"])?.ok()?;
    let writes = s.all_writes(mark)?;
    for kind in kinds {
        in_order(&writes, &[&format!("delete {kind}/{}", s.namespace), "delete deployments/controller"])?;
    }
    Ok(())
}

fn hook_succeeded(s: &Scene<'_>) -> Result<()> {
    let hook = "helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded";
    let run = job("after", hook, "")
        .replace("restartPolicy: Never", "serviceAccountName: helper\n      restartPolicy: Never");
    s.one(&(config_map("a", "1", "") + &account("helper", hook) + &run))?;
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    s.must_not("job/after")?;
    s.must_not("serviceaccount/helper")?;
    let writes = s.writes(mark)?;
    let place = |what: &str| writes.iter().position(|write| write == what);
    let deleted = place("delete serviceaccounts/helper");
    ensure!(deleted.is_some() && deleted > place("patch jobs/after"), "{writes:?}");
    s.expect_statuses("deployed")
}

fn hook_failed(s: &Scene<'_>) -> Result<()> {
    let bad = "sim/fail: \"true\"";
    s.one(
        &(config_map("a", "1", "")
            + &job("gone", "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-failed", bad)),
    )?;
    s.apply(&[])?.fails(1)?;
    s.must_not("job/gone")?;
    s.must_not("configmap/a")?;
    s.one(&(config_map("a", "1", "") + &job("stays", "helm.sh/hook: pre-install", bad)))?;
    let said = s.apply(&[])?.fails(1)?;
    ensure!(said.contains("Job/stays"), "{said}");
    s.must("job/stays")?;
    s.expect_statuses("failed,failed")
}

fn weights(s: &Scene<'_>) -> Result<()> {
    let weight = |name: &str, weight: &str| config_map(name, "1", &format!("werf.io/weight: \"{weight}\""));
    s.one(
        &(weight("third", "10")
            + &weight("first", "-5")
            + &weight("second-a", "0")
            + &weight("second-b", "0")),
    )?;
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    let order: Vec<String> =
        s.order(mark, "configmaps")?.into_iter().filter(|name| name != "werf-synchronization").collect();
    ensure!(order.first().is_some_and(|name| name == "first"), "{order:?}");
    ensure!(order.last().is_some_and(|name| name == "third") && order.len() == 4, "{order:?}");
    Ok(())
}

fn dependency(s: &Scene<'_>) -> Result<()> {
    let front = deployment(
        "front",
        "nginx:1",
        "werf.io/deploy-dependency-back: \"state=ready,kind=Deployment,name=back\"",
        "",
    );
    s.one(&(front + &deployment("back", "nginx:1", "", "sim/delay: \"2\"")))?;
    s.apply(&[])?.ok()?;
    let conditions =
        s.must("deployment/back")?["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|c| c["type"] == "Available").map(|c| text(c, "/lastTransitionTime"));
    let created = text(&s.must("deployment/front")?, "/metadata/creationTimestamp");
    ensure!(ready.as_ref().is_some_and(|ready| *ready <= created), "{ready:?} {created}");
    Ok(())
}

fn references(s: &Scene<'_>) -> Result<()> {
    let web = deployment("web", "nginx:1", "", "").replace(
        "      containers:\n",
        "      serviceAccountName: runner\n      volumes:\n      - {name: v, configMap: {name: mounted}}\n      \
         - {name: p, projected: {sources: [{secret: {name: projected}}]}}\n      containers:\n",
    );
    let web = web.replace(
        "image: \"nginx:1\"}",
        "image: \"nginx:1\", env: [{name: A, valueFrom: {configMapKeyRef: {name: keyed, key: text}}}], \
         envFrom: [{configMapRef: {name: whole}}, {secretRef: {name: maybe, optional: true}}]}",
    );
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: projected}\nstringData: {a: b}\n";
    let maps: String = ["mounted", "keyed", "whole"].map(|name| config_map(name, "1", "")).concat();
    let binding = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: bound}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\nsubjects: [{kind: ServiceAccount, name: runner}]\n";
    s.one(&(web + &maps + secret + &account("runner", "") + binding))?;
    let explained = s.plan(&["--explain"])?.err;
    ensure!(explained.contains("ConfigMap/whole") && !explained.contains("maybe"), "{explained}");
    let mark = s.mark()?;
    s.apply(&[])?.ok()?;
    let writes = s.writes(mark)?;
    let place = |what: &str| writes.iter().position(|write| write.ends_with(what));
    let web = place("deployments/web");
    for what in [
        "configmaps/mounted",
        "configmaps/keyed",
        "configmaps/whole",
        "secrets/projected",
        "serviceaccounts/runner",
        "rolebindings/bound",
    ] {
        ensure!(place(what).is_some() && place(what) < web, "{what} after the Deployment: {writes:?}");
    }
    Ok(())
}

fn rings(s: &Scene<'_>) -> Result<()> {
    let web = deployment("web", "nginx:1", "werf.io/weight: \"0\"", "").replace(
        "      containers:\n",
        "      volumes:\n      - {name: v, configMap: {name: late}}\n      containers:\n",
    );
    s.one(&(web + &config_map("late", "1", "werf.io/weight: \"10\"")))?;
    let ran = s.apply(&["--no-final-tracking"])?;
    ensure!(ran.code == 0 && ran.err.contains("warning"), "{} {}", ran.code, ran.err);
    let on = |name: &str, other: &str| {
        config_map(
            name,
            "1",
            &format!("werf.io/deploy-dependency-x: \"state=present,kind=ConfigMap,name={other}\""),
        )
    };
    s.one(&(on("one", "two") + &on("two", "one")))?;
    let said = s.plan(&[])?.fails(10)?;
    ensure!(said.contains("ConfigMap/one") && said.contains("ConfigMap/two"), "{said}");
    Ok(())
}

fn outside(s: &Scene<'_>) -> Result<()> {
    let needs = "token.external-dependency.werf.io/resource: secrets/token, other.external-dependency.werf.io/resource: secrets/other";
    s.one(&(config_map("a", "1", needs) + &config_map("b", "1", needs)))?;
    let said = s.apply(&["--resource-creation-timeout", "2s"])?.fails(1)?;
    ensure!(said.contains("token") || said.contains("other"), "{said}");
    s.expect_statuses("failed")?;
    let child = s.command(&["apply", "demo", "demo"]).spawn()?;
    std::thread::sleep(Duration::from_secs(2));
    s.must_not("configmap/a")?;
    for name in ["token", "other"] {
        s.kubectl(&["create", "secret", "generic", name, "--from-literal=a=b"])?;
    }
    wait(child)?.ok()?;
    s.must("configmap/a")?;
    s.expect_statuses("failed,deployed")
}

fn readiness(s: &Scene<'_>) -> Result<()> {
    let set = "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec:\n  replicas: 2\n  serviceName: db\n  \
               selector: {matchLabels: {app: db}}\n  updateStrategy: {rollingUpdate: {partition: 1}}\n  template:\n    metadata: {labels: {app: db}}\n    \
               spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: \"db:1\"}]}\n";
    let daemon = "---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  \
                  template:\n    metadata: {labels: {app: agent}}\n    spec: {containers: [{name: c, image: agent}]}\n";
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: check\n  annotations: {helm.sh/hook: pre-upgrade, sim/duration: \"2\"}\nspec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}\n";
    s.one(&(set.to_owned() + daemon + pod))?;
    s.apply(&[])?.ok()?;
    ensure!(s.must("statefulset/db")?["status"]["readyReplicas"] == 2);
    let status = s.must("daemonset/agent")?["status"].clone();
    ensure!(status["numberAvailable"] == status["desiredNumberScheduled"], "{status}");
    s.one(&(set.replace("db:1", "db:2") + daemon + pod))?;
    s.apply(&[])?.ok()?;
    ensure!(s.must("pod/check")?["status"]["phase"] == "Succeeded", "a hook Pod is done when it ended");
    ensure!(s.must("statefulset/db")?["status"]["updatedReplicas"] == 1, "the partition holds");

    let def = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ships.conformance.example}\nspec:\n  \
               group: conformance.example\n  scope: Namespaced\n  names: {kind: Ship, plural: ships}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    \
               subresources: {status: {}}\n    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n";
    let ship = "---\napiVersion: conformance.example/v1\nkind: Ship\nmetadata: {name: one}\nspec: {a: 1}\n";
    s.chart(&[("all.yaml", ship), ("crds/ship.yaml", def)])?;
    let child = s.command(&["apply", "demo", "demo"]).spawn()?;
    s.until("the custom resource", || {
        Ok(s.get("ships.conformance.example/one").is_ok_and(|found| found.is_some()))
    })?;
    let mark = |status: &str| {
        let patch = format!(
            r#"{{"status":{{"observedGeneration":1,"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#
        );
        s.kubectl(&[
            "patch",
            "ships.conformance.example",
            "one",
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
    };
    mark("False")?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(s.statuses()?.ends_with("pending-upgrade"), "it did not wait for Ready: {}", s.statuses()?);
    mark("True")?;
    wait(child)?.ok()?;
    s.slipway(&["delete", "demo"])?.ok()?;
    s.kubectl(&["delete", "customresourcedefinition", "ships.conformance.example"]).map(drop)
}

/// Nobody is ready before the last object is there, and none of the many that wait may take its place.
fn starvation(s: &Scene<'_>) -> Result<()> {
    let many: String = (0..60)
        .map(|number| deployment(&format!("w{number}"), "nginx:1", "", "sim/until: zz-last"))
        .collect();
    s.one(&(many + &config_map("zz-last", "1", "")))?;
    let mark = s.mark()?;
    s.apply(&["--network-parallelism", "4"])?.ok()?;
    let last = s.order(mark, "configmaps")?;
    ensure!(last.iter().any(|name| name == "zz-last"), "{last:?}");
    let listed: serde_json::Value =
        serde_json::from_str(&s.kubectl(&["get", "deployments", "-o", "json"])?)?;
    let deployments = listed["items"].as_array().cloned().unwrap_or_default();
    let ready = deployments.iter().filter(|found| found["status"]["availableReplicas"] == 1).count();
    ensure!(deployments.len() == 60 && ready == 60, "{ready} of {} are ready", deployments.len());
    s.expect_statuses("deployed")
}

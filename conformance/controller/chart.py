"""The chart: installed by real Helm beside kro's definitions, its policies and roles, and what uninstalling leaves."""

import hashlib
import json
import pathlib
import re

from world import *


KRO_KINDS = []
RGD = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "theirs"},
       "spec": {"schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"name": "string"}},
                "resources": [{"id": "settings", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"}}}]}}


def kro_state():
    return [identity(get("crd", name)) for name in KRO_KINDS] + [identity(get("resourcegraphdefinitions.kro.run", "theirs"))]


def kro_is_there():
    kubectl("apply", "--server-side", "--filename", KRO)
    for file in sorted(pathlib.Path(KRO).glob("*.yaml")):
        KRO_KINDS.append(re.search(r"^  name: (\S+)$", file.read_text(), re.M).group(1))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in KRO_KINDS))
    wait_for(lambda: apply(RGD) == "")
    expect("kro's definitions and an object of theirs are there", False, None in kro_state())


def values():
    digest = hashlib.sha256(API_TOKEN.encode()).hexdigest()
    path = DIRECTORY / "values.json"
    path.write_text(json.dumps({
        "replicaCount": 2, "controller": {"distributed": True}, "agent": {"accounts": ["eu"]},
        "bundleApi": {"hmacKey": HMAC_KEY, "tokens": json.dumps([{"name": "ci", "sha256": digest, "allow": [f"{APPS}/*"]}])},
        "grafanaDashboard": {"enabled": True},
    }))
    return ["--values", str(path)]


def installed(what):
    deployment = get("deployment", RELEASE, "-n", SYSTEM)
    expect(f"{what}: two pods run where pods are restricted", 2, deployment["status"].get("readyReplicas"))
    names = [item["metadata"]["name"] for item in items("validatingadmissionpolicies")]
    wanted = [f"{RELEASE}-{name}" for name in ("audit", "audit-writers", "bundles", "gates", "steps")]
    expect(f"{what}: the admission policies", wanted, sorted(name for name in names if name.startswith(RELEASE)))
    bound = {item["spec"]["policyName"]: item["spec"]["validationActions"] for item in items("validatingadmissionpolicybindings")}
    expect(f"{what}: each is bound and denies", {name: ["Deny"] for name in wanted}, {name: bound.get(name) for name in wanted})

    def checked():
        all_of_them = [get("validatingadmissionpolicy", name)["status"] for name in wanted]
        return all_of_them if all("observedGeneration" in status for status in all_of_them) else None
    # The server holds the expressions against the schemas of the definitions.
    statuses = wait_for(checked) or []
    warnings = [warning for status in statuses for warning in (status.get("typeChecking") or {}).get("expressionWarnings", [])]
    expect(f"{what}: their expressions fit the schemas", [len(wanted), []], [len(statuses), warnings])
    missing = [path.stem for path in sorted(pathlib.Path(CHART, "files/crds").glob("*.yaml")) if not get("crd", f"{path.stem}.kardinal.io")]
    expect(f"{what}: every definition is served", [], missing)
    expect(f"{what}: Graphs are served", False, get("crd", "graphs.experimental.kro.run") is None)


def helm_installs():
    for name, labels in ((SYSTEM, {"pod-security.kubernetes.io/enforce": "restricted"}), (POLICIES, {}), (APPS, {}), ("dev", {}), ("prod", {})):
        apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    before = kro_state()
    helm("install", RELEASE, CHART, "--wait", "--timeout=3m", *values())
    installed("helm install")
    helm("upgrade", RELEASE, CHART, "--wait", "--timeout=3m", *values())
    installed("helm upgrade")
    listed = json.loads(helm("list", "--output=json"))
    expect("helm lists the release", [["kardinal", "2", "deployed"]], [[one["name"], one["revision"], one["status"]] for one in listed])
    expect("what is kro's is untouched by the installation", before, kro_state())


def refused(name, message, *objects, who=None, words=()):
    """A policy refuses, with its own words; tried as somebody whom roles let do everything unless said otherwise."""
    said = apply(*objects, who=who, words=("--dry-run=server", *words))
    expect(f"policy: {name}", message, message if message in said else said or "accepted")


def accepted(name, *objects, who=None):
    expect(f"policy: {name}", "", apply(*objects, who=who))


def policies_hold():
    # Policies count a moment after they were written.
    wait_for(lambda: apply(step("early"), words=("--dry-run=server",)))
    steps = "promotion steps are written by the controller and its agents only"
    refused("nobody else creates a step", steps, step("by-hand"))
    accepted("the controller creates a step", step("made"), who=CONTROLLER)
    changed = step("made")
    changed["metadata"]["annotations"] = {"who": "somebody"}
    refused("nobody else changes a step", steps, changed)
    status = {**step("made"), "status": {"state": "Verified"}}
    refused("nobody else changes the state of a step", steps, status, words=("--subresource=status",))
    code, _, err = run(KUBECTL, "--kubeconfig", KUBECONFIG, "--as", AGENT, "patch", "promotionstep", "made", "-n", APPS, "--type=merge",
                       "--subresource=status", "--patch", '{"status": {"message": "an agent was here"}}')
    expect("policy: an agent writes the state of a step", [0, ""], [code, err])
    refused("nobody else writes the audit trail", "entries of the audit trail are written by the controller only", audit_event("forged"))
    expect("policy: the controller writes the audit trail", "", create(audit_event("one"), who=CONTROLLER))
    for who, name in ((None, "administrators"), (CONTROLLER, "the controller")):
        if who is None:
            refused(f"{name} change no entry", "an entry of the audit trail never changes", audit_event("one", actor="mallory"))
            labelled = audit_event("one")
            labelled["metadata"]["labels"] = {"kardinal.io/pipeline": "another"}
            refused(f"{name} move no entry", "entries of the audit trail are never changed or deleted", labelled)
        person = ("--as", who) if who else ()
        code, _, err = run(KUBECTL, "--kubeconfig", KUBECONFIG, *person, "delete", "auditevent", "one", "-n", APPS)
        expect(f"policy: {name} delete no entry", [1, True], [code, "forbidden" in err])
    accepted("a bundle is created", bundle("nobody", "policy-1", "1.0.0"))
    refused("the spec of a bundle stays", "the spec of a bundle never changes", bundle("nobody", "policy-1", "2.0.0"))
    accepted("its labels may change", bundle("nobody", "policy-1", "1.0.0", labels={"kardinal.io/pipeline": "nobody", "team": "shop"}))
    refused("a gate needs an expression", "a gate needs an expression", gate(APPS, "empty", expression="  "))
    # Smaller units are durations to the schema alone.
    refused("recheckInterval is a duration", "recheckInterval is a duration", gate(APPS, "often", expression="true", recheckInterval="5ns"))
    refused("gates of the org stand in the policy namespaces", "gates of the scope org stand in the policy namespaces", gate(APPS, "org", "org"))
    accepted("and there they may", gate(POLICIES, "org", "org"))
    refused("gates of bundles are the controller's", "gates of bundles are written by the controller only",
            gate(APPS, "instance", more={"kardinal.io/instance": "true"}))
    first, second = ({"reason": reason, "createdBy": "alice"} for reason in ("first", "second"))
    accepted("a gate is overridden", gate(APPS, "overridden", expression="false", overrides=[first]))
    accepted("and again", gate(APPS, "overridden", expression="false", overrides=[first, second]))
    refused("overrides stay", "overrides are added, never changed or removed", gate(APPS, "overridden", expression="false", overrides=[second]))
    # Whoever deletes a namespace gets rid of it, audit trail or not.
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}})
    for item in (step("made"), audit_event("one"), gate("short-lived", "team")):
        item["metadata"]["namespace"] = "short-lived"
        create(item, who=CONTROLLER)
    kubectl("delete", "namespace", "short-lived", "--wait=false")
    expect("policy: a namespace with steps and entries can be deleted", True, wait_for(lambda: get("namespace", "short-lived") is None) or False)
    kubectl("delete", "policygate", "overridden", "-n", APPS)
    kubectl("delete", "policygate", "org", "-n", POLICIES)
    kubectl("delete", "bundle", "policy-1", "-n", APPS)


def roles_hold():
    """Roles alone, without the policies: kubectl asks the server."""
    people = {"vera": "kardinal-viewer", "dana": "kardinal-developer", "anna": "kardinal-approver", "paula": "kardinal-platform"}
    for person, role in people.items():
        kubectl("create", "clusterrolebinding", f"conformance-{person}", f"--clusterrole={role}", f"--user={person}")
    rows = [
        ("vera", "get", "bundles", True), ("vera", "create", "bundles", False), ("dana", "create", "bundles", True),
        ("dana", "create", "promotionsteps", False), ("dana", "update", "promotionsteps/status", False), ("dana", "create", "auditevents", False),
        ("anna", "patch", "policygates/status", True), ("anna", "create", "policygates", False), ("paula", "create", "policygates", True),
        ("paula", "delete", "auditevents", False), (AGENT, "create", "bundles", False), (AGENT, "patch", "promotionsteps/status", True),
        (AGENT, "get", "secrets", False), (AGENT, "update", "policygates", False), (CONTROLLER, "delete", "auditevents", False),
        (CONTROLLER, "create", "pods", False), (CONTROLLER, "update", "secrets", False),
    ]
    for who, verb, what, allowed in rows:
        resource, _, sub = what.partition("/")
        group = "" if resource in ("secrets", "pods") else ".kardinal.io"
        subresource = (f"--subresource={sub}",) if sub else ()
        code, _, _ = run(KUBECTL, "--kubeconfig", KUBECONFIG, "auth", "can-i", "--quiet", "--as", who, verb, resource + group, *subresource, "-n", APPS)
        expect(f"role: {who.rsplit(':', 1)[-1]} {verb} {what}", allowed, code == 0)


def data():
    kinds = "pipelines", "bundles", "promotionsteps", "policygates", "auditevents", "graphs.experimental.kro.run"
    return {kind: sorted([item["metadata"]["namespace"], item["metadata"]["name"], item["metadata"]["uid"]] for item in items(kind, "-A")) for kind in kinds}


def definitions():
    return sorted([item["metadata"]["name"], item["metadata"]["uid"]] for item in items("crd"))


def gone(what):
    left = [f"{kind}/{item['metadata']['name']}" for kind in ("deployments", "services", "serviceaccounts", "secrets", "networkpolicies", "poddisruptionbudgets")
            for item in items(kind, "-n", SYSTEM) if (item["metadata"].get("labels") or {}).get("app.kubernetes.io/instance") == RELEASE]
    left += [f"{kind}/{item['metadata']['name']}" for kind in ("clusterroles", "clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings")
             for item in items(kind) if (item["metadata"].get("labels") or {}).get("app.kubernetes.io/instance") == RELEASE]
    expect(f"{what}: everything else is gone", [], left)


def uninstalling_keeps_data():
    for person in ("vera", "dana", "anna", "paula"):
        kubectl("delete", "clusterrolebinding", f"conformance-{person}")
    kept, crds, theirs = data(), definitions(), kro_state()
    expect("there is data to lose", [], [kind for kind, items in kept.items() if not items])
    helm("uninstall", RELEASE, "--wait", "--timeout=3m")
    gone("helm uninstall")
    expect("helm uninstall: definitions stay", crds, definitions())
    expect("helm uninstall: data stays", kept, data())
    expect("helm uninstall: what is kro's stays", theirs, kro_state())
    helm("install", RELEASE, CHART, "--wait", "--timeout=3m", *values())
    installed("helm install over what was kept")
    expect("helm install over what was kept: data stays", kept, data())
    helm("uninstall", RELEASE, "--wait", "--timeout=3m")
    must(SLIPWAY, "controller", "install", "--kubeconfig", KUBECONFIG, "-n", SYSTEM, *values())
    installed("slipway controller install")
    must(SLIPWAY, "controller", "uninstall", "--kubeconfig", KUBECONFIG, "-n", SYSTEM)
    gone("slipway controller uninstall")
    expect("slipway controller uninstall: definitions stay", crds, definitions())
    expect("slipway controller uninstall: data stays", kept, data())
    kubectl("delete", "--filename", KRO)
    expect("ours stay when kro's definitions go", [item for item in crds if item[0] not in KRO_KINDS], definitions())
    expect("data stays when kro's definitions go", kept, data())

"""The chart of the controller on a real cluster: installed by real Helm beside kro's definitions, with every admission policy
enforced; promotions as the accounts it creates, through a real Gitea; uninstalled without losing data.

Called with our binary, Helm, kubectl, a kubeconfig, the chart, the directory of kro's definitions and a directory; writes
verdicts.json there. GITEA_ROOT, GITEA_USER and GITEA_TOKEN say where the Gitea is.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

SLIPWAY, HELM, KUBECTL, KUBECONFIG, CHART, KRO, DIRECTORY = sys.argv[1:8]
DIRECTORY = pathlib.Path(DIRECTORY)
GITEA, USER, TOKEN = (os.environ["GITEA_" + name] for name in ("ROOT", "USER", "TOKEN"))
SYSTEM, RELEASE, POLICIES, APPS = "kardinal-system", "kardinal", "platform-policies", "apps"
CONTROLLER, AGENT = (f"system:serviceaccount:{SYSTEM}:{name}" for name in (RELEASE, f"{RELEASE}-agent-eu"))
API_TOKEN, HOOK_SECRET = "conformance-0f3a77c1e9", "hook-secret"
PATIENCE = 180
ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "NO_PROXY": "127.0.0.1", "HOME": str(DIRECTORY / "home")}
verdicts = {}


def expect(name, expected, found):
    verdicts[name] = {"expected": expected, "found": found}
    print(f"  {'ok' if expected == found else 'DIFFERS'}: {name}" + ("" if expected == found else f": expected {expected}, found {found}"),
          file=sys.stderr, flush=True)


def run(program, *words, text=None):
    ran = subprocess.run([program, *words], cwd=DIRECTORY, input=text, capture_output=True, text=True, timeout=600, env=ENVIRONMENT)
    return ran.returncode, ran.stdout, ran.stderr


def must(program, *words, text=None):
    code, out, err = run(program, *words, text=text)
    if code:
        raise RuntimeError(f"{program} {' '.join(words)}: {code}\n{err or out}")
    return out


def kubectl(*words, text=None):
    return must(KUBECTL, "--kubeconfig", KUBECONFIG, *words, text=text)


def helm(*words):
    return must(HELM, "--kubeconfig", KUBECONFIG, "--namespace", SYSTEM, *words)


def get(*words):
    code, out, _ = run(KUBECTL, "--kubeconfig", KUBECONFIG, "get", "--ignore-not-found", "--output=json", *words)
    return json.loads(out) if code == 0 and out.strip() else None


def items(*words):
    """The objects of a kind; kubectl prints nothing at all where there are none."""
    return (get(*words) or {"items": []})["items"]


def write(verb, *objects, who=None, words=()):
    """Writes objects as somebody; returns why that was refused, or nothing."""
    text = "\n---\n".join(map(json.dumps, objects))
    person = ("--as", who) if who else ()
    code, _, err = run(KUBECTL, "--kubeconfig", KUBECONFIG, *person, *verb, *words, "--filename=-", text=text)
    return err.strip() if code else ""


def apply(*objects, who=None, words=()):
    return write(("apply", "--server-side", "--force-conflicts"), *objects, who=who, words=words)


def create(*objects, who=None):
    """For those who may create and not change."""
    return write(("create",), *objects, who=who)


def wait_for(check):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = check()
        if found:
            return found
        time.sleep(0.3)
    return None


def custom(kind, namespace, name, spec, **metadata):
    return {"apiVersion": "kardinal.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


def bundle(pipeline, name, version, **metadata):
    images = [{"name": "ghcr.io/acme/app", "reference": f"ghcr.io/acme/app:{version}"}]
    return custom("Bundle", APPS, name, {"artifacts": {"images": images}}, **{"labels": {"kardinal.io/pipeline": pipeline}, **metadata})


def step(name):
    return custom("PromotionStep", APPS, name, {"pipeline": "app", "environment": "dev", "bundleRef": "none", "git": {"url": "https://example.com/a.git"}},
                  labels={"kardinal.io/shard": "nobody"})


def audit_event(name, **more):
    return custom("AuditEvent", APPS, name, {"timestamp": "2026-01-01T00:00:00Z", "bundleName": "none", "pipelineName": "nobody", "action": "PRMerged",
                                             "outcome": "Success", **more})


def gate(namespace, name, scope="team", more=None, **spec):
    labels = {"kardinal.io/scope": scope, "kardinal.io/applies-to": "nowhere", **(more or {})}
    return custom("PolicyGate", namespace, name, spec or {"expression": "true"}, labels=labels)


def identity(item):
    """What of an object changes when somebody writes it."""
    return item and [item["metadata"]["uid"], item["metadata"].get("generation")]


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
        "bundleApi": {"tokens": json.dumps([{"name": "ci", "sha256": digest, "allow": [f"{APPS}/*"]}])},
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


def gitea(method, path, body=None, patience=60):
    request = urllib.request.Request(f"{GITEA}/api/v1/{path}", method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"token {TOKEN}")
    until = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            # It works out in the background whether something can be merged.
            if error.code not in (404, 405, 409, 500) or time.monotonic() > until:
                raise RuntimeError(f"{method} {path}: {error.code}: {error.read().decode()}")
            time.sleep(0.3)


def create_repository(name):
    gitea("POST", "user/repos", {"name": name, "auto_init": True, "default_branch": "main"})
    files = []
    for environment in ("dev", "prod"):
        kustomization = f"# {environment}: ask the shop team.\nresources: [deployment.yaml]\nnamespace: {environment}\nimages:\n- name: ghcr.io/acme/app\n  newTag: \"1.0.0\"\n"
        text = {"kustomization.yaml": kustomization, "deployment.yaml": json.dumps(deployment(None))}
        files += [{"operation": "create", "path": f"environments/{environment}/{file}", "content": base64.b64encode(content.encode()).decode()}
                  for file, content in text.items()]
    gitea("POST", f"repos/{USER}/{name}/contents", {"branch": "main", "message": "first", "files": files})


def deployment(environment, tag="1.0.0"):
    metadata = {"name": "app", **({"namespace": environment} if environment else {})}
    labels = {"app": "app"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": f"ghcr.io/acme/app:{tag}"}]}}}}


def tag_on_main(repository, environment):
    answer = gitea("GET", f"repos/{USER}/{repository}/contents/environments/{environment}/kustomization.yaml?ref=main")
    return re.search(r'newTag: "?([^"\s]+)', base64.b64decode(answer["content"]).decode()).group(1)


def account_kubeconfig(account):
    admin = json.loads(pathlib.Path(KUBECONFIG).read_text())
    token = kubectl("create", "token", account, "-n", SYSTEM, "--duration=3h").strip()
    admin["users"] = [{"name": admin["users"][0]["name"], "user": {"token": token}}]
    path = DIRECTORY / f"{account}.kubeconfig"
    path.write_text(json.dumps(admin))
    return str(path)


class Process:
    """A process of promotion as one of the chart's accounts."""

    def __init__(self, name, account, *words):
        self.name = name
        self.log = DIRECTORY / f"{name}.log"
        self.output = open(self.log, "w")
        kubeconfig = account_kubeconfig(account)
        words = [word.replace("KUBECONFIG", kubeconfig) for word in words]
        self.child = subprocess.Popen([SLIPWAY, *words, "--kubeconfig", kubeconfig, "--allow-host=127.0.0.1", "-vv",
                                       "--git-cache-dir", str(DIRECTORY / f"{name}-cache")],
                                      cwd=DIRECTORY, env=ENVIRONMENT, stdout=self.output, stderr=self.output, stdin=subprocess.DEVNULL)

    def text(self):
        return self.log.read_text()

    def api(self):
        found = wait_for(lambda: re.search(r"API on (\S+)", self.text()))
        if not found:
            raise RuntimeError(f"no API is served:\n{self.text()[-2000:]}")
        return f"http://{found.group(1)}"

    def end(self):
        self.child.terminate()
        code = self.child.wait(60)
        self.output.close()
        return code


def denied_requests(*processes):
    """Requests of processes that the server refused for want of rights."""
    return sorted({f"{process.name}: {request}" for process in processes for request in re.findall(r"DEBUG (\S+ \S+): 403", process.text())})


def phase(name):
    found = get("bundle", name, "-n", APPS)
    return found and (found.get("status") or {}).get("phase")


def state(name, environment):
    found = get("promotionstep", f"{name}-{environment}", "-n", APPS)
    return found and (found.get("status") or {}).get("state")


def reason(name, environment):
    found = get("promotionstep", f"{name}-{environment}", "-n", APPS)
    return found and (found.get("status") or {}).get("reason")


def pull_requests(repository, version):
    pulls = gitea("GET", f"repos/{USER}/{repository}/pulls?state=all&limit=50")
    return [pull for pull in pulls if version in pull["title"]]


def play_sync(repository, environments):
    """Brings what is on main into the cluster, as a GitOps tool would."""
    for environment in environments:
        apply(deployment(environment, tag_on_main(repository, environment)))


def promote(repository, name, version, approve):
    """From the creation of a bundle to its end: by a merge, or by a label where there are no pull requests."""
    until, approved = time.monotonic() + PATIENCE, False
    while time.monotonic() < until and phase(name) not in ("Verified", "Failed", "Rejected"):
        play_sync(repository, ("dev", "prod"))
        if not approved and state(name, "prod") == "WaitingForMerge":
            approve(version)
            approved = True
        time.sleep(0.3)
    return phase(name)


def merge(version):
    pull = wait_for(lambda: pull_requests("gitops", version))[0]
    gitea("POST", f"repos/{USER}/gitops/pulls/{pull['number']}/merge", {"Do": "merge"})


def accounts_promote():
    # The accounts of the chart are for the cluster with the pipelines. Here it has the agent's workloads and credentials as well, which
    # are an operator's to open.
    account = f"--serviceaccount={AGENT.removeprefix('system:serviceaccount:')}"
    kubectl("create", "clusterrolebinding", "conformance-workloads", "--clusterrole=view", account)
    kubectl("create", "role", "conformance-credentials", "-n", APPS, "--verb=get", "--resource=secrets", "--resource-name=gitops")
    kubectl("create", "rolebinding", "conformance-credentials", "-n", APPS, "--role=conformance-credentials", account)
    controller = Process("controller", RELEASE, "controller", "run", "-n", SYSTEM, "--distributed", "--api-address=127.0.0.1:0",
                         "--metrics-address=", "--probe-address=", "--policy-namespace", POLICIES)
    agent = Process("agent", f"{RELEASE}-agent-eu", "agent", "--shard=eu", "--control-plane-kubeconfig=KUBECONFIG", "--control-namespace", SYSTEM,
                    "--metrics-address=", "--probe-address=")
    try:
        promotions(controller)
    finally:
        ends = [agent.end(), controller.end()]
    expect("both processes end when they are told to", [True, True], [code in (0, 130, 143) for code in ends])
    expect("the roles of the accounts suffice", [], denied_requests(controller, agent))
    leaks = [secret for secret in (TOKEN, API_TOKEN, HOOK_SECRET) if secret in controller.text() + agent.text()]
    expect("no secret is in the logs", [], leaks)


def promotions(controller):
    api = controller.api()
    for environment in ("dev", "prod"):
        apply(deployment(environment))
    create_repository("gitops")
    create_repository("plain")
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in
               (("token", TOKEN), ("username", USER), ("webhookSecret", HOOK_SECRET))}
    health = {"type": "resource", "timeout": "2m", "resource": {"kind": "Deployment", "name": "app"}}
    environments = [{"name": "dev", "health": {**health, "resource": {**health["resource"], "namespace": "dev"}}},
                    {"name": "prod", "approval": "pr-review", "health": {**health, "resource": {**health["resource"], "namespace": "prod"}}}]
    git = lambda name, provider: {"url": f"{GITEA}/{USER}/{name}.git", "provider": provider, "secretRef": {"name": "gitops"}}
    sharded = [environments[0], {**environments[1], "approval": "auto", "shard": "eu"}]
    expect("kubectl creates pipelines and gates", "", apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gitops", "namespace": APPS}, "data": encoded},
        custom("Pipeline", APPS, "app", {"git": git("gitops", "gitea"), "environments": environments}),
        custom("Pipeline", APPS, "sharded", {"git": git("gitops", "gitea"), "environments": sharded}),
        custom("Pipeline", APPS, "plain", {"git": git("plain", "none"), "environments": environments}),
        custom("PolicyGate", POLICIES, "no-bad-version", {"expression": "bundle.version != '6.6.6'", "message": "bad"},
               labels={"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"})))
    gitea("POST", f"repos/{USER}/gitops/hooks", {"type": "gitea", "active": True, "events": ["pull_request"],
          "config": {"url": f"{api}/webhooks/gitea", "content_type": "json", "secret": HOOK_SECRET}})
    leads = wait_for(lambda: (get("lease", "kardinal-controller", "-n", SYSTEM) or {}).get("spec", {}).get("holderIdentity"))
    expect("the controller is elected", True, bool(leads))
    # The whole of it: a bundle of YAML, a pull request, a merge that a webhook tells of.
    apply(bundle("app", "app-1", "1.1.0"))
    expect("a bundle of YAML is verified after a merge", "Verified", promote("gitops", "app-1", "1.1.0", merge))
    expect("the right version is on main", ["1.1.0", "1.1.0"], [tag_on_main("gitops", name) for name in ("dev", "prod")])
    pulls = pull_requests("gitops", "1.1.0")
    expect("one pull request, and it is merged", [True], [pull["merged"] for pull in pulls])
    subjects = [commit["commit"]["message"].split("\n")[0] for commit in gitea("GET", f"repos/{USER}/gitops/commits?sha=main&limit=50")]
    of_dev = [subject for subject in subjects if "1.1.0 to dev" in subject]
    expect("one commit for the environment without review", 1, len(of_dev))
    # A hold by kubectl.
    freeze = custom("PolicyGate", APPS, "freeze-app", {"expression": "false", "message": "paused", "appliesTo": ["*"], "overridable": False, "recheckInterval": "5s"},
                    labels={"kardinal.io/scope": "team", "kardinal.io/freeze": "true", "kardinal.io/pipeline": "app", "kardinal.io/type": "gate"})
    apply(freeze)
    apply(bundle("app", "app-2", "1.2.0"))
    held = wait_for(lambda: reason("app-2", "dev"))
    expect("a freeze by kubectl holds a bundle", ["Paused", "Pending"], [held, state("app-2", "dev")])
    kubectl("delete", "policygate", "freeze-app", "-n", APPS)
    expect("and lets it go", "Verified", promote("gitops", "app-2", "1.2.0", merge))
    # A build creates a bundle over HTTP; the org's gate holds it.
    request = urllib.request.Request(f"{api}/api/v1/bundles", method="POST", data=json.dumps({
        "pipeline": "app", "namespace": APPS, "name": "app-3", "artifacts": {"images": [{"name": "ghcr.io/acme/app", "reference": "ghcr.io/acme/app:6.6.6"}]}}).encode())
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", f"Bearer {API_TOKEN}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        expect("a build creates a bundle over HTTP", 201, answer.status)

    def gate_of(name):
        gates = [item for item in items("policygates", "-A") if item["metadata"].get("labels", {}).get("kardinal.io/bundle") == name]
        return [item for item in gates if (item.get("status") or {}).get("phase") == "Block"]
    play_sync("gitops", ("dev",))

    def is_held():
        play_sync("gitops", ("dev",))
        return state("app-3", "dev") == "Verified" and gate_of("app-3")
    expect("a gate of the org holds it before prod", [True, None], [bool(wait_for(is_held)), state("app-3", "prod")])
    # A server without pull requests: approved by kubectl.
    apply(bundle("plain", "plain-1", "1.3.0"))
    approve = lambda _: kubectl("label", "bundle", "plain-1", "-n", APPS, "kardinal.io/approved-for=prod")
    expect("a bundle is approved by kubectl", "Verified", promote("plain", "plain-1", "1.3.0", approve))
    # An agent with an account of its own.
    apply(bundle("sharded", "sharded-1", "1.4.0"))
    expect("an agent carries out its shard", "Verified", promote("gitops", "sharded-1", "1.4.0", merge))
    code, out, err = run(SLIPWAY, "doctor", "--kubeconfig", KUBECONFIG, "-n", SYSTEM, "--api-url", api, "--allow-host=127.0.0.1", "-o", "json")
    faults = sorted([finding["fault"], finding["subject"]] for finding in json.loads(out or "[]") if finding.get("fault")) if code in (0, 1) else err
    # The step of a shard without an agent and the entry of the audit trail, both written by hand above.
    planted = [["agent-offline", "agent nobody"], ["audit-chain-broken", f"audit trail of {APPS}/nobody"]]
    expect("doctor finds what was planted and nothing else", [1, planted], [code, faults])
    code, out, err = run(SLIPWAY, "audit", "verify", "--kubeconfig", KUBECONFIG, "-A")
    # The entry written by hand above belongs to no chain.
    expect("the audit trail shows the one forged entry", True, code != 0 and "nobody" in out + err)


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


def main():
    (DIRECTORY / "home").mkdir()
    for scenario in (kro_is_there, helm_installs, policies_hold, roles_hold, accounts_promote, uninstalling_keeps_data):
        began = time.monotonic()
        try:
            scenario()
        except Exception as error:  # A scenario that breaks is a verdict, not the end of the others.
            expect(f"{scenario.__name__} plays to its end", "", f"{type(error).__name__}: {error}")
        print(f"  {scenario.__name__}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    (DIRECTORY / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


main()

"""The cluster, the Gitea and what the scenarios of the controller share.

The suite is called with our binary, Helm, kubectl, a kubeconfig, the chart, the directory of kro's definitions, the program of a registry
and a directory.
GITEA_ROOT, GITEA_USER and GITEA_TOKEN say where the Gitea is.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

SLIPWAY, HELM, KUBECTL, KUBECONFIG, CHART, KRO, REGISTRY, DIRECTORY = sys.argv[1:9]
DIRECTORY = pathlib.Path(DIRECTORY)
GITEA, USER, TOKEN = (os.environ["GITEA_" + name] for name in ("ROOT", "USER", "TOKEN"))
SYSTEM, RELEASE, POLICIES, APPS = "kardinal-system", "kardinal", "platform-policies", "apps"
CONTROLLER, AGENT = (f"system:serviceaccount:{SYSTEM}:{name}" for name in (RELEASE, f"{RELEASE}-agent-eu"))
# Nothing but the Secrets that hold them may show one of these.
API_TOKEN, HOOK_SECRET, HMAC_KEY, NOTIFY_KEY = "conformance-0f3a77c1e9", "hook-secret-51ac", "body-key-77d0e2", "notify-key-93b1"
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


def create_repository(name, environments=("dev", "prod"), api=None):
    """A repository with directories of environments, which tells the API of its pull requests."""
    gitea("POST", "user/repos", {"name": name, "auto_init": True, "default_branch": "main"})
    files = []
    for environment in environments:
        kustomization = f"# {environment}: ask the shop team.\nresources: [deployment.yaml]\nnamespace: {environment}\nimages:\n- name: ghcr.io/acme/app\n  newTag: \"1.0.0\"\n"
        text = {"kustomization.yaml": kustomization, "deployment.yaml": json.dumps(deployment(None))}
        files += [{"operation": "create", "path": f"environments/{environment}/{file}", "content": base64.b64encode(content.encode()).decode()}
                  for file, content in text.items()]
    gitea("POST", f"repos/{USER}/{name}/contents", {"branch": "main", "message": "first", "files": files})
    if api:
        gitea("POST", f"repos/{USER}/{name}/hooks", {"type": "gitea", "active": True, "events": ["pull_request"],
              "config": {"url": f"{api}/webhooks/gitea", "content_type": "json", "secret": HOOK_SECRET}})


def deployment(environment, tag="1.0.0", name="app"):
    metadata = {"name": name, **({"namespace": environment} if environment else {})}
    labels = {"app": name}
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

    def address(self, what):
        found = wait_for(lambda: re.search(rf"{what} on (\S+)", self.text()))
        if not found:
            raise RuntimeError(f"no {what}:\n{self.text()[-2000:]}")
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


def play_sync(repository, environments, workload="app"):
    """Brings what is on main into the cluster, as a GitOps tool would."""
    for environment in environments:
        apply(deployment(environment, tag_on_main(repository, environment), workload))


def promote(repository, name, version, approve, workload="app"):
    """From the creation of a bundle to its end: by a merge, or by a label where there are no pull requests."""
    until, approved = time.monotonic() + PATIENCE, False
    while time.monotonic() < until and phase(name) not in ("Verified", "Failed", "Rejected"):
        play_sync(repository, ("dev", "prod"), workload)
        if not approved and state(name, "prod") == "WaitingForMerge":
            approve(version)
            approved = True
        time.sleep(0.3)
    return phase(name)


def merge(version, repository="gitops"):
    pull = wait_for(lambda: pull_requests(repository, version))[0]
    gitea("POST", f"repos/{USER}/{repository}/pulls/{pull['number']}/merge", {"Do": "merge"})


def start_controller(name="controller", port=0):
    return Process(name, RELEASE, "controller", "run", "-n", SYSTEM, "--distributed", f"--api-address=127.0.0.1:{port}",
                   "--metrics-address=127.0.0.1:0", "--probe-address=", "--policy-namespace", POLICIES)


def start_agent(name="agent"):
    return Process(name, f"{RELEASE}-agent-eu", "agent", "--shard=eu", "--control-plane-kubeconfig=KUBECONFIG", "--control-namespace", SYSTEM,
                   "--metrics-address=", "--probe-address=")


def is_led():
    """A process has the Lease of the controller."""
    return bool((get("lease", "kardinal-controller", "-n", SYSTEM) or {}).get("spec", {}).get("holderIdentity"))


def ask(url, body=None, token=API_TOKEN, key=HMAC_KEY, **headers):
    """Asks the API as a build does; returns the status, the answer and its headers."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method="GET" if body is None else "POST", data=content)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if key and content:
        request.add_header("X-Kardinal-Signature", "sha256=" + hmac.new(key.encode(), content, hashlib.sha256).hexdigest())
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def image(version, name="ghcr.io/acme/app"):
    return {"images": [{"name": name, "reference": f"{name}:{version}"}]}


def git_of(repository, provider="gitea", secret="gitops"):
    return {"url": f"{GITEA}/{USER}/{repository}.git", "provider": provider, "secretRef": {"name": secret}}


def slipway(*words, text=None):
    return run(SLIPWAY, *words, "--kubeconfig", KUBECONFIG, text=text)


class Crew:
    """The controller and the agent of a shard, which come and go; the API keeps its address."""

    def __init__(self):
        self.everybody = []
        self.controller = self.join(start_controller("controller-1"))
        self.api = self.controller.address("API")
        self.agent = self.join(start_agent("agent-1"))

    def join(self, process):
        self.everybody.append(process)
        return process

    def restart_controller(self):
        code = self.controller.end()
        port = self.api.rsplit(":", 1)[1]
        self.controller = self.join(start_controller(f"controller-{len(self.everybody)}", port))
        self.controller.address("API")
        return code

    def restart_agent(self):
        self.agent = self.join(start_agent(f"agent-{len(self.everybody)}"))

    def end(self):
        return [process.end() for process in (self.agent, self.controller)]

    def text(self):
        return "".join(process.text() for process in self.everybody)

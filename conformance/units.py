"""Release units on a cluster: the scenarios of the specification, with Helm reading what comes of them.

Called with our binary, Helm, a kubeconfig, the directory of the Gateway API's definitions and a directory; writes verdicts.json
there. The cluster is a real one, or the sandbox's.
"""

import base64
import concurrent.futures
import json
import os
import pathlib
import random
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import yaml

SLIPWAY, HELM, KUBECONFIG, DEFINITIONS, DIRECTORY = sys.argv[1], sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]), pathlib.Path(sys.argv[5])
KILLS = int(os.environ.get("KILLS", "6"))
AT_ONCE = 4
PATIENCE = 180
ONE, TWO, THREE = ("sha256:" + digit * 64 for digit in "123")
verdicts = {}


def expect(name, expected, found):
    verdicts[name] = {"expected": expected, "found": found}
    if expected != found:
        print(f"differs: {name}: expected {expected}, found {found}", file=sys.stderr)


class Api:
    """Requests to the API server of a kubeconfig."""

    def __init__(self, path):
        config = yaml.safe_load(open(path))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server, self.token = cluster["server"], user.get("token")
        text = lambda holder, key: base64.b64decode(holder[key + "-data"]).decode() if key + "-data" in holder else open(holder[key]).read()
        self.context = None
        if self.server.startswith("https"):
            self.context = ssl.create_default_context(cadata=text(cluster, "certificate-authority"))
            if "client-certificate-data" in user or "client-certificate" in user:
                with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
                    pair.write(text(user, "client-certificate") + "\n" + text(user, "client-key"))
                    pair.flush()
                    self.context.load_cert_chain(pair.name)

    def send(self, method, path, body=None, kind="application/json"):
        request = urllib.request.Request(self.server + path, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", kind)
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.context) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def get(self, path):
        return self.send("GET", path)

    def deployment(self, namespace, name="shop"):
        return self.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")

    def left_behind(self, namespace):
        kinds = ("apis/apps/v1", "deployments"), ("api/v1", "services"), ("apis/networking.k8s.io/v1", "ingresses")
        found = []
        for group, kind in kinds:
            listed = self.get(f"/{group}/namespaces/{namespace}/{kind}?labelSelector=ktl.dev%2Fowned-by-run") or {}
            found += [item["metadata"]["name"] for item in listed.get("items") or []]
        return found


api = Api(KUBECONFIG)
ENVIRONMENT = {**os.environ, "KUBECONFIG": KUBECONFIG, "NO_COLOR": "1", "NO_PROXY": "127.0.0.1", "HOME": str(DIRECTORY / "home")}


def run(*words, program=SLIPWAY):
    ran = subprocess.run([program, *words], cwd=DIRECTORY, capture_output=True, text=True, timeout=600, env=ENVIRONMENT)
    return ran.returncode, ran.stdout, ran.stderr


def unit(*words):
    return run("unit", *words)


def wait_for(check):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = check()
        if found:
            return found
        time.sleep(0.2)
    return None


def write_files():
    chart = DIRECTORY / "shop"
    (chart / "templates").mkdir(parents=True)
    (DIRECTORY / "home").mkdir()
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text("replicaCount: 2\ngreeting: hello\nroute: false\nimage: {repository: acme/shop, tag: '1'}\n")
    (chart / "templates/all.yaml").write_text("""\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
        - {name: shop, image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data: {greeting: "{{ .Values.greeting }}"}
{{- with .Values.password }}
---
apiVersion: v1
kind: Secret
metadata: {name: shop}
stringData: {password: "{{ . }}"}
{{- end }}
{{- if .Values.chance }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: chance}
data: {drawn: "{{ randAlphaNum 16 }}", same: always}
{{- end }}
{{- if .Values.route }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: public}]
  rules: [{backendRefs: [{name: shop, port: 80}]}]
{{- end }}
""")
    (DIRECTORY / "slipway.yaml").write_text(
        "environments: {staging: {namespace: staging}, prod: {namespace: prod}}\npromotion: {order: [staging, prod]}\n"
        "secrets: {providers: {local: {type: file, path: dev.yaml}}}\n")
    slots = "apiVersion: ktl.dev/unit/v1\noverlaySlots: {prod: [replicaCount]}\n"
    (DIRECTORY / "plain.yaml").write_text(slots)
    canary = "strategy: {type: canary, targets: [{name: shop}], canary: {provider: %s, steps: [{weight: 10}, {check: verify}, {pause: manual}, {weight: 50}, {weight: 100}]}}\n"
    (DIRECTORY / "canary.yaml").write_text(slots + canary % "replicas")
    (DIRECTORY / "gateway.yaml").write_text(slots + canary % "gateway-api")
    (DIRECTORY / "quick.yaml").write_text(slots + (canary % "replicas").replace("{pause: manual}, ", ""))
    (DIRECTORY / "bluegreen.yaml").write_text(
        slots + "strategy: {type: bluegreen, targets: [{name: shop}], bluegreen: {service: shop, preview: shop-preview, prePromotion: [verify]}}\n")
    (DIRECTORY / "colors.yaml").write_text(
        slots + "strategy: {type: bluegreen, targets: [{name: shop}], bluegreen: {service: shop, prePromotion: [verify], autoPromote: true}}\n")


def bundle(file, digest, settings="plain.yaml", *more):
    return unit("bundle", "shop", "./shop", "-n", "shop", "--settings", settings, "--image", f"shop=acme/shop:2@{digest}", "-O", file, *more)


def apply_to(file, namespace, *more):
    return unit("apply", file, "-n", namespace, "--soak", "0s", "-q", *more)


def image_of(namespace, name="shop"):
    found = api.deployment(namespace, name)
    return found and found["spec"]["template"]["spec"]["containers"][0]["image"]


def reproducible_and_applied_as_bundled():
    bundle("one", ONE)
    (DIRECTORY / "elsewhere").mkdir()
    bundle("elsewhere/one", ONE)
    digests = [json.loads(unit("inspect", file, "-o", "json")[1])["digest"] for file in ("one", "elsewhere/one")]
    same_bytes = (DIRECTORY / "one").read_bytes() == (DIRECTORY / "elsewhere/one").read_bytes()
    expect("U-01 two bundles have one digest", [True, False], [digests[0] == digests[1], same_bytes])
    text = (DIRECTORY / "shop/templates/all.yaml").read_text()
    (DIRECTORY / "shop/templates/all.yaml").write_text(text.replace("data: {", "data: {edited: 'yes', "))
    code, out, err = apply_to("one", "u03")
    (DIRECTORY / "shop/templates/all.yaml").write_text(text)
    live = api.get("/api/v1/namespaces/u03/configmaps/shop")
    expect("U-03 what was bundled is applied", [0, {"greeting": "hello"}], [code, live and live["data"]])
    manifest = run("get", "manifest", "shop", "-n", "u03", program=HELM)
    expect("U-03 Helm reads the release", [0, True, False], [manifest[0], ONE in manifest[1], "edited" in manifest[1]])
    history = json.loads(run("history", "shop", "-n", "u03", "-o", "json", program=HELM)[1] or "[]")
    expect("U-03 Helm lists its revision", [[1, "deployed"]], [[row["revision"], row["status"]] for row in history])
    code, _, err = apply_to("one", "u03")
    expect("a second apply does nothing", [0, True], [code, "already applied" in err])


def tampering():
    content = bytearray((DIRECTORY / "one").read_bytes())
    place = content.find(b"acme/shop")
    content[place] ^= 1
    (DIRECTORY / "changed").write_bytes(content)
    code, _, err = apply_to("changed", "u02")
    expect("U-02 a changed unit is not applied", [10, None], [code, api.deployment("u02")])


def secrets():
    canaries = ["first-canary-value", "second-canary-value"]
    write = lambda value: (DIRECTORY / "dev.yaml").write_text(f"shop: {{password: {value}}}\n")
    live = lambda: base64.b64decode(((api.get("/api/v1/namespaces/u04/secrets/shop") or {}).get("data") or {}).get("password", "")).decode()
    write(canaries[0])
    code, _, err = bundle("secret", ONE, "plain.yaml", "--set-string", "password=secret://local/shop#password")
    first = apply_to("secret", "u04"), live()
    expect("U-04 an apply fetches the secret", [0, 0, canaries[0]], [code, first[0][0], first[1]])
    write(canaries[1])
    second = apply_to("secret", "u04", "--force"), live()
    expect("U-04 a rotated secret is applied by the same unit", [0, canaries[1]], [second[0][0], second[1]])
    unit("export", "secret", "--format", "flux", "--to-dir", "secret-files")
    texts = [unit(*words)[1] for words in (("inspect", "secret", "-o", "json"), ("replay", "secret"), ("plan", "secret", "-n", "u04", "-o", "json"))]
    texts += [path.read_text() for path in (DIRECTORY / "secret-files").rglob("*") if path.is_file()]
    texts.append((DIRECTORY / "secret").read_bytes().decode("latin-1"))
    encoded = [form for value in canaries for form in (value, base64.b64encode(value.encode()).decode())]
    expect("U-04 neither the file nor what it tells holds a value", [True, []],
           [len(texts) > 4, [form for form in encoded if any(form in text for text in texts)]])


def chance():
    words = ("chance", ONE, "plain.yaml", "--set", "chance=true")
    code, _, err = bundle(*words)
    expect("U-05 chance is refused with its field", [10, True, False],
           [code, "/ConfigMap//chance: `/data/drawn` is another at every rendering" in err, (DIRECTORY / "chance").exists()])
    code, _, err = bundle(*words, "--allow-nondeterministic")
    listed = json.loads(unit("inspect", "chance", "-o", "json")[1] or "{}").get("nondeterministic")
    expect("U-05 allowed, the field is listed", [0, {"/ConfigMap//chance": ["/data/drawn"]}], [code, listed])
    applied, live = apply_to("chance", "u05")[0], api.get("/api/v1/namespaces/u05/configmaps/chance")
    expect("U-05 it is applied all the same", [0, 16, "always"], [applied, len(live["data"]["drawn"]), live["data"]["same"]])


SHAPES = {
    # Values, and the template of the image.
    "parts": ("{repository: acme/parts, tag: '1'}", "{{ .repository }}:{{ .tag }}"),
    "registry": ("{registry: quay.io, repository: acme/registry, tag: '1'}", "{{ .registry }}/{{ .repository }}:{{ .tag }}"),
    "digest": ("{repository: acme/digest, tag: '1', digest: ''}", "{{ .repository }}:{{ .tag }}{{ with .digest }}@{{ . }}{{ end }}"),
    "named": ("{name: acme/named, tag: '1'}", "{{ .name }}:{{ .tag }}"),
    "text": ("acme/text:1", "{{ . }}"),
}


def shapes():
    chart = DIRECTORY / "shapes"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shapes\nversion: 1.0.0\n")
    values, containers, images, wanted = "", "", [], {}
    for name, (value, template) in SHAPES.items():
        values += f"{name}: {{image: {value}}}\n"
        containers += f"{{{{- with .Values.{name}.image }}}}\n        - {{name: {name}, image: \"{template}\"}}\n{{{{- end }}}}\n"
        repository = f"{'quay.io/' if name == 'registry' else ''}acme/{name}"
        images += ["--image", f"{name}={repository}:2@{ONE}"]
        wanted[name] = f"{repository}:2@{ONE}"
    (chart / "values.yaml").write_text(values)
    (chart / "templates/all.yaml").write_text(f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: shapes}}
spec:
  selector: {{matchLabels: {{app: shapes}}}}
  template:
    metadata: {{labels: {{app: shapes}}}}
    spec:
      containers:
{containers}""")
    code, out, err = unit("bundle", "shapes", "./shapes", "-n", "shapes", "-O", "shapes-unit", *images)
    applied = apply_to("shapes-unit", "u06")
    pods = (api.get("/api/v1/namespaces/u06/pods") or {}).get("items") or []
    running = [{one["name"]: one["image"] for one in pod["spec"]["containers"]} for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    expect("U-06 every shape of an image is bound and runs", [0, 0, [wanted]], [code, applied[0], running])
    expect("U-06 each with its proof", [], [name for name in SHAPES if f"image {name} bound at" not in out])
    code, _, err = unit("bundle", "shapes", "./shapes", "-O", "none", "--image", f"other=acme/other:2@{ONE}")
    expect("U-06 what could belong anywhere is refused with a map to paste", [10, True], [code, "apiVersion: ktl.dev/image-map/v1" in err])
    (DIRECTORY / "map.yaml").write_text("apiVersion: ktl.dev/image-map/v1\nautodetect: false\n")
    code, out, err = unit("bundle", "shapes", "./shapes", "-O", "unbound", "--image-map", "map.yaml", *images)
    bound = json.loads(unit("inspect", "unbound", "-o", "json")[1] or "{}").get("bindings")
    expect("U-06 without autodetection nothing is bound", [0, []], [code, bound])


def promotion_and_verification():
    code, _, err = unit("promote", "one", "--to", "prod", "--soak", "0s", "-q")
    expect("U-07 no promotion without evidence", [15, None], [code, api.deployment("prod")])
    code, _, err = unit("apply", "one", "--to", "staging", "--soak", "0s", "-q")
    expect("U-07 staging is verified", [0, ""], [code, err if code else ""])
    (DIRECTORY / "over.yaml").write_text("greeting: other\n")
    expect("U-07 an overlay outside of its slots is refused", 10, unit("promote", "elsewhere/one", "--to", "prod", "--overlay", "over.yaml", "--soak", "0s", "-q")[0])
    (DIRECTORY / "over.yaml").write_text("replicaCount: 3\n")
    code, _, err = unit("promote", "elsewhere/one", "--to", "prod", "--overlay", "over.yaml", "--soak", "0s", "-q")
    expect("U-07 the cluster tells a copy of the unit", [0, ""], [code, err if code else ""])
    live = api.deployment("prod")
    expect("U-07 the same image, another number", [f"acme/shop:2@{ONE}", 3],
           [live and live["spec"]["template"]["spec"]["containers"][0]["image"], live and live["spec"]["replicas"]])
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "shop", "image": f"acme/shop:2@{TWO}"}]}}}}
    api.send("PATCH", "/apis/apps/v1/namespaces/staging/deployments/shop", patch, "application/strategic-merge-patch+json")
    wait_for(lambda: (api.deployment("staging")["status"].get("observedGeneration") == api.deployment("staging")["metadata"]["generation"]
                      and api.deployment("staging")["status"].get("updatedReplicas") == 2 and api.deployment("staging")["status"].get("replicas") == 2))
    code, out, _ = unit("verify", "one", "--to", "staging", "--soak", "0s")
    expect("U-08 pods of another digest fail", [1, True, True], [code, TWO in out, "drift" in out])
    code, _, err = unit("apply", "one", "--to", "staging", "--force", "--soak", "0s", "-q")
    expect("U-08 applied again they pass", [0, 0], [code, unit("verify", "one", "--to", "staging", "--soak", "0s")[0]])
    code, out, err = unit("verify", "one", "--to", "staging", "--soak", "0s", "--probe-exec", "busybox:1=true")
    jobs = api.get("/apis/batch/v1/namespaces/staging/jobs")["items"]
    expect("U-08 a command is a probe and leaves nothing", [0, True, 0], [code, "1 probes answered" in out, len([job for job in jobs if "deletionTimestamp" not in job["metadata"]])])


def policies():
    (DIRECTORY / "policy.yaml").write_text("apiVersion: ktl.dev/policy/v1\nrules: [{id: few, workloads: {minReplicas: 9}}]\n")
    code, _, _ = apply_to("one", "u11", "--policy", "policy.yaml")
    expect("U-11 denied before anything is written", [15, None], [code, api.deployment("u11")])


def canary(settings, namespace, *values):
    bundle(f"{namespace}-1", ONE, settings, "--set", "replicaCount=10", *values)
    bundle(f"{namespace}-2", TWO, settings, "--set", "replicaCount=10", *values)
    code, _, err = apply_to(f"{namespace}-1", namespace)
    expect(f"{namespace}: the first install is deployed as a whole", [0, ""], [code, err if code else ""])
    code, _, err = apply_to(f"{namespace}-2", namespace)
    expect(f"{namespace}: a canary waits", [0, True], [code, "is paused" in err])


def canary_by_replicas():
    canary("canary.yaml", "u09")
    counts = [api.deployment("u09", name)["spec"]["replicas"] for name in ("shop-canary", "shop")]
    expect("U-09 weight 10 of 10 is one pod", [[1, 9], f"acme/shop:2@{TWO}", f"acme/shop:2@{ONE}"],
           [counts, image_of("u09", "shop-canary"), image_of("u09")])
    code, _, err = unit("abort", "u09-2", "-n", "u09", "-q")
    live = api.deployment("u09")
    expect("U-09 an abort leaves the old version and nothing else", [0, 10, f"acme/shop:2@{ONE}", None, []],
           [code, live["spec"]["replicas"], image_of("u09"), api.deployment("u09", "shop-canary"), api.left_behind("u09")])
    apply_to("u09-2", "u09")
    code, _, err = unit("resume", "u09-2", "-n", "u09", "--soak", "0s", "-q")
    expect("U-09 a resume promotes", [0, 10, f"acme/shop:2@{TWO}", None, []],
           [code, api.deployment("u09")["spec"]["replicas"], image_of("u09"), api.deployment("u09", "shop-canary"), api.left_behind("u09")])
    history = json.loads(run("history", "shop", "-n", "u09", "-o", "json", program=HELM)[1] or "[]")
    expect("U-09 Helm sees two revisions", [["superseded", "deployed"]], [[row["status"] for row in history]])
    bundle("small", TWO, "canary.yaml", "--set", "replicaCount=1")
    bundle("small-1", ONE, "plain.yaml", "--set", "replicaCount=1")
    apply_to("small-1", "small")
    code, _, err = apply_to("small", "small")
    expect("U-09 one replica cannot have a canary of a tenth", [True, f"acme/shop:2@{ONE}"], [code != 0, image_of("small")])


def canary_by_gateway():
    for definition in sorted(DEFINITIONS.glob("*httproutes.yaml")):
        for document in yaml.safe_load_all(definition.read_text()):
            if document:
                api.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.loads(json.dumps(document, default=str)))
    route = "/apis/gateway.networking.k8s.io/v1/namespaces/gateway/httproutes/shop"
    wait_for(lambda: api.get("/apis/gateway.networking.k8s.io/v1"))
    canary("gateway.yaml", "gateway", "--set", "route=true")
    weights = {ref["name"]: ref.get("weight") for ref in api.get(route)["spec"]["rules"][0]["backendRefs"]}
    expect("U-09 a route sends a tenth", {"shop": 90, "shop-canary": 10}, weights)
    code, _, err = unit("resume", "gateway-2", "-n", "gateway", "--soak", "0s", "-q")
    names = [ref["name"] for ref in api.get(route)["spec"]["rules"][0]["backendRefs"]]
    expect("U-09 the route is as before at the end", [0, ["shop"], f"acme/shop:2@{TWO}", []], [code, names, image_of("gateway"), api.left_behind("gateway")])


def blue_green():
    bundle("plain", ONE, "plain.yaml")
    bundle("green", TWO, "bluegreen.yaml")
    bundle("blue", THREE, "bluegreen.yaml")
    apply_to("plain", "u10")
    selector = lambda: api.get("/api/v1/namespaces/u10/services/shop")["spec"]["selector"]
    before = selector()
    code, _, err = apply_to("green", "u10")
    preview = api.get("/api/v1/namespaces/u10/services/shop-preview")
    expect("U-10 the new color is shown and has no traffic", [0, before, True], [code, selector(), bool(preview and preview["spec"]["selector"].get("ktl.dev/color"))])
    code, _, err = unit("resume", "green", "-n", "u10", "--soak", "0s", "-q")
    color = selector().get("ktl.dev/color")
    expect("U-10 the Service switches; the plain Deployment is gone", [0, True, None, f"acme/shop:2@{TWO}", []],
           [code, bool(color), api.deployment("u10"), image_of("u10", f"shop-{color}"), api.left_behind("u10")])
    apply_to("blue", "u10")
    unit("resume", "blue", "-n", "u10", "--soak", "0s", "-q")
    second = selector().get("ktl.dev/color")
    expect("U-10 the other color follows", [True, f"acme/shop:2@{THREE}"], [second not in (None, color), image_of("u10", f"shop-{second}")])


def replay_and_export():
    out = unit("replay", "one")[1]
    expect("U-12 the run is replayed without a cluster", True, "apply.finished succeeded" in out)
    for number in (1, 2):
        unit("export", "one", "--format", "flux", "--to-dir", f"flux-{number}")
    differs = subprocess.run(["diff", "-r", DIRECTORY / "flux-1", DIRECTORY / "flux-2"], capture_output=True).returncode
    expect("U-13 two exports are the same", [0, 0], [differs, unit("verify", "one", "--gitops", "flux-1", "--format", "flux")[0]])


class Endpoints(threading.Thread):
    """Counts the ready endpoints of the Service until it is told to stop."""

    def __init__(self, namespace):
        super().__init__(daemon=True)
        self.path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dshop"
        self.fewest, self.looks, self.ended = None, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            found = self.get()
            if found is None:
                # A look that failed says nothing.
                continue
            slices = found.get("items") or []
            ready = sum(1 for one in slices for endpoint in one.get("endpoints") or [] if endpoint.get("conditions", {}).get("ready", True))
            self.looks += 1
            self.fewest = ready if self.fewest is None else min(self.fewest, ready)

    def get(self):
        try:
            return api.get(self.path)
        except OSError:
            return None

    def finish(self):
        self.ended.set()
        self.join()
        return self.looks > 0 and bool(self.fewest)


def finish_killed(file, namespace, word):
    """Goes on with a killed rollout or takes it back; gives the code and the digest that has to run then."""
    until = time.monotonic() + PATIENCE
    while True:
        code, _, err = unit(word, file, "-n", namespace, "-q", *(["--soak", "0s"] if word != "abort" else []))
        if code == 0 or time.monotonic() > until:
            return code, ONE if word == "abort" else TWO
        if "point of no return" in err:
            word = "resume"
        elif any(words in err for words in ("nothing to go on with", "nothing to take back", "never applied")):
            # Killed before it began or after it ended.
            word = "apply"
        time.sleep(1)


def kill_once(settings, number, delay, word):
    """Kills one rollout after a while, and goes on with it or takes it back."""
    namespace, old, file = f"u14-{settings[:-5]}-{number}", f"quick-1-{settings}-{number}", f"{settings}-2-{number}"
    for copy, original in ((old, "quick-1"), (file, settings + "-2")):
        (DIRECTORY / copy).write_bytes((DIRECTORY / original).read_bytes())
    apply_to(old, namespace, "--no-verify")
    wait_for(lambda: (api.deployment(namespace)["status"].get("readyReplicas") == 10))
    endpoints = Endpoints(namespace)
    endpoints.start()
    killed = subprocess.Popen([SLIPWAY, "unit", "apply", file, "-n", namespace, "--soak", "0s", "-q"], cwd=DIRECTORY, env=ENVIRONMENT,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(delay)
    if killed.poll() is None:
        killed.kill()
        killed.wait()
        code, wanted = finish_killed(file, namespace, word)
    else:
        # It was faster.
        code, wanted = killed.returncode, TWO
        faster.append(file)
    served = endpoints.finish()
    color = api.get(f"/api/v1/namespaces/{namespace}/services/shop")["spec"]["selector"].get("ktl.dev/color")
    name = f"shop-{color}" if color else "shop"
    deployments = [item["metadata"]["name"] for item in api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]]
    expect(f"U-14 {settings} kill {number} converges", [0, [name], 10, f"acme/shop:2@{wanted}", [], True],
           [code, deployments, api.deployment(namespace, name)["spec"]["replicas"], image_of(namespace, name), api.left_behind(namespace), served])
    api.send("DELETE", f"/api/v1/namespaces/{namespace}")


faster = []


def kills():
    """Kills in namespaces of their own, a few at a time: most of a rollout is waiting."""
    chance = random.Random(14)
    bundle("quick-1", ONE, "plain.yaml", "--set", "replicaCount=10")
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        under_way = {}
        for settings in ("quick.yaml", "colors.yaml"):
            bundle(settings + "-2", TWO, settings, "--set", "replicaCount=10")
            for number in range(KILLS):
                drawn = chance.uniform(0.3, 7.0), chance.choice(["resume", "abort"])
                under_way[pool.submit(kill_once, settings, number, *drawn)] = f"U-14 {settings} kill {number}"
        for done in concurrent.futures.as_completed(under_way):
            if done.exception():
                expect(f"{under_way[done]} plays to its end", "", f"{type(done.exception()).__name__}: {done.exception()}")
    print(f"{len(under_way)} rollouts in {time.monotonic() - started:.0f} s, {len(faster)} of them were faster than the kill", file=sys.stderr)


def main():
    write_files()
    for scenario in (reproducible_and_applied_as_bundled, tampering, secrets, chance, shapes, promotion_and_verification, policies, canary_by_replicas,
                     canary_by_gateway, blue_green, replay_and_export, kills):
        try:
            scenario()
        except Exception as error:  # A scenario that breaks is a verdict, not the end of the others.
            expect(f"{scenario.__name__} plays to its end", "", f"{type(error).__name__}: {error}")
    (DIRECTORY / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


main()

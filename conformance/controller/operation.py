"""Operating promotions on the real cluster: the API, figures, subscriptions, notifications, agents, groups, drift, the audit trail.

Every scenario has a pipeline and a repository of its own. Environments whose health is not what it is about have none.
"""

import base64
import concurrent.futures
import hashlib
import hmac
import http.server
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import jsonschema

from world import *

NO_HEALTH = {"type": "none"}
SCHEMAS = json.loads((pathlib.Path(CHART).parent.parent / "docs/reference/output.schema.json").read_text())


def operation(crew):
    drifting_is_promoted(crew)
    for scenario in (requests_are_answered_by_the_table, a_few_lines_become_a_pipeline, a_failed_version_is_taken_back, figures_tell_of_it,
                     output_fits_its_schema, reasons_are_named, subscriptions_make_bundles, a_hook_is_told_once, an_agent_comes_and_goes,
                     groups_and_contracts_hold, the_trail_is_one_chain, an_edit_by_hand_is_drift, nothing_shows_a_secret):
        began = time.monotonic()
        try:
            scenario(crew)
        except Exception as error:  # One that breaks is a verdict, not the end of the others.
            expect(f"{scenario.__name__} plays to its end", "", f"{type(error).__name__}: {error}")
        print(f"    {scenario.__name__}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def pipeline(name, environments, **more):
    return custom("Pipeline", APPS, name, {"git": git_of(name), "environments": environments, **more})


def make_pipeline(crew, name, *environments, **more):
    """A pipeline and its repository; environments are names, or have no health unless they say so."""
    listed = [{"name": one} if isinstance(one, str) else one for one in environments]
    create_repository(name, [one["name"] for one in listed], crew.api)
    said = apply(pipeline(name, [{"health": NO_HEALTH, **one} for one in listed], **more))
    if said:
        raise RuntimeError(said)


def ends_as(name, wanted):
    """The phase a bundle ends with, which is waited for."""
    wait_for(lambda: phase(name) == wanted)
    return phase(name)


def object_of(kind, name, namespace=APPS):
    return get(kind, name, "-n", namespace) or {}


def said_by(*words, text=None):
    code, out, err = slipway(*words, "-n", APPS, text=text)
    return code, out + err


def requests_are_answered_by_the_table(crew):
    """F01."""
    make_pipeline(crew, "limits", "dev")
    make_pipeline(crew, "others", "dev")
    bundles = f"{crew.api}/api/v1/bundles"
    fitting = {"pipeline": "limits", "namespace": APPS, "name": "limits-1", "artifacts": image("1.1.0")}
    foreign = {"pipeline": "limits", "namespace": "kube-system", "artifacts": image("1.1.0")}
    bad_digest = {"pipeline": "limits", "namespace": APPS, "artifacts": {"images": [{"name": "app", "digest": "sha256:12"}]}}
    unknown = {"pipeline": "nobody", "namespace": APPS, "artifacts": image("1.1.0")}
    rows = [
        ("a bundle", 201, ask(bundles, fitting)),
        ("the same again", 200, ask(bundles, fitting)),
        ("a wrong token", 401, ask(bundles, fitting, token="nobody-knows-it")),
        ("no token", 401, ask(bundles, fitting, token=None)),
        ("a wrong signature", 401, ask(bundles, fitting, key="another-key")),
        ("no signature", 401, ask(bundles, fitting, key=None)),
        ("an old time", 401, ask(bundles, fitting, X_Kardinal_Timestamp="2020-01-01T00:00:00Z")),
        ("a pipeline the token is not for", 403, ask(bundles, foreign)),
        ("an unknown pipeline", 404, ask(bundles, unknown)),
        ("a bad digest", 400, ask(bundles, bad_digest)),
    ]
    for name, status, answer in rows:
        expect(f"F01: {name}", status, answer[0])
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        many = list(pool.map(lambda _: ask(bundles, fitting), range(250)))
    refused = [answer for answer in many if answer[0] == 429]
    # A place comes free every 0.6 seconds.
    free = 100 + int((time.monotonic() - began) / 0.6) + 1
    expect("F01: more than a hundred requests a minute have to wait", [True, [200, 429]], [len(many) - len(refused) <= free, sorted({answer[0] for answer in many})])
    expect("F01: and are told how long", True, all(0 < int(answer[2]["Retry-After"]) <= 60 for answer in refused))
    other = {"pipeline": "others", "namespace": APPS, "name": "others-1", "artifacts": image("1.1.0")}
    expect("F01: other pipelines have places of their own", 201, ask(bundles, other)[0])
    expect("F01: what was accepted is promoted", ["Verified", "Verified"], [ends_as(name, "Verified") for name in ("limits-1", "others-1")])
    made = [one["metadata"]["name"] for one in items("bundles", "-n", APPS) if one["metadata"]["name"].startswith("limits")]
    expect("F01: one bundle for all of them", ["limits-1"], made)


def a_few_lines_become_a_pipeline(crew):
    """F02."""
    create_repository("shop", api=crew.api)
    lines = (f"app: shop\nimage: ghcr.io/acme/app\ngit:\n  url: {GITEA}/{USER}/shop.git\n  provider: gitea\n  secret: gitops\n"
             "environments: [dev, prod]\nprodApproval: pr-review\n")
    code, said = said_by("pipeline", "init", "-f", "-", text=lines)
    told = ('Pipeline "shop" created (2 environments: dev, prod)\n  1 org PolicyGate will be injected: no-bad-version\n\n'
            "Next: Add to your CI:\n  slipway bundle create shop --image ghcr.io/acme/app:$TAG\n")
    expect("F02: init says what it made", [0, told], [code, said])
    kustomize = {"update": {"strategy": "kustomize"}}
    wanted = {
        "environments": [{"name": "dev", "path": "environments/dev", "approval": "auto", **kustomize},
                         {"name": "prod", "path": "environments/prod", "approval": "pr-review", **kustomize}],
        "git": {"branch": "main", "branchPrefix": "env/", "layout": "directory", "webhookMode": "webhook", **git_of("shop")},
        "historyLimit": 20, "rollback": {"onFailure": "pr", "scope": "all"}, "supersede": "Newer",
    }
    found = json.loads(json.dumps(object_of("pipeline", "shop").get("spec", {})))
    for one in found.get("environments", []):
        one.pop("health", None)
    expect("F02: the pipeline is the documented one", wanted, found)
    code, text, err = slipway("pipeline", "init", "--mode", "graph", "--from", "shop", "-n", APPS)
    expect("F02: its Graph is printed", [0, ""], [code, err])
    kubectl("apply", "--filename=-", text=text)
    code, said = said_by("bundle", "create", "shop", "--image", "ghcr.io/acme/app:1.5.0", "--name", "shop-1", "--graph-template", "shop-graph")
    expect("F02: a bundle names it", [0, True], [code, 'Bundle "shop-1" created' in said])
    expect("F02: the printed Graph promotes", "Verified", promote("shop", "shop-1", "1.5.0", lambda version: merge(version, "shop"), "shop"))
    own = [gate["metadata"]["namespace"] for gate in items("policygates", "-A") if gate["metadata"].get("labels", {}).get("kardinal.io/bundle") == "shop-1"]
    expect("F02: the gate of the org was put back in", [POLICIES], own)


def play_back(wanted):
    """What is on main runs in dev, unless it is the version that never comes."""
    if tag_on_main("back", "dev") != "2.0.0":
        play_sync("back", ("dev",))
    return wanted()


def a_failed_version_is_taken_back(crew):
    """C04, which F06 counts."""
    health = {"type": "resource", "timeout": "40s", "resource": {"kind": "Deployment", "name": "app", "namespace": "dev"}}
    make_pipeline(crew, "back", {"name": "dev", "health": health})
    apply(bundle("back", "back-1", "1.9.0"))
    wait_for(lambda: play_back(lambda: phase("back-1") == "Verified"))
    expect("C04: the first version is verified", "Verified", phase("back-1"))
    apply(bundle("back", "back-2", "2.0.0"))
    expect("C04: one that does not come up fails", "Failed", ends_as("back-2", "Failed"))

    def rollbacks():
        return [one for one in items("bundles", "-n", APPS) if one["spec"].get("provenance", {}).get("rollbackOf") == "back-2"]
    made = wait_for(rollbacks) or []
    expect("C04: one bundle takes it back", 1, len(made))
    name = made[0]["metadata"]["name"]
    wait_for(lambda: play_back(lambda: phase(name) == "Verified"))
    expect("C04: the version before is back", ["Verified", "1.9.0"], [phase(name), tag_on_main("back", "dev")])


NAMES = """bundles_created_total promotions_opened_total promotions_merged_total promotions_failed_total rollbacks_total
policy_gates_evaluated_total policy_gates_blocked_total health_check_duration_seconds git_operation_duration_seconds scm_api_requests_total
promotion_lead_time_seconds graph_nodes graph_reconcile_seconds workqueue_depth workqueue_adds_total workqueue_retries_total leader
git_cache_bytes gate_blocking_duration_seconds pr_duration_seconds steps_total step_duration_seconds webhook_events_total bundles_total
agent_last_heartbeat_seconds circuit_open leader_term""".split()


def figures(crew):
    with urllib.request.urlopen(crew.controller.address("metrics") + "/metrics", timeout=30) as answer:
        return answer.read().decode()


def sum_of(text, name, **labels):
    """The sum of a figure's series that have some labels."""
    fits = [line for line in text.splitlines() if re.match(rf"kardinal_{name}[ {{]", line)
            and all(f'{label}="{value}"' in line for label, value in labels.items())]
    return sum(float(line.rsplit(" ", 1)[1]) for line in fits)


def figures_tell_of_it(crew):
    """F06."""
    text = figures(crew)
    expect("F06: every name is there", [], [name for name in NAMES if f"# TYPE kardinal_{name} " not in text])
    expect("F06: bundles of a pipeline are counted once", 2.0, sum_of(text, "bundles_created_total", pipeline="back", source="kubectl"))
    expect("F06: a failure and a rollback are counted", [1.0, 1.0],
           [sum_of(text, "promotions_failed_total", env="dev"), sum_of(text, "rollbacks_total")])
    expect("F06: a lead time was measured for each promotion to prod", True, sum_of(text, "promotion_lead_time_seconds_count", pipeline="app", env="prod") >= 1)
    expect("F06: merges are counted", True, sum_of(text, "promotions_merged_total", env="prod") >= 2)
    expect("F06: requests to the server of pull requests are counted", True, sum_of(text, "scm_api_requests_total") > 0)
    expect("F06: the leader says so", 1.0, sum_of(text, "leader"))
    ends = crew.restart_controller()
    expect("the controller ends when it is told to", True, ends in (0, 130, 143))
    expect("F06: another process leads", True, bool(wait_for(lambda: sum_of(figures(crew), "leader") == 1)))
    time.sleep(5)
    expect("F06: a restart counts nothing twice", [0, 0, 0],
           [sum_of(figures(crew), name) for name in ("bundles_created_total", "rollbacks_total", "promotions_merged_total")])


def fits_schema(command, out):
    """What keeps an output from being what its schema says, to a validator of others."""
    schema = {"$schema": SCHEMAS["$schema"], "$defs": SCHEMAS["$defs"], "$ref": f"#/$defs/{command}"}
    problems = jsonschema.Draft202012Validator(schema).iter_errors(json.loads(out))
    return [f"{'/'.join(map(str, problem.path))}: {problem.message[:200]}" for problem in problems]


def output_fits_its_schema(crew):
    """F03."""
    for words in ("pipeline list", "pipeline show app", "pipeline explain app", "pipeline explain app --env prod", "pipeline history app --evidence",
                  "pipeline diff app app-1 app-2", "pipeline graph app", "bundle list app", "bundle show app-1", "gate list",
                  "audit summary", "audit timeline --pipeline app", "audit verify --pipeline app"):
        words = words.split()
        code, out, err = slipway(*words, "-n", APPS, "-o", "json")
        problems = fits_schema("-".join(words[:2]), out) if out.strip() else [err]
        expect(f"F03: {' '.join(words)}", [True, []], [code in (0, 15), problems])
    _, told = said_by("pipeline", "explain", "app", "--env", "prod")
    expect("F03: explain names the gate that holds", True, "RESULT: BLOCKED by no-bad-version" in told)
    code, out, _ = slipway("pipeline", "history", "app", "--env", "prod", "-n", APPS, "-o", "json")
    versions = [[entry["version"], entry["action"]] for entry in json.loads(out)]
    expect("F03: history has what was promoted, newest first", [["1.2.0", "promote"], ["1.1.0", "promote"]], versions)


def reasons_are_named(crew):
    """F04; an agent that is offline is told of by its own scenario."""
    make_pipeline(crew, "broken", "typing")
    apply(pipeline("keyless", [{"name": "lab", "health": NO_HEALTH}], git=git_of("broken", secret="nowhere")),
          custom("PolicyGate", APPS, "typo", {"expression": "bundle.versio == '1.0.0'"},
                 labels={"kardinal.io/scope": "team", "kardinal.io/applies-to": "typing"}))
    code, told = said_by("pipeline", "explain", "broken", "--env", "typing")
    expect("F04: nothing to promote", [0, True], [code, "NOTHING TO PROMOTE" in told])
    apply(bundle("broken", "broken-1", "1.1.0"), bundle("keyless", "keyless-1", "1.1.0"))

    def explains(name, environment, *parts):
        def told():
            code, text = said_by("pipeline", "explain", name, "--env", environment)
            return code == 15 and all(part in text for part in parts)
        return bool(wait_for(told)) or said_by("pipeline", "explain", name, "--env", environment)
    expect("F04: a gate that cannot be compiled", True, explains("broken", "typing", "gate broken", "versio"))
    expect("F04: a Secret that is not there", True, explains("keyless", "lab", "missing Secret", "nowhere"))
    commits = gitea("GET", f"repos/{USER}/broken/commits?sha=main&limit=50")
    expect("F04: nothing was promoted", [None, "Promoting", ["first", "Initial commit"]],
           [state("broken-1", "typing"), phase("keyless-1"), [commit["commit"]["message"].strip() for commit in commits]])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Registry:
    """A real registry, with images of a few bytes."""

    def __init__(self):
        self.host = f"127.0.0.1:{free_port()}"
        storage = DIRECTORY / "registry"
        storage.mkdir()
        settings = DIRECTORY / "registry.yaml"
        settings.write_text(f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {storage}\nhttp:\n  addr: {self.host}\n")
        with open(DIRECTORY / "registry.log", "w") as log:
            self.child = subprocess.Popen([REGISTRY, "serve", str(settings)], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if not wait_for(lambda: self.answers()):
            raise RuntimeError("no registry")

    def answers(self):
        try:
            return self.send("GET", "/v2/").status == 200
        except OSError:
            return False

    def send(self, method, path, content=None, kind="application/octet-stream"):
        address = path if path.startswith("http") else f"http://{self.host}{path}"
        request = urllib.request.Request(address, data=content, method=method, headers={"Content-Type": kind})
        return urllib.request.urlopen(request, timeout=30)

    def put(self, repository, tag):
        config = json.dumps({"architecture": "amd64", "os": "linux", "tag": tag, "rootfs": {"type": "layers", "diff_ids": []}}).encode()
        digest = "sha256:" + hashlib.sha256(config).hexdigest()
        location = self.send("POST", f"/v2/{repository}/blobs/uploads/", b"").headers["Location"]
        self.send("PUT", f"{location}{'&' if '?' in location else '?'}digest={digest}", config)
        kind = "application/vnd.oci.image.manifest.v1+json"
        manifest = {"schemaVersion": 2, "mediaType": kind, "layers": [],
                    "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest, "size": len(config)}}
        return self.send("PUT", f"/v2/{repository}/manifests/{tag}", json.dumps(manifest).encode(), kind).headers["Docker-Content-Digest"]


def looks_again(name, mark):
    kubectl("annotate", "--overwrite", "subscription", name, "-n", APPS, f"kardinal.io/refresh={mark}")
    return bool(wait_for(lambda: object_of("subscription", name).get("status", {}).get("refreshed") == mark))


def made_by(subscription):
    return items("bundles", "-n", APPS, "-l", f"kardinal.io/subscription={subscription}")


def write_file(repository, path, text, message="by hand"):
    """A commit of a person on main."""
    try:
        known = gitea("GET", f"repos/{USER}/{repository}/contents/{path}?ref=main", patience=0)
    except RuntimeError:
        known = None
    body = {"branch": "main", "message": message, "content": base64.b64encode(text.encode()).decode()}
    if known:
        body["sha"] = known["sha"]
    answer = gitea("PUT" if known else "POST", f"repos/{USER}/{repository}/contents/{path}", body)
    return answer["commit"]["sha"]


def subscriptions_make_bundles(crew):
    """F10."""
    make_pipeline(crew, "watched", "dev")
    make_pipeline(crew, "settings", "dev")
    registry = Registry()
    try:
        subscriptions(crew, registry)
    finally:
        registry.child.terminate()
        registry.child.wait(30)


def subscriptions(crew, registry):
    for tag in ("1.8.0", "1.9.0", "latest", "2.0.0-rc1"):
        registry.put("acme/app", tag)
    write_file("settings", "config/a.yaml", "a: 1\n")
    image_source = {"type": "image", "image": {"repository": f"{registry.host}/acme/app", "name": "ghcr.io/acme/app", "semver": ">=1.0.0", "insecure": True, "interval": "1h"}}
    git_source = {"type": "gitCommit", "gitCommit": {"repository": git_of("settings")["url"], "branch": "main", "path": "config", "interval": "1h",
                                                     "secretRef": {"name": "gitops"}}}
    expect("F10: subscriptions are accepted", "", apply(
        custom("Subscription", APPS, "tags", {"pipeline": "watched", "source": image_source}),
        custom("Subscription", APPS, "commits", {"pipeline": "settings", "source": git_source})))
    watches = lambda name: object_of("subscription", name).get("status", {}).get("phase") == "Watching"
    expect("F10: both look", [True, True], [bool(wait_for(lambda: watches(name))) for name in ("tags", "commits")])
    expect("F10: the first look is the baseline", ["1.9.0", [], []],
           [object_of("subscription", "tags")["status"].get("lastSeenTag"), made_by("tags"), made_by("commits")])
    digest = registry.put("acme/app", "1.10.0")
    expect("F10: it looks when it is told to", True, looks_again("tags", "a"))
    found = [[one["spec"]["artifacts"]["images"][0].get(key) for key in ("name", "reference", "digest")] for one in made_by("tags")]
    tagged = [[name, reference.rsplit(":", 1)[-1], digest] for name, reference, digest in found]
    expect("F10: 1.10.0 after 1.9.0 is one bundle", [["ghcr.io/acme/app", "1.10.0", digest]], tagged)
    crew.restart_controller()
    expect("F10: it looks after a restart", True, looks_again("tags", "b"))
    expect("F10: a restart makes no second bundle", 1, len(made_by("tags")))
    write_file("settings", "docs/a.md", "text\n")
    expect("F10: commits elsewhere do not count", [True, []], [looks_again("commits", "a"), made_by("commits")])
    commit = write_file("settings", "config/a.yaml", "a: 2\n")
    looked = looks_again("commits", "b")
    expect("F10: those that change the path do", [True, [commit]], [looked, [one["spec"]["artifacts"]["gitCommit"]["sha"] for one in made_by("commits")]])


class Receiver:
    """Somebody who is told, and fails the first time."""

    def __init__(self):
        self.seen = seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((dict(self.headers.items()), body))
                self.send_response(503 if len(seen) == 1 else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


def a_hook_is_told_once(crew):
    """F14."""
    make_pipeline(crew, "told", "dev")
    kubectl("label", "pipeline", "told", "-n", APPS, "team=told")
    receiver = Receiver()
    key = {"hmacKey": base64.b64encode(NOTIFY_KEY.encode()).decode()}
    expect("F14: a hook is accepted", "", apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "chat", "namespace": APPS}, "data": key},
        custom("NotificationHook", APPS, "chat", {"webhook": {"url": receiver.url, "secretRef": {"name": "chat"}}, "pipelineSelector": {"matchLabels": {"team": "told"}},
                                                  "events": ["PromotionStarted", "PromotionSucceeded"]})))
    wait_for(lambda: object_of("notificationhook", "chat").get("status", {}).get("started"))
    apply(bundle("told", "told-1", "1.1.0"))
    wait_for(lambda: len(receiver.seen) >= 3)
    ends_as("told-1", "Verified")
    crew.restart_controller()
    apply(bundle("told", "told-2", "1.2.0"))
    wait_for(lambda: len(receiver.seen) >= 5)
    time.sleep(5)
    told = [json.loads(body) for _, body in receiver.seen]
    started, ended = "PromotionStarted", "PromotionSucceeded"
    wanted = [["told-1", started], ["told-1", started], ["told-1", ended], ["told-2", started], ["told-2", ended]]
    expect("F14: each event once and in order, after one that failed", wanted, [[one.get("bundle"), one.get("event")] for one in told])
    delivered = [headers.get("X-Kardinal-Delivery") or headers.get("x-kardinal-delivery") for headers, _ in receiver.seen]
    expect("F14: the repetition is known by its name", [True, 4], [delivered[0] == delivered[1], len(set(delivered))])

    def is_signed(headers, body):
        sent = {name.lower(): value for name, value in headers.items()}.get("x-kardinal-signature", "")
        return sent == "sha256=" + hmac.new(NOTIFY_KEY.encode(), body, hashlib.sha256).hexdigest()
    expect("F14: every one is signed", True, all(is_signed(*one) for one in receiver.seen))
    receiver.server.shutdown()


def an_agent_comes_and_goes(crew):
    """F11; what its account may not do is among the roles."""
    make_pipeline(crew, "regional", {"name": "dev", "shard": "eu"})
    apply(bundle("regional", "regional-1", "1.1.0"))
    expect("F11: the agent carries out its step", "Verified", ends_as("regional-1", "Verified"))
    expect("F11: the agent ends when it is told to", True, crew.agent.end() in (0, 130, 143))
    apply(bundle("regional", "regional-2", "1.2.0"))

    def is_missed():
        conditions = object_of("promotionstep", "regional-2-dev").get("status", {}).get("conditions", [])
        return any(one["type"] == "AgentOffline" and one["status"] == "True" for one in conditions)
    missed = bool(wait_for(is_missed))
    expect("F11: an agent that is away is missed, and nobody takes its work", [True, True], [missed, state("regional-2", "dev") in (None, "Pending")])
    code, told = said_by("pipeline", "explain", "regional", "--env", "dev")
    expect("F04: explain tells of the agent", [15, True], [code, "agent offline" in told and "shard eu" in told])
    crew.restart_agent()
    expect("F11: when it is back it goes on", "Verified", ends_as("regional-2", "Verified"))
    expect("F11: and is not missed any more", True, bool(wait_for(lambda: not is_missed())))


def groups_and_contracts_hold(crew):
    """F16."""
    make_pipeline(crew, "front", "prod")
    make_pipeline(crew, "rear", {"name": "prod", "approval": "pr-review"})
    members = [{"alias": "front", "pipeline": "front"}, {"alias": "rear", "pipeline": "rear"}]
    expect("F16: a group is accepted", "", apply(
        custom("PipelineGroup", APPS, "both", {"members": members, "edges": [{"from": "rear/prod", "to": "front/prod"}]}),
        custom("Bundle", APPS, "both-1", {"type": "group", "group": "both", "members": {name: {"artifacts": image("1.1.0")} for name in ("front", "rear")}})))
    waits = bool(wait_for(lambda: state("both-1-rear", "prod") == "WaitingForMerge"))
    expect("F16: the one behind goes first", [True, None], [waits, state("both-1-front", "prod")])
    merge("1.1.0", "rear")
    expect("F16: then the other", ["Verified", "Verified"], [ends_as("both-1", "Verified"), state("both-1-front", "prod")])
    # A member that fails halts the group.
    make_pipeline(crew, "bad", {"name": "prod", "health": {"type": "resource", "timeout": "10s", "resource": {"kind": "Deployment", "name": "nowhere", "namespace": "dev"}}},
                  rollback={"onFailure": "none"})
    make_pipeline(crew, "good", {"name": "dev", "approval": "pr-review"}, "prod")
    members = [{"alias": name, "pipeline": name} for name in ("bad", "good")]
    apply(custom("PipelineGroup", APPS, "halted", {"members": members, "failurePolicy": "haltAll"}),
          custom("Bundle", APPS, "halted-1", {"type": "group", "group": "halted", "members": {name: {"artifacts": image("1.1.0")} for name in ("bad", "good")}}))
    wait_for(lambda: state("halted-1-good", "dev") == "WaitingForMerge")
    expect("F16: a member that fails fails the group", "Failed", ends_as("halted-1", "Failed"))
    merge("1.1.0", "good")
    time.sleep(15)
    expect("F16: and halts the others", None, state("halted-1-good", "prod"))
    # A consumer waits for what it needs.
    make_pipeline(crew, "provider", "live")
    make_pipeline(crew, "consumer", "prod")
    expect("F16: a contract is accepted", "", apply(custom("PromotionContract", APPS, "needs-two", {
        "consumer": {"pipeline": "consumer", "environment": "prod"}, "provider": {"pipeline": "provider", "environment": "live"},
        "require": "!provider.versionSemver.isLessThan(semver('2.0.0'))"})))
    apply(bundle("provider", "provider-1", "1.9.0"))
    ends_as("provider-1", "Verified")
    apply(bundle("consumer", "consumer-1", "1.1.0"))
    known = lambda: object_of("promotioncontract", "needs-two").get("status", {})
    wait_for(lambda: known().get("providerVersion") == "1.9.0")
    expect("F16: the consumer waits while the version is too old", [False, None], [known().get("satisfied"), state("consumer-1", "prod")])
    apply(bundle("provider", "provider-2", "2.0.0"))
    expect("F16: and goes on once it is there", ["Verified", True], [ends_as("consumer-1", "Verified"), bool(wait_for(lambda: known().get("satisfied")))])


def the_trail_is_one_chain(crew):
    """F15."""
    timeline = f"{crew.api}/api/v1/timeline?"
    query = lambda **parts: json.loads(ask(timeline + urllib.parse.urlencode({"namespace": APPS, **parts}), key=None)[1])
    merged = query(pipeline="app", action="PRMerged", actor=USER)
    expect("F15: merges by who made them", [["app-1", USER], ["app-2", USER]], sorted([one["bundle"], one["actor"]] for one in merged["entries"]))
    expect("F15: nobody else merged", 0, query(pipeline="app", action="PRMerged", actor="mallory")["total"])
    at = sorted(one["time"] for one in merged["entries"])
    within = query(pipeline="app", action="PRMerged", **{"from": at[0], "to": at[1]})
    expect("F15: merges of a time", ["app-1"], [one["bundle"] for one in within["entries"]])
    actions = {one["action"] for one in query(pipeline="back")["entries"]}
    expect("F15: a rollback is told", [], sorted({"PromotionStarted", "HealthCheckFailed", "PromotionFailed", "RollbackStarted", "RollbackSucceeded"} - actions))
    chains = lambda: {one["pipeline"]: [one["result"], one["faults"]] for one in json.loads(slipway("audit", "verify", "-n", APPS, "-o", "json")[1])}
    found = chains()
    expect("F15: every chain but the forged one is intact", ["nobody"], sorted(name for name, (result, _) in found.items() if result != "intact"))
    expect("F15: there are many", True, len(found) > 10)
    # Somebody with every right, who takes the policy away first.
    bindings = [f"{RELEASE}-audit", f"{RELEASE}-audit-writers"]
    kept = [get("validatingadmissionpolicybinding", name) for name in bindings]
    definition = get("crd", "auditevents.kardinal.io")
    kubectl("delete", "validatingadmissionpolicybinding", *bindings)
    event = items("auditevents", "-n", APPS, "-l", "kardinal.io/pipeline=told")[0]["metadata"]["name"]
    try:
        # The definition itself says that nothing of it changes: it is deleted and made anew with another actor.
        changed = object_of("auditevent", event)
        changed["spec"]["actor"] = "mallory"
        for field in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"):
            changed["metadata"].pop(field, None)

        def is_deleted():
            return run(KUBECTL, "--kubeconfig", KUBECONFIG, "delete", "auditevent", event, "-n", APPS)[0] == 0
        expect("F15: without the policies an entry can be replaced", True, bool(wait_for(is_deleted)) and definition is not None)
        create(changed)
        verdict = chains()["told"]
        expect("F15: the replaced entry shows", ["broken", True], [verdict[0], any(event in fault for fault in verdict[1])])
    finally:
        for one in kept:
            for field in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"):
                one["metadata"].pop(field, None)
            create(one)


def drifting_is_promoted(crew):
    make_pipeline(crew, "drifting", "dev", "drifty")
    apply(custom("PolicyGate", APPS, "no-drift", {"expression": "!targetDrift.unreconciled", "message": "edited by hand"},
                 labels={"kardinal.io/scope": "team", "kardinal.io/applies-to": "drifty"}),
          bundle("drifting", "drifting-1", "1.1.0"))
    expect("F17: a version is promoted", "Verified", ends_as("drifting-1", "Verified"))
    text = base64.b64decode(gitea("GET", f"repos/{USER}/drifting/contents/environments/drifty/kustomization.yaml?ref=main")["content"]).decode()
    write_file("drifting", "environments/drifty/kustomization.yaml", text.replace("1.1.0", "1.1.1"))


def an_edit_by_hand_is_drift(crew):
    """F17; it is looked for every five minutes."""
    def drift():
        environments = object_of("pipeline", "drifting").get("status", {}).get("environments", [])
        return next((one for one in environments if one["name"] == "drifty"), {})
    for _ in range(3):
        wait_for(lambda: drift().get("drift"))
    path = "environments/drifty/kustomization.yaml"
    expect("F17: an edit by hand is drift", [True, True], [drift().get("drift"), any(path in detail for detail in drift().get("driftDetails", []))])
    apply(bundle("drifting", "drifting-2", "1.2.0"))
    wait_for(lambda: state("drifting-2", "dev") == "Verified")
    held = wait_for(lambda: "BLOCKED by no-drift" in said_by("pipeline", "explain", "drifting", "--env", "drifty")[1])
    expect("F17: and its gate holds production", [True, None], [bool(held), state("drifting-2", "drifty")])


def nothing_shows_a_secret(crew):
    """F09: objects but Secrets, events, pull requests, commits, figures, answers and the list of processes; logs are looked at in the end."""
    kinds = kubectl("api-resources", "--verbs=list", "--output=name").split()
    written = {kind: kubectl("get", kind, "-A", "--output=json") for kind in kinds if kind != "secrets"}
    for repository in ("gitops", "shop", "back"):
        pulls = gitea("GET", f"repos/{USER}/{repository}/pulls?state=all&limit=50")
        comments = [gitea("GET", f"repos/{USER}/{repository}/issues/{pull['number']}/comments") for pull in pulls]
        written[f"pull requests of {repository}"] = json.dumps([pulls, comments])
        written[f"commits of {repository}"] = json.dumps(gitea("GET", f"repos/{USER}/{repository}/commits?sha=main&limit=50"))
    written["figures"] = figures(crew)
    written["timeline"] = ask(f"{crew.api}/api/v1/timeline", key=None)[1]
    written["processes"] = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    expect("F09: something was looked at", True, "app-1" in written["bundles.kardinal.io"] and "[kardinal]" in written["commits of gitops"])
    secrets = [TOKEN, API_TOKEN, HOOK_SECRET, HMAC_KEY, NOTIFY_KEY]
    secrets += [base64.b64encode(secret.encode()).decode() for secret in secrets]
    shown = sorted({place for place, text in written.items() if any(secret in text for secret in secrets)})
    expect("F09: nothing shows a token or a key", [], shown)

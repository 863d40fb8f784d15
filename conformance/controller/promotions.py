"""Promotions as the accounts of the chart, through a real Gitea, operated with kubectl."""

import base64
import json
import time

from operation import operation
from world import *


def accounts_promote():
    # The accounts of the chart are for the cluster with the pipelines. Here it has the agent's workloads and credentials as well, which
    # are an operator's to open.
    account = f"--serviceaccount={AGENT.removeprefix('system:serviceaccount:')}"
    kubectl("create", "clusterrolebinding", "conformance-workloads", "--clusterrole=view", account)
    kubectl("create", "role", "conformance-credentials", "-n", APPS, "--verb=get", "--resource=secrets", "--resource-name=gitops")
    kubectl("create", "rolebinding", "conformance-credentials", "-n", APPS, "--role=conformance-credentials", account)
    crew = Crew()
    try:
        expect("the controller is elected", True, bool(wait_for(is_led)))
        promotions(crew.api)
        operation(crew)
    finally:
        ends = crew.end()
    expect("both processes end when they are told to", [True, True], [code in (0, 130, 143) for code in ends])
    expect("the roles of the accounts suffice", [], denied_requests(*crew.everybody))
    leaks = [secret for secret in (TOKEN, API_TOKEN, HOOK_SECRET, HMAC_KEY, NOTIFY_KEY) if secret in crew.text()]
    expect("no secret is in the logs", [], leaks)


def promotions(api):
    for environment in ("dev", "prod"):
        apply(deployment(environment))
    create_repository("gitops", api=api)
    create_repository("plain")
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in
               (("token", TOKEN), ("username", USER), ("webhookSecret", HOOK_SECRET))}
    health = {"type": "resource", "timeout": "2m", "resource": {"kind": "Deployment", "name": "app"}}
    environments = [{"name": "dev", "health": {**health, "resource": {**health["resource"], "namespace": "dev"}}},
                    {"name": "prod", "approval": "pr-review", "health": {**health, "resource": {**health["resource"], "namespace": "prod"}}}]
    sharded = [environments[0], {**environments[1], "approval": "auto", "shard": "eu"}]
    expect("kubectl creates pipelines and gates", "", apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gitops", "namespace": APPS}, "data": encoded},
        custom("Pipeline", APPS, "app", {"git": git_of("gitops"), "environments": environments}),
        custom("Pipeline", APPS, "sharded", {"git": git_of("gitops"), "environments": sharded}),
        custom("Pipeline", APPS, "plain", {"git": git_of("plain", "none"), "environments": environments}),
        custom("PolicyGate", POLICIES, "no-bad-version", {"expression": "bundle.version != '6.6.6'", "message": "bad"},
               labels={"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"})))
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
    body = {"pipeline": "app", "namespace": APPS, "name": "app-3", "artifacts": image("6.6.6")}
    expect("a build creates a bundle over HTTP", 201, ask(f"{api}/api/v1/bundles", body)[0])

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

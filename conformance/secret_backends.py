"""Puts secrets into moto (AWS Secrets Manager, Parameter Store, STS) and lets slipway fetch them.

Usage: secret_backends.py SLIPWAY DIRECTORY. Writes DIRECTORY/verdicts.json: name of the case -> what was expected and what was
said. The values are random and must not turn up in any output.
"""

import base64
import json
import logging
import os
import uuid
import subprocess
import sys

import boto3
from moto.server import ThreadedMotoServer

SLIPWAY, DIRECTORY = sys.argv[1:3]
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret-key", "AWS_REGION": "eu-west-1"}
CANARY = "canary-" + uuid.uuid4().hex
verdicts = {}
logging.getLogger("werkzeug").setLevel(logging.ERROR)


def slipway(*words):
    return run("secrets", *words)


def run(*words):
    environment = {"HOME": DIRECTORY, "PATH": os.environ["PATH"], **KEYS, "AWS_ENDPOINT_URL": ENDPOINT}
    ran = subprocess.run([SLIPWAY, *words], cwd=DIRECTORY, env=environment, capture_output=True, text=True)
    if CANARY in ran.stdout + ran.stderr:
        verdicts["leak in " + " ".join(words)] = {"expected": "no value", "found": "a value"}
    return ran


def fetched(name, reference, version=None):
    """The reference can be fetched, and is of that version."""
    ran = slipway("test", reference, "-o", "json")
    rows = json.loads(ran.stdout) if ran.returncode == 0 else []
    found = {"code": ran.returncode, "version": rows[0]["version"] if rows else ran.stderr}
    expected = {"code": 0, "version": version if version is not None else found["version"]}
    verdicts[name] = {"expected": expected, "found": found}


def refused(name, reference, code, words):
    ran = slipway("test", reference)
    found = {"code": ran.returncode, "says": words if words in ran.stderr else ran.stderr}
    verdicts[name] = {"expected": {"code": code, "says": words}, "found": found}


def equal(name, expected, found):
    verdicts[name] = {"expected": expected, "found": found}


def secrets_manager():
    aws = boto3.client("secretsmanager", endpoint_url=ENDPOINT, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    first = aws.create_secret(Name="app/db", SecretString=json.dumps({"password": CANARY, "user": "u-" + CANARY}))
    second = aws.put_secret_value(SecretId="app/db", SecretString=json.dumps({"password": CANARY + "2"}))
    aws.create_secret(Name="app/binary", SecretBinary=b"\xff\xfe" + CANARY.encode())
    aws.create_secret(Name="app/gone", SecretString=CANARY)
    aws.delete_secret(SecretId="app/gone")
    for number in range(25):
        aws.create_secret(Name=f"many/{number}", SecretString=f"{CANARY}-{number}")
    base = "secret://aws-secrets-manager/"
    fetched("sm: current version", base + "app/db#password", second["VersionId"])
    fetched("sm: pinned version", base + f"app/db?version={first['VersionId']}#user", first["VersionId"])
    fetched("sm: stage", base + "app/db?stage=AWSPREVIOUS#user", first["VersionId"])
    fetched("sm: ARN", base + second["ARN"] + "#password", second["VersionId"])
    fetched("sm: binary as base64", base + "app/binary?encoding=base64")
    refused("sm: binary as text", base + "app/binary", 16, "it is not UTF-8 text")
    refused("sm: key not there", base + "app/db#user", 16, "it has no key `user`; there are password")
    refused("sm: no such secret", base + "app/none", 16, "not found: secretsmanager:GetSecretValue app/none: ResourceNotFoundException")
    refused("sm: deleted", base + "app/gone", 16, "scheduled for deletion")
    ran = slipway("test", "-o", "json", *[base + f"many/{number}" for number in range(25)])
    equal("sm: 25 at once", 25, len(json.loads(ran.stdout or "[]")) or ran.stderr)
    ran = slipway("test", base + "many/1", base + "many/none", base + "many/2")
    equal("sm: one of a batch is missing", (16, 1), (ran.returncode, ran.stderr.count("ResourceNotFoundException")))
    ran = slipway("list", "--provider", "aws-secrets-manager", "--path", "app/")
    equal("sm: list", "app/binary\napp/db\n", ran.stdout or ran.stderr)


def parameters():
    aws = boto3.client("ssm", endpoint_url=ENDPOINT, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    aws.put_parameter(Name="/app/db", Value=CANARY, Type="SecureString")
    aws.put_parameter(Name="/app/db", Value=CANARY + "2", Type="SecureString", Overwrite=True)
    aws.label_parameter_version(Name="/app/db", ParameterVersion=1, Labels=["blue"])
    aws.put_parameter(Name="plain", Value=CANARY, Type="String")
    for number in range(25):
        aws.put_parameter(Name=f"/many/{number}", Value=f"{CANARY}-{number}", Type="SecureString")
    base = "secret://aws-ssm/"
    fetched("ssm: current version", base + "app/db", "2")
    fetched("ssm: rooted name", base + "/app/db", "2")
    fetched("ssm: pinned version", base + "app/db?version=1", "1")
    fetched("ssm: label", base + "app/db?stage=blue", "1")
    fetched("ssm: plain name", base + "plain", "1")
    refused("ssm: not there", base + "app/none", 16, "aws-ssm not found: ssm:GetParameters /app/none")
    ran = slipway("test", "-o", "json", *[base + f"many/{number}" for number in range(25)])
    equal("ssm: 25 at once", 25, len(json.loads(ran.stdout or "[]")) or ran.stderr)
    ran = slipway("list", "--provider", "aws-ssm", "--path", "app")
    equal("ssm: list", "app/db\n", ran.stdout or ran.stderr)


def identities():
    ran = slipway("login", "aws-ssm")
    equal("sts: caller", True, "as arn:aws:" in ran.stdout or ran.stderr)
    with open(os.path.join(DIRECTORY, "role.yaml"), "w") as file:
        role = "arn:aws:iam::123456789012:role/reader"
        file.write(f"secrets: {{providers: {{r: {{type: aws-sm, region: eu-west-1, endpoint: '{ENDPOINT}', stsEndpoint: '{ENDPOINT}', roleArn: '{role}'}}}}}}\n")
    ran = slipway("login", "r", "--secret-config", "role.yaml")
    equal("sts: assumed role", True, "assumed-role/reader/slipway" in ran.stdout or ran.stderr + ran.stdout)


def apply():
    """A reference in `--set`, without any configuration, becomes what the backend holds, and the policy can forbid that."""
    aws = boto3.client("secretsmanager", endpoint_url=ENDPOINT, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    aws.create_secret(Name="my-app/db-password", SecretString=CANARY)
    os.makedirs(os.path.join(DIRECTORY, "chart/templates"))
    with open(os.path.join(DIRECTORY, "chart/Chart.yaml"), "w") as file:
        file.write("apiVersion: v2\nname: web\nversion: 1.0.0\n")
    with open(os.path.join(DIRECTORY, "chart/templates/secret.yaml"), "w") as file:
        file.write("apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: {{ .Values.password | quote }}}\n")
    value = "password=secret://aws-secrets-manager/my-app/db-password"
    run("sandbox", "up", "--detach", "--speed", "max")
    try:
        ran = run("apply", "web", "chart", "--set", value, "--sandbox")
        equal("apply with --set", 0, ran.returncode if ran.returncode == 0 else ran.stderr)
        ran = run("sandbox", "save", "saved.jsonl")
        with open(os.path.join(DIRECTORY, "saved.jsonl")) as file:
            saved = file.read()
        equal("the cluster has the value", True, base64.b64encode(CANARY.encode()).decode() in saved)
        ran = run("get", "values", "web", "--sandbox")
        equal("the record has the reference", True, value.split("=", 1)[1] in ran.stdout or ran.stdout + ran.stderr)
        with open(os.path.join(DIRECTORY, "closed.yaml"), "w") as file:
            file.write("secrets: {policy: {implicitProviders: false}}\n")
        ran = run("apply", "web", "chart", "--set", value, "--sandbox", "--secret-config", "closed.yaml")
        equal("providers nobody configured can be forbidden", 15, ran.returncode if ran.returncode == 15 else ran.stderr)
    finally:
        run("sandbox", "down")


def local():
    with open(os.path.join(DIRECTORY, "dev.env"), "w") as file:
        file.write(f"export DB='{CANARY}'\n")
    plugin = os.path.join(DIRECTORY, "plugin.py")
    with open(plugin, "w") as file:
        file.write("#!/usr/bin/env python3\nimport json, sys\nasked = json.loads(sys.stdin.readline())\n")
        file.write(f"items = [dict(id=i['id'], ok=True, data={{'k': '{CANARY}'}}, version='p1') for i in asked['items']]\n")
        file.write(f"print('{CANARY}', file=sys.stderr)\nprint(json.dumps(dict(v=1, items=items)))\n")
    os.chmod(plugin, 0o755)
    with open(os.path.join(DIRECTORY, "local.yaml"), "w") as file:
        file.write(f"secrets: {{providers: {{l: {{type: file, path: dev.env}}, x: {{type: exec, command: ['{plugin}']}}}}}}\n")
    for name, reference in [("file", "secret://l/DB"), ("exec", "secret://x/any#k")]:
        ran = slipway("test", reference, "--secret-config", "local.yaml", "-vv")
        equal(name, 0, ran.returncode or 0 if ran.returncode == 0 else ran.stderr)


server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
ENDPOINT = "http://{}:{}".format(*server.get_host_and_port())
try:
    secrets_manager()
    parameters()
    identities()
    apply()
    local()
finally:
    server.stop()
with open(os.path.join(DIRECTORY, "verdicts.json"), "w") as file:
    json.dump(verdicts, file, indent=1)

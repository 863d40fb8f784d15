"""Lets slipway fetch secrets from a real Vault server: engines, versions, every login it can check here, leases, a seal.

Usage: vault_backend.py SLIPWAY VAULT DIRECTORY. Writes DIRECTORY/verdicts.json: name of the case -> what was expected and what was
said. The values are random and must not turn up in any output.
"""

import base64
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

SLIPWAY, VAULT, DIRECTORY = sys.argv[1:4]
CANARY = "canary-" + uuid.uuid4().hex
verdicts = {}


def request(address, method, body=None, headers=None, context=None):
    data = json.dumps(body).encode() if body is not None else None
    asked = urllib.request.Request(address, data, {"content-type": "application/json", **(headers or {})}, method=method)
    with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
        text = answer.read()
        return json.loads(text) if text else {}


def vault(method, path, body=None, token=None, wrap=None):
    headers = {"X-Vault-Token": token or ROOT, **({"X-Vault-Wrap-TTL": wrap} if wrap else {})}
    return request(f"{ADDRESS}/v1/{path}", method, body, headers)


def slipway(*words, **variables):
    environment = {"HOME": DIRECTORY, "PATH": os.environ["PATH"], **variables}
    ran = subprocess.run([SLIPWAY, *words], cwd=DIRECTORY, env=environment, capture_output=True, text=True)
    if CANARY in ran.stdout + ran.stderr or "lent-to-" in ran.stdout + ran.stderr:
        verdicts["leak in " + " ".join(words)] = {"expected": "no value", "found": "a value"}
    return ran


def equal(name, expected, found):
    verdicts[name] = {"expected": expected, "found": found}


def configure(settings):
    with open(os.path.join(DIRECTORY, "secrets.yaml"), "w") as file:
        yaml.safe_dump({"secrets": {"limits": {"retries": 0}, "providers": {"v": {"type": "vault", "address": ADDRESS, **settings}}}}, file)


def fetched(name, reference, version=None, **variables):
    ran = slipway("secrets", "test", reference, "--secret-config", "secrets.yaml", "-o", "json", **variables)
    rows = json.loads(ran.stdout) if ran.returncode == 0 else []
    found = {"code": ran.returncode, "version": rows[0].get("version") if rows else ran.stderr}
    equal(name, {"code": 0, "version": version}, found)


def refused(name, reference, words, **variables):
    ran = slipway("secrets", "test", reference, "--secret-config", "secrets.yaml", **variables)
    equal(name, {"code": 16, "says": words}, {"code": ran.returncode, "says": words if words in ran.stderr else ran.stderr})


def engines():
    vault("POST", "sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})
    vault("POST", "sys/mounts/old", {"type": "kv", "options": {"version": "1"}})
    vault("POST", "sys/mounts/lender", {"type": "lender"})
    for number in range(1, 6):
        vault("POST", "secret/data/app/db", {"data": {"password": f"{CANARY}-{number}", "user": "u-" + CANARY}})
    vault("POST", "secret/delete/app/db", {"versions": [2]})
    vault("PUT", "secret/destroy/app/db", {"versions": [3]})
    vault("POST", "old/app", {"password": CANARY})
    vault("PUT", "sys/policies/acl/reader", {"policy": 'path "secret/*" { capabilities = ["read", "list"] }\npath "lender/*" { capabilities = ["read"] }\npath "sys/leases/revoke" { capabilities = ["update"] }\npath "secret/data/closed" { capabilities = ["deny"] }'})
    token = {"VAULT_TOKEN": ROOT}
    for version in ["auto", 2]:
        configure({"kvVersion": version})
        fetched(f"kv 2 ({version}): current version", "secret://v/app/db#password", "5", **token)
        fetched(f"kv 2 ({version}): pinned version", "secret://v/app/db?version=1#password", "1", **token)
        refused(f"kv 2 ({version}): deleted version", "secret://v/app/db?version=2#password", "is deleted (version 2)", **token)
        refused(f"kv 2 ({version}): destroyed version", "secret://v/app/db?version=3#password", "is destroyed (version 3)", **token)
        refused(f"kv 2 ({version}): no such version", "secret://v/app/db?version=99#password", "not found", **token)
        refused(f"kv 2 ({version}): no such path", "secret://v/app/none#password", "not found", **token)
        refused(f"kv 2 ({version}): no such key", "secret://v/app/db#none", "it has no key `none`; there are password, user", **token)
    configure({"mount": "old"})
    fetched("kv 1 (auto)", "secret://v/app#password", None, **token)
    refused("kv 1: has no versions", "secret://v/app?version=1#password", "keeps no versions", **token)
    configure({})
    fetched("another mount", "secret://v/mount:old/app#password", None, **token)
    refused("a wrong token", "secret://v/app/db#password", "forbidden", VAULT_TOKEN="hvs.wrong")
    refused("no token", "secret://v/app/db#password", "there is no token")
    ran = slipway("secrets", "list", "--provider", "v", "--secret-config", "secrets.yaml", **token)
    equal("list", "app/\n", ran.stdout or ran.stderr)


def app_roles():
    vault("POST", "sys/auth/approle", {"type": "approle"})
    vault("POST", "auth/approle/role/web", {"token_policies": "reader", "token_ttl": "10m", "secret_id_num_uses": 0})
    role = vault("GET", "auth/approle/role/web/role-id")["data"]["role_id"]
    secret = vault("POST", "auth/approle/role/web/secret-id", {})["data"]["secret_id"]
    configure({"authMethod": "approle", "roleId": "env:ROLE", "secretId": "env:SECRET_ID"})
    fetched("approle", "secret://v/app/db#password", "5", ROLE=role, SECRET_ID=secret)
    refused("approle: wrong secret id", "secret://v/app/db#password", "login at auth/approle refused", ROLE=role, SECRET_ID="wrong")
    vault("POST", "secret/data/closed", {"data": {"k": CANARY}})
    refused("approle: path of others", "secret://v/closed#k", "forbidden", ROLE=role, SECRET_ID=secret)
    configure({"authMethod": "approle", "roleId": "env:ROLE", "secretIdWrapped": "env:WRAPPED"})
    wrapped = vault("POST", "auth/approle/role/web/secret-id", {}, wrap="120s")["wrap_info"]["token"]
    fetched("approle: wrapped secret id", "secret://v/app/db#password", "5", ROLE=role, WRAPPED=wrapped)
    refused("approle: used wrapping", "secret://v/app/db#password", "cannot be unwrapped", ROLE=role, WRAPPED=wrapped)
    # Tokens of logins are revoked when the run ends.
    left = vault("LIST", "auth/token/accessors")["data"]["keys"]
    equal("tokens of logins are revoked", 1, len(left))
    return {"ROLE": role, "SECRET_ID": secret}


def leases(role):
    configure({"authMethod": "approle", "roleId": "env:ROLE", "secretId": "env:SECRET_ID"})
    fetched("lease", "secret://v/read:lender/creds/web#password", None, **role)
    equal("leases are revoked", 0, count_leases("web"))
    configure({})
    fetched("lease of the user's token", "secret://v/read:lender/creds/own#password", None, VAULT_TOKEN=ROOT)
    equal("leases of the user's token are revoked", 0, count_leases("own"))
    fetched("kept lease", "secret://v/read:lender/creds/kept?keepLease=true#password", None, VAULT_TOKEN=ROOT)
    equal("kept leases stay", 1, count_leases("kept"))


def count_leases(name):
    try:
        return len(vault("LIST", f"sys/leases/lookup/lender/creds/{name}")["data"]["keys"])
    except urllib.error.HTTPError as error:
        return 0 if error.code == 404 else error.code


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def tokens_of_others():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    vault("POST", "sys/auth/jwt", {"type": "jwt"})
    vault("POST", "auth/jwt/config", {"jwt_validation_pubkeys": [public.decode()]})
    vault("POST", "auth/jwt/role/ci", {"role_type": "jwt", "bound_audiences": ["vault"], "user_claim": "sub", "token_policies": "reader"})

    def signed(audience):
        now = int(time.time())
        claims = {"sub": "job-1", "aud": audience, "iat": now, "nbf": now - 5, "exp": now + 300}
        message = ".".join(encode(json.dumps(part).encode()) for part in [{"alg": "RS256", "typ": "JWT"}, claims])
        return message + "." + encode(key.sign(message.encode(), padding.PKCS1v15(), hashes.SHA256()))

    configure({"authMethod": "jwt", "jwtRole": "ci", "jwt": "env:JWT"})
    fetched("jwt", "secret://v/app/db#password", "5", JWT=signed("vault"))
    refused("jwt: of another audience", "secret://v/app/db#password", "login at auth/jwt refused", JWT=signed("other"))


def kubernetes():
    slipway("sandbox", "up", "--detach", "--speed", "max", "--write-kubeconfig", "sandbox.kubeconfig")
    with open(os.path.join(DIRECTORY, "sandbox.kubeconfig")) as file:
        config = yaml.safe_load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    headers = {}
    if "client-certificate-data" in user:
        pem = os.path.join(DIRECTORY, "client.pem")
        with open(pem, "wb") as file:
            file.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
        context.load_cert_chain(pem)
    else:
        headers["authorization"] = "Bearer " + user["token"]
    accounts = cluster["server"] + "/api/v1/namespaces/default/serviceaccounts"
    try:
        for name in ["web", "reviewer", "stranger"]:
            request(accounts, "POST", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, headers, context)

        def token(name):
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            return request(f"{accounts}/{name}/token", "POST", asked, headers, context)["status"]["token"]

        vault("POST", "sys/auth/kubernetes", {"type": "kubernetes"})
        vault("POST", "auth/kubernetes/config", {"kubernetes_host": cluster["server"], "kubernetes_ca_cert": authority, "token_reviewer_jwt": token("reviewer")})
        vault("POST", "auth/kubernetes/role/web", {"bound_service_account_names": ["web"], "bound_service_account_namespaces": ["default"], "policies": ["reader"], "ttl": "10m"})
        path = os.path.join(DIRECTORY, "pod-token")
        configure({"authMethod": "kubernetes", "kubernetesRole": "web", "kubernetesTokenPath": path})
        for name, check in [("web", fetched), ("stranger", refused)]:
            with open(path, "w") as file:
                file.write(token(name))
            expected = ["5"] if check is fetched else ["login at auth/kubernetes refused"]
            check(f"kubernetes: {name}", "secret://v/app/db#password", *expected)
    finally:
        slipway("sandbox", "down")


def seal():
    vault("POST", "sys/seal")
    configure({"kvVersion": 2})
    refused("sealed", "secret://v/app/db#password", "vault is sealed", VAULT_TOKEN=ROOT)
    vault("POST", "sys/unseal", {"key": KEY})
    fetched("unsealed again", "secret://v/app/db#password", "5", VAULT_TOKEN=ROOT)


server = subprocess.Popen([VAULT], stdout=subprocess.PIPE, text=True)
told = json.loads(server.stdout.readline())
ADDRESS, ROOT, KEY = told["address"], told["token"], told["key"]
try:
    engines()
    leases(app_roles())
    tokens_of_others()
    kubernetes()
    seal()
finally:
    server.terminate()
    server.wait(timeout=30)
with open(os.path.join(DIRECTORY, "verdicts.json"), "w") as file:
    json.dump(verdicts, file, indent=1)

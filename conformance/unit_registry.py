"""Units in a real registry: pushed, pulled, and tags looked up.

Called with our binary, the registry's program and a directory; writes verdicts.json there.
"""

import hashlib
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

SLIPWAY, REGISTRY, DIRECTORY = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
verdicts = {}


def expect(name, expected, found):
    verdicts[name] = {"expected": expected, "found": found}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


HOST = f"127.0.0.1:{free_port()}"
STORAGE = DIRECTORY / "storage"


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def send(method, path, content=None, kind=None):
    request = urllib.request.Request(f"http://{HOST}{path}" if path.startswith("/") else path, data=content, method=method)
    if kind:
        request.add_header("Content-Type", kind)
        request.add_header("Accept", kind)
    return urllib.request.urlopen(request, timeout=30)


def put_blob(repository, content):
    location = send("POST", f"/v2/{repository}/blobs/uploads/", b"").headers["Location"]
    mark = "&" if "?" in location else "?"
    send("PUT", f"{location}{mark}digest={digest(content)}", content, "application/octet-stream")
    return {"digest": digest(content), "size": len(content)}


def put_image(repository, tag, text):
    """An image for two platforms; gives the digest of its index and of its parts."""
    parts = []
    for architecture in ("amd64", "arm64"):
        config = json.dumps({"architecture": architecture, "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
        layer = f"{text} {architecture}".encode()
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **put_blob(repository, config)},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **put_blob(repository, layer)}],
        }).encode()
        send("PUT", f"/v2/{repository}/manifests/{digest(manifest)}", manifest, MANIFEST)
        parts.append({"mediaType": MANIFEST, "digest": digest(manifest), "size": len(manifest),
                      "platform": {"os": "linux", "architecture": architecture}})
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": parts}).encode()
    answer = send("PUT", f"/v2/{repository}/manifests/{tag}", index, INDEX)
    return answer.headers["Docker-Content-Digest"], [part["digest"] for part in parts]


def slipway(*words):
    ran = subprocess.run([SLIPWAY, *words], cwd=DIRECTORY, capture_output=True, text=True, timeout=300,
                         env={**os.environ, "NO_COLOR": "1", "NO_PROXY": "127.0.0.1", "HOME": str(DIRECTORY / "home")})
    return ran.returncode, ran.stdout, ran.stderr


def rows(unit, sql):
    with sqlite3.connect(f"file:{DIRECTORY / unit}?mode=ro", uri=True) as connection:
        return connection.execute(sql).fetchall()


def write_chart():
    chart = DIRECTORY / "shop"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: shop\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text(f"image: {{repository: {HOST}/acme/shop, tag: '1.3'}}\n")
    (chart / "templates/pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec:\n  containers:\n"
        "    - {name: shop, image: '{{ .Values.image.repository }}:{{ .Values.image.tag }}'}\n"
        f"    - {{name: side, image: '{HOST}/lib/side:1'}}\n")


def bundle(output, *more):
    return slipway("unit", "bundle", "shop", "./shop", "--plain-http", "--image", f"shop={HOST}/acme/shop:1.4", "-O", output, *more)


def play():
    write_chart()
    index, parts = put_image("acme/shop", "1.4", "shop")
    side, _ = put_image("lib/side", "1", "side")
    code, _, err = bundle("a.unit.sqlite", "--pin-all")
    expect("a tag is looked up and everything else pinned", [0, ""], [code, err if code else ""])
    uses = dict(rows("a.unit.sqlite", "SELECT container, ref FROM image_uses"))
    expect("the digest of an index is what the registry says", f"{HOST}/acme/shop:1.4@{index}", uses.get("shop"))
    expect("--pin-all pins the others", f"{HOST}/lib/side:1@{side}", uses.get("side"))
    platforms = json.loads(rows("a.unit.sqlite", "SELECT platforms FROM images WHERE name = 'shop'")[0][0])
    expect("platforms are sealed with their digests", parts, [platform["digest"] for platform in platforms])

    reference = f"oci://{HOST}/units/shop:1"
    code, out, err = slipway("unit", "push", "a.unit.sqlite", reference, "--plain-http")
    expect("a unit is pushed", [0, ""], [code, err if code else ""])
    content = (DIRECTORY / "a.unit.sqlite").read_bytes()
    answer = send("GET", "/v2/units/shop/manifests/1", None, MANIFEST)
    stored = answer.read()
    manifest = json.loads(stored)
    expect("the registry holds the file itself", digest(content), manifest["layers"][0]["digest"])
    expect("its type is that of units", "application/vnd.ktl.unit.v1", manifest.get("artifactType"))
    expect("push prints the digest of the manifest", f"{HOST}/units/shop:1@{digest(stored)}", out.strip())

    code, out, err = slipway("unit", "pull", reference, "-O", "b.unit.sqlite", "--plain-http")
    expect("a unit is pulled", [0, True], [code, code == 0 and (DIRECTORY / "b.unit.sqlite").read_bytes() == content])
    code, _, _ = slipway("unit", "pull", f"oci://{HOST}/units/shop@{digest(stored)}", "-O", "c.unit.sqlite", "--plain-http")
    expect("also by its digest", 0, code)
    code, _, _ = slipway("unit", "pull", reference, "-O", "d.unit.sqlite", "--plain-http", "--expect-digest", "sha256:" + "0" * 64)
    expect("a unit of another digest is refused and not kept", [True, False], [code != 0, (DIRECTORY / "d.unit.sqlite").exists()])

    moved, _ = put_image("acme/shop", "1.4", "shop, built again")
    code, out, _ = slipway("unit", "inspect", "b.unit.sqlite", "-o", "json")
    images = {image["container"]: image["ref"] for image in json.loads(out)["images"]}
    expect("a tag that moves does not change a unit", f"{HOST}/acme/shop:1.4@{index}", images["shop"])
    bundle("e.unit.sqlite")
    uses = dict(rows("e.unit.sqlite", "SELECT container, ref FROM image_uses"))
    expect("the next bundle gets the tag's new digest", f"{HOST}/acme/shop:1.4@{moved}", uses.get("shop"))

    code, _, err = slipway("unit", "bundle", "shop", "./shop", "--plain-http", "--image", f"shop={HOST}/acme/shop:9", "-O", "f.unit.sqlite")
    expect("a tag that is not there is told", [True, True, False], [code != 0, "acme/shop:9" in err, (DIRECTORY / "f.unit.sqlite").exists()])
    code, _, err = slipway("unit", "pull", f"oci://{HOST}/lib/side:1", "-O", "g.unit.sqlite", "--plain-http")
    expect("an image is no unit", [True, False], [code != 0, (DIRECTORY / "g.unit.sqlite").exists()])
    hex_digest = digest(content).removeprefix("sha256:")
    blob = STORAGE / "docker/registry/v2/blobs/sha256" / hex_digest[:2] / hex_digest / "data"
    blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    code, _, err = slipway("unit", "pull", reference, "-O", "h.unit.sqlite", "--plain-http")
    expect("a changed blob is refused and not kept", [True, False], [code != 0, (DIRECTORY / "h.unit.sqlite").exists()])


def main():
    config = DIRECTORY / "config.yml"
    config.write_text(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {STORAGE}}}}}\nhttp: {{addr: '{HOST}'}}\n")
    with open(DIRECTORY / "registry.log", "w") as log:
        server = subprocess.Popen([REGISTRY, "serve", str(config)], stdout=log, stderr=log)
    try:
        for _ in range(300):
            try:
                send("GET", "/v2/")
                break
            except OSError:
                time.sleep(0.1)
        play()
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(STORAGE, ignore_errors=True)
    (DIRECTORY / "verdicts.json").write_text(json.dumps(verdicts, indent=1))


main()

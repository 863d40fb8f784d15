#!/usr/bin/env python3
"""Makes signed charts and keyrings with GnuPG, good ones and bad ones, and asks GnuPG about each.

Usage: provenance.py DIRECTORY [RECORDING]

Every case is a directory with `web-0.1.0.tgz`, `web-0.1.0.tgz.prov` and `keyring.gpg`. `verdicts.json` says
what GnuPG thinks of each: `good`, or the reason it is not. The recording has the small cases in one file,
for tests without GnuPG.
"""

import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ARCHIVE = b"not really a chart"
NAME = "web-0.1.0.tgz"
BASE = 1_600_000_000  # September 2020
YEAR = 365 * 86400

KEY, SUBKEY, USER, SIGNATURE = 6, 14, 13, 2


def packets(data):
    """The packets of binary data: (tag, body)."""
    found, at = [], 0
    while at < len(data):
        head = data[at]
        at += 1
        if head & 0x40:
            tag, first = head & 0x3F, data[at]
            at += 1
            if first < 192:
                size = first
            elif first < 224:
                size = ((first - 192) << 8) + data[at] + 192
                at += 1
            else:
                size = int.from_bytes(data[at : at + 4], "big")
                at += 4
        else:
            tag, width = head >> 2 & 0xF, 1 << (head & 3)
            size = int.from_bytes(data[at : at + width], "big")
            at += width
        found.append((tag, data[at : at + size]))
        at += size
    return found


def join(parts):
    return b"".join(bytes([0xC0 | tag, 255]) + len(body).to_bytes(4, "big") + body for tag, body in parts)


def kind(body):
    return body[1]


class Ring:
    """A GnuPG home of its own."""

    def __init__(self):
        # Sockets have short names.
        self.home = tempfile.mkdtemp(prefix="gpg", dir="/tmp")
        os.chmod(self.home, 0o700)

    def close(self):
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], capture_output=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def gpg(self, *words, time=None, given=None, check=True):
        command = ["gpg", "--homedir", self.home, "--batch", "--yes", "--no-tty", "--pinentry-mode", "loopback"]
        command += ["--passphrase", "", "--trust-model", "always", "--quiet"]
        if time is not None:
            command += ["--faked-system-time", f"{time}!"]
        done = subprocess.run(command + list(words), input=given, capture_output=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{words}: {done.stderr.decode()}")
        return done

    def make(self, name="Test <test@example.com>", algorithm="ed25519", usage="sign,cert", expire="never", time=BASE, more=()):
        self.gpg(*more, "--quick-gen-key", name, algorithm, usage, expire, time=time)
        return self.fingerprints(name)[0]

    def add(self, primary, algorithm="ed25519", usage="sign", expire="never", time=BASE + 10):
        before = set(self.fingerprints(primary))
        self.gpg("--quick-add-key", primary, algorithm, usage, expire, time=time)
        return next(one for one in self.fingerprints(primary) if one not in before)

    def fingerprints(self, name):
        lines = self.gpg("--with-colons", "--list-keys", name).stdout.decode().splitlines()
        return [line.split(":")[9] for line in lines if line.startswith("fpr:")]

    def sign(self, key, time=BASE + 100, more=()):
        text = f"name: web\nversion: 0.1.0\n\n...\nfiles:\n  {NAME}: sha256:{hashlib.sha256(ARCHIVE).hexdigest()}\n"
        return self.gpg(*more, "--local-user", f"{key}!", "--clear-sign", time=time, given=text.encode()).stdout

    def export(self):
        return self.gpg("--export").stdout

    def edit(self, key, *answers, time=BASE + 200):
        """Runs commands of the key editor."""
        words = ["--no-batch", "--command-fd", "0", "--expert", "--edit-key", key]
        self.gpg(*words, time=time, given=("\n".join(answers) + "\n").encode())

    def revoke(self, key, reason="0", time=BASE + 200):
        """Takes a primary key back."""
        answers = f"y\n{reason}\n\ny\n".encode()
        made = self.gpg("--no-batch", "--command-fd", "0", "--gen-revoke", key, time=time, given=answers).stdout
        self.gpg("--import", given=made)


def cases():
    """Gives (name, keyring, provenance) of every case."""
    rings = []

    def ring():
        rings.append(Ring())
        return rings[-1]

    for algorithm in ["ed25519", "rsa1024", "rsa2048", "rsa3072", "rsa4096"]:
        one = ring()
        key = one.make(algorithm=algorithm)
        yield f"primary-{algorithm}", one.export(), one.sign(key)

    for algorithm in ["ed25519", "rsa2048"]:
        one = ring()
        key = one.make(algorithm=algorithm)
        sub = one.add(key, algorithm=algorithm)
        good = one.export()
        text = one.sign(sub)
        yield f"subkey-{algorithm}", good, text
        parts = packets(good)
        yield f"subkey-not-bound-{algorithm}", join(parts[:-1]), text
        # The embedded signature stands among what is not hashed.
        tag, body = parts[-1]
        hashed = int.from_bytes(body[4:6], "big")
        at = 6 + hashed
        unhashed = int.from_bytes(body[at : at + 2], "big")
        area, kept = body[at + 2 : at + 2 + unhashed], b""
        while area:
            size = area[0]
            width = 1
            if size >= 192:
                size, width = ((area[0] - 192) << 8) + area[1] + 192, 2
            if area[width] & 0x7F != 32:
                kept += area[: width + size]
            area = area[width + size :]
        bare = body[:at] + len(kept).to_bytes(2, "big") + kept + body[at + 2 + unhashed :]
        yield f"subkey-not-cross-signed-{algorithm}", join(parts[:-1] + [(tag, bare)]), text
        broken = body[:-3] + bytes([body[-3] ^ 1]) + body[-2:]
        yield f"subkey-binding-damaged-{algorithm}", join(parts[:-1] + [(tag, broken)]), text
        yield f"armoured-{algorithm}", one.gpg("--armor", "--export").stdout, text

        one.revoke(key)
        revoked = one.export()
        by_primary = ring()
        yield f"primary-revoked-signed-by-subkey-{algorithm}", revoked, text
        parts = packets(revoked)
        revocation = next(part for part in parts if part[0] == SIGNATURE and kind(part[1]) == 0x20)
        rest = [part for part in parts if part is not revocation]
        yield f"revocation-last-{algorithm}", join(rest + [revocation]), text
        yield f"revocation-after-user-{algorithm}", join(rest[:2] + [revocation] + rest[2:]), text
        body = revocation[1]
        broken = body[:-3] + bytes([body[-3] ^ 1]) + body[-2:]
        yield f"revocation-damaged-{algorithm}", join(rest[:1] + [(SIGNATURE, broken)] + rest[1:]), text
        yield f"copy-revoked-first-{algorithm}", revoked + good, text
        yield f"copy-revoked-last-{algorithm}", good + revoked, text
        del by_primary

    for reason in ["0", "1", "2", "3"]:
        one = ring()
        key = one.make()
        text = one.sign(key)
        one.revoke(key, reason)
        yield f"primary-revoked-reason-{reason}", one.export(), text

    one = ring()
    key = one.make()
    sub, other = one.add(key), one.add(key, time=BASE + 20)
    texts = {name: one.sign(who) for name, who in [("it", sub), ("primary", key), ("other", other)]}
    one.edit(key, "key 1", "revkey", "y", "0", "", "y", "save")
    revoked = one.export()
    for name, text in texts.items():
        yield f"subkey-revoked-signed-by-{name}", revoked, text
    parts = packets(revoked)
    revocation = next(part for part in parts if part[0] == SIGNATURE and kind(part[1]) == 0x28)
    rest = [part for part in parts if part is not revocation]
    place = next(at for at, part in enumerate(rest) if part[0] == SUBKEY)
    yield "subkey-revocation-before-subkey", join(rest[:place] + [revocation] + rest[place:]), texts["it"]
    yield "subkey-revocation-last", join(rest + [revocation]), texts["it"]

    for name, expire in [("expired", "1y"), ("alive", "50y")]:
        one = ring()
        key = one.make(expire=expire)
        yield f"primary-{name}", one.export(), one.sign(key)
        one = ring()
        key = one.make()
        sub = one.add(key, expire=expire)
        yield f"subkey-{name}", one.export(), one.sign(sub)
        one = ring()
        key = one.make(expire=expire)
        sub = one.add(key)
        yield f"subkey-of-{name}-primary", one.export(), one.sign(sub)

    one = ring()
    key = one.make(expire="1y")
    text = one.sign(key)
    one.gpg("--quick-set-expire", key, "50y", time=BASE + 300)
    yield "expiry-put-off", one.export(), text
    one = ring()
    key = one.make(expire="50y")
    text = one.sign(key)
    one.gpg("--quick-set-expire", key, "1y", time=BASE + 300)
    yield "expiry-put-forward", one.export(), text

    one = ring()
    key = one.make()
    text = one.sign(key)
    one.gpg("--quick-add-uid", key, "Second <second@example.com>", time=BASE + 150)
    one.gpg("--quick-revoke-uid", key, "Test <test@example.com>", time=BASE + 200)
    yield "one-of-two-users-revoked", one.export(), text

    one = ring()
    key = one.make()
    text = one.sign(key)
    parts = packets(one.export())
    yield "user-nobody-vouches-for", join(parts + [(USER, b"Evil <evil@example.com>")]), text
    yield "no-self-signature", join([part for part in parts if part[0] != SIGNATURE]), text
    yield "key-alone", join(parts[:1]), text
    other = ring()
    stranger = other.make("Other <other@example.com>")
    foreign = other.add(stranger)
    grafted = packets(other.export())[-2:]
    yield "subkey-of-another-certificate", join(parts + grafted), other.sign(foreign)
    yield "unknown-key", one.export(), other.sign(stranger)
    yield "two-certificates", one.export() + other.export(), other.sign(stranger)
    one.gpg("--import", given=other.export())
    one.gpg("--local-user", key, "--quick-sign-key", stranger, time=BASE + 50)
    yield "signed-by-others", one.export(), other.sign(stranger)

    one = ring()
    key = one.make(usage="cert")
    sub = one.add(key)
    yield "primary-only-certifies", one.export(), one.sign(sub)

    ahead = 4_000_000_000
    one = ring()
    key = one.make(time=ahead)
    yield "key-from-the-future", one.export(), one.sign(key, time=ahead + 10)
    one = ring()
    key = one.make()
    yield "signature-older-than-its-key", one.export(), one.sign(key, time=BASE - YEAR, more=["--ignore-time-conflict", "--ignore-valid-from"])
    yield "signature-expired", one.export(), one.sign(key, more=["--default-sig-expire", "10d"])

    one = ring()
    key = one.make(algorithm="rsa2048")
    for digest in ["SHA224", "SHA256", "SHA384", "SHA512", "MD5"]:
        yield f"digest-{digest.lower()}", one.export(), one.sign(key, more=["--digest-algo", digest, "--allow-weak-digest-algos"])
    text = one.sign(key)
    yield "text-changed", one.export(), text.replace(b"version: 0.1.0", b"version: 0.2.0")
    one = ring()
    key = one.make(algorithm="rsa2048", more=["--cert-digest-algo", "SHA1"])
    yield "self-signature-sha1", one.export(), one.sign(key)

    for one in rings:
        one.close()


def verdict(directory):
    """What GnuPG says of a signature, by its status lines."""
    one = Ring()
    try:
        keyring = directory / "keyring.gpg"
        one.gpg("--import", "--allow-non-selfsigned-uid", str(keyring), check=False)
        done = one.gpg("--status-fd", "1", "--verify", str(directory / f"{NAME}.prov"), check=False)
        words = [line.split()[1] for line in done.stdout.decode().splitlines() if line.startswith("[GNUPG:]")]
        for bad in ["BADSIG", "REVKEYSIG", "EXPKEYSIG", "EXPSIG", "ERRSIG", "KEYREVOKED"]:
            if bad in words:
                return bad
        return "good" if "GOODSIG" in words and done.returncode == 0 else "bad"
    finally:
        one.close()


def main():
    root = pathlib.Path(sys.argv[1])
    verdicts = {}
    for name, keyring, text in cases():
        directory = root / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / NAME).write_bytes(ARCHIVE)
        (directory / f"{NAME}.prov").write_bytes(text)
        (directory / "keyring.gpg").write_bytes(keyring)
        verdicts[name] = verdict(directory)
    (root / "verdicts.json").write_text(json.dumps(verdicts, indent=2) + "\n")
    if len(sys.argv) > 2:
        record(root, verdicts, pathlib.Path(sys.argv[2]))


def record(root, verdicts, path):
    large = ("-rsa1024", "-rsa3072", "-rsa4096", "-rsa2048")
    small = [name for name in verdicts if name == "primary-rsa2048" or not name.endswith(large)]
    cases = {
        name: {
            "verdict": verdicts[name],
            "keyring": base64.b64encode((root / name / "keyring.gpg").read_bytes()).decode(),
            "provenance": (root / name / f"{NAME}.prov").read_text(),
        }
        for name in small
    }
    path.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()

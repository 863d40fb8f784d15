#!/usr/bin/env python3
"""Runs commands with streams that are closed, full, blocked or cut off, and checks exit codes and records.

usage: output.py SLIPWAY WORK RUNS [SEED]

Every run draws a command and a fate for standard output and standard error. A command must end by its own
result, never by a panic or a signal; it ends with 1 when what it prints cannot be written, except where the
reader left. After every apply the release must be recorded as deployed, after every cancelled one as failed.
"""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

CHART = """apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
{{- if .Values.endless }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {sim/fail: unready}}
    spec: {containers: [{name: web, image: "nginx:1"}]}
{{- end }}
"""

FATES = ["read", "null", "full", "left", "closed"]


def blocked():
    """A pipe whose reader reads nothing."""
    reader, writer = os.pipe()
    flags = fcntl.fcntl(writer, fcntl.F_GETFL)
    fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"." * 4096)
    except BlockingIOError:
        pass
    fcntl.fcntl(writer, fcntl.F_SETFL, flags)
    return reader, writer


class Place:
    def __init__(self, slipway, work):
        self.slipway = os.path.abspath(slipway)
        self.work = os.path.abspath(work)
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(os.path.join(self.work, "web/templates"))
        self.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
        self.write("web/values.yaml", "endless: false\n")
        self.write("web/templates/all.yaml", CHART)
        self.write("g.yaml", "nodes:\n  a: {run: 'echo hi'}\n  b: {needs: [a]}\n")
        self.environment = {"HOME": self.work, "PATH": os.environ["PATH"]}

    def write(self, name, text):
        with open(os.path.join(self.work, name), "w") as file:
            file.write(text)

    def start(self, words, stdout, stderr, before=None):
        return subprocess.Popen([self.slipway, *words], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=stdout, stderr=stderr, preexec_fn=before)

    def run(self, words):
        return subprocess.run([self.slipway, *words], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)

    def status(self, name):
        said = self.run(["status", name, "--sandbox", "-n", name, "-o", "json"])
        if said.returncode != 0:
            return "absent"
        data = json.loads(said.stdout)
        return data.get("status") or data.get("info", {}).get("status")


def stream(fate, opened):
    if fate == "full":
        file = os.open("/dev/full", os.O_WRONLY)
    elif fate == "left":
        reader, file = os.pipe()
        os.close(reader)
    elif fate == "read":
        return subprocess.PIPE
    else:
        file = os.open("/dev/null", os.O_WRONLY)
    opened.append(file)
    return file


def ordinary(place, draw, number):
    """A command with two fates; gives what went wrong."""
    name = f"r{number}"
    commands = [
        (["--help"], 0, True), (["config"], 0, True), (["config", "-o", "json"], 0, True),
        (["render", "web"], 0, True), (["render", "nowhere"], None, False), (["lint", "web"], 0, True),
        (["graph", "g.yaml"], 0, True), (["graph", "g.yaml", "--run", "-v"], 0, False),
        (["completions", "bash"], 0, True), (["nonsense"], 64, False),
        (["list", "--sandbox"], 0, True), (["plan", name, "web", "--sandbox", "-n", name], 0, True),
        (["apply", name, "web", "--sandbox", "-n", name], 0, True),
        (["apply", name, "web", "--sandbox", "-n", name, "-vvv"], 0, True),
    ]
    words, code, prints = draw.choice(commands)
    fates = [draw.choice(FATES), draw.choice(FATES)]
    opened = []

    def close():
        for descriptor, fate in zip((1, 2), fates):
            if fate == "closed":
                os.close(descriptor)

    child = place.start(words, stream(fates[0], opened), stream(fates[1], opened), close)
    for file in opened:
        os.close(file)
    try:
        _, said = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        child.kill()
        return words, fates, "hangs"
    expected = 1 if prints and fates[0] == "full" else code
    if code is None:
        if child.returncode <= 0 or child.returncode in (101, 134):
            return words, fates, f"ended with {child.returncode}"
    elif child.returncode != expected:
        return words, fates, f"ended with {child.returncode}, not {expected}"
    if said and b"bug in slipway" in said:
        return words, fates, said.decode(errors="replace")
    if words[0] == "apply" and place.status(name) != "deployed":
        return words, fates, f"recorded as {place.status(name)}"
    return None


def cancelled(place, draw, number):
    """An apply nobody reads, stopped by a signal while it waits."""
    name = f"c{number}"
    sent, code = draw.choice([(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)])
    words = ["apply", name, "web", "--sandbox", "-n", name, "--set", "endless=true", *draw.choice([[], ["-vvv"], ["--log-format", "json"]])]
    out, err = blocked(), blocked()
    child = place.start(words, out[1], err[1])
    try:
        end = time.monotonic() + 60
        while place.status(name) != "pending-install":
            if time.monotonic() > end or child.poll() is not None:
                return words, sent, "did not begin"
        child.send_signal(sent)
        try:
            child.wait(timeout=60)
        except subprocess.TimeoutExpired:
            return words, sent, "cannot be stopped"
        if child.returncode != code:
            return words, sent, f"ended with {child.returncode}, not {code}"
        if place.status(name) != "failed":
            return words, sent, f"recorded as {place.status(name)}"
        return None
    finally:
        if child.poll() is None:
            child.kill()
        for descriptor in (*out, *err):
            os.close(descriptor)


def main():
    slipway, work, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    draw = random.Random(seed)
    place = Place(slipway, work)
    started = place.run(["sandbox", "up", "--detach", "--speed", "max"])
    if started.returncode != 0:
        sys.exit(started.stderr)
    wrong = []
    try:
        for number in range(runs):
            check = cancelled if number % 6 == 5 else ordinary
            found = check(place, draw, number)
            if found:
                wrong.append(found)
                print(f"run {number}: {found}", flush=True)
    finally:
        place.run(["sandbox", "down"])
    print(f"{runs - len(wrong)} of {runs} runs ended right (seed {seed})")
    sys.exit(1 if wrong else 0)


main()

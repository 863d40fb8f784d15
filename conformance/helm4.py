"""Helm 4 beside us: what both render, and releases of one carried on by the other on the sandbox.

    helm4.py SLIPWAY HELM RENDERINGS DIRECTORY

RENDERINGS has a JSON list of the words after `helm template`, one rendering a line. Writes `verdicts.json` and prints a
table of what the renderings came to.
"""
import collections
import json
import os
import re
import subprocess
import sys

import yaml

SLIPWAY, HELM, RENDERINGS, DIRECTORY = sys.argv[1:]
LIMIT = 120
KUBE_VERSION = ['--kube-version', '1.32.0']

# Charts whose objects differ for a known cause: both have values that Helm 4 merges in another way than Helm 3.
KNOWN = [
    'crates/chart/tests/fixtures/legacy ',  # keys that YAML reads as truth values
    'crates/chart/tests/fixtures/shop ',  # nulls, among them imported ones
]

CHART = {
    'Chart.yaml': 'apiVersion: v2\nname: demo\nversion: 0.1.0\nappVersion: "1"\n',
    'values.yaml': 'text: default\nreplicas: 1\n',
    'templates/NOTES.txt': 'Text is {{ .Values.text }}.\n',
    'templates/map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n'
                          '  text: {{ .Values.text | quote }}\n  revision: {{ .Release.Revision | quote }}\n',
    'templates/web.yaml': 'apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n'
                          '  replicas: {{ .Values.replicas }}\n  selector:\n    matchLabels: {app: {{ .Release.Name }}}\n'
                          '  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    spec:\n'
                          '      containers:\n      - name: web\n        image: nginx:1\n',
    'templates/hook.yaml': 'apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-hook\n'
                           '  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}\nspec:\n  template:\n    spec:\n'
                           '      restartPolicy: Never\n      containers:\n      - name: hook\n        image: busybox:1\n',
}

verdicts = {}


def judge(name, expected, found):
    verdicts[name] = {'expected': expected, 'found': found}


def environment():
    return dict(os.environ, HOME=DIRECTORY, HELM_CACHE_HOME=DIRECTORY + '/cache', HELM_CONFIG_HOME=DIRECTORY + '/config',
                HELM_DATA_HOME=DIRECTORY + '/data', XDG_RUNTIME_DIR=DIRECTORY)


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=LIMIT, env=environment())


def documents(text):
    found = [document for document in yaml.load_all(text, Loader=yaml.CBaseLoader) if document]
    return sorted(found, key=lambda document: json.dumps(document, sort_keys=True))


def without_blank_lines(text):
    return [line for line in text.splitlines() if line.strip()]


def message(text):
    text = re.split('error: ', text, maxsplit=1, flags=re.IGNORECASE)[-1].split('\n\nUse --debug')[0]
    return sorted(line for line in text.split('\n  hint:')[0].strip().splitlines())


def compare(theirs, ours):
    """The class a rendering falls into."""
    if (theirs.returncode == 0) != (ours.returncode == 0):
        return 'only Helm renders it' if theirs.returncode == 0 else 'only we render it'
    if theirs.returncode:
        return 'the same error' if message(theirs.stderr) == message(ours.stderr) else 'another text of the error'
    if theirs.stdout == ours.stdout:
        return 'the same bytes'
    if without_blank_lines(theirs.stdout) == without_blank_lines(ours.stdout):
        return 'the same but for blank lines'
    try:
        same = documents(theirs.stdout) == documents(ours.stdout)
    except yaml.YAMLError:
        same = False
    return 'the same objects in other words' if same else 'other objects'


def compare_renderings():
    classes, cases = collections.Counter(), collections.defaultdict(list)
    with open(RENDERINGS) as lines:
        renderings = [json.loads(line) for line in lines]
    for words in renderings:
        words = words if '--kube-version' in words else words + KUBE_VERSION
        theirs, ours = run(HELM, 'template', *words), run(SLIPWAY, 'render', *words)
        found = compare(theirs, ours)
        if found == 'other objects' and run(HELM, 'template', *words).stdout != theirs.stdout:
            found = 'other objects at each rendering, with Helm too'
        classes[found] += 1
        cases[found].append(' '.join(words[1:]))
    with open(DIRECTORY + '/renderings.json', 'w') as file:
        json.dump(cases, file, indent=1)
    print('| renderings | of %d |\n| --- | --- |' % len(renderings))
    for name, count in classes.most_common():
        print('| %s | %d |' % (name, count))
    for name in ['other objects', 'only Helm renders it', 'only we render it', 'another text of the error']:
        for case in cases[name]:
            print('  %s: %s' % (name, case), file=sys.stderr)
    judge('renderings', True, len(renderings) > 0)
    judge('renderings of one program alone', [], cases['only Helm renders it'] + cases['only we render it'])
    unknown = [case for case in cases['other objects'] if not any(known in case for known in KNOWN)]
    judge('renderings with other objects for no known cause', [], unknown)


def statuses(answer):
    return [row['status'] for row in json.loads(answer.stdout)] if answer.returncode == 0 else answer.stderr


def carry_on(chart, kubeconfig):
    """Lets each program read, upgrade, roll back and remove a release that the other one made."""
    def helm(*words):
        return run(HELM, *words, '--kubeconfig', kubeconfig)

    def slipway(*words):
        return run(SLIPWAY, *words, '--kubeconfig', kubeconfig)

    def view(name, space):
        """What both say of one release."""
        for what in ['manifest', 'hooks']:
            theirs, ours = helm('get', what, name, '-n', space), slipway('get', what, name, '-n', space)
            judge('%s: get %s' % (name, what), documents(theirs.stdout), documents(ours.stdout))
        theirs = helm('get', 'values', name, '-n', space, '-o', 'json')
        ours = slipway('get', 'values', name, '-n', space, '-o', 'json')
        judge('%s: get values' % name, json.loads(theirs.stdout or '0'), json.loads(ours.stdout or '0'))
        theirs, ours = helm('get', 'notes', name, '-n', space), slipway('get', 'notes', name, '-n', space)
        judge('%s: get notes' % name, theirs.stdout.replace('NOTES:\n', '').strip(), ours.stdout.strip())
        theirs, ours = (statuses(ask('history', name, '-n', space, '-o', 'json')) for ask in (helm, slipway))
        judge('%s: history' % name, theirs, ours)

    def after(name, step, space, answer, expected):
        judge('%s: %s' % (name, step), 0, answer.returncode)
        if answer.returncode:
            print('%s: %s: %s%s' % (name, step, answer.stdout, answer.stderr), file=sys.stderr)
        theirs, ours = (statuses(ask('history', name, '-n', space, '-o', 'json')) for ask in (helm, slipway))
        judge('%s: history of Helm after %s' % (name, step), expected, theirs)
        judge('%s: our history after %s' % (name, step), expected, ours)

    name, space = 'theirs', 'first'
    made = helm('install', name, chart, '-n', space, '--create-namespace', '--set', 'text=given', '--wait')
    after(name, 'install by Helm', space, made, ['deployed'])
    view(name, space)
    again = slipway('apply', name, chart, '-n', space, '--set', 'text=again')
    after(name, 'our upgrade', space, again, ['superseded', 'deployed'])
    back = slipway('rollback', name, '1', '-n', space)
    after(name, 'our rollback', space, back, ['superseded', 'superseded', 'deployed'])
    view(name, space)
    gone = slipway('delete', name, '-n', space)
    judge('theirs: our delete', 0, gone.returncode)
    judge('theirs: Helm lists nothing', '[]', helm('list', '-n', space, '-o', 'json').stdout.strip())

    name, space = 'ours', 'second'
    made = slipway('apply', name, chart, '-n', space, '--set', 'text=given')
    after(name, 'our install', space, made, ['deployed'])
    view(name, space)
    for flags, count in [(['--server-side=true'], 2), (['--server-side=false'], 3)]:
        again = helm('upgrade', name, chart, '-n', space, '--set', 'text=again', '--wait', *flags)
        after(name, 'upgrade by Helm with ' + flags[0], space, again, ['superseded'] * (count - 1) + ['deployed'])
    back = helm('rollback', name, '1', '-n', space, '--wait')
    after(name, 'rollback by Helm', space, back, ['superseded'] * 3 + ['deployed'])
    view(name, space)
    gone = helm('uninstall', name, '-n', space, '--wait')
    judge('ours: uninstall by Helm', 0, gone.returncode)
    judge('ours: we list nothing', '[]', slipway('list', '-n', space, '-o', 'json').stdout.strip())


def compare_storage():
    chart = DIRECTORY + '/demo'
    for name, text in CHART.items():
        os.makedirs(os.path.dirname(chart + '/' + name), exist_ok=True)
        with open(chart + '/' + name, 'w') as file:
            file.write(text)
    kubeconfig = DIRECTORY + '/kubeconfig'
    # Its own file: a pipe would stay open as long as the sandbox runs.
    with open(DIRECTORY + '/sandbox.log', 'w') as log:
        subprocess.run([SLIPWAY, 'sandbox', 'up', '--detach', '--speed', 'max', '--write-kubeconfig', kubeconfig],
                       stdout=log, stderr=log, timeout=LIMIT, env=environment(), check=True)
    try:
        carry_on(chart, kubeconfig)
    finally:
        run(SLIPWAY, 'sandbox', 'down')


compare_renderings()
compare_storage()
with open(DIRECTORY + '/verdicts.json', 'w') as file:
    json.dump(verdicts, file)

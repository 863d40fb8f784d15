#!/usr/bin/env python3
"""kill: `slipway apply` killed with SIGKILL at random points of an install and of an upgrade, then run again.

  kill.py SLIPWAY WORKDIR KUBECONFIG KILLS [--seed N] [--workers N]

A chart of sixty objects with hooks goes to a namespace of its own for each pair of kills. Every second run must
succeed and leave exactly what an undisturbed run leaves: the same objects with the same content and owner of fields,
one deployed revision, none pending, no lock, nothing besides. Kills are spread over the whole run. Stdlib only.
"""
import argparse, base64, gzip, http.client, json, os, random, re, shutil, signal, ssl, subprocess, sys, threading, time

ap = argparse.ArgumentParser()
ap.add_argument('slipway'); ap.add_argument('work'); ap.add_argument('kubeconfig'); ap.add_argument('kills', type=int)
ap.add_argument('--seed', type=int, default=int(time.time()))
ap.add_argument('--workers', type=int, default=4)
A = ap.parse_args()
WORK = os.path.abspath(A.work)
with open(A.kubeconfig) as f:
    TEXT = f.read()
HOST = re.search(r'https://([\d.]+:\d+)', TEXT).group(1)
TOKEN = re.search(r'"?token"?: "?([^\s",}]+)', TEXT).group(1)
KINDS = ['/api/v1/%s/configmaps', '/api/v1/%s/secrets', '/api/v1/%s/services', '/api/v1/%s/serviceaccounts', '/apis/apps/v1/%s/deployments',
         '/apis/apps/v1/%s/statefulsets', '/apis/batch/v1/%s/jobs', '/apis/rbac.authorization.k8s.io/v1/%s/roles', '/apis/rbac.authorization.k8s.io/v1/%s/rolebindings']

TEMPLATES = {
    'maps.yaml': '''{{- range $i := until 30 }}
{{- if not (and $.Values.second (lt $i 4)) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: map-{{ $i }}}
data: {text: "{{ if lt $i 12 }}{{ $.Values.text }}{{ else }}same{{ end }}"}
{{- end }}
{{- end }}
{{- if .Values.second }}
{{- range $i := until 4 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: new-{{ $i }}, annotations: {werf.io/weight: "{{ $i }}"}}
data: {text: new}
{{- end }}
{{- end }}
''',
    'secrets.yaml': '''{{- range $i := until 10 }}
---
apiVersion: v1
kind: Secret
metadata: {name: secret-{{ $i }}}
stringData: {word: "{{ $.Values.text }}-{{ $i }}"}
{{- end }}
''',
    'work.yaml': '''{{- range $i := until 6 }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-{{ $i }}}
spec:
  selector: {matchLabels: {app: web-{{ $i }}}}
  template:
    metadata: {labels: {app: web-{{ $i }}}}
    spec:
      terminationGracePeriodSeconds: 0
      serviceAccountName: runner
      volumes: [{name: v, configMap: {name: map-{{ add 5 $i }}}}]
      containers: [{name: c, image: "web:{{ $.Values.text }}"}]
---
apiVersion: v1
kind: Service
metadata: {name: web-{{ $i }}}
spec: {selector: {app: web-{{ $i }}}, ports: [{port: 80}]}
{{- end }}
{{- range $i := until 2 }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db-{{ $i }}}
spec:
  serviceName: db
  selector: {matchLabels: {app: db-{{ $i }}}}
  template:
    metadata: {labels: {app: db-{{ $i }}}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: "db:1"}]}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: index}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {sim/duration: "0.1"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: "index:{{ .Values.text }}"}]}
''',
    'rights.yaml': '''apiVersion: v1
kind: ServiceAccount
metadata: {name: runner}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: runner}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: runner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: runner}
subjects: [{kind: ServiceAccount, name: runner}]
''',
    'hooks.yaml': '''{{- range $hook := list (list "before" "pre-install,pre-upgrade" "-5" "before-hook-creation") (list "migrate" "pre-install,pre-upgrade" "0" "before-hook-creation,hook-succeeded") (list "after" "post-install,post-upgrade" "0" "hook-succeeded") }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ index $hook 0 }}
  annotations: {helm.sh/hook: "{{ index $hook 1 }}", helm.sh/hook-weight: "{{ index $hook 2 }}", helm.sh/hook-delete-policy: "{{ index $hook 3 }}"}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {sim/duration: "0.1"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}
{{- end }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hook-settings, annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-10"}}
data: {text: "{{ .Values.text }}"}
''',
}
PASSES = {1: ['--set', 'text=one'], 2: ['--set', 'text=two,second=true']}


def api(method, path, body=None):
    for attempt in range(5):
        try:
            c = http.client.HTTPSConnection(HOST, context=ssl._create_unverified_context(), timeout=60)
            c.request(method, path, None if body is None else json.dumps(body), {'Authorization': 'Bearer ' + TOKEN, 'Content-Type': 'application/json'})
            r = c.getresponse()
            return r.status, json.loads(r.read() or b'{}')
        except (OSError, http.client.HTTPException):
            if attempt == 4:
                raise
            time.sleep(0.3)


def start(ns, run, log, verb='apply'):
    env = dict(os.environ, HOME=WORK)
    words = {'apply': [WORK + '/chart', *PASSES[run]], 'diff': ['--exit-code']}[verb]
    words = [A.slipway, verb, 'kill', '-n', ns, '--kubeconfig', A.kubeconfig, '-q', *words]
    return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def finish(ns, run, verb='apply'):
    """Runs to the end; gives the seconds it took."""
    name = '%s/%s.log' % (WORK, ns)
    began = time.time()
    with open(name, 'wb') as log:
        p = start(ns, run, log, verb)
        try:
            code = p.wait(timeout=180)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            code = 'none in 180 s'
    if code != 0:
        with open(name) as f:
            raise AssertionError('%s of pass %d ended with %s:\n%s' % (verb, run, code, f.read()[-3000:]))
    return time.time() - began


def normal(o, ns):
    """What of an object has to be the same wherever and whenever it was made."""
    m = o['metadata']
    ours = [e for e in m.get('managedFields', []) if e.get('manager') == 'helm']
    out = {'name': m['name'], 'labels': {k: v for k, v in (m.get('labels') or {}).items() if 'controller-uid' not in k},
           'annotations': {k: v for k, v in (m.get('annotations') or {}).items() if k != 'deployment.kubernetes.io/revision'},
           'owned': sorted(json.dumps([e['operation'], e.get('subresource', ''), e.get('fieldsV1')], sort_keys=True) for e in ours),
           'deleting': 'deletionTimestamp' in m}
    for k in ('data', 'spec', 'rules', 'roleRef', 'subjects', 'type', 'immutable'):
        if k in o:
            out[k] = json.loads(json.dumps(o[k]))
    spec = out.get('spec', {})
    if 'clusterIP' in spec:
        for k in ('clusterIP', 'clusterIPs'):
            spec.pop(k, None)
    if o.get('_kind') == 'jobs':
        spec.pop('selector', None)
        (spec.get('template', {}).get('metadata') or {}).pop('labels', None)
        out['done'] = o.get('status', {}).get('succeeded', 0)
    if o.get('_kind') in ('deployments', 'statefulsets'):
        out['ready'] = o.get('status', {}).get('readyReplicas', 0)
    return json.loads(json.dumps(out, sort_keys=True).replace(ns, 'NS'))


def state(ns):
    """Everything in a namespace, and what the history says."""
    found, history = {}, []
    for kind in KINDS:
        code, listed = api('GET', kind % ('namespaces/' + ns))
        assert code == 200, (kind, code, listed)
        plural = kind.rsplit('/', 1)[1]
        for o in listed['items']:
            name = o['metadata']['name']
            if name in ('kube-root-ca.crt', 'default'):
                continue
            if name.startswith('sh.helm.release.v1.'):
                d = base64.b64decode
                record = json.loads(gzip.decompress(d(d(o['data']['release']))))
                history.append((int(o['metadata']['labels']['version']), o['metadata']['labels']['status'], record))
                assert record['info']['status'] == o['metadata']['labels']['status'], 'the label of a revision disagrees'
                continue
            if name == 'werf-synchronization':
                left = [k for k in (o['metadata'].get('annotations') or {}) if k.startswith('lockgate.io/')]
                assert not left, 'a lock is left'
                continue
            o['_kind'] = plural
            found['%s/%s' % (plural, name)] = normal(o, ns)
    history.sort(key=lambda h: h[0])
    return found, history


def check(ns, run, calm):
    found, history = state(ns)
    wanted, theirs = calm[run]
    statuses = [h[1] for h in history]
    assert statuses and statuses[-1] == 'deployed', 'revisions are %s' % statuses
    assert statuses.count('deployed') == 1, 'revisions are %s' % statuses
    assert not [s for s in statuses if s.startswith('pending')], 'revisions are %s' % statuses
    for k in sorted(set(found) | set(wanted)):
        assert k in found, k + ' is missing'
        assert k in wanted, k + ' is an orphan'
        if found[k] != wanted[k]:
            diff = [f for f in sorted(set(found[k]) | set(wanted[k])) if found[k].get(f) != wanted[k].get(f)]
            raise AssertionError('%s differs in %s:\n%s\n%s' % (k, diff, json.dumps([found[k].get(f) for f in diff])[:1500], json.dumps([wanted[k].get(f) for f in diff])[:1500]))
    mine, other = history[-1][2], theirs[-1][2]
    for k in ('manifest', 'config'):
        assert mine.get(k) == other.get(k), 'the record differs in ' + k
    assert [h['name'] for h in mine['hooks']] == [h['name'] for h in other['hooks']]


def forget(ns):
    api('DELETE', '/api/v1/namespaces/' + ns)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK + '/chart/templates')
    with open(WORK + '/chart/Chart.yaml', 'w') as f:
        f.write('apiVersion: v2\nname: kill\nversion: 1.0.0\n')
    with open(WORK + '/chart/values.yaml', 'w') as f:
        f.write('text: none\nsecond: false\n')
    for name, text in TEMPLATES.items():
        with open(WORK + '/chart/templates/' + name, 'w') as f:
            f.write(text)
    calm, took = {}, {}
    for run in (1, 2):
        took[run] = finish('kill-calm', run)
        calm[run] = state('kill-calm')
        # Nothing in the cluster differs from what is recorded.
        finish('kill-calm', run, 'diff')
    objects = len(calm[2][0])
    print('undisturbed: %d objects besides hooks that go away; install %.1f s, upgrade %.1f s; seed %d' % (objects, took[1], took[2], A.seed), flush=True)
    lock, failures, killed, early, at = threading.Lock(), [], [0], [0], []
    numbers = iter(range(A.kills))
    rng = random.Random(A.seed)
    spread = [(i + rng.random()) / A.kills for i in range(A.kills)]
    rng.shuffle(spread)
    # Runs side by side are slower than one alone: how long they take is learned on the way.
    usual = {1: took[1], 2: took[2]}

    def disturb(ns, run, number):
        began = time.time()
        with open('%s/%s.killed.log' % (WORK, ns), 'wb') as log:
            p = start(ns, run, log)
            moment = spread[number] * usual[run] * 0.97
            try:
                code = p.wait(timeout=max(0.0, moment))
                with lock:
                    early[0] += 1
                    usual[run] = 0.8 * usual[run] + 0.2 * (time.time() - began)
                assert code == 0, 'it failed before it was killed: %s' % open(log.name).read()[-2000:]
            except subprocess.TimeoutExpired:
                p.send_signal(signal.SIGKILL)
                p.wait()
                with lock:
                    killed[0] += 1
                    at.append(spread[number])
        finish(ns, run)
        check(ns, run, calm)
        if number % 10 == 0:
            finish(ns, run, 'diff')

    def worker():
        while True:
            with lock:
                pair = [n for n in (next(numbers, None), next(numbers, None)) if n is not None]
            if not pair:
                return
            ns = 'kill-%d' % pair[0]
            try:
                for number, run in zip(pair, (1, 2)):
                    disturb(ns, run, number)
                forget(ns)
            except AssertionError as e:
                with lock:
                    failures.append('%s (kill %d at %.3f): %s' % (ns, number, spread[number], e))
                    print('FAIL', failures[-1], flush=True)
            with lock:
                done = killed[0] + early[0]
            if done % 20 < 2:
                print('%d of %d' % (done, A.kills), flush=True)

    threads = [threading.Thread(target=worker) for _ in range(A.workers)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    fifths = [sum(1 for a in at if i / 5 <= a < (i + 1) / 5) for i in range(5)]
    print('kill -9 during install and upgrade: %d killed (by fifths of the run: %s), %d ended before; %d of %d converged' % (killed[0], fifths, early[0], A.kills - len(failures), A.kills), flush=True)
    sys.exit(1 if failures or not killed[0] else 0)


main()

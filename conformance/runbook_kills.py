#!/usr/bin/env python3
"""runbook_kills: kill -9 a run at random moments, run again, end as if nobody had disturbed it.

  runbook_kills.py SLIPWAY WORKDIR KILLS [--seed N]

Each kill has a namespace of its own. After every kill the record is read: it must be whole and hold no secret; what
it says is done must be left out by the next run. Stdlib only.
"""
import base64, http.client, json, os, random, re, shutil, signal, socket, ssl, subprocess, sys, time

SLIPWAY, WORK, KILLS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), int(sys.argv[3])
SEED = int(sys.argv[sys.argv.index('--seed') + 1]) if '--seed' in sys.argv else int(time.time())
SECRET = 'hunter2secret-for-soak'

RUNBOOK = '''apiVersion: khook.io/v1
kind: Khook
metadata: {name: "${N}"}
state: {namespace: default}
steps:
  - name: base
    apply:
      namespace: ${N}
      createNamespace: true
      manifests:
        - inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: base}, data: {a: "1"}}'
        - inline: '{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {t: ${TOKEN|toJson}}}'
  - name: app
    needs: [base]
    helm: {chart: ./app, namespace: "${N}", wait: true, values: {size: 2}}
  - name: tune
    needs: [app]
    patch: {target: configmap/base, namespace: "${N}", type: merge, patch: {data: {b: "2"}}}
  - name: ready
    needs: [app]
    wait: {for: "jsonpath={.data.size}=2", on: configmap/app, namespace: "${N}"}
  - name: seed
    needs: [ready, tune]
    job: {image: busybox, namespace: "${N}"}
  - name: web
    needs: [seed]
    rollout: {status: deployment/web, namespace: "${N}"}
  - name: last
    needs: [web]
    apply: {namespace: "${N}", serverSide: true, manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: last}}'}]}
'''
CHART = '''apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {size: "{{ .Values.size }}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web}]}
'''


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)


class Sandbox:
    def __init__(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]
        self.kubeconfig = WORK + '/kubeconfig'
        env = dict(os.environ, HOME=WORK)
        env.pop('XDG_STATE_HOME', None)
        self.process = subprocess.Popen([SLIPWAY, 'sandbox', 'up', '--port', str(self.port), '--speed', 'max', '--write-kubeconfig', self.kubeconfig], env=env, stderr=open(WORK + '/log', 'a'))
        end = time.time() + 60
        while time.time() < end:
            try:
                with open(self.kubeconfig) as f:
                    self.token = re.search(r'token: (\S+)', f.read()).group(1)
                if self.get('/readyz', raw=True)[0] == 200:
                    return
            except (OSError, AttributeError, http.client.HTTPException):
                time.sleep(0.05)
        sys.exit('the sandbox does not start; see %s/log' % WORK)

    def get(self, path, raw=False):
        connection = http.client.HTTPSConnection('127.0.0.1', self.port, context=ssl._create_unverified_context(), timeout=30)
        connection.request('GET', path, headers={'Authorization': 'Bearer ' + self.token})
        answer = connection.getresponse()
        body = answer.read()
        if raw:
            return answer.status, body
        return json.loads(body) if answer.status == 200 else None

    def record(self, name):
        secret = self.get('/api/v1/namespaces/default/secrets/khook-state-' + name)
        return json.loads(base64.b64decode(secret['data']['record.json'])) if secret else None

    def picture(self, name):
        """Everything of a namespace without what differs from run to run."""
        seen = []
        for path in ('/api/v1/namespaces/%s/configmaps', '/api/v1/namespaces/%s/secrets', '/apis/apps/v1/namespaces/%s/deployments', '/apis/batch/v1/namespaces/%s/jobs'):
            for item in (self.get(path % name) or {'items': []})['items']:
                meta = item['metadata']
                if meta['name'].startswith(('sh.helm.', 'werf-', 'kube-root-ca')):
                    continue
                done = [c['type'] for c in item.get('status', {}).get('conditions', []) if c['status'] == 'True']
                template = item.get('spec', {}).get('template', {}).get('spec', {}).get('containers')
                labels = {key: value for key, value in meta.get('labels', {}).items() if not key.endswith('controller-uid')}
                text = json.dumps([path, meta['name'], labels, item.get('data'), template, sorted(set(done) & {'Complete', 'Available'})], sort_keys=True)
                seen.append(text.replace(name, 'NAME'))
        secrets = (self.get('/api/v1/namespaces/%s/secrets' % name) or {'items': []})['items']
        statuses = sorted(s['metadata']['labels']['status'] for s in secrets if s['metadata']['name'].startswith('sh.helm.'))
        if any(status.startswith('pending') for status in statuses) or statuses.count('deployed') != 1:
            seen.append('releases: %s' % statuses)
        return sorted(seen)


def start(sandbox, name):
    env = dict(os.environ, HOME=WORK, KHOOK_SECRET_TOKEN=SECRET, KUBECONFIG=sandbox.kubeconfig)
    return subprocess.Popen([SLIPWAY, 'run', 'apply', '-f', WORK + '/runbook.yaml', '--set', 'N=' + name, '-o', 'json'], env=env, stdout=subprocess.PIPE, stderr=open(WORK + '/runs.log', 'a'), text=True)


def check_record(sandbox, name):
    record = sandbox.record(name)
    if record is None:
        return []
    text = json.dumps(record)
    if SECRET in text or base64.b64encode(SECRET.encode()).decode()[:20] in text:
        sys.exit('the record of %s holds the secret' % name)
    return [step['name'] for step in record['steps'] if step.get('status') == 'ok']


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    chance = random.Random(SEED)
    write(WORK + '/runbook.yaml', RUNBOOK)
    write(WORK + '/app/Chart.yaml', 'apiVersion: v2\nname: app\nversion: 1.0.0\n')
    write(WORK + '/app/values.yaml', 'size: 1\n')
    write(WORK + '/app/templates/all.yaml', CHART)
    sandbox = Sandbox()
    try:
        began = time.time()
        process = start(sandbox, 'undisturbed')
        report = json.loads(process.communicate()[0])
        whole = time.time() - began
        if report['status'] != 'ok':
            sys.exit('the undisturbed run fails: %s' % json.dumps(report, indent=1))
        wanted = sandbox.picture('undisturbed')
        killed = resumed = 0
        for number in range(KILLS):
            name = 'kill-%d' % number
            for _ in range(chance.choice((1, 1, 2))):
                process = start(sandbox, name)
                time.sleep(chance.uniform(0.0, whole * 1.05))
                process.send_signal(signal.SIGKILL)
                process.communicate()
                killed += 1
                done = check_record(sandbox, name)
            out = start(sandbox, name).communicate()[0]
            report = json.loads(out)
            if report['status'] != 'ok':
                sys.exit('seed %d, %s: the run after the kill fails: %s' % (SEED, name, json.dumps(report, indent=1)))
            left = {step['name'] for step in report['steps'] if step.get('skipCode') == 'resumed'}
            if not set(done) <= left:
                sys.exit('seed %d, %s: done before, run again: %s' % (SEED, name, set(done) - left))
            resumed += len(left)
            check_record(sandbox, name)
            found = sandbox.picture(name)
            if found != wanted:
                sys.exit('seed %d, %s differs:\n%s\nwanted:\n%s' % (SEED, name, '\n'.join(found), '\n'.join(wanted)))
        print('%d kills in %d runbooks (an undisturbed run takes %.2f s): all ended alike, %d steps were resumed, seed %d' % (killed, KILLS, whole, resumed, SEED))
    finally:
        sandbox.process.send_signal(signal.SIGTERM)
        sandbox.process.wait()


main()

#!/usr/bin/env python3
"""kubectl: real kubectl and real Helm against the API server of $KUBECONFIG; every command must do what it says.

  kubectl.py CHARTS [MORE_CHARTS]

Installs, upgrades, rolls back and uninstalls each chart of the directories with --wait --atomic. Stdlib only.
"""
import json, os, re, subprocess, sys, tempfile, time

FAILED = []
DONE = 0


def run(words, stdin=None, timeout=240, env=None):
    try:
        p = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=timeout, env=dict(os.environ, **(env or {})))
        return p.returncode, p.stdout + p.stderr
    except subprocess.TimeoutExpired:
        return 124, 'no end after %d s' % timeout


def check(words, wants='', stdin=None, code=0, timeout=240, env=None):
    """Runs a command; its exit code and a pattern in what it says are expected."""
    global DONE
    DONE += 1
    rc, said = run(words, stdin, timeout, env)
    if rc != code or not re.search(wants, said, re.S):
        FAILED.append(' '.join(words))
        print('FAIL %s: exit %d, expected %d and /%s/ in:\n%s' % (' '.join(words), rc, code, wants, said[-1500:]), flush=True)
    return said


def k(*words, **options):
    return check(['kubectl', '-n', 'trial'] + list(words), **options)


def deployment(image='nginx:1', replicas=2, extra=''):
    return '''apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "%s", ports: [{containerPort: 80}]%s}
''' % (replicas, image, extra)


def kubectl():
    check(['kubectl', 'version'], r'Server Version: v1\.\d+')
    check(['kubectl', 'cluster-info'], 'control plane')
    check(['kubectl', 'create', 'namespace', 'trial'], 'created')
    check(['kubectl', 'api-resources'], r'deployments\s+deploy\s+apps/v1\s+true\s+Deployment')
    check(['kubectl', 'api-versions'], r'networking\.k8s\.io/v1')
    # apply, its two kinds, and what they find changed
    k('apply', '-f', '-', stdin=deployment(), wants='deployment.apps/web created')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    k('apply', '-f', '-', stdin=deployment(), wants='unchanged')
    k('diff', '-f', '-', stdin=deployment())
    k('diff', '-f', '-', stdin=deployment('nginx:2'), code=1, wants=r'-\s+- image: nginx:1.*\+\s+- image: nginx:2')
    k('apply', '-f', '-', stdin=deployment('nginx:2'), wants='configured')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    k('apply', '--server-side', '-f', '-', stdin=deployment('nginx:3'), wants='serverside-applied')
    k('apply', '--server-side', '--field-manager=other', '-f', '-', stdin=deployment('nginx:4'), code=1, wants='conflict')
    k('apply', '--server-side', '--field-manager=other', '--force-conflicts', '-f', '-', stdin=deployment('nginx:4'), wants='serverside-applied')
    k('diff', '--server-side', '--field-manager=other', '-f', '-', stdin=deployment('nginx:5'), code=1, wants='nginx:5')
    k('apply', '-f', '-', '--dry-run=server', stdin=deployment('nginx:9'), wants='server dry run')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    # get in every form
    k('get', 'deploy', 'web', wants=r'NAME\s+READY.*web\s+2/2\s+2\s+2')
    k('get', 'deploy,rs,pods', '-o', 'wide', wants=r'IMAGES.*NOMINATED NODE')
    k('get', 'all', wants='deployment.apps/web')
    k('get', 'deploy', 'web', '-o', 'yaml', wants='replicas: 2')
    k('get', 'deploy', '-o', 'json', wants='"kind": "List"')
    k('get', 'pods', '-o', 'jsonpath={.items[*].status.phase}', wants='Running Running')
    k('get', 'pods', '-o', 'custom-columns=N:.metadata.name,P:.status.phase', wants=r'N\s+P')
    k('get', 'pods', '-l', 'app=web', '--field-selector=status.phase=Running', '-o', 'name', wants='pod/web-')
    k('get', 'pods', '--sort-by=.metadata.name', '--show-labels', wants='LABELS')
    k('get', 'nope', code=1, wants='the server doesn\'t have a resource type')
    k('get', 'pod', 'nope', code=1, wants='NotFound')
    watch = subprocess.Popen(['kubectl', '-n', 'trial', 'get', 'configmaps', '-w', '--no-headers'], stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    k('create', 'configmap', 'seen', '--from-literal=a=b', wants='created')
    time.sleep(1)
    watch.terminate()
    said = watch.communicate(timeout=20)[0]
    if 'seen' not in said:
        FAILED.append('kubectl get -w')
        print('FAIL kubectl get -w says %r' % said)
    k('describe', 'deploy', 'web', wants=r'Replicas:\s+2 desired.*Events:.*ScalingReplicaSet')
    one = k('get', 'pods', '-o', 'jsonpath={.items[0].metadata.name}')
    k('describe', 'pod', one, wants='Events:.*Scheduled')
    k('describe', 'configmap', 'seen', wants='a:')
    k('explain', 'deployment.spec.strategy', wants='rollingUpdate')
    k('explain', 'pods', '--recursive', wants='containers')
    k('logs', 'deploy/web', wants='log of trial/web-')
    k('logs', '-l', 'app=web', '--tail=1', wants='log of')
    # changes
    k('patch', 'deploy', 'web', '-p', '{"metadata":{"annotations":{"a":"b"}}}', wants='patched')
    k('patch', 'deploy', 'web', '--type=merge', '-p', '{"spec":{"minReadySeconds":0}}', wants='patched')
    k('patch', 'deploy', 'web', '--type=json', '-p', '[{"op":"add","path":"/metadata/annotations/c","value":"d"}]', wants='patched')
    k('patch', 'deploy', 'web', '--subresource=scale', '--type=merge', '-p', '{"spec":{"replicas":2}}', wants='web')
    k('label', 'deploy', 'web', 'tier=front', wants='labeled')
    k('label', 'deploy', 'web', 'tier=back', code=1, wants='--overwrite is false')
    k('label', 'deploy', 'web', 'tier=back', '--overwrite', wants='labeled')
    k('annotate', 'deploy', 'web', 'note=x', wants='annotated')
    k('scale', 'deploy/web', '--replicas=3', wants='scaled')
    k('scale', 'deploy/web', '--current-replicas=9', '--replicas=1', code=1, wants='Expected replicas to be 9')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    k('set', 'image', 'deploy/web', 'web=nginx:6', wants='image updated')
    k('set', 'env', 'deploy/web', 'A=b', wants='env updated')
    k('set', 'resources', 'deploy/web', '--limits=cpu=100m', wants='resource requirements updated')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    k('rollout', 'history', 'deploy/web', wants='REVISION')
    k('rollout', 'undo', 'deploy/web', wants='rolled back')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    k('rollout', 'restart', 'deploy/web', wants='restarted')
    k('rollout', 'status', 'deploy/web', '--timeout=60s', wants='successfully rolled out')
    k('rollout', 'pause', 'deploy/web', wants='paused')
    k('rollout', 'resume', 'deploy/web', wants='resumed')
    k('autoscale', 'deploy/web', '--min=1', '--max=4', wants='autoscaled')
    k('expose', 'deploy/web', '--port=80', wants='exposed')
    k('wait', 'deploy/web', '--for=condition=Available', '--timeout=60s', wants='condition met')
    k('wait', 'deploy/web', '--for=jsonpath={.status.readyReplicas}=3', '--timeout=60s', wants='condition met')
    k('wait', 'deploy/web', '--for=condition=Never', '--timeout=1s', code=1, wants='timed out')
    k('replace', '-f', '-', stdin='apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\ndata: {z: "1"}\n', wants='replaced')
    k('edit', 'configmap/seen', env={'EDITOR': 'sed -i s/z:/x:/'}, wants='edited')
    k('get', 'cm', 'seen', '-o', 'jsonpath={.data.x}', wants='1')
    k('run', 'one', '--image=busybox', '--restart=Never', wants='created')
    k('create', 'job', 'work', '--image=busybox', wants='created')
    k('wait', 'job/work', '--for=condition=Complete', '--timeout=60s', wants='condition met')
    k('create', 'cronjob', 'nightly', '--image=busybox', '--schedule=0 3 * * *', wants='created')
    k('create', 'job', 'now', '--from=cronjob/nightly', wants='created')
    k('create', 'secret', 'generic', 's', '--from-literal=a=b', wants='created')
    k('create', 'serviceaccount', 'robot', wants='created')
    k('create', 'token', 'robot', wants=r'^ey')
    k('create', 'role', 'reader', '--verb=get,list', '--resource=pods', wants='created')
    k('create', 'rolebinding', 'reads', '--role=reader', '--serviceaccount=trial:robot', wants='created')
    k('auth', 'can-i', 'create', 'deployments', wants='yes')
    k('auth', 'can-i', 'delete', 'pods', '--as=system:serviceaccount:trial:robot', code=1, wants='no')
    k('auth', 'can-i', 'list', 'pods', '--as=system:serviceaccount:trial:robot', wants='yes')
    k('auth', 'can-i', '--list', wants=r'\*\.\*')
    k('auth', 'whoami', wants='Username')
    k('events', wants='ScalingReplicaSet')
    node = run(['kubectl', 'get', 'nodes', '-o', 'jsonpath={.items[0].metadata.name}'])[1]
    check(['kubectl', 'cordon', node], 'cordoned')
    check(['kubectl', 'uncordon', node], 'uncordoned')
    check(['kubectl', 'taint', 'node', node, 'a=b:NoSchedule'], 'tainted')
    check(['kubectl', 'taint', 'node', node, 'a-'], 'untainted')
    check(['kubectl', 'drain', node, '--ignore-daemonsets', '--force', '--timeout=60s'], 'drained')
    check(['kubectl', 'uncordon', node], 'uncordoned')
    check(['kubectl', 'get', '--raw', '/readyz'], 'ok')
    k('apply', '-f', '-', '--prune', '-l', 'app=web', '--prune-allowlist=apps/v1/Deployment', stdin=deployment('nginx:7'), wants='configured|unchanged')
    k('delete', 'deploy', 'web', wants='deleted')
    k('delete', 'pod', 'one', '--now', '--ignore-not-found')  # drained with its node, maybe
    k('delete', 'cm,secret,sa,job,cronjob,hpa,svc', '--all', '--wait=true', wants='deleted')
    k('delete', 'deploy', 'web', '--ignore-not-found')
    check(['kubectl', 'delete', 'namespace', 'trial'], 'deleted')


def charts_in(directory):
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if name.endswith('.tgz') or os.path.isfile(os.path.join(path, 'Chart.yaml')):
            yield re.sub(r'[^a-z0-9]+', '-', re.sub(r'(-v?[0-9][0-9.]*)?\.tgz$', '', name.lower())).strip('-')[:20], path


def helm(name, chart, test=False):
    """One chart from its first release to none."""
    before = len(FAILED)
    began = time.time()
    ns = 'chart-' + name
    h = lambda *words, **options: check(['helm', '-n', ns] + list(words), **options)
    h('install', 'rel', chart, '--create-namespace', '--wait', '--atomic', '--timeout', '120s', wants='STATUS: deployed')
    if len(FAILED) == before:
        h('list', wants=r'rel\s+' + ns)
        h('status', 'rel', wants='STATUS: deployed')
        h('upgrade', 'rel', chart, '--wait', '--atomic', '--timeout', '120s', '--description', 'second', wants='REVISION: 2')
        h('history', 'rel', wants=r'1\s.*superseded.*2\s.*deployed')
        h('rollback', 'rel', '1', '--wait', '--timeout', '120s', wants='Rollback was a success')
        h('history', 'rel', '-o', 'json', wants='"revision":3')
        for what in ('values', 'manifest', 'notes', 'hooks', 'all', 'metadata'):
            h('get', what, 'rel')
        if test:
            h('test', 'rel', '--timeout', '60s', wants='Phase:\\s+Succeeded')
        h('uninstall', 'rel', '--wait', '--timeout', '120s', wants='uninstalled')
        h('list', '-a', '-q', wants=r'^$')
    check(['kubectl', 'delete', 'namespace', ns, '--wait=false'], 'deleted')
    print('%-4s %s (%.1f s)' % ('ok' if len(FAILED) == before else 'FAIL', name, time.time() - began), flush=True)


def main():
    kubectl()
    print('kubectl: %d commands, %d failed' % (DONE, len(FAILED)), flush=True)
    with tempfile.TemporaryDirectory() as made:
        check(['helm', 'create', made + '/demo'], 'Creating')
        helm('demo', made + '/demo', test=True)
        for directory in sys.argv[1:]:
            for name, path in charts_in(directory):
                helm(name, path)
    print('%d commands, %d failed' % (DONE, len(FAILED)), flush=True)
    return 1 if FAILED else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""runbooks: the scenarios of runbooks that are marked for a real API server.

  runbooks.py SLIPWAY KUBECONFIG WORKDIR

kubectl must be in the PATH. Nodes may be simulated: nothing here needs an image to run for real, except that pods
become ready and jobs complete. Stdlib only.
"""
import json, os, shutil, signal, subprocess, sys, time

SLIPWAY, KUBECONFIG, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
ENV = dict(os.environ, KUBECONFIG=KUBECONFIG, KHOOK_SECRET_TOKEN='hunter2secret')
FAILURES, DONE = [], []
HEAD = 'apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: %s}\n%s\nsteps:\n%s'
MAP = "{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {a: \"%s\"}}'}"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)


def slipway(verb, name, steps, head='defaults: {timeout: 60s}', *flags, start=False):
    path = '%s/%s.yaml' % (WORK, name)
    write(path, HEAD % (name, head, steps))
    command = [SLIPWAY, 'run', verb, '-f', path, '-o', 'json', *flags]
    process = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if start:
        return process
    out, err = process.communicate()
    try:
        return process.returncode, json.loads(out), err
    except ValueError:
        return process.returncode, {}, err


def kubectl(*args, data=None):
    done = subprocess.run(['kubectl', *args], env=ENV, input=data, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(name, holds, told=''):
    DONE.append(name)
    if not holds:
        FAILURES.append(name)
        print('FAIL %s %s' % (name, str(told)[:2000]), flush=True)


def ok(name, result):
    check(name, result[0] == 0, result)
    return result[1]


def error(result, step):
    return next((s.get('error', '') for s in result[1].get('steps', []) if s['name'] == step), '')


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    kubectl('create', 'namespace', 'rb')
    # 1 namespace, ConfigMap, wait, patch, delete
    steps = '''  - {name: a, apply: {namespace: made, createNamespace: true, manifests: [%s]}}
  - {name: w, needs: [a], wait: {for: 'jsonpath={.data.a}=1', on: configmap/one, namespace: made}}
  - {name: p, needs: [w], patch: {target: configmap/one, namespace: made, patch: {data: {b: "2"}}}}
  - {name: d, needs: [p], delete: {resource: cm, namespace: made, fieldSelector: metadata.name=one}}
''' % (MAP % ('one', '1'))
    ok('1 apply, wait, patch, delete', slipway('apply', 'first', steps))
    check('1 gone', kubectl('-n', 'made', 'get', 'cm', 'one')[0] != 0)
    for server_side in ('false', 'true'):
        again = "  - {name: a, apply: {namespace: rb, serverSide: %s, manifests: [%s]}}\n" % (server_side, MAP % ('twice', '1'))
        ok('46 apply twice, serverSide %s' % server_side, slipway('apply', 'twice', again))
        ok('46 apply twice, serverSide %s' % server_side, slipway('apply', 'twice', again))
    # 2 a local chart: install, upgrade, uninstall, and Helm's own eyes on it
    write(WORK + '/app/Chart.yaml', 'apiVersion: v2\nname: app\nversion: 1.0.0\n')
    write(WORK + '/app/values.yaml', 'size: 1\n')
    write(WORK + '/app/templates/cm.yaml', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {size: "{{ .Values.size }}"}\n')
    chart = '  - {name: app, helm: {chart: ./app, namespace: rb, wait: true, values: {size: %d}}}\n'
    ok('36 install', slipway('apply', 'chart', chart % 1))
    ok('36 upgrade', slipway('apply', 'chart', chart % 2))
    check('36 live', kubectl('-n', 'rb', 'get', 'cm', 'app', '-o', 'jsonpath={.data.size}')[1] == '2')
    labels = kubectl('-n', 'rb', 'get', 'secrets', '-l', 'owner=helm', '-o', 'jsonpath={.items[*].metadata.labels.status}')[1]
    check('36 records', sorted(labels.split()) == ['deployed', 'superseded'], labels)
    ok('52 uninstall', slipway('apply', 'unchart', '  - {name: d, delete: {release: app, namespace: rb}}\n'))
    ok('52 uninstall again', slipway('apply', 'unchart', '  - {name: d, delete: {release: app, namespace: rb}}\n'))
    check('52 nothing left', kubectl('-n', 'rb', 'get', 'secrets', '-l', 'owner=helm', '-o', 'name')[1].strip() == '')
    # 3 a Deployment that becomes available, restart, status
    deployment = '{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: pause}]}}}}'
    steps = '''  - {name: a, apply: {namespace: rb, waitFor: condition=Available, manifests: [{inline: '%s'}]}}
  - {name: r, needs: [a], rollout: {restart: deployment/web, namespace: rb}}
  - {name: s, needs: [r], rollout: {status: deployment/web, namespace: rb}}
  - {name: w, needs: [s], wait: {for: condition=Ready, on: pods, namespace: rb, selector: app=web}}
''' % deployment
    ok('57 rollout', slipway('apply', 'web', steps))
    # 4 jobs
    ok('58 job', slipway('apply', 'jobs', '  - {name: seed, job: {image: busybox, namespace: rb}}\n'))
    ok('58 job replaced', slipway('apply', 'jobs', '  - {name: seed, job: {image: busybox, namespace: rb}}\n'))
    skipped = ok('58 job skipped', slipway('apply', 'jobs', '  - {name: seed, job: {image: busybox, namespace: rb, skipIf: succeeded}}\n'))
    check('58 job skipped', 'skipIf' in skipped.get('steps', [{}])[0].get('note', ''), skipped)
    # 5 a definition and its object in one step, twice destroyed
    crd = '{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.demo.io}, spec: {group: demo.io, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}'
    steps = "  - {name: a, apply: {namespace: rb, manifests: [{inline: '%s'}, {inline: '{apiVersion: demo.io/v1, kind: Widget, metadata: {name: w}, spec: {size: 1}}'}]}}\n" % crd
    ok('47 definition and object', slipway('apply', 'crd', steps))
    refused = slipway('apply', 'crdpatch', '  - {name: p, patch: {target: widget/w, namespace: rb, patch: {spec: {size: 2}}}}\n')
    check('53 no strategic patch', 'type: merge' in error(refused, 'p'), refused)
    ok('64 destroy', slipway('destroy', 'crd', steps, 'defaults: {timeout: 60s}', '--yes'))
    ok('64 destroy again', slipway('destroy', 'crd', steps, 'defaults: {timeout: 60s}', '--yes'))
    # 6 the record: a gate that opens between two runs
    state = 'defaults: {timeout: 2s}\nstate: {namespace: rb}'
    steps = '''  - {name: a, apply: {namespace: rb, manifests: [%s]}}
  - {name: gate, needs: [a], wait: {for: 'jsonpath={.metadata.uid}', on: configmap/gate, namespace: rb}}
''' % (MAP % ('gated', '1'))
    result = slipway('apply', 'gated', steps, state)
    check('59 fails at the gate', result[0] == 1 and 'nothing is there yet' in error(result, 'gate'), result)
    kubectl('-n', 'rb', 'create', 'configmap', 'gate')
    result = slipway('apply', 'gated', steps, state)
    check('59 resumes', result[0] == 0 and result[1]['steps'][0].get('skipCode') == 'resumed', result)
    status = slipway('status', 'gated', steps, state)
    check('67 status', status[0] == 0 and status[1].get('found') is True and status[1].get('specChanged') is False, status)
    ok('64 destroy takes the record', slipway('destroy', 'gated', steps, state, '--yes'))
    check('64 no record', kubectl('-n', 'rb', 'get', 'secret', 'khook-state-gated')[0] != 0)
    # 8 what belongs to others
    kubectl('-n', 'rb', 'create', 'job', 'theirs', '--image=busybox')
    result = slipway('apply', 'foreign', '  - {name: theirs, job: {image: busybox, namespace: rb}}\n')
    check('58 foreign job', 'not managed by khook' in error(result, 'theirs'), result)
    kubectl('-n', 'rb', 'create', 'secret', 'generic', 'khook-state-taken')
    result = slipway('apply', 'taken', "  - {name: a, apply: {namespace: rb, manifests: [%s]}}\n" % (MAP % ('x', '1')), 'state: {namespace: rb}')
    check('62 foreign record', result[0] == 1 and 'not managed by khook' in result[2], result)
    # 9 Ctrl-C during a wait
    process = slipway('apply', 'long', '  - {name: w, wait: {for: condition=Ready, on: configmap/never}}\n', 'defaults: {timeout: 60s}', start=True)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    report = json.loads(out)
    check('33 canceled', process.returncode == 1 and report['status'] == 'failed' and report.get('canceled') is True, (process.returncode, out, err))
    # 10 a secret in stringData with diff; plan and diff write nothing
    steps = "  - {name: s, apply: {namespace: rb, manifests: [{inline: '{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {t: ${TOKEN}}}'}]}}\n"
    result = slipway('diff', 'secret', steps)
    check('22 diff hides', result[0] == 0 and 'hunter2' not in json.dumps(result) and 'aHVudGVyMn' not in json.dumps(result), result)
    check('65 diff writes nothing', kubectl('-n', 'rb', 'get', 'secret', 's')[0] != 0)
    ok('22 apply', slipway('apply', 'secret', steps))
    plan = ok('65 plan', slipway('plan', 'secret', steps))
    check('65 plan', plan.get('steps', [{}])[0].get('action') == 'configure', plan)
    print('%d of %d checks hold on a real API server' % (len(DONE) - len(FAILURES), len(DONE)))
    sys.exit(1 if FAILURES else 0)


main()

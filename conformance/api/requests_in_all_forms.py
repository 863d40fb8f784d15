#!/usr/bin/env python3
"""requests_in_all_forms: verbs on subresources, options of every kind, watches that go on, documents outside the API; runner and options of compare.py."""
import copy, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare as d
from compare import (AP, CRDS, JP, JSON, MP, OPEN, POM, SMP, TABLE, cm, cr, crd, dep, dig, ds, job, mf, mkcrd, names, no_mf, obj, osch, pod, pspec, sts, svc)

d.SCEN.clear()
# See docs/reference/sandbox-differences.md: text diffs and big values of Go.
d.RX.insert(0, (d.re.compile(r'\n@@ .*?\n(?=, [a-zA-Z]|\]$|$)', d.re.S), ''))
d.RX.insert(0, (d.re.compile(r'(pod updates may not change fields other than [^\n]*)\n.*', d.re.S), r'\1'))
d.RX.append((d.re.compile(r'(metadata: Invalid value: |^Invalid value: )\{"name".*\}(: must be empty)', d.re.S), r'\1{<object>}\2'))
sc = d.sc
code = lambda b: {k: b.get(k) for k in ('kind', 'code', 'reason', 'message')} if isinstance(b, dict) else b
APPS, BATCH, RBAC, POLICY = 'apps/v1', 'batch/v1', '/apis/rbac.authorization.k8s.io/v1', 'policy/v1'
PB = 'application/vnd.kubernetes.protobuf'


def cluster(c, path, o):
    c.cleanup(path + '/' + o['metadata']['name'])
    return c.mk(path, o)


# ================================================================================================ subresources
@sc('subresource', 'status-in-every-form')
def _(c):
    kinds = [(APPS, 'deployments', dep('d', 0), {'observedGeneration': 7, 'replicas': 2}), (APPS, 'statefulsets', sts('s', 0), {'replicas': 2, 'currentReplicas': 1}),
             (APPS, 'daemonsets', ds('n', selector={'matchLabels': {'app': 'n'}}), {'numberReady': 3, 'currentNumberScheduled': 1, 'desiredNumberScheduled': 1, 'numberMisscheduled': 0}),
             (BATCH, 'cronjobs', obj('batch/v1', 'CronJob', 'c', {'schedule': '* * 1 1 *', 'suspend': True, 'jobTemplate': {'spec': {'template': {'spec': pspec(restartPolicy='Never')}}}}), {'lastScheduleTime': '2020-01-01T00:00:00Z'}),
             ('networking.k8s.io/v1', 'ingresses', obj('networking.k8s.io/v1', 'Ingress', 'i', {'defaultBackend': {'service': {'name': 'x', 'port': {'number': 1}}}}), {'loadBalancer': {'ingress': [{'ip': '1.2.3.4'}]}}),
             (POLICY, 'poddisruptionbudgets', obj('policy/v1', 'PodDisruptionBudget', 'b', {'minAvailable': 1, 'selector': {'matchLabels': {'no': 'pod'}}}), {'disruptionsAllowed': 1, 'currentHealthy': 1, 'desiredHealthy': 1, 'expectedPods': 1}),
             ('autoscaling/v2', 'horizontalpodautoscalers', obj('autoscaling/v2', 'HorizontalPodAutoscaler', 'h', {'maxReplicas': 3, 'scaleTargetRef': {'kind': 'Deployment', 'name': 'no', 'apiVersion': 'apps/v1'}}), {'currentReplicas': 1, 'desiredReplicas': 1}),
             ('v1', 'resourcequotas', obj('v1', 'ResourceQuota', 'q', {'hard': {'count/leases.coordination.k8s.io': '5'}}), {'hard': {'count/leases.coordination.k8s.io': '5'}, 'used': {'count/leases.coordination.k8s.io': '4'}}),
             ('v1', 'services', svc('v'), {'loadBalancer': {'ingress': [{'hostname': 'a.b'}]}}),
             ('v1', 'persistentvolumeclaims', obj('v1', 'PersistentVolumeClaim', 'p', {'storageClassName': 'none', 'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}), {'phase': 'Lost'})]
    shape = lambda b: [b.get('kind'), b['metadata'].get('generation'), b.get('status'), mf(b) if isinstance(b, dict) else None]
    for gv, res, o, status in kinds:
        name = o['metadata']['name']
        c.mk(c.n(gv, res), o)
        at = c.n(gv, res, name) + '/status'
        dry = {'dryRun': 'All', 'fieldManager': 'st'}
        st = lambda b: {k: b['status'].get(k) for k in status}
        c.patch(at, {'status': status, 'spec': {'nope': 1}, 'metadata': {'labels': {'a': 'b'}}}, q=dry, sel=lambda b: [st(b), b['metadata'].get('labels'), 'nope' in b['spec']], label='merge ' + res)
        c.patch(at, {'status': status}, ct=SMP, q=dry, sel=st, label='strategic ' + res)
        c.patch(at, [{'op': 'add', 'path': '/status', 'value': status}], ct=JP, q=dry, sel=st, label='json ' + res)
        c.apply(at, {'apiVersion': o['apiVersion'], 'kind': o['kind'], 'metadata': {'name': name}, 'status': status}, fm='st', force=True, q={'dryRun': 'All'}, sel=lambda b: [st(b), [e for e in mf(b) if e.get('manager') == 'st']], label='apply ' + res)
        c.apply(at, {'apiVersion': o['apiVersion'], 'kind': o['kind'], 'metadata': {'name': name}, 'spec': o['spec']}, fm='st', force=True, q={'dryRun': 'All'}, sel=lambda b: [e for e in mf(b) if e.get('manager') == 'st'], label='apply spec ' + res)
        c.patch(at, {'status': 'x'}, q=dry, label='bad ' + res)
        c.patch(at, {'status': {'nope': 1}}, q=dict(dry, fieldValidation='Strict'), label='strict ' + res, sel=code)
        c.patch(at, {'metadata': {'resourceVersion': '1'}, 'status': status}, q=dry, label='stale ' + res, sel=code)
        c.delete(at, label='delete ' + res, sel=code)
        c.post(at, {}, label='post ' + res, sel=code)
        c.get(at, accept=TABLE, sel=lambda b: [b['kind'], [x['name'] for x in b.get('columnDefinitions', [])]], label='table ' + res)
        c.get(at, accept=POM, sel=lambda b: [b['kind'], b['apiVersion'], sorted(b)], label='partial ' + res)
        c.get(at, q={'watch': 'true'}, label='watch ' + res, sel=code) if res == 'resourcequotas' else None


@sc('subresource', 'scale-in-every-form')
def _(c):
    c.mk(c.dep(), dep('d', 0))
    c.mk(c.n(APPS, 'statefulsets'), sts('s', 0))
    c.mk(c.n(APPS, 'replicasets'), obj('apps/v1', 'ReplicaSet', 'r', {'replicas': 0, 'selector': {'matchLabels': {'app': 'r'}}, 'template': {'metadata': {'labels': {'app': 'r'}}, 'spec': pspec()}}))
    c.mk(c.n('v1', 'replicationcontrollers'), obj('v1', 'ReplicationController', 'k', {'replicas': 0, 'selector': {'app': 'k'}, 'template': {'metadata': {'labels': {'app': 'k'}}, 'spec': pspec()}}))
    sel = lambda b: [b['apiVersion'], b['kind'], b['spec'], b.get('status')]
    for gv, res, n in ((APPS, 'deployments', 'd'), (APPS, 'statefulsets', 's'), (APPS, 'replicasets', 'r'), ('v1', 'replicationcontrollers', 'k')):
        at = c.n(gv, res, n) + '/scale'
        dry = {'dryRun': 'All'}
        c.get(at, sel=lambda b: [sel(b), sorted(b['metadata'])])
        c.get(at, accept=TABLE, sel=lambda b: [b['kind'], b.get('columnDefinitions'), [r['cells'][0] for r in b['rows']]], label='table ' + res)
        c.patch(at, {'spec': {'replicas': 3}}, ct=SMP, q=dry, sel=sel)
        c.patch(at, [{'op': 'replace', 'path': '/spec/replicas', 'value': 2}], ct=JP, q=dry, sel=sel)
        c.patch(at, [{'op': 'test', 'path': '/spec/replicas', 'value': 9}], ct=JP, q=dry, sel=code)
        c.patch(at, {'spec': {'replicas': -1}}, q=dry, sel=code)
        c.patch(at, {'spec': {'replicas': 'x'}}, q=dry)
        c.patch(at, {'spec': {'nope': 1}}, q=dict(dry, fieldValidation='Strict'))
        c.put(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n}, 'spec': {'replicas': 1}}, q=dry, sel=sel)
        c.put(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'other'}, 'spec': {'replicas': 1}}, q=dry)
        c.put(at, {'apiVersion': 'autoscaling/v2', 'kind': 'Scale', 'metadata': {'name': n}, 'spec': {'replicas': 1}}, q=dry)
        c.put(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n, 'uid': 'x'}, 'spec': {'replicas': 1}}, q=dry, sel=code)
        c.put(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n, 'resourceVersion': '1'}, 'spec': {'replicas': 1}}, q=dry, sel=code)
        c.put(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n}, 'spec': {}}, q=dry, sel=sel)
        c.put(at, {'spec': {'replicas': 1}}, q=dry, sel=sel)
        c.put(c.n(gv, res, 'absent') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'absent'}, 'spec': {'replicas': 1}}, label='absent ' + res)
        c.apply(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n}, 'spec': {'replicas': 4}}, fm='sc', sel=sel, label='apply ' + res)
        c.apply(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n}, 'spec': {'replicas': 5}}, fm='other', label='apply conflict ' + res)
        c.get(c.n(gv, res, n), sel=lambda b: [e for e in mf(b) if e.get('manager') in ('sc', 'other')], label='owners ' + res)
        c.apply(at, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': n}, 'spec': {'replicas': 0}}, fm='other', force=True, sel=sel, label='apply forced ' + res)
        c.get(c.n(gv, res, n), sel=lambda b: [e for e in mf(b) if e.get('manager') in ('sc', 'other')], label='owners now ' + res)
        c.delete(at, sel=code)


@sc('subresource', 'evictions-and-bindings')
def _(c):
    c.mk(c.pods(), pod('p', pspec(schedulerName='nobody')))
    ev = lambda n='p', api='policy/v1', **k: dict({'apiVersion': api, 'kind': 'Eviction', 'metadata': {'name': n, 'namespace': c.ns}}, **k)
    at = c.pods('p') + '/eviction'
    dry = {'dryRun': 'All'}
    c.post(at, ev(), q=dry)
    c.post(at, ev(deleteOptions={'dryRun': ['All']}), label='dry by body')
    c.post(at, ev(n='q'), q=dry, label='other name')
    c.post(at, ev(api='policy/v1beta1'), q=dry, label='old version')
    c.post(at, ev(deleteOptions={'preconditions': {'uid': 'x'}}), q=dry, label='uid')
    c.post(at, ev(deleteOptions={'preconditions': {'resourceVersion': '1'}}), q=dry, label='rv')
    c.post(at, ev(deleteOptions={'gracePeriodSeconds': -1}), q=dry, label='grace')
    c.post(at, ev(deleteOptions={'propagationPolicy': 'Nope'}), q=dry, label='policy')
    c.post(at, {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}}, label='other kind')
    c.post(at, {}, q=dry, label='empty')
    c.get(at, label='get', sel=code)
    c.put(at, ev(), label='put', sel=code)
    c.post(c.pods('absent') + '/eviction', ev(n='absent'), label='absent')
    bind = lambda **t: {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'p', 'namespace': c.ns}, 'target': dict({'kind': 'Node', 'name': 'nowhere'}, **t)}
    at = c.pods('p') + '/binding'
    c.post(at, bind(name=''), label='no node')
    c.post(at, bind(kind='Pod'), label='not a node')
    c.post(at, bind(), q=dry, label='dry')
    c.post(at, dict(bind(), metadata={'name': 'z'}), q=dry, label='another name')
    c.post(at, dict(bind(), metadata={'name': 'p', 'uid': 'x'}), q=dry, label='another uid')
    c.post(c.n('v1', 'bindings'), bind(), q=dry, label='collection dry')
    c.post(at, bind(), label='bind', sel=code)
    c.post(at, bind(), label='bind again')
    c.get(c.pods('p'), sel=lambda b: [b['spec'].get('nodeName'), [(x['type'], x['status']) for x in b['status'].get('conditions', [])]])
    c.post(c.n('v1', 'bindings'), dict(bind(), metadata={'name': 'absent'}), label='absent by collection')
    c.get(c.n('v1', 'bindings'), label='list', sel=code)


@sc('subresource', 'resize-ephemeral-and-others')
def _(c):
    c.mk(c.pods(), pod('p', pspec(schedulerName='nobody', containers=[{'name': 'c', 'image': 'i', 'resources': {'requests': {'cpu': '100m', 'memory': '64Mi'}, 'limits': {'cpu': '200m', 'memory': '64Mi'}}}])))
    at = c.pods('p')
    dry = {'dryRun': 'All'}
    res = lambda b: [b['spec']['containers'][0]['resources'], b['metadata'].get('generation')]
    for name, r in (('up', {'requests': {'cpu': '150m', 'memory': '64Mi'}, 'limits': {'cpu': '200m', 'memory': '64Mi'}}), ('past', {'requests': {'cpu': '300m'}}), ('class', {'requests': {'cpu': '200m', 'memory': '64Mi'}}), ('ephemeral', {'requests': {'ephemeral-storage': '1Gi'}}), ('less memory', {'limits': {'memory': '32Mi'}, 'requests': {'memory': '32Mi'}}), ('nothing', {})):
        c.patch(at + '/resize', {'spec': {'containers': [{'name': 'c', 'resources': r}]}}, ct=SMP, q=dry, sel=res, label='resize ' + name)
    c.patch(at + '/resize', {'spec': {'containers': [{'name': 'c', 'image': 'other'}]}}, ct=SMP, q=dry, label='resize image')
    c.patch(at + '/resize', {'metadata': {'labels': {'x': 'y'}}}, q=dry, sel=lambda b: b['metadata'].get('labels'), label='resize labels')
    c.patch(at + '/resize', {'spec': {'containers': [{'name': 'new', 'image': 'x'}]}}, ct=SMP, q=dry, label='resize new')
    c.patch(at, {'spec': {'containers': [{'name': 'c', 'resources': {'requests': {'cpu': '150m'}}}]}}, ct=SMP, q=dry, label='resize by the pod')
    c.get(at + '/resize', sel=lambda b: b['kind'])
    eph = at + '/ephemeralcontainers'
    for name, e in (('good', {'name': 'e', 'image': 'x'}), ('named', {'name': 'c', 'image': 'x'}), ('ports', {'name': 'e', 'image': 'x', 'ports': [{'containerPort': 1}]}), ('resources', {'name': 'e', 'image': 'x', 'resources': {'limits': {'cpu': '1'}}}), ('probe', {'name': 'e', 'image': 'x', 'livenessProbe': {'exec': {'command': ['x']}}}),
                    ('target', {'name': 'e', 'image': 'x', 'targetContainerName': 'c'}), ('no target', {'name': 'e', 'image': 'x', 'targetContainerName': 'z'}), ('no image', {'name': 'e'}), ('mount', {'name': 'e', 'image': 'x', 'volumeMounts': [{'name': 'no', 'mountPath': '/x'}]}), ('bad name', {'name': 'E_', 'image': 'x'})):
        c.patch(eph, {'spec': {'ephemeralContainers': [e]}}, ct=SMP, q=dry, sel=lambda b: b['spec'].get('ephemeralContainers'), label='ephemeral ' + name)
    c.patch(eph, {'spec': {'ephemeralContainers': [{'name': 'e', 'image': 'x'}]}}, ct=SMP, sel=lambda b: [b['spec'].get('ephemeralContainers'), b['metadata'].get('generation')], label='ephemeral')
    c.patch(eph, {'spec': {'ephemeralContainers': [{'name': 'e', 'image': 'y'}]}}, ct=SMP, label='ephemeral changed')
    c.patch(eph, [{'op': 'remove', 'path': '/spec/ephemeralContainers'}], ct=JP, label='ephemeral removed')
    c.patch(eph, {'metadata': {'labels': {'q': 'r'}}}, sel=lambda b: b['metadata'].get('labels'), label='ephemeral labels')
    c.patch(at, {'spec': {'ephemeralContainers': [{'name': 'f', 'image': 'x'}]}}, ct=SMP, label='ephemeral by the pod')
    for sub in ('nope', 'status/x', 'log/x', 'scale'):
        c.get(at + '/' + sub, label=sub)
    c.post(c.pods(), pod('z', pspec(ephemeralContainers=[{'name': 'e', 'image': 'x'}])), label='created with', q=dry)


@sc('subresource', 'namespaces-nodes-and-requests')
def _(c):
    ns = 'fin-' + c.u
    cluster(c, '/api/v1/namespaces', obj('v1', 'Namespace', ns))
    at = '/api/v1/namespaces/' + ns
    dry = {'dryRun': 'All'}
    fin = lambda b: [b.get('spec'), b.get('status')]
    c.put(at + '/finalize', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': ns}, 'spec': {'finalizers': ['kubernetes', 'a.b/c']}}, q=dry, sel=fin)
    c.put(at + '/finalize', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': ns}, 'spec': {'finalizers': ['bad']}}, q=dry)
    c.put(at + '/finalize', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': ns}}, q=dry, sel=fin)
    c.put(at + '/finalize', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'x'}}, q=dry)
    c.get(at + '/finalize', sel=code)
    c.patch(at + '/finalize', {}, sel=code)
    c.patch(at, {'spec': {'finalizers': []}}, q=dry, sel=fin)
    c.patch(at + '/status', {'status': {'phase': 'Terminating'}}, q=dry, sel=fin)
    c.patch(at + '/status', {'status': {'phase': 'Bad'}}, q=dry)
    c.patch(at + '/status', {'status': {'conditions': [{'type': 'X', 'status': 'True'}]}}, q=dry, sel=lambda b: b['status'], ct=SMP)
    c.delete('/api/v1/namespaces', label='collection', sel=code)
    for n in ('default', 'kube-system', 'kube-public', 'kube-node-lease'):
        c.delete('/api/v1/namespaces/' + n, q=dry, sel=code, label='delete ' + n)
    node = 'n-' + c.u
    cluster(c, '/api/v1/nodes', {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': node}, 'spec': {'podCIDR': '10.9.0.0/24', 'providerID': 'x://1'}})
    at = '/api/v1/nodes/' + node
    c.get(at, sel=lambda b: [b['spec'].get('podCIDR'), b['spec'].get('podCIDRs'), b['spec'].get('providerID')])
    for name, p in (('cidr', {'spec': {'podCIDR': '10.10.0.0/24', 'podCIDRs': ['10.10.0.0/24']}}), ('provider', {'spec': {'providerID': 'y://2'}}), ('taint', {'spec': {'taints': [{'key': 'a', 'effect': 'Bad'}]}}), ('twice', {'spec': {'taints': [{'key': 'a', 'effect': 'NoSchedule'}, {'key': 'a', 'effect': 'NoSchedule'}]}}), ('capacity', {'status': {'capacity': {'cpu': '-1'}}}), ('unschedulable', {'spec': {'unschedulable': True}})):
        c.patch(at, p, q=dry, sel=lambda b: {k: b['spec'].get(k) for k in ('podCIDR', 'providerID', 'unschedulable')}, label='node ' + name)
        c.patch(at + '/status', p, q=dry, sel=lambda b: b['status'].get('capacity'), label='node status ' + name)
    for sub in ('log', 'exec', 'metrics'):
        c.get(at + '/' + sub, sel=code)
    csr = {'apiVersion': 'certificates.k8s.io/v1', 'kind': 'CertificateSigningRequest', 'metadata': {'name': 'csr-' + c.u}, 'spec': {'request': 'bm90IGEgcmVxdWVzdA==', 'signerName': 'a.b/c', 'usages': ['client auth']}}
    c.post('/apis/certificates.k8s.io/v1/certificatesigningrequests', csr, label='bad request')
    c.get('/apis/certificates.k8s.io/v1/certificatesigningrequests/absent/approval')
    c.patch('/apis/certificates.k8s.io/v1/certificatesigningrequests/absent/approval', {'status': {}})


@sc('subresource', 'tokens-of-accounts')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'a'))
    c.mk(c.pods(), pod('p', pspec(serviceAccountName='a', schedulerName='nobody')))
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's'))
    at = c.n('v1', 'serviceaccounts', 'a') + '/token'
    tr = lambda **s: {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': s}
    shape = lambda b: [b['spec'].get('audiences'), b['spec'].get('expirationSeconds'), b['spec'].get('boundObjectRef'), sorted(b['status'])]
    uid = lambda p: c.raw('GET', p)['metadata.uid']
    ref = lambda kind, name, uid=None, api='v1': dict({'kind': kind, 'apiVersion': api, 'name': name}, **({'uid': uid} if uid else {}))
    for name, s in (('plain', {}), ('short', {'expirationSeconds': 10}), ('long', {'expirationSeconds': 2 ** 33}), ('zero', {'expirationSeconds': 0}), ('audiences', {'audiences': ['a', 'b'], 'expirationSeconds': 700}),
                    ('pod', {'boundObjectRef': ref('Pod', 'p')}), ('pod uid', {'boundObjectRef': ref('Pod', 'p', 'x')}), ('no pod', {'boundObjectRef': ref('Pod', 'z')}), ('secret', {'boundObjectRef': ref('Secret', 's')}), ('kind', {'boundObjectRef': ref('ConfigMap', 's')}), ('node', {'boundObjectRef': ref('Node', 'nowhere')}),
                    ('version', {'boundObjectRef': ref('Pod', 'p', api='v2')}), ('no name', {'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1'}})):
        c.post(at, tr(**s), sel=lambda b: [b['spec'].get('audiences') if s.get('audiences') else None, b['spec'].get('expirationSeconds'), (b['spec'].get('boundObjectRef') or {}).get('kind'), sorted(b['status'])], label='token ' + name)
    c.post(at, {}, sel=lambda b: [b['kind'], sorted(b['status'])], label='token of nothing')
    c.post(at, dict(tr(), metadata={'name': 'b'}), label='another name', sel=lambda b: [b['kind'], b['metadata'].get('name')])
    c.post(at, dict(tr(), metadata={'namespace': 'b'}), label='another namespace', sel=code)
    c.post(at, {'kind': 'Pod', 'apiVersion': 'v1'}, label='another kind')
    c.post(c.n('v1', 'serviceaccounts', 'absent') + '/token', tr(), label='absent')
    c.get(at, label='get', sel=code)


# ================================================================================================ deletion options
@sc('options', 'deletion-in-every-form')
def _(c):
    for i, (name, body, q) in enumerate([
            ('empty', {}, {}), ('kind', {'kind': 'DeleteOptions', 'apiVersion': 'v1'}, {}), ('group', {'kind': 'DeleteOptions', 'apiVersion': 'apps/v1'}, {}), ('meta', {'kind': 'DeleteOptions', 'apiVersion': 'meta.k8s.io/v1'}, {}), ('other', {'kind': 'ConfigMap', 'apiVersion': 'v1'}, {}),
            ('absent group', {'kind': 'DeleteOptions', 'apiVersion': 'nope/v1'}, {}), ('both', {'orphanDependents': True, 'propagationPolicy': 'Orphan'}, {}), ('policy', {'propagationPolicy': 'x'}, {}), ('grace', {'gracePeriodSeconds': -5}, {}), ('grace text', {'gracePeriodSeconds': '5'}, {}), ('uid', {'preconditions': {'uid': 'x'}}, {}),
            ('rv', {'preconditions': {'resourceVersion': '1'}}, {}), ('dry', {'dryRun': ['All']}, {}), ('dry bad', {'dryRun': ['Some']}, {}), ('unknown', {'nope': 1}, {}), ('query grace', None, {'gracePeriodSeconds': 'x'}), ('query policy', None, {'propagationPolicy': 'x'}), ('query both', None, {'orphanDependents': 'true', 'propagationPolicy': 'Orphan'}),
            ('query dry', None, {'dryRun': 'x'}), ('query orphan', None, {'orphanDependents': 'maybe'}), ('query and body', {'gracePeriodSeconds': 1}, {'gracePeriodSeconds': '-9'}), ('text', 'xope', {}), ('list', [], {})]):
        c.mk(c.cm(), cm('a%d' % i))
        c.delete(c.cm('a%d' % i), body, q=q, label='delete ' + name)
        if 'orphan' not in name:     # the collector lets go when it gets to it
            c.get(c.cm('a%d' % i), sel=lambda b: [b.get('kind'), dig(b, 'metadata.finalizers')], label='after ' + name)
    for name, body, q in (('selector', None, {'labelSelector': 'a=b,c'}), ('bad selector', None, {'labelSelector': 'a=='}), ('field', None, {'fieldSelector': 'data.x=1'}), ('dry', {'dryRun': ['All']}, {}), ('limit', None, {'limit': '1', 'dryRun': 'All'}), ('uid', {'preconditions': {'uid': 'x'}}, {'fieldSelector': 'metadata.name=kube-root-ca.crt'}),
                          ('rv bad', None, {'resourceVersion': 'x'}), ('match', None, {'resourceVersionMatch': 'Exact'})):
        c.delete(c.cm(), body, q=q, sel=lambda b: [b.get('kind'), b.get('apiVersion'), bool(names(b))] if 'items' in b else code(b), label='collection ' + name)


@sc('options', 'of-writes')
def _(c):
    c.mk(c.cm(), cm('a', {'k': 'v'}))
    for q in ({'fieldManager': 'x' * 129}, {'fieldManager': 'a\tb'}, {'fieldManager': 'é'}, {'fieldValidation': 'x'}, {'fieldValidation': 'strict'}, {'dryRun': 'all'}, {'dryRun': ''}, {'force': 'true'}, {'force': 'x'}, {'pretty': 'x'}, {'timeout': '1x'}, {'timeout': '0s'}, {'timeout': '-1s'}, {'unknown': 'x'}, {'fieldManager': '', 'dryRun': 'All'}):
        c.post(c.cm(), cm('b'), q=dict({'dryRun': 'All'}, **q), sel=no_mf, label='post %s' % q)
        c.put(c.cm('a'), cm('a', {'k': 'w'}), q=dict({'dryRun': 'All'}, **q), sel=lambda b: b['data'], label='put %s' % q)
        c.patch(c.cm('a'), {'data': {'k': 'x'}}, q=dict({'dryRun': 'All'}, **q), sel=lambda b: b['data'], label='patch %s' % q)
        c.req('PATCH', c.cm('a'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'a'}, 'data': {'k': 'x'}}, q=dict({'dryRun': 'All', 'fieldManager': 'm'}, **q), ct=AP, sel=lambda b: b['data'], label='apply %s' % q)
    c.req('PATCH', c.cm('a'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'a'}}, ct=AP, label='apply without a manager')
    for body in ('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"},"nope":1,"data":{"a":"1","a":"2"}}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","nope":{}},"Data":{"a":"1"}}', '{"apiVersion":"v1","kind":"configmap","metadata":{"name":"y"}}', '{"apiVersion":"V1","kind":"ConfigMap","metadata":{"name":"y"}}',
                 '{"kind":"ConfigMap","metadata":{"name":"y"}}', '{"apiVersion":"v1","metadata":{"name":"y"}}', '{"metadata":{"name":"y"}}', '{}', '', 'null', '[]', '"x"', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"}} {}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":null}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","namespace":"other"}}',
                 '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","creationTimestamp":"x"}}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","generation":5,"uid":"u","resourceVersion":"5","selfLink":"/x","deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":3}}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","resourceVersion":"0"}}'):
        for v in ('Strict', 'Warn', 'Ignore'):
            c.post(c.cm(), body, q={'fieldValidation': v, 'dryRun': 'All'}, sel=no_mf, label='%s %s' % (v, body[:90]))
        c.put(c.cm('a'), body.replace('"y"', '"a"'), q={'dryRun': 'All', 'fieldValidation': 'Strict'}, sel=no_mf, label='put ' + body[:90])


@sc('options', 'of-lists')
def _(c):
    for i in range(5):
        c.mk(c.cm(), cm('a%d' % i, labels={'n': str(i)}))
    shape = lambda b: [b.get('kind'), names(b), sorted(b['metadata']), b['metadata'].get('remainingItemCount')] if 'items' in b else b
    for q in ({'limit': '2'}, {'limit': '-1'}, {'limit': 'x'}, {'limit': '0'}, {'limit': '2', 'resourceVersion': '0'}, {'limit': '2', 'resourceVersion': '0', 'resourceVersionMatch': 'NotOlderThan'}, {'resourceVersion': '0', 'resourceVersionMatch': 'Exact'}, {'resourceVersion': '1', 'resourceVersionMatch': 'Nope'}, {'resourceVersionMatch': 'NotOlderThan'}, {'resourceVersion': '999999999'}, {'continue': 'x'},
              {'continue': 'x', 'resourceVersion': '1'}, {'labelSelector': 'n in (1,2)'}, {'labelSelector': 'n notin (1,2)'}, {'labelSelector': '!n'}, {'labelSelector': 'n'}, {'labelSelector': 'n>2'}, {'labelSelector': 'n<2'}, {'labelSelector': 'n>x'}, {'labelSelector': 'n=='}, {'labelSelector': 'n=1,n=2'}, {'labelSelector': ','}, {'labelSelector': 'n in ()'}, {'labelSelector': 'n in (1'}, {'labelSelector': '=1'}, {'labelSelector': 'n=a b'},
              {'fieldSelector': 'metadata.name=a1'}, {'fieldSelector': 'metadata.name!=a1'}, {'fieldSelector': 'metadata.name=a1,metadata.name=a2'}, {'fieldSelector': 'metadata.namespace=x'}, {'fieldSelector': 'metadata.name'}, {'fieldSelector': 'data=x'}, {'fieldSelector': 'metadata.name==a2'}, {'fieldSelector': 'metadata.name in (a)'}, {'fieldSelector': ''}, {'sendInitialEvents': 'true'}, {'sendInitialEvents': 'x'},
              {'allowWatchBookmarks': 'true'}, {'watch': '0'}, {'timeoutSeconds': 'x'}, {'timeoutSeconds': '0'}, {'shardSelector': 'x'}, {'limit': '9223372036854775808'}, {'limit': '2', 'labelSelector': 'n!=0'}, {'includeObject': 'x'}):
        c.get(c.cm(), q=q, sel=shape, label='list %s' % q)
    for q in ({'includeObject': 'None'}, {'includeObject': 'Metadata'}, {'includeObject': 'Object'}, {'includeObject': 'x'}, {'limit': '1'}):
        c.get(c.cm(), q=q, accept=TABLE, sel=lambda b: [b.get('kind'), sorted(b['metadata']), [[r['cells'][0], (r.get('object') or {}).get('kind')] for r in b['rows']]] if 'rows' in b else b, label='table %s' % q)
    for accept in ('application/json;as=Table;v=v2;g=meta.k8s.io', 'application/json;as=Table;v=v1beta1;g=meta.k8s.io', 'application/json;as=Nope;v=v1;g=meta.k8s.io', 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io', 'application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io', 'application/yaml', 'application/yaml;as=Table;v=v1;g=meta.k8s.io', 'text/html', '*/*', 'application/*', 'application/json;q=0.1,application/yaml', 'text/html,application/json', 'application/json;stream=watch', 'application/cbor', 'nonsense', 'application/json;charset=utf-8', 'application/json; profile=x'):
        c.get(c.cm('a1'), accept=accept, sel=lambda b: [b.get('kind'), b.get('apiVersion')] if isinstance(b, dict) else len(b) > 20, label='get ' + accept)
        c.get(c.cm(), accept=accept, sel=lambda b: [b.get('kind'), b.get('apiVersion')] if isinstance(b, dict) else len(b) > 20, label='list ' + accept)


# ================================================================================================ watches
@sc('watches', 'that-go-on')
def _(c):
    rv0 = c.raw('GET', c.cm())['metadata.resourceVersion']
    seen = []
    for i in range(3):
        c.mk(c.cm(), cm('w%d' % i, {'a': '1'}))
        c.raw('PATCH', c.cm('w%d' % i), {'data': {'a': '2'}}, None, MP)
    c.raw('DELETE', c.cm('w0'))
    e = lambda e: [e.get('type'), dig(e, 'object.metadata.name'), dig(e, 'object.data'), e.get('code')]
    mine = {'fieldSelector': 'metadata.name!=kube-root-ca.crt'}
    evs = c.watch(c.cm(), dict(mine, resourceVersion=rv0), n=7, sel=e, label='everything')
    for i in range(len(evs)):
        at = dig(evs[i], 'object.metadata.resourceVersion')
        c.watch(c.cm(), dict(mine, resourceVersion=at), n=len(evs) - 1 - i, timeout=1 if i == len(evs) - 1 else 4, sel=e, label='after %d' % i)
    ended = lambda q, **k: c.watch(c.cm(), dict(mine, **q), timeout=4, sel=e, **k)
    c.watch(c.cm(), dict(mine, resourceVersion=rv0, timeoutSeconds='1'), timeout=5, sel=e, label='ends')
    c.rec('ended', c.ended)
    for q in ({'allowWatchBookmarks': 'true', 'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'resourceVersion': rv0}, {'allowWatchBookmarks': 'true', 'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'resourceVersion': '0'}, {'allowWatchBookmarks': 'true', 'sendInitialEvents': 'false', 'resourceVersionMatch': 'NotOlderThan', 'resourceVersion': rv0},
              {'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan'}, {'resourceVersionMatch': 'NotOlderThan', 'resourceVersion': rv0}, {'sendInitialEvents': 'true'}, {'resourceVersion': '0', 'limit': '1'}, {'continue': 'x'}, {'resourceVersion': '99999999'}, {'resourceVersion': '-1'}, {'sendInitialEvents': 'false', 'resourceVersionMatch': 'Exact'}, {'labelSelector': 'a=='}, {'fieldSelector': 'nope=1'}):
        qq = {k: v for k, v in q.items() if k not in ('resourceVersion',)}
        be = lambda e: [e['type'], dig(e, 'object.metadata.name') or '', dig(e, 'object.metadata.annotations'), dig(e, 'object.message') if e['type'] == 'ERROR' else None]
        # A stream that its time limit ends may say how far it came; which one does is up to the server.
        said = lambda e: e['type'] != 'BOOKMARK' or dig(e, 'object.metadata.annotations')
        c.watch(c.cm(), dict(mine, timeoutSeconds='2', **q) if 'fieldSelector' not in q else dict(q, timeoutSeconds='2'), timeout=5, sel=be, keep=said, label='watch %s %s' % (qq, 'from' if q.get('resourceVersion') == rv0 else q.get('resourceVersion')))
    te = lambda e: [e['type'], dig(e, 'object.kind'), [x['name'] for x in dig(e, 'object.columnDefinitions', []) or []], [r['cells'][0] for r in dig(e, 'object.rows', []) or []]]
    c.watch(c.cm(), dict(mine, resourceVersion=rv0), n=3, accept=TABLE, sel=te, label='as a table')
    c.watch(c.cm(), dict(mine, resourceVersion=rv0, includeObject='None'), n=2, accept=TABLE, sel=te, label='as a table of nothing')
    c.watch(c.cm('w1'), {'watch': 'true', 'timeoutSeconds': '1'}, timeout=3, sel=e, label='one by its path')
    c.watch('/api/v1/watch/namespaces/%s/configmaps/w1' % c.ns, {'timeoutSeconds': '1'}, timeout=3, sel=e, label='old path')
    c.watch('/api/v1/watch/namespaces/%s/configmaps/absent' % c.ns, {'timeoutSeconds': '1'}, timeout=3, sel=e, label='old path absent')
    c.get('/api/v1/watch/namespaces/%s/configmaps' % c.ns, q={'watch': 'false', 'timeoutSeconds': '1'}, sel=lambda b: type(b).__name__, label='old path without watching')


# ================================================================================================ applying
@sc('applying', 'conflicts-of-many')
def _(c):
    base = dep('d', 1)
    base['spec']['template']['spec']['schedulerName'] = 'nobody'
    owners = lambda b: [[e['manager'], e['operation'], e.get('subresource'), e['fieldsV1']] for e in mf(b)]
    c.apply(c.dep('d'), base, fm='one', sel=owners)
    other = copy.deepcopy(base)
    other['spec']['replicas'] = 0
    other['spec']['template']['spec']['containers'][0]['image'] = 'else'
    other['metadata']['labels'] = {'x': 'y'}
    c.apply(c.dep('d'), other, fm='two')
    c.apply(c.dep('d'), other, fm='two', force=True, q={'dryRun': 'All'}, sel=owners)
    c.apply(c.dep('d'), other, fm='two', force=True, sel=owners)
    c.apply(c.dep('d'), base, fm='one')
    c.patch(c.dep('d'), {'spec': {'replicas': 3, 'template': {'spec': {'containers': [{'name': base['spec']['template']['spec']['containers'][0]['name'], 'env': [{'name': 'A', 'value': '1'}]}]}}}}, ct=SMP, q={'fieldManager': 'three'}, sel=owners)
    c.apply(c.dep('d'), other, fm='two')
    less = copy.deepcopy(other)
    del less['spec']['replicas'], less['metadata']['labels']
    c.apply(c.dep('d'), less, fm='two', force=True, sel=lambda b: [b['spec'].get('replicas'), b['metadata'].get('labels'), owners(b)])
    for name, o in (('name', {'metadata': {'name': 'e'}}), ('namespace', {'metadata': {'name': 'd', 'namespace': 'other'}}), ('kind', {'kind': 'StatefulSet'}), ('group', {'apiVersion': 'v1'}), ('managed', {'metadata': {'name': 'd', 'managedFields': []}}), ('managed some', {'metadata': {'name': 'd', 'managedFields': [{'manager': 'x', 'operation': 'Apply', 'apiVersion': 'apps/v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {}}]}}),
                    ('rv', {'metadata': {'name': 'd', 'resourceVersion': '1'}}), ('uid', {'metadata': {'name': 'd', 'uid': 'x'}}), ('unknown', {'spec': {'nope': 1}}), ('type', {'spec': {'replicas': 'x'}}), ('twice', {'spec': {'template': {'spec': {'containers': [{'name': 'c'}, {'name': 'c'}]}}}}), ('no key', {'spec': {'template': {'spec': {'containers': [{'image': 'c'}]}}}}), ('null', {'spec': None}), ('no name', {'metadata': {}}), ('creation', {'metadata': {'name': 'd', 'creationTimestamp': None}})):
        c.apply(c.dep('d'), dict({'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'd'}}, **o), fm='four', q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='apply bad ' + name)
        c.apply(c.dep('new'), dict({'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'new'}}, **o), fm='four', q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='apply new ' + name)
    c.apply(c.dep('d'), dict(base, metadata={'name': 'd', 'finalizers': ['a.b/c'], 'ownerReferences': [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'x', 'uid': 'u'}]}), fm='five', force=True, q={'dryRun': 'All'}, sel=lambda b: [e for e in owners(b) if e[0] == 'five'])


@sc('applying', 'things-that-are-gone')
def _(c):
    c.apply(c.cm('a'), cm('a', {'x': '1'}), fm='one', sel=no_mf)
    c.patch(c.cm('a'), {'metadata': {'finalizers': ['a.b/c']}}, sel=no_mf)
    c.delete(c.cm('a'), sel=lambda b: sorted(b['metadata']))
    c.apply(c.cm('a'), cm('a', {'x': '2'}), fm='one', sel=lambda b: [b['data'], b['metadata'].get('finalizers'), 'deletionTimestamp' in b['metadata']])
    c.patch(c.cm('a'), {'metadata': {'finalizers': ['a.b/c', 'd.e/f']}}, label='another finalizer')
    c.patch(c.cm('a'), {'metadata': {'finalizers': None}}, sel=no_mf, label='let go')
    c.get(c.cm('a'))
    c.apply(c.cm('a'), cm('a', {'x': '3'}), fm='one', sel=lambda b: [b['data'], mf(b)])
    c.apply(c.cm('b'), dict(cm('b'), metadata={'name': 'b', 'uid': 'x'}), fm='one')
    c.apply(c.cm('b'), dict(cm('b'), metadata={'name': 'b', 'resourceVersion': '5'}), fm='one')
    c.apply(c.cm(), cm('b'), fm='one', label='apply to the collection')
    c.apply(c.n('v1', 'nopes', 'x'), cm('b'), fm='one')
    c.apply(c.pods('p'), dict(pod('p'), status={'phase': 'Failed'}), fm='one', q={'dryRun': 'All'}, sel=lambda b: [b['status'], mf(b)])


# ================================================================================================ beside the API
@sc('documents', 'health-and-versions')
def _(c):
    head = lambda b: b if isinstance(b, dict) else b.splitlines()[-1:] if b else b
    for p in ('/healthz', '/livez', '/readyz', '/healthz/ping', '/livez/ping', '/readyz/ping', '/healthz/etcd', '/readyz/nope', '/livez/', '/healthz?verbose', '/readyz?verbose&exclude=etcd', '/readyz?exclude=nope&verbose', '/livez?verbose=0', '/apis/', '/apis', '/api/v1/', '/apis/apps', '/apis/apps/', '/apis/apps/v1/', '/apis/nope', '/apis/apps/v9', '/api/v2',
              '/nope', '/apis/apps/v1/nopes', '/api/v1/namespaces/x/y/z/w/v', '/openapi', '/openapi/v2/x', '/openapi/v3/nope', '/.well-known/nope', '/logs', '/logs/', '/ui', '/swagger.json', '/swaggerapi', '/swagger-2.0.0.pb-v1', '/robots.txt', '/favicon.ico', '//api', '/api//v1', '/api/v1//pods', '/api/v1/namespaces/default/pods/', '/api/v1/pods/x', '/api/v1/nodes/x/y/z'):
        c.get(p, sel=head, label=p)
    for m in ('HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE', 'PATCH', 'CONNECT', 'TRACE', 'NOPE'):
        for p in ('/version', '/api', '/apis/apps/v1', '/healthz', '/api/v1/namespaces', '/api/v1/namespaces/default'):
            if m == 'CONNECT' or (m, p) in (('DELETE', '/api/v1/namespaces/default'), ('PATCH', '/api/v1/namespaces/default'), ('PUT', '/api/v1/namespaces/default')):
                continue
            c.req(m, p, label='%s %s' % (m, p), sel=head)


@sc('documents', 'reviews')
def _(c):
    for path, o in (('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {}}), ('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {'resourceAttributes': {'verb': 'get', 'resource': 'pods'}, 'nonResourceAttributes': {'path': '/'}}}), ('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'fieldSelector': {'rawSelector': 'spec.nodeName=x'}}}}),
                    ('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'labelSelector': {'requirements': [{'key': 'a', 'operator': 'Nope'}]}}}}), ('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'metadata': {'name': 'x'}, 'spec': {'nonResourceAttributes': {'path': '/', 'verb': 'get'}}}),
                    ('/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'resourceAttributes': {'verb': 'get'}}}), ('/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'user': 'x', 'resourceAttributes': {'verb': 'get', 'resource': 'pods'}}}), ('/apis/authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'user': 'x', 'groups': ['system:masters'], 'nonResourceAttributes': {'verb': 'get', 'path': '/x'}}}),
                    ('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {'spec': {}}), ('/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {}}), ('/apis/authentication.k8s.io/v1/tokenreviews', {'spec': {'token': 'x'}}), ('/apis/authentication.k8s.io/v1/selfsubjectreviews', {}), ('/apis/authentication.k8s.io/v1/selfsubjectreviews', {'status': {'userInfo': {'username': 'x'}}})):
        kind = {'selfsubjectaccessreviews': 'SelfSubjectAccessReview', 'subjectaccessreviews': 'SubjectAccessReview', 'selfsubjectrulesreviews': 'SelfSubjectRulesReview', 'tokenreviews': 'TokenReview', 'selfsubjectreviews': 'SelfSubjectReview'}[path.rsplit('/', 1)[1]]
        o = dict({'apiVersion': path.split('/apis/')[1].rsplit('/', 1)[0], 'kind': kind}, **o)
        c.post(path, o, sel=lambda b: [sorted(b), b.get('status') if kind not in ('SelfSubjectReview',) else None], label='%s %s' % (kind, json.dumps(o.get('spec'))[:80]))
        c.post(path, o, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='dry ' + kind)
        c.get(path, sel=code, label='get ' + kind)
        c.post(path, dict(o, kind='Nope'), label='bad kind ' + kind)
        c.post(path, dict(o, nope=1), q={'fieldValidation': 'Strict'}, sel=code, label='strict ' + kind)
    c.post(c.n('authorization.k8s.io/v1', 'localsubjectaccessreviews'), {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'LocalSubjectAccessReview', 'metadata': {'namespace': c.ns}, 'spec': {'user': 'x', 'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': 'y'}}})
    c.post(c.n('authorization.k8s.io/v1', 'localsubjectaccessreviews'), {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'LocalSubjectAccessReview', 'metadata': {'namespace': c.ns}, 'spec': {'user': 'x', 'nonResourceAttributes': {'verb': 'get', 'path': '/'}}})


# ================================================================================================ kinds
@sc('kinds', 'flow-control-and-leases')
def _(c):
    for path in ('/apis/scheduling.k8s.io/v1/priorityclasses', '/apis/storage.k8s.io/v1/storageclasses', '/apis/node.k8s.io/v1/runtimeclasses'):
        c.get(path, sel=lambda b: [b['kind'], sorted(n for n in names(b) if c.u not in n and not n.startswith('v1.')) if 'storageclasses' not in path else None], label=path)
    lease = lambda **s: obj('coordination.k8s.io/v1', 'Lease', 'l', s)
    for s in ({'leaseDurationSeconds': 0}, {'leaseDurationSeconds': -1}, {'leaseTransitions': -1}, {'holderIdentity': ''}, {'renewTime': 'x'}, {'renewTime': '2020-01-01T00:00:00Z'}, {'renewTime': '2020-01-01T00:00:00.123456789Z'}, {'acquireTime': '2020-01-01T00:00:00.1+01:00'}, {'strategy': 'OldestEmulationVersion'}, {'strategy': 'x'}, {'preferredHolder': 'x'}, {'preferredHolder': 'x', 'strategy': 'OldestEmulationVersion'}):
        c.post(c.n('coordination.k8s.io/v1', 'leases'), lease(**s), q={'dryRun': 'All'}, sel=lambda b: b.get('spec'), label='lease %s' % s)
    cidr = lambda *a: {'apiVersion': 'networking.k8s.io/v1', 'kind': 'ServiceCIDR', 'metadata': {'name': 'c-' + c.u}, 'spec': {'cidrs': list(a)}}
    for a in (['10.1.0.0/24'], ['10.1.0.1/24'], ['x'], [], ['10.1.0.0/24', '10.2.0.0/24'], ['10.1.0.0/24', 'fd00::/64'], ['10.1.0.0/33'], ['10.1.0.0/31']):
        c.post('/apis/networking.k8s.io/v1/servicecidrs', cidr(*a), q={'dryRun': 'All'}, sel=lambda b: [b['spec'], b['metadata'].get('finalizers')], label='cidr %s' % a)
    ip = lambda n, **p: {'apiVersion': 'networking.k8s.io/v1', 'kind': 'IPAddress', 'metadata': {'name': n}, 'spec': p}
    ref = {'group': '', 'resource': 'services', 'namespace': 'default', 'name': 'x'}
    for n, p in (('10.1.2.3', {'parentRef': ref}), ('x', {'parentRef': ref}), ('10.1.2.3', {}), ('10.1.2.3', {'parentRef': {'resource': '', 'name': 'x'}}), ('fd00::1', {'parentRef': ref}), ('fd00::01', {'parentRef': ref}), ('10.1.2.3', {'parentRef': {'resource': 'services', 'name': 'x', 'group': 'BAD_'}})):
        c.post('/apis/networking.k8s.io/v1/ipaddresses', ip(n, **p), q={'dryRun': 'All'}, sel=lambda b: [b['spec'], b['metadata'].get('labels')], label='address %s %s' % (n, p))


@sc('kinds', 'verbs-on-absent-things')
def _(c):
    for gv, res, kind in (('v1', 'configmaps', 'ConfigMap'), ('v1', 'pods', 'Pod'), ('v1', 'services', 'Service'), (APPS, 'deployments', 'Deployment'), (BATCH, 'jobs', 'Job'), ('networking.k8s.io/v1', 'ingresses', 'Ingress'), ('rbac.authorization.k8s.io/v1', 'roles', 'Role'), ('discovery.k8s.io/v1', 'endpointslices', 'EndpointSlice'), ('v1', 'podtemplates', 'PodTemplate'), ('resource.k8s.io/v1', 'resourceclaims', 'ResourceClaim')):
        at = c.n(gv, res, 'absent')
        for m, kw in (('GET', {}), ('DELETE', {}), ('DELETE', {'q': {'dryRun': 'All'}}), ('PATCH', {'body': {}, 'ct': MP}), ('PATCH', {'body': [], 'ct': JP}), ('PATCH', {'body': {}, 'ct': SMP}), ('PATCH', {'body': 'x', 'ct': MP}), ('PATCH', {'body': {}, 'ct': 'application/json'}), ('PUT', {'body': {'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'absent', 'uid': 'x'}}}), ('PUT', {'body': {'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'absent', 'resourceVersion': '5'}}}), ('PUT', {'body': {'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'absent'}}}), ('POST', {'body': {}}), ('GET', {'q': {'watch': 'true', 'timeoutSeconds': '1'}})):
            c.req(m, at, kw.get('body'), q=kw.get('q'), ct=kw.get('ct'), label='%s %s %s' % (m, res, json.dumps({k: v for k, v in kw.items()})[:60]))
        c.get(c.n(gv, res), q={'fieldSelector': 'metadata.name=absent'}, sel=lambda b: [b['kind'], b['apiVersion'], b.get('items')])
        if res != 'services':        # a real server allocates an address for nobody first
            c.post(c.n(gv, res), {'apiVersion': gv, 'kind': kind}, label='nameless ' + res)
        c.post(c.n(gv, res), {'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'x', 'generateName': 'y', 'labels': {'k': 'bad value!'}, 'annotations': {'bad key': 'v'}, 'finalizers': ['bad'], 'ownerReferences': [{'apiVersion': 'v1', 'kind': 'X', 'name': '', 'uid': ''}]}}, label='bad metadata ' + res)
        c.post(('/api/v1' if gv == 'v1' else '/apis/' + gv) + '/namespaces/absent-%s/%s' % (c.u, res), {'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'x'}}, label='absent namespace ' + res, sel=code)
        c.post(('/api/v1' if gv == 'v1' else '/apis/' + gv) + '/' + res, {'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'x'}}, label='no namespace ' + res, sel=code)


if __name__ == '__main__':
    sys.exit(d.main())

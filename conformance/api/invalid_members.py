#!/usr/bin/env python3
"""invalid_members: every member of every kind made wrong in turn, and corners of each part of the API; runner and options of compare.py."""
import copy, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare as d
from compare import (AP, CRDS, JP, JSON, MP, OPEN, POM, POML, SMP, TABLE, cm, cr, crd, dep, dig, ds, job, mf, mkcrd, names, no_mf, obj,
                       osch, pod, pspec, rolled, status_only, sts, svc, tab, textnorm, ydump)
import kinds_and_verbs as m

d.SCEN.clear()
# See docs/reference/sandbox-differences.md: internal Go values and diffs in messages.
d.RX.insert(0, (d.re.compile(r'\n@@ .*?\n(?=, [a-zA-Z]|\]$|$)', d.re.S), ''))
d.RX.append((d.re.compile(r'\n(  |[-+] ?\u00a0|\u00a0\u00a0).*', d.re.S), ''))
d.RX.append((d.re.compile(r'(Invalid|Unsupported) value: (\{\}|null|\[\]|\\?"\\?"): '), r'\1 value: <empty>: '))
d.RX.append((d.re.compile(r'("(?:AccessModes|Requests|OnPodConditions)":)(\[\]|\{\})'), r'\1null'))
# The same page: what a parser could have taken.
d.RX.append((d.re.compile(r'(<input>:\d+:)\d+: Syntax error: .*', d.re.S), r'\1 Syntax error'))
d.RX.append((d.re.compile(r'(?:\[(.*))?((?:previously negative\)|for bound claims|after creation))\]?$', d.re.S), r'\1\2'))
d.RX.append((d.re.compile(r'(\[)([^\[]*(?:previously negative\)|for bound claims|after creation))$', d.re.S), r'\2'))
sc, S = d.sc, d.S


# ================================================================================================ mutations
def leaves(o, path=()):
    """the path of every value, parents first"""
    if path:
        yield path
    if isinstance(o, dict):
        for k in sorted(o):
            yield from leaves(o[k], path + (k,))
    elif isinstance(o, list):
        for i, x in enumerate(o[:2]):
            yield from leaves(x, path + (i,))


def at(o, path):
    for p in path:
        o = o[p]
    return o


def with_at(o, path, v):
    o = copy.deepcopy(o)
    at(o, path[:-1])[path[-1]] = v
    return o


def without(o, path):
    o = copy.deepcopy(o)
    del at(o, path[:-1])[path[-1]]
    return o


def wrong_type(v):
    return {dict: ['x'], list: {'x': 'y'}, str: 7, bool: 'yes', int: 'x'}.get(type(v), {'x': 1})


def bad_value(v):
    if isinstance(v, bool):
        return not v
    return {str: 'Bad_ value!', int: -1, list: [], dict: {}}.get(type(v))


def other_value(v):
    if isinstance(v, bool):
        return not v
    if v is None:
        return 'x'
    return {str: lambda x: x + 'x', int: lambda x: x + 1, list: lambda x: x[:-1], dict: lambda x: dict(list(x.items())[:-1])}[type(v)](v)


def spec_leaves(o):
    return [p for p in leaves(o) if p[0] not in ('apiVersion', 'kind', 'metadata', 'status')]


def dry(c, p, o, label):
    c.post(p, o, q={'dryRun': 'All'}, sel=lambda b: m.quiet(b), label=label)


# Where a real server falls over (a nil pointer closes the connection), or there is a row in sandbox-differences.md.
SKIPPED = {('pvc', 'without spec.storageClassName'), ('pvc', 'null spec.storageClassName'), ('job-success-policy', 'without spec.completions')}


def mutate(key):
    def run(c):
        name = 'x' if m.KINDS[key][3] else c.u
        p, o = m.instance(c, key, name)
        for path in spec_leaves(o):
            v, at_ = at(o, path), '.'.join(map(str, path))
            for label, body in (('without', without(o, path)), ('wrong type', with_at(o, path, wrong_type(v))), ('bad', with_at(o, path, bad_value(v))), ('null', with_at(o, path, None))):
                if (key, '%s %s' % (label, at_)) not in SKIPPED:
                    dry(c, p, body, '%s %s' % (label, at_))
    return run


def change(key):
    def run(c):
        name = 'x' if m.KINDS[key][3] else c.u
        p, o = m.instance(c, key, name)
        if not m.KINDS[key][3]:
            c.cleanup(p + '/' + name)
        r = c.raw('POST', p, o)
        live = c.raw('GET', p + '/' + name).body
        if not isinstance(live, dict) or r.code >= 300:
            return
        live['metadata'].pop('resourceVersion', None)
        if live['metadata'].get('managedFields'):
            del live['metadata']['managedFields']
        live.pop('status', None)
        for path in spec_leaves(live):
            at_ = '.'.join(map(str, path))
            if at_.startswith('spec.clusterIP') or 'kube-api-access' in json.dumps(at(live, path)) or 'odePort' in at_:
                continue
            show = lambda b: [m.quiet(b).get('spec'), b['metadata'].get('generation')]
            for label, body in (('without', without(live, path)), ('other', with_at(live, path, other_value(at(live, path))))):
                if (key, '%s %s' % (label, at_)) in SKIPPED:
                    continue
                r = c.raw('PUT', p + '/' + name, body, q={'dryRun': 'All'})
                if r.code == 422 and 'must be specified for an update' in str(r.body):
                    body['metadata']['resourceVersion'] = c.raw('GET', p + '/' + name)['metadata.resourceVersion']
                c.put(p + '/' + name, body, q={'dryRun': 'All'}, sel=lambda b: b['metadata'].get('generation') if key != 'pod-full' else None, label='%s %s' % (label, at_))
    return run


for key in m.KINDS:
    for verb, scenario in (('create', mutate), ('update', change)):
        if m.KINDS[key][2] is not None:
            S('mutations', verb + '-' + key, scenario(key))



# ================================================================================================ server-side apply
RBAC, NET, AUTO = 'rbac.authorization.k8s.io/v1', 'networking.k8s.io/v1', 'autoscaling/v2'
part = lambda *keys: (lambda b: [mf(b)] + [dig(b, k) for k in keys])


@sc('ssa', 'service-ports-and-type')
def _(c):
    p = c.n('v1', 'services', 's')
    o = lambda **spec: obj('v1', 'Service', 's', spec)
    c.apply(p, o(selector={'a': 'b'}, ports=[{'port': 80, 'name': 'h'}, {'port': 443, 'name': 's'}]), sel=part('spec.ports', 'spec.selector'))
    c.apply(p, o(ports=[{'port': 80, 'protocol': 'TCP', 'targetPort': 8080}]), fm='mgr-b', label='conflict on target')
    c.apply(p, o(ports=[{'port': 80, 'protocol': 'UDP', 'name': 'u'}]), fm='mgr-b', sel=part('spec.ports'), label='same port other protocol')
    c.apply(p, o(ports=[{'port': 80, 'name': 'h'}, {'port': 80, 'name': 'i'}]), fm='mgr-c', label='duplicate key')
    c.apply(p, o(selector={'a': 'c'}), fm='mgr-b', label='atomic selector')
    c.apply(p, o(type='NodePort'), fm='mgr-c', force=True, sel=part('spec.type', 'spec.externalTrafficPolicy'))
    c.apply(p, o(selector={'a': 'b'}), sel=part('spec.ports'), label='ports given up')
    c.apply(p, o(), sel=part('spec.selector'), label='all given up')


@sc('ssa', 'ingress-and-policy')
def _(c):
    p = c.n(NET, 'ingresses', 'i')
    path = lambda n: {'path': '/' + n, 'pathType': 'Prefix', 'backend': {'service': {'name': n, 'port': {'number': 80}}}}
    c.apply(p, obj(NET, 'Ingress', 'i', {'rules': [{'host': 'a.b', 'http': {'paths': [path('x')]}}]}), sel=part('spec'))
    c.apply(p, obj(NET, 'Ingress', 'i', {'rules': [{'host': 'c.d'}]}), fm='mgr-b', label='atomic rules')
    c.apply(p, obj(NET, 'Ingress', 'i', {'tls': [{'hosts': ['a.b'], 'secretName': 's'}]}), fm='mgr-b', sel=part('spec'))
    q = c.n(NET, 'networkpolicies', 'n')
    c.apply(q, obj(NET, 'NetworkPolicy', 'n', {'podSelector': {}, 'ingress': [{'ports': [{'port': 80}]}]}), sel=part('spec'))
    c.apply(q, obj(NET, 'NetworkPolicy', 'n', {'podSelector': {'matchLabels': {'a': 'b'}}}), fm='mgr-b', label='conflict')
    c.apply(q, obj(NET, 'NetworkPolicy', 'n', {'podSelector': {}, 'policyTypes': ['Egress']}), fm='mgr-b', force=True, sel=part('spec'))


@sc('ssa', 'pod-template-details')
def _(c):
    def o(ctr, **spec):
        x = dep('d', 0)
        x['spec']['template']['spec'] = dict({'containers': [dict({'name': 'c', 'image': 'i:1'}, **ctr)]}, **spec)
        return x
    c.apply(c.dep('d'), o({'env': [{'name': 'A', 'value': '1'}, {'name': 'B', 'value': '2'}], 'ports': [{'containerPort': 80}]}), sel=part('spec.template.spec.containers'))
    c.apply(c.dep('d'), o({'env': [{'name': 'B', 'value': '3'}, {'name': 'C', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}]}), fm='mgr-b', label='conflict')
    c.apply(c.dep('d'), o({'env': [{'name': 'C', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}]}), fm='mgr-b', sel=part('spec.template.spec.containers'))
    c.apply(c.dep('d'), o({'env': [{'name': 'A', 'value': '1'}, {'name': 'A', 'value': '2'}]}), label='twice the name')
    c.apply(c.dep('d'), o({'volumeMounts': [{'name': 'v', 'mountPath': '/a'}]}, volumes=[{'name': 'v', 'emptyDir': {}}]), fm='mgr-c', sel=part('spec.template.spec.volumes', 'spec.template.spec.containers'))
    c.apply(c.dep('d'), o({'volumeMounts': [{'name': 'v', 'mountPath': '/a'}]}, volumes=[{'name': 'v', 'configMap': {'name': 'x'}}]), fm='mgr-d', label='other source')
    c.apply(c.dep('d'), o({'args': ['a', 'b']}, tolerations=[{'key': 'k', 'operator': 'Exists'}], imagePullSecrets=[{'name': 'p'}]), fm='mgr-e', sel=part('spec.template.spec.tolerations', 'spec.template.spec.imagePullSecrets'))
    c.apply(c.dep('d'), o({'args': ['a']}, tolerations=[{'key': 'l', 'operator': 'Exists'}], imagePullSecrets=[{'name': 'q'}]), fm='mgr-f', label='atomic lists')
    c.apply(c.dep('d'), o({'resources': {'limits': {'cpu': '1', 'memory': '1024Mi'}}, 'securityContext': {'capabilities': {'add': ['A']}}}), fm='mgr-g', sel=part('spec.template.spec.containers'))
    c.apply(c.dep('d'), o({'resources': {'limits': {'memory': '1Gi'}}}), fm='mgr-h', sel=mf, label='same amount, other words')
    c.apply(c.dep('d'), o({}), sel=part('spec.template.spec'), label='given up')


@sc('ssa', 'custom-resource-shapes')
def _(c):
    schema = osch({'spec': osch({'set': {'type': 'array', 'items': {'type': 'string'}, 'x-kubernetes-list-type': 'set'}, 'plain': {'type': 'array', 'items': {'type': 'string'}},
                                 'map': {'type': 'array', 'items': osch({'k': {'type': 'string'}, 'n': {'type': 'integer', 'default': 1}, 'v': {'type': 'string'}}, required=['k']), 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k', 'n']},
                                 'atom': osch({'a': {'type': 'string'}, 'b': {'type': 'string'}}, **{'x-kubernetes-map-type': 'atomic'}), 'gran': osch({'a': {'type': 'string'}, 'b': {'type': 'string'}}), 'free': OPEN, 'extra': {'type': 'object', 'additionalProperties': {'type': 'integer'}}})})
    p = mkcrd(c, crd(c, schema))
    a = lambda fm, force=None, label=None, **spec: c.apply(p + '/x', cr(c, 'x', spec), fm=fm, force=force, sel=part('spec'), label=label or json.dumps(spec)[:60])
    a('m1', set=['a', 'b'], plain=['x'], map=[{'k': 'a', 'v': '1'}], atom={'a': '1'}, gran={'a': '1'}, free={'q': {'r': [1, {'s': 2}]}}, extra={'x': 1})
    a('m2', set=['b', 'c'], map=[{'k': 'a', 'n': 2, 'v': '2'}], gran={'b': '2'}, extra={'y': 2})
    a('m2', plain=['y'])
    a('m2', atom={'b': '1'})
    a('m2', map=[{'k': 'a', 'n': 1, 'v': '9'}])
    a('m2', free={'q': {'r': [2]}})
    a('m2', set=['b', 'b'])
    a('m2', map=[{'k': 'a'}, {'k': 'a'}])
    a('m2', map=[{'v': 'no key'}])
    a('m2', force=True, plain=['y'], atom={'b': '1'}, free={'q': {'t': 1}})
    a('m1', set=['a'])
    a('m2')


@sc('ssa', 'then-other-writes')
def _(c):
    c.apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}), sel=mf)
    c.patch(c.cm('x'), {'data': {'b': '3'}}, q={'fieldManager': 'p'}, sel=mf, label='merge patch takes a field')
    c.patch(c.cm('x'), [{'op': 'remove', 'path': '/data/a'}], ct=JP, q={'fieldManager': 'q'}, sel=part('data'), label='json patch removes a field')
    c.apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}), label='conflict with an update')
    c.apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}), force=True, sel=part('data'), label='forced')
    live = c.raw('GET', c.cm('x')).body
    live['data'] = {'z': '9'}
    c.put(c.cm('x'), live, q={'fieldManager': 'r'}, sel=part('data'), label='put replaces all')
    c.apply(c.cm('x'), cm('x', {'z': '9'}), sel=mf, label='shared with an update')
    c.apply(c.cm('x'), cm('x', {}), sel=part('data'), label='left to the update')
    c.patch(c.cm('x'), {'metadata': {'managedFields': [{}]}}, sel=part('data'), label='reset')
    c.apply(c.cm('x'), cm('x', {'n': '1'}), sel=part('data'), label='after a reset')


# ================================================================================================ patches
@sc('patch', 'strategic-on-many-kinds')
def _(c):
    sp = lambda path, body, *keys: c.patch(path, body, ct=SMP, sel=lambda b: [dig(b, k) for k in keys], label=json.dumps(body)[:80])
    c.mk(c.n('v1', 'services'), svc('s', ports=[{'port': 80, 'name': 'a'}, {'port': 81, 'name': 'b'}]))
    s = c.n('v1', 'services', 's')
    sp(s, {'spec': {'ports': [{'port': 80, 'targetPort': 'x'}]}}, 'spec.ports')
    sp(s, {'spec': {'ports': [{'port': 81, '$patch': 'delete'}]}}, 'spec.ports')
    sp(s, {'spec': {'ports': [{'$patch': 'replace'}, {'port': 90, 'name': 'n'}]}}, 'spec.ports')
    sp(s, {'spec': {'ports': [{'name': 'nokey'}]}}, 'spec.ports')
    sp(s, {'spec': {'selector': {'$patch': 'replace', 'z': 'y'}}}, 'spec.selector')
    sp(s, {'spec': {'selector': None}}, 'spec.selector')
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'sa', imagePullSecrets=[{'name': 'a'}], secrets=[{'name': 's'}]))
    sa = c.n('v1', 'serviceaccounts', 'sa')
    sp(sa, {'imagePullSecrets': [{'name': 'b'}]}, 'imagePullSecrets')
    sp(sa, {'secrets': [{'name': 's', '$patch': 'delete'}]}, 'secrets')
    c.mk(c.n('v1', 'endpoints'), obj('v1', 'Endpoints', 'e', subsets=[{'addresses': [{'ip': '1.2.3.4'}], 'ports': [{'port': 80}]}]))
    sp(c.n('v1', 'endpoints', 'e'), {'subsets': [{'addresses': [{'ip': '1.2.3.5'}]}]}, 'subsets')
    c.mk(c.n(RBAC, 'roles'), obj(RBAC, 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['pods'], 'verbs': ['get', 'list']}]))
    sp(c.n(RBAC, 'roles', 'r'), {'rules': [{'apiGroups': [''], 'resources': ['secrets'], 'verbs': ['get']}]}, 'rules')
    c.mk(c.n('v1', 'resourcequotas'), obj('v1', 'ResourceQuota', 'q', {'hard': {'services': '10', 'secrets': '5'}}))
    sp(c.n('v1', 'resourcequotas', 'q'), {'spec': {'hard': {'secrets': None, 'configmaps': '6'}}}, 'spec.hard')
    c.mk(c.n(NET, 'networkpolicies'), obj(NET, 'NetworkPolicy', 'n', {'podSelector': {}, 'ingress': [{}]}))
    sp(c.n(NET, 'networkpolicies', 'n'), {'spec': {'ingress': None, 'policyTypes': ['Egress']}}, 'spec')
    c.mk(c.n('batch/v1', 'cronjobs'), obj('batch/v1', 'CronJob', 'cj', {'suspend': True, 'schedule': '* * * * *', 'jobTemplate': {'spec': job('x')['spec']}}))
    sp(c.n('batch/v1', 'cronjobs', 'cj'), {'spec': {'jobTemplate': {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'env': [{'name': 'A', 'value': 'b'}]}]}}}}}}, 'spec.jobTemplate.spec.template.spec.containers')
    c.mk(c.n('apps/v1', 'statefulsets'), sts('st', 0))
    sp(c.n('apps/v1', 'statefulsets', 'st'), {'spec': {'template': {'spec': {'volumes': [{'name': 'v', 'emptyDir': {}}], 'tolerations': [{'key': 'a'}], 'hostAliases': [{'ip': '1.2.3.4', 'hostnames': ['h']}], 'topologySpreadConstraints': [{'maxSkew': 1, 'topologyKey': 'z', 'whenUnsatisfiable': 'ScheduleAnyway'}]}}}}, 'spec.template.spec')
    sp(c.n('apps/v1', 'statefulsets', 'st'), {'spec': {'template': {'spec': {'volumes': [{'name': 'v', '$retainKeys': ['name', 'configMap'], 'configMap': {'name': 'x'}}], 'hostAliases': [{'ip': '1.2.3.4', 'hostnames': ['g']}], 'topologySpreadConstraints': [{'maxSkew': 2, 'topologyKey': 'z', 'whenUnsatisfiable': 'ScheduleAnyway'}]}}}}, 'spec.template.spec')
    sp(c.n('apps/v1', 'statefulsets', 'st'), {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'ports': [{'containerPort': 1}, {'containerPort': 1, 'protocol': 'UDP'}], 'volumeMounts': [{'mountPath': '/x', 'name': 'v'}], 'envFrom': [{'configMapRef': {'name': 'x'}}]}]}}}}, 'spec.template.spec.containers')


@sc('patch', 'merge-on-many-kinds')
def _(c):
    mp = lambda path, body, *keys: c.patch(path, body, sel=lambda b: [dig(b, k) for k in keys], label=json.dumps(body)[:80])
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's', stringData={'a': '1', 'b': '2'}))
    s = c.n('v1', 'secrets', 's')
    mp(s, {'stringData': {'c': '3'}}, 'data', 'stringData')
    mp(s, {'data': {'a': None}}, 'data')
    mp(s, {'data': None}, 'data')
    mp(s, {'immutable': True, 'data': {'z': 'eg=='}}, 'data', 'immutable')
    mp(s, {'data': {'z': 'eA=='}})
    c.mk(c.n(AUTO, 'horizontalpodautoscalers'), obj(AUTO, 'HorizontalPodAutoscaler', 'h', {'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'none'}}))
    h = c.n(AUTO, 'horizontalpodautoscalers', 'h')
    mp(h, {'spec': {'metrics': [{'type': 'Resource', 'resource': {'name': 'memory', 'target': {'type': 'AverageValue', 'averageValue': '1024Mi'}}}]}}, 'spec.metrics')
    mp(h, {'spec': {'minReplicas': None, 'behavior': {'scaleDown': {'selectPolicy': 'Disabled'}}}}, 'spec.minReplicas', 'spec.behavior')
    mp(h, {'spec': {'behavior': None, 'metrics': None}}, 'spec')
    mp(c.n('autoscaling/v1', 'horizontalpodautoscalers', 'h'), {'spec': {'targetCPUUtilizationPercentage': 42}}, 'spec')
    c.get(h, sel=lambda b: b['spec'])
    c.mk(c.n('policy/v1', 'poddisruptionbudgets'), obj('policy/v1', 'PodDisruptionBudget', 'b', {'minAvailable': 1, 'selector': {'matchLabels': {'q': 'r'}}}))
    mp(c.n('policy/v1', 'poddisruptionbudgets', 'b'), {'spec': {'minAvailable': None, 'maxUnavailable': '50%'}}, 'spec')
    c.mk(c.n('coordination.k8s.io/v1', 'leases'), obj('coordination.k8s.io/v1', 'Lease', 'l', {'holderIdentity': 'a'}))
    mp(c.n('coordination.k8s.io/v1', 'leases', 'l'), {'spec': {'renewTime': '2024-01-01T00:00:00Z', 'leaseDurationSeconds': 5}}, 'spec')
    mp(c.n('coordination.k8s.io/v1', 'leases', 'l'), {'spec': {'leaseDurationSeconds': 0}})
    mp(c.n('v1', 'services', 'nope'), {'spec': {}})


@sc('patch', 'unreadable-bodies')
def _(c):
    c.mk(c.cm(), cm('x'))
    c.mk(c.dep(), dep('d', 0))
    for ct in (MP, SMP, JP, AP):
        for body in ('{', '[', 'null', '[]', '{}', '"x"', '5', '{"data":', '{"data":{"a":1}}', '[{"op":"add"}]', '[{"op":"nope","path":"/a"}]', '[1]', '{"metadata":{"labels":[]}}'):
            c.req('PATCH', c.cm('x'), body, ct=ct, q={'fieldManager': 'm', 'dryRun': 'All'}, sel=lambda b: b['kind'], label='%s %s' % (ct.split('/')[1][:9], body))
    for body in ({'spec': {'replicas': 'x'}}, {'spec': {'template': []}}, {'spec': {'template': {'spec': {'containers': {}}}}}, {'spec': {'template': {'spec': {'containers': [{'image': 'x'}]}}}}, {'spec': {'template': {'spec': {'containers': ['x']}}}}, {'spec': 7}):
        for ct in (MP, SMP):
            c.patch(c.dep('d'), body, ct=ct, sel=lambda b: b['kind'], label='%s %s' % (ct.split('/')[1][:9], json.dumps(body)))


@sc('patch', 'subresources')
def _(c):
    c.mk(c.dep(), dep('d', 0))
    for sub, body in (('status', {'status': {'replicas': 5}}), ('status', {'spec': {'replicas': 9}}), ('status', {'metadata': {'labels': {'s': 't'}, 'annotations': {'q': 'r'}}}), ('scale', {'spec': {'replicas': 2}}), ('scale', {'spec': {'replicas': -1}}), ('scale', {'spec': {'replicas': 'x'}}), ('scale', {'metadata': {'name': 'other'}}), ('scale', {'metadata': {'resourceVersion': '1'}}), ('nope', {})):
        for ct in (MP, SMP):
            c.patch(c.dep('d') + '/' + sub, body, ct=ct, q={'dryRun': 'All'}, sel=lambda b: [b['kind'], b.get('spec') if b['kind'] == 'Scale' else dig(b, 'status.replicas'), m.quiet(b)['metadata'].get('labels')], label='%s %s %s' % (sub, ct.split('/')[1][:9], json.dumps(body)))
    c.patch(c.dep('d') + '/scale', [{'op': 'replace', 'path': '/spec/replicas', 'value': 3}], ct=JP, q={'dryRun': 'All'}, sel=lambda b: b['spec'])


# ================================================================================================ subresources of all kinds
@sc('update', 'status-of-many-kinds')
def _(c):
    cases = [('v1', 'services', svc('x'), {'loadBalancer': {'ingress': [{'ip': '1.2.3.4'}]}}), ('v1', 'resourcequotas', obj('v1', 'ResourceQuota', 'x', {'hard': {'secrets': '5'}}), {'used': {'secrets': '1'}}), ('v1', 'replicationcontrollers', obj('v1', 'ReplicationController', 'x', {'replicas': 0, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': pspec()}}), {'replicas': 3}),
             ('apps/v1', 'replicasets', dict(dep('x', 0), kind='ReplicaSet'), {'replicas': 1, 'readyReplicas': 2}), ('apps/v1', 'statefulsets', sts('x', 0), {'replicas': 2, 'readyReplicas': 5}), ('apps/v1', 'daemonsets', ds('x'), {'numberReady': -1}), ('batch/v1', 'cronjobs', obj('batch/v1', 'CronJob', 'x', {'suspend': True, 'schedule': '* * * * *', 'jobTemplate': {'spec': job('x')['spec']}}), {'lastScheduleTime': '2020-01-01T00:00:00Z'}),
             (NET, 'ingresses', obj(NET, 'Ingress', 'x', {'defaultBackend': {'service': {'name': 's', 'port': {'number': 80}}}}), {'loadBalancer': {'ingress': [{'hostname': 'h', 'ports': [{'port': 80, 'protocol': 'TCP'}]}]}}), (NET, 'ingresses', obj(NET, 'Ingress', 'y', {'defaultBackend': {'service': {'name': 's', 'port': {'number': 80}}}}), {'loadBalancer': {'ingress': [{'ip': 'nope'}]}}), ('policy/v1', 'poddisruptionbudgets', obj('policy/v1', 'PodDisruptionBudget', 'x', {'minAvailable': 1, 'selector': {'matchLabels': {'q': 'r'}}}), {'expectedPods': -1}),
             (AUTO, 'horizontalpodautoscalers', obj(AUTO, 'HorizontalPodAutoscaler', 'x', {'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'none'}}), {'desiredReplicas': -1}), ('v1', 'persistentvolumeclaims', obj('v1', 'PersistentVolumeClaim', 'x', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}}}), {'capacity': {'storage': '-1'}})]
    for gv, res, o, st in cases:
        c.mk(c.n(gv, res), o)
        p = c.n(gv, res, o['metadata']['name'])
        c.get(p + '/status', sel=lambda b: [b['kind'], sorted(b)], label='get ' + res)
        c.patch(p + '/status', {'status': st}, q={'dryRun': 'All'}, sel=lambda b: {k: dig(b, 'status.' + k) for k in st}, label='status of ' + res)
        c.patch(p + '/status', {'spec': {'nope': 1}, 'metadata': {'labels': {'l': 'm'}, 'annotations': {'n': 'o'}}}, q={'dryRun': 'All'}, sel=lambda b: [b['metadata'].get('labels'), b['metadata'].get('annotations', {}).get('n')], label='metadata by status of ' + res)
        c.patch(p, {'status': st}, q={'dryRun': 'All'}, sel=lambda b: b['metadata'].get('generation'), label='status by main of ' + res)
        for sub in ('scale', 'nope', 'log'):
            c.get(p + '/' + sub, sel=lambda b: b['kind'], label='%s of %s' % (sub, res))


@sc('update', 'scale-of-many-kinds')
def _(c):
    for gv, res, o in [('apps/v1', 'replicasets', dict(dep('x', 0), kind='ReplicaSet')), ('apps/v1', 'statefulsets', sts('x', 0)), ('v1', 'replicationcontrollers', obj('v1', 'ReplicationController', 'x', {'replicas': 0, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': pspec()}})), ('apps/v1', 'deployments', dep('x', 0))]:
        c.mk(c.n(gv, res), o)
        p = c.n(gv, res, 'x') + '/scale'
        live = c.get(p, sel=m.quiet).body
        live['metadata'].pop('resourceVersion', None)
        c.put(p, dict(live, spec={'replicas': 0}), sel=m.quiet, label='same ' + res)
        c.put(p, dict(live, spec={'replicas': -1}), label='negative ' + res)
        c.put(p, dict(live, kind='Nope'), label='other kind ' + res)
        c.put(p, dict(live, metadata=dict(live['metadata'], name='y')), label='other name ' + res)
        c.put(p, dict(live, metadata=dict(live['metadata'], resourceVersion='1')), label='stale ' + res)
        c.put(p, dict(live, metadata=dict(live['metadata'], uid='nope')), label='other uid ' + res)
        c.put(p, {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'x', 'namespace': c.ns}, 'spec': {}}, q={'dryRun': 'All'}, sel=lambda b: b['spec'], label='empty ' + res)
        c.delete(p, label='delete ' + res)
        c.post(p, live, label='post ' + res)


@sc('update', 'create-on-update-of-many-kinds')
def _(c):
    for gv, res, o in [('v1', 'configmaps', cm('x')), ('v1', 'services', svc('x')), ('v1', 'endpoints', obj('v1', 'Endpoints', 'x')), ('v1', 'limitranges', obj('v1', 'LimitRange', 'x', {'limits': []})), ('coordination.k8s.io/v1', 'leases', obj('coordination.k8s.io/v1', 'Lease', 'x', {})), (RBAC, 'roles', obj(RBAC, 'Role', 'x', rules=[])), (RBAC, 'rolebindings', obj(RBAC, 'RoleBinding', 'x', roleRef={'kind': 'Role', 'name': 'x'})), ('v1', 'events', obj('v1', 'Event', 'x', involvedObject={'namespace': c.ns, 'kind': 'Pod'})),
                       ('v1', 'serviceaccounts', obj('v1', 'ServiceAccount', 'x')), ('v1', 'resourcequotas', obj('v1', 'ResourceQuota', 'x', {'hard': {}})), (NET, 'networkpolicies', obj(NET, 'NetworkPolicy', 'x', {'podSelector': {}})), ('v1', 'podtemplates', obj('v1', 'PodTemplate', 'x', template={'spec': pspec()})), ('discovery.k8s.io/v1', 'endpointslices', obj('discovery.k8s.io/v1', 'EndpointSlice', 'x', addressType='IPv4', endpoints=[]))]:
        c.put(c.n(gv, res, 'x'), o, sel=m.quiet, label='put ' + res)
        c.put(c.n(gv, res, 'x'), dict(o, metadata={'name': 'x', 'resourceVersion': '7'}), sel=lambda b: b['kind'], label='put with a version ' + res)
        c.put(c.n(gv, res, 'y'), dict(o, metadata={'name': 'y', 'uid': 'z'}), sel=lambda b: b['kind'], label='put with a uid ' + res)


# ================================================================================================ lists and watches
@sc('list', 'paging-and-selectors')
def _(c):
    for i in range(7):
        c.mk(c.cm(), cm('p%d' % i, labels={'p': 'y', 'odd': str(i % 2)}))
    for q in ({'limit': '2'}, {'limit': '2', 'labelSelector': 'p=y'}, {'limit': '100', 'labelSelector': 'p=y'}, {'limit': '3', 'labelSelector': 'odd=1'}, {'limit': '1', 'fieldSelector': 'metadata.name=p3'}, {'limit': '2', 'labelSelector': 'p=y', 'resourceVersion': '0'}, {'limit': '0', 'labelSelector': 'p=y'}):
        token, pages = None, []
        for _ in range(8):
            r = c.raw('GET', c.cm(), q=dict(q, **({'continue': token} if token else {})))
            if r.code != 200:
                pages.append(r.body)
                break
            token = dig(r.body, 'metadata.continue')
            pages.append([names(r.body), bool(token), dig(r.body, 'metadata.remainingItemCount')])
            if token and 'resourceVersion' in q:
                q = {k: v for k, v in q.items() if k != 'resourceVersion'}
            if not token:
                break
        c.rec(json.dumps(q), pages)
    t = c.raw('GET', c.cm(), q={'limit': '2'})['metadata.continue']
    for label, q in (('with version', {'resourceVersion': '5'}), ('with zero', {'resourceVersion': '0'}), ('with match', {'resourceVersionMatch': 'Exact'}), ('other selector', {'labelSelector': 'odd=1'}), ('no limit', {}), ('table', {'limit': '1'})):
        c.get(c.cm(), q=dict(q, **{'continue': t}), accept=TABLE if label == 'table' else None, sel=lambda b: [b['kind'], names(b), [r['cells'][0] for r in b.get('rows') or []]], label=label)
    for bad in ('x', 'eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ', 'bnVsbA', '%', ' '):
        c.get(c.cm(), q={'continue': bad, 'limit': '1'}, sel=lambda b: b['kind'], label='token %r' % bad)


@sc('list', 'field-selectors-of-many-kinds')
def _(c):
    c.mk(c.cm(), cm('a'))
    for p, sel in [(c.cm(), ['metadata.name=a', 'metadata.name!=a', 'metadata.namespace=' + c.ns, 'metadata.namespace=x', 'metadata.name==a', 'metadata.name in (a)', 'metadata.name', 'metadata.name=a,metadata.name=b', 'metadata.labels=x', 'data.a=1', ',', 'metadata.name=', 'metadata.name=a\\,b', '=a']), (c.dep(), ['metadata.name=x', 'spec.replicas=1', 'status.replicas=0']), (c.n('v1', 'services'), ['spec.type=ClusterIP', 'spec.clusterIP=None', 'spec.ports=80']), (c.n('v1', 'persistentvolumeclaims'), ['status.phase=Bound', 'spec.volumeName=x', 'metadata.name=x']), (c.n('batch/v1', 'jobs'), ['status.successful=1', 'status.active=1']), (c.n('apps/v1', 'replicasets'), ['status.replicas=0', 'spec.replicas=0']),
                   (c.n('v1', 'secrets'), ['type=Opaque', 'type!=Opaque', 'data=x']), (c.n('v1', 'events'), ['reason=x', 'type!=Normal', 'involvedObject.kind=Pod,reason!=x', 'source=kubelet', 'reportingComponent=x', 'message=x', 'count=1']), ('/api/v1/nodes', ['spec.unschedulable=true', 'spec.unschedulable=false', 'status.phase=x']), ('/api/v1/namespaces', ['status.phase=Nope', 'metadata.name=' + c.ns, 'name=x']), (c.n('v1', 'replicationcontrollers'), ['status.replicas=0', 'spec.x=1']), (c.n(NET, 'ingresses'), ['metadata.name=x', 'spec.rules=x']), ('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', ['metadata.name=nope', 'spec.group=x']), ('/apis/certificates.k8s.io/v1/certificatesigningrequests', ['spec.signerName=x', 'spec.x=y'])]:
        for s in sel:
            c.get(p, q={'fieldSelector': s}, sel=lambda b: [b['kind'], [n for n in names(b) if n in ('a', c.ns)]], label='%s %s' % (p.rsplit('/', 1)[1], s))
            if s in ('metadata.name=a', 'metadata.labels=x', 'reason=x'):
                c.delete(p, q={'fieldSelector': s, 'dryRun': 'All'}, sel=lambda b: [b['kind'], names(b)], label='delete collection %s %s' % (p.rsplit('/', 1)[1], s))


@sc('list', 'metadata-views')
def _(c):
    c.mk(c.cm(), cm('a', labels={'v': 'w'}, annotations={'n': 'o'}))
    for accept in (POM, POML, TABLE, 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1', 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1', 'application/json;as=Table;g=meta.k8s.io;v=v1beta1', 'application/json;as=Nope;g=meta.k8s.io;v=v1', 'application/json;as=Table;g=nope;v=v1', 'application/yaml;as=Table;v=v1;g=meta.k8s.io', 'application/json;as=Table;v=v9;g=meta.k8s.io,application/json'):
        for label, path, q in (('get', c.cm('a'), {}), ('list', c.cm(), {'labelSelector': 'v=w'})):
            c.get(path, accept=accept, q=q, sel=lambda b: [b.get('kind'), b.get('apiVersion'), sorted(b)] if isinstance(b, dict) else 'text', label='%s %s' % (label, accept[:70]))
    for include in ('Object', 'Metadata', 'None', 'Nope', ''):
        c.get(c.cm('a'), accept=TABLE, q={'includeObject': include}, sel=lambda b: [(r.get('object') or {}).get('kind') for r in b['rows']], label='include ' + include)
    c.patch(c.cm('a'), {'data': {'z': '1'}}, accept=POM, sel=lambda b: [b['kind'], sorted(b)], label='patch')
    c.post(c.cm(), cm('b'), accept=TABLE, sel=lambda b: b['kind'], label='create')
    c.delete(c.cm('b'), accept=POM, sel=lambda b: [b['kind'], sorted(b)], label='delete')


@sc('watch', 'tables-and-bookmarks')
def _(c):
    q = {'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'allowWatchBookmarks': 'true'}
    show = lambda e: [e['type'], dig(e, 'object.kind'), [x.get('name') for x in dig(e, 'object.columnDefinitions') or []], [[r['cells'], (r.get('object') or {}).get('kind'), dig(r, 'object.metadata.name')] for r in dig(e, 'object.rows') or []]]
    for gv, res in (('v1', 'secrets'), ('v1', 'pods'), (NET, 'ingresses'), ('v1', 'persistentvolumeclaims'), (AUTO, 'horizontalpodautoscalers'), ('apps/v1', 'statefulsets'), ('apps/v1', 'daemonsets')):
        c.watch(c.n(gv, res), q, n=1, accept=TABLE, sel=show, label='empty ' + res)
        c.watch(c.n(gv, res), q, n=1, accept=POM, sel=lambda e: [e['type'], e['object'].get('kind'), dig(e, 'object.metadata.annotations')], label='metadata of ' + res)
        c.watch(c.n(gv, res), q, n=1, sel=lambda e: [e['type'], sorted(e['object']), e['object'].get('kind')], label='objects of ' + res)
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's'))
    c.watch(c.n('v1', 'secrets'), q, n=2, accept=TABLE, sel=lambda e: [e['type'], [x.get('name') for x in dig(e, 'object.columnDefinitions') or []], [r['cells'][:3] for r in dig(e, 'object.rows') or []]], label='one and a bookmark')


@sc('watch', 'selectors-and-changes')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.mk(c.cm(), cm('a', labels={'s': '1'}))
    c.raw('PATCH', c.cm('a'), {'metadata': {'labels': {'s': '2'}}}, ct=MP)
    c.raw('PATCH', c.cm('a'), {'metadata': {'labels': {'s': '1'}}, 'data': {'n': '1'}}, ct=MP)
    c.raw('PATCH', c.cm('a'), {'metadata': {'finalizers': ['x.y/z']}}, ct=MP)
    c.raw('DELETE', c.cm('a'))
    c.raw('PATCH', c.cm('a'), {'metadata': {'finalizers': None}}, ct=MP)
    c.mk(c.cm(), cm('b', labels={'s': '2'}))
    show = lambda e: [e['type'], dig(e, 'object.kind'), dig(e, 'object.metadata.name'), dig(e, 'object.metadata.labels'), bool(dig(e, 'object.metadata.deletionTimestamp')), dig(e, 'object.data')]
    for s in ('s=1', 's=2', 's', '!s', 's!=1', 's in (1,2)', 's notin (1)'):
        c.watch(c.cm(), {'resourceVersion': rv, 'labelSelector': s}, timeout=0.5, sel=show, label='labels ' + s)
        c.watch(c.cm(), {'resourceVersion': rv, 'labelSelector': s}, timeout=0.5, accept=POM, sel=lambda e: show(e)[:5], label='metadata, labels ' + s)
    for s in ('metadata.name=a', 'metadata.name!=a', 'metadata.name=a,metadata.namespace=' + c.ns):
        c.watch(c.cm(), {'resourceVersion': rv, 'fieldSelector': s}, timeout=0.5, sel=show, label='fields ' + s.replace(c.ns, 'ns'))
    c.watch('/api/v1/configmaps', {'resourceVersion': rv, 'labelSelector': 's', 'fieldSelector': 'metadata.namespace=' + c.ns}, timeout=0.5, sel=show, label='all namespaces')
    c.watch('/api/v1/watch/namespaces/%s/configmaps/a' % c.ns, {'resourceVersion': rv}, timeout=0.5, sel=show, label='legacy path')


# ================================================================================================ delete
@sc('delete', 'collections-of-many-kinds')
def _(c):
    for gv, res, o in [('v1', 'secrets', obj('v1', 'Secret', 'x')), ('v1', 'services', svc('x')), ('apps/v1', 'deployments', dep('x', 0)), ('v1', 'podtemplates', obj('v1', 'PodTemplate', 'x', template={'spec': pspec()})), ('v1', 'limitranges', obj('v1', 'LimitRange', 'x', {'limits': []})), (RBAC, 'roles', obj(RBAC, 'Role', 'x', rules=[])), ('batch/v1', 'cronjobs', obj('batch/v1', 'CronJob', 'x', {'suspend': True, 'schedule': '* * * * *', 'jobTemplate': {'spec': job('x')['spec']}})), (NET, 'ingresses', obj(NET, 'Ingress', 'x', {'defaultBackend': {'service': {'name': 's', 'port': {'number': 80}}}}))]:
        c.mk(c.n(gv, res), o)
        c.delete(c.n(gv, res), q={'labelSelector': 'no=such'}, sel=lambda b: [b['kind'], names(b)], label='none of ' + res)
        c.delete(c.n(gv, res), q={'dryRun': 'All', 'fieldSelector': 'metadata.name=x'}, sel=lambda b: [b['kind'], names(b)], label='dry ' + res)
        c.delete(c.n(gv, res), {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'preconditions': {'uid': 'x'}}, q={'fieldSelector': 'metadata.name=x'}, sel=lambda b: [b['kind'], names(b)], label='precondition ' + res)
        c.delete(c.n(gv, res), {'propagationPolicy': 'Orphan'}, q={'fieldSelector': 'metadata.name=x'}, sel=lambda b: [b['kind'], names(b)], label='orphan ' + res)
        c.gone(c.n(gv, res, 'x'))
        c.get(c.n(gv, res, 'x'), sel=lambda b: b['metadata'].get('finalizers'), label='gone ' + res)
    for q in ({'limit': '1'}, {'resourceVersion': '0'}, {'labelSelector': 'a b'}, {'fieldSelector': 'x=y'}, {'gracePeriodSeconds': '-1'}, {'gracePeriodSeconds': 'x'}, {'propagationPolicy': 'Nope'}, {'orphanDependents': 'true', 'propagationPolicy': 'Orphan'}, {'dryRun': 'x'}, {'watch': 'true'}):
        c.delete(c.n('v1', 'secrets'), q=q, sel=lambda b: [b['kind'], names(b)], label='options %s' % json.dumps(q))


@sc('delete', 'owners-of-many-kinds')
def _(c):
    owner = c.raw('POST', c.cm(), cm('owner')).body
    ref = lambda **k: [dict({'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'owner', 'uid': owner['metadata']['uid']}, **k)]
    for i, (gv, res, o) in enumerate([('v1', 'secrets', obj('v1', 'Secret', 'x')), ('v1', 'services', svc('x')), ('apps/v1', 'deployments', dep('x', 0)), (RBAC, 'roles', obj(RBAC, 'Role', 'x', rules=[]))]):
        o['metadata']['ownerReferences'] = ref(blockOwnerDeletion=bool(i % 2), controller=True)
        c.mk(c.n(gv, res), o)
    for r in (ref(kind='Nope'), ref(apiVersion='nope/v1'), ref(uid=''), ref(name=''), ref(controller=True) + ref(controller=True, name='b', uid='c'), ref() + ref(), [{}], ref(apiVersion='v1/x/y'), ref(apiVersion='')):
        c.post(c.cm(), cm('r', ownerReferences=r), q={'dryRun': 'All'}, sel=lambda b: b['metadata']['ownerReferences'], label=json.dumps(r)[:100].replace(owner['metadata']['uid'], 'u'))
    c.delete(c.cm('owner'), {'propagationPolicy': 'Foreground'}, sel=lambda b: [b['kind'], dig(b, 'metadata.finalizers')])
    for gv, res in (('v1', 'secrets'), ('v1', 'services'), ('apps/v1', 'deployments'), (RBAC, 'roles'), ('v1', 'configmaps')):
        c.gone(c.n(gv, res, 'owner' if res == 'configmaps' else 'x'))
        c.get(c.n(gv, res, 'owner' if res == 'configmaps' else 'x'), sel=lambda b: b['kind'], label='after ' + res)


@sc('delete', 'namespace-lifecycle')
def _(c):
    n = 'nl-' + c.u
    p = '/api/v1/namespaces/' + n
    c.cleanup(p)
    c.post('/api/v1/namespaces', obj('v1', 'Namespace', n, {'finalizers': ['a.b/c']}, metadata={'name': n, 'labels': {'kubernetes.io/metadata.name': 'other', 'x': 'y'}}), sel=m.quiet)
    c.patch(p, {'metadata': {'labels': {'kubernetes.io/metadata.name': None}}}, sel=lambda b: b['metadata'].get('labels'))
    c.patch(p, {'spec': {'finalizers': []}}, sel=lambda b: b['spec'], label='spec by main')
    c.patch(p + '/status', {'status': {'phase': 'Terminating'}}, sel=lambda b: b['status'], label='phase by status')
    c.put(p + '/finalize', obj('v1', 'Namespace', n, {'finalizers': ['kubernetes', 'd.e/f']}), sel=lambda b: b['spec'], label='finalize')
    c.put(p + '/finalize', obj('v1', 'Namespace', n, {'finalizers': ['bad']}), label='bad finalizer')
    c.delete(p, sel=lambda b: [b['kind'], dig(b, 'status.phase'), dig(b, 'spec')])
    c.until(lambda: c.raw('GET', p)['spec.finalizers'] == ['d.e/f'], 15)
    c.get(p, sel=lambda b: [b['spec'], b['status'].get('phase'), sorted(x['type'] for x in b['status'].get('conditions') or [])])
    c.post(p + '/configmaps', cm('x'))
    c.delete(p, sel=lambda b: [b['kind'], dig(b, 'status.phase')], label='again')
    c.put(p + '/finalize', obj('v1', 'Namespace', n, {'finalizers': []}), sel=lambda b: b['spec'], label='let go')
    c.gone(p)
    c.get(p, sel=lambda b: b['kind'])
    for name in ('Bad', 'a.b', 'x' * 64, '-a', ''):
        c.post('/api/v1/namespaces', obj('v1', 'Namespace', name), q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='name %r' % name)
    c.post('/api/v1/namespaces', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'generateName': 'g-'}}, q={'dryRun': 'All'}, sel=lambda b: [b['metadata']['generateName'], sorted(b['metadata'].get('labels') or {})])


# ================================================================================================ custom resources
@sc('crd', 'formats-and-bounds')
def _(c):
    formats = ('date', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'cidr', 'mac', 'uri', 'uuid', 'uuid4', 'byte', 'int32', 'int64', 'float', 'double', 'password', 'isbn', 'hexcolor', 'rgbcolor', 'creditcard', 'ssn', 'bsonobjectid', 'nope')
    props = {'f' + f.replace('-', ''): {'type': 'integer' if f.startswith('int') else 'number' if f in ('float', 'double') else 'string', 'format': f} for f in formats}
    props.update(lo={'type': 'integer', 'minimum': 3, 'exclusiveMinimum': True}, hi={'type': 'number', 'maximum': 5.5}, mul={'type': 'integer', 'multipleOf': 3}, pat={'type': 'string', 'pattern': '^a+$'}, len={'type': 'string', 'minLength': 2, 'maxLength': 4}, items={'type': 'array', 'minItems': 1, 'maxItems': 2, 'items': {'type': 'string'}}, en={'type': 'string', 'enum': ['a', 'b']}, props={'type': 'object', 'minProperties': 1, 'maxProperties': 2, 'additionalProperties': {'type': 'string'}}, ios={'x-kubernetes-int-or-string': True}, nul={'type': 'string', 'nullable': True}, non={'type': 'string'}, any={'x-kubernetes-preserve-unknown-fields': True}, boo={'type': 'boolean'})
    p = mkcrd(c, crd(c, osch({'spec': osch(props, required=['boo'])})))
    for s in [{'fdate': 'x'}, {'fdate': '2020-01-01'}, {'fdatetime': '2020-01-01'}, {'fdatetime': '2020-01-01T00:00:00Z'}, {'fduration': '5x'}, {'fduration': '5m'}, {'femail': 'x'}, {'fhostname': 'a_b'}, {'fipv4': '::1'}, {'fipv6': '1.2.3.4'}, {'fcidr': '1.2.3.4'}, {'fmac': 'x'}, {'furi': ':'}, {'fuuid': 'x'}, {'fuuid4': '00000000-0000-1000-8000-000000000000'}, {'fbyte': '!'}, {'fint64': 9223372036854775807}, {'ffloat': 1.5}, {'fnope': 'x'}, {'fisbn': 'x'}, {'fhexcolor': 'x'}, {'frgbcolor': 'x'}, {'fcreditcard': 'x'}, {'fssn': 'x'}, {'fbsonobjectid': 'x'},
              {'lo': 3}, {'hi': 5.6}, {'mul': 4}, {'pat': 'b'}, {'len': 'a'}, {'len': 'abcde'}, {'items': []}, {'items': ['a', 'b', 'c']}, {'en': 'c'}, {'props': {}}, {'props': {'a': '1', 'b': '2', 'c': '3'}}, {'ios': 1.5}, {'ios': True}, {'ios': 'x'}, {'nul': None}, {'non': None}, {'any': [1, None, {'x': None}]}, {'boo': 'x'}, {'boo': 1}, {'lo': 4.5}, {'lo': 4.0}, {'lo': '4'}, {'items': {}}, {'items': 'x'}, {'items': [1]}, {'props': []}, {'props': {'a': 1}}]:
        c.post(p, cr(c, 'x', dict({'boo': True}, **s)), q={'dryRun': 'All'}, sel=lambda b: b['spec'], label=json.dumps(s))
    for s in (None, {}, [], 'x'):
        c.post(p, dict(cr(c, 'x'), spec=s), q={'dryRun': 'All'}, sel=lambda b: b.get('spec'), label='spec %s' % json.dumps(s))


@sc('crd', 'logic-and-defaults')
def _(c):
    schema = osch({'spec': osch({'a': {'type': 'string'}, 'b': {'type': 'integer'}, 'c': osch({'d': {'type': 'string', 'default': 'deep'}, 'e': {'type': 'integer'}}, default={'e': 5}), 'l': {'type': 'array', 'items': osch({'n': {'type': 'string', 'default': 'item'}, 'm': {'type': 'string'}})}, 'm': {'type': 'object', 'additionalProperties': osch({'q': {'type': 'boolean', 'default': True}})}, 'nl': {'type': 'string', 'nullable': True, 'default': 'x'}},
                                oneOf=[{'required': ['a']}, {'required': ['b']}], **{'not': {'required': ['a', 'nope']}})})
    p = mkcrd(c, crd(c, schema))
    for s in ({'a': 'x'}, {'b': 1}, {'a': 'x', 'c': {}}, {'a': 'x', 'c': None}, {'a': 'x', 'c': {'d': None}}, {'a': 'x', 'l': [{}, {'n': 'y'}, {'m': 'z', 'zzz': 1}]}, {'a': 'x', 'm': {'k': {}, 'j': {'q': False}}}, {'a': 'x', 'nl': None}, {'a': 'x', 'l': [None]}, {'a': 'x', 'unknown': {'deep': 1}}):
        for v in ('Strict', 'Warn', 'Ignore'):
            c.post(p, cr(c, 'x', s), q={'dryRun': 'All', 'fieldValidation': v}, sel=lambda b: b.get('spec'), label='%s %s' % (v, json.dumps(s)))


@sc('crd', 'cel-of-many-kinds')
def _(c):
    R = lambda rule, **k: dict({'rule': rule}, **k)
    spec = osch({'min': {'type': 'integer'}, 'max': {'type': 'integer'}, 'name': {'type': 'string', 'maxLength': 50, 'x-kubernetes-validations': [R("self.startsWith('a')", message='must start with a', reason='FieldValueForbidden'), R("self == oldSelf", message='frozen')]}, 'list': {'type': 'array', 'maxItems': 5, 'items': {'type': 'string', 'maxLength': 10}, 'x-kubernetes-validations': [R("self.all(x, size(x) < 3)", messageExpression="'too ' + 'long'"), R("self.exists_one(x, x == 'k')", message='one k')]},
                 'map': {'type': 'object', 'maxProperties': 3, 'additionalProperties': {'type': 'string', 'maxLength': 5}, 'x-kubernetes-validations': [R("!('no' in self)", fieldPath='.no', message='no no') if False else R("!('no' in self)", message='no no')]}, 'when': {'type': 'string', 'format': 'date-time', 'maxLength': 30, 'x-kubernetes-validations': [R("self > timestamp('2020-01-01T00:00:00Z')")]}, 'dur': {'type': 'string', 'format': 'duration', 'maxLength': 30, 'x-kubernetes-validations': [R("self <= duration('1h')", message='short')]}, 'q': {'x-kubernetes-int-or-string': True, 'x-kubernetes-validations': [R("type(self) == int ? self < 5 : self == 'x'", message='small')]}, 'opt': {'type': 'string', 'maxLength': 5}},
                **{'x-kubernetes-validations': [R('!has(self.min) || !has(self.max) || self.min <= self.max', message='min over max', fieldPath='.min'), R("!has(self.opt) || self.opt.matches('^[a-z]+$')"), R("has(oldSelf.opt) ? has(self.opt) : true", message='opt stays')]})
    p = mkcrd(c, crd(c, osch({'spec': spec}, **{'x-kubernetes-validations': [R("self.metadata.name.size() < 6", message='short names'), R("!has(self.spec) || !has(self.spec.name) || self.spec.name != self.metadata.name")]})))
    for n, s in (('x', {'min': 1, 'max': 2}), ('x', {'min': 3, 'max': 2}), ('x', {'name': 'b'}), ('x', {'name': 'ab'}), ('ab', {'name': 'ab'}), ('longname', {}), ('x', {'list': ['k', 'abc']}), ('x', {'list': ['k', 'k']}), ('x', {'list': ['k']}), ('x', {'map': {'no': 'x'}}), ('x', {'when': '2019-01-01T00:00:00Z'}), ('x', {'when': '2021-01-01T00:00:00Z'}), ('x', {'dur': '2h'}), ('x', {'q': 7}), ('x', {'q': 'y'}), ('x', {'q': 'x'}), ('x', {'opt': 'A'}), ('x', {'min': 3, 'max': 2, 'name': 'b', 'list': []})):
        c.post(p, cr(c, n, s), q={'dryRun': 'All'}, sel=lambda b: b['spec'], label='%s %s' % (n, json.dumps(s)))
    c.mk(p, cr(c, 'u', {'name': 'ab', 'opt': 'a', 'min': 1}))
    for s in ({'spec': {'name': 'ac'}}, {'spec': {'opt': None}}, {'spec': {'min': None}}, {'spec': {'max': 0}}, {'metadata': {'labels': {'x': 'y'}}}, {'spec': {'name': None}}):
        c.patch(p + '/u', s, q={'dryRun': 'All'}, sel=lambda b: b['spec'], label=json.dumps(s))


@sc('crd', 'scale-and-status-corners')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({'n': {'type': 'integer'}, 'sel': {'type': 'string'}}), 'status': osch({'n': {'type': 'integer', 'minimum': 0}, 'sel': {'type': 'string'}, 'd': {'type': 'string', 'default': 'dd'}})}), subresources={'status': {}, 'scale': {'specReplicasPath': '.spec.n', 'statusReplicasPath': '.status.n', 'labelSelectorPath': '.status.sel'}}))
    c.post(p, cr(c, 'x', {'n': 2}, status={'n': 7}), sel=m.quiet)
    c.get(p + '/x/scale', sel=m.quiet)
    c.patch(p + '/x/status', {'status': {'n': 3, 'sel': 'a=b'}}, sel=lambda b: [b.get('status'), b['metadata']['generation']])
    c.patch(p + '/x/status', {'spec': {'n': 9}, 'metadata': {'labels': {'l': 'm'}}}, sel=lambda b: [b['spec'], b['metadata'].get('labels')], label='spec by status')
    c.get(p + '/x/scale', sel=m.quiet, label='with a selector')
    c.patch(p + '/x/scale', {'spec': {'replicas': 5}}, sel=m.quiet, label='scale')
    c.patch(p + '/x/scale', {'spec': {'replicas': -5}}, label='negative')
    c.put(p + '/x/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'x', 'namespace': c.ns}, 'spec': {'replicas': 6}}, sel=m.quiet, label='put scale')
    c.get(p + '/x', sel=lambda b: [b['spec'], b['metadata']['generation'], mf(b)])
    c.mk(p, cr(c, 'y', {}))
    c.get(p + '/y/scale', sel=m.quiet, label='nothing to scale')
    c.patch(p + '/y/scale', {'spec': {'replicas': 1}}, sel=m.quiet, label='scale from nothing')
    c.apply(p + '/x/status', cr(c, 'x', status={'n': 1}), fm='st', sel=lambda b: [b.get('status'), mf(b)])
    c.apply(p + '/x', cr(c, 'x', {'n': 1}, status={'n': 9}), fm='sp', force=True, sel=lambda b: [b['spec'], b.get('status'), mf(b)])
    c.post(p, dict(cr(c, 'z'), status={'n': -1}), q={'dryRun': 'All'}, sel=lambda b: b.get('status'), label='status is dropped first')


# ================================================================================================ the rest
@sc('misc', 'binding-and-eviction')
def _(c):
    c.mk(c.pods(), pod('p', dict(pspec(), schedulerName='nobody')))
    B = lambda **k: dict({'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'p'}, 'target': {'apiVersion': 'v1', 'kind': 'Node', 'name': 'nope-node'}}, **k)
    for label, o in (('other kind', B(target={'kind': 'Pod', 'name': 'x'})), ('no name', B(target={'kind': 'Node'})), ('other pod', B(metadata={'name': 'q'})), ('wrong uid', B(metadata={'name': 'p', 'uid': 'x'}))):
        c.post(c.pods('p') + '/binding', o, q={'dryRun': 'All'}, sel=status_only if False else None, label=label)
    c.post(c.pods('absent') + '/binding', B(metadata={'name': 'absent'}), label='absent pod')
    c.get(c.pods('p') + '/binding', label='get')
    E = lambda **k: dict({'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'p', 'namespace': c.ns}}, **k)
    c.post(c.pods('p') + '/eviction', E(), q={'dryRun': 'All'}, label='dry evict')
    c.post(c.pods('p') + '/eviction', E(deleteOptions={'preconditions': {'uid': 'x'}}), label='precondition')
    c.post(c.pods('p') + '/eviction', E(metadata={'name': 'other', 'namespace': c.ns}), label='other name')
    c.post(c.pods('p') + '/eviction', E(kind='Nope'), label='other kind')
    c.post(c.pods('absent') + '/eviction', E(metadata={'name': 'absent'}), label='absent')
    c.post(c.pods('p') + '/eviction', E(apiVersion='policy/v1beta1'), label='old version')
    c.post(c.pods('p') + '/eviction', E(), label='evict')
    c.get(c.pods('p'), sel=lambda b: b['kind'], label='evicted')


@sc('misc', 'ephemeral-and-resize')
def _(c):
    c.mk(c.pods(), pod('p', dict(pspec(), schedulerName='nobody')))
    live = c.raw('GET', c.pods('p')).body
    p = c.pods('p')
    c.patch(p + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'd', 'image': 'busybox'}]}}, ct=SMP, sel=lambda b: b['spec'].get('ephemeralContainers'))
    c.patch(p + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'd', 'image': 'other'}]}}, ct=SMP, label='change one')
    c.patch(p + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'c', 'image': 'other'}]}}, ct=SMP, label='taken name')
    c.patch(p + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'e', 'image': 'i', 'ports': [{'containerPort': 1}], 'livenessProbe': {'exec': {'command': ['x']}}}]}}, ct=SMP, label='not allowed there')
    c.patch(p + '/ephemeralcontainers', {'spec': {'containers': [{'name': 'c', 'image': 'new'}]}}, ct=SMP, sel=lambda b: b['spec']['containers'][0]['image'], label='others by it')
    c.get(p + '/ephemeralcontainers', sel=lambda b: b['kind'])
    c.patch(p + '/resize', {'spec': {'containers': [{'name': 'c', 'resources': {'requests': {'cpu': '1'}}}]}}, ct=SMP, label='resize', sel=lambda b: b['spec']['containers'][0]['resources'])
    c.patch(p + '/resize', {'spec': {'containers': [{'name': 'c', 'image': 'other'}]}}, ct=SMP, label='image by resize', sel=lambda b: b['spec']['containers'][0]['image'])
    c.patch(p, {'spec': {'containers': [{'name': 'c', 'resources': {'requests': {'cpu': '1'}}}]}}, ct=SMP, label='resources by the pod')


@sc('misc', 'tokens-and-accounts')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'sa'))
    p = c.n('v1', 'serviceaccounts', 'sa') + '/token'
    T = lambda **s: {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': s}
    show = lambda b: [b['spec'], sorted(b['status']), b['status']['token'].count('.')]
    for s in ({}, {'audiences': ['a']}, {'expirationSeconds': 10}, {'expirationSeconds': 600}, {'expirationSeconds': 1 << 33}, {'expirationSeconds': -1}, {'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'nope'}}, {'boundObjectRef': {'kind': 'Secret', 'apiVersion': 'v1', 'name': 'nope'}}, {'boundObjectRef': {'kind': 'ConfigMap', 'apiVersion': 'v1', 'name': 'x'}}, {'audiences': []}):
        c.post(p, T(**s), sel=show, label=json.dumps(s))
    c.post(c.n('v1', 'serviceaccounts', 'absent') + '/token', T(), label='absent')
    c.post(p, dict(T(), kind='Nope'), label='other kind')
    c.post(p, dict(T(), metadata={'name': 'other'}), label='other name', sel=lambda b: b['kind'])
    c.get(p, label='get')
    token = c.raw('POST', p, T()).body['status']['token']
    c.post('/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': {'token': token}}, sel=lambda b: [b['status'].get('authenticated'), dig(b, 'status.user.username'), sorted(dig(b, 'status.user.groups', [])), sorted(dig(b, 'status.user.extra', {}))])
    for t in ('', 'nope', 'a.b.c'):
        c.post('/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': {'token': t}}, sel=lambda b: [b['status'].get('authenticated'), b['status'].get('error')], label='token %r' % t)
    h = {'Authorization': 'Bearer ' + token}
    c.post('/apis/authentication.k8s.io/v1/selfsubjectreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}, headers=h, sel=lambda b: [dig(b, 'status.userInfo.username'), sorted(dig(b, 'status.userInfo.groups', []))])


@sc('misc', 'roles-at-work')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'sa'))
    c.mk(c.n(RBAC, 'roles'), obj(RBAC, 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['configmaps'], 'verbs': ['get', 'list', 'watch']}, {'apiGroups': [''], 'resources': ['configmaps'], 'resourceNames': ['mine'], 'verbs': ['update', 'patch', 'delete']}, {'apiGroups': ['apps'], 'resources': ['deployments/scale'], 'verbs': ['patch', 'get']}]))
    c.mk(c.n(RBAC, 'rolebindings'), obj(RBAC, 'RoleBinding', 'b', roleRef={'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Role', 'name': 'r'}, subjects=[{'kind': 'ServiceAccount', 'name': 'sa', 'namespace': c.ns}]))
    c.mk(c.cm(), cm('mine'))
    c.mk(c.cm(), cm('other'))
    c.mk(c.dep(), dep('d', 0))
    user = 'system:serviceaccount:%s:sa' % c.ns
    h = {'Impersonate-User': user}
    c.until(lambda: c.raw('GET', c.cm('mine'), headers=h).code == 200, 5)
    for label, f in (('get', lambda: c.get(c.cm('mine'), headers=h, sel=lambda b: b['kind'])), ('list', lambda: c.get(c.cm(), headers=h, sel=lambda b: b['kind'])), ('all namespaces', lambda: c.get('/api/v1/configmaps', headers=h)), ('create', lambda: c.post(c.cm(), cm('n'), headers=h)), ('patch mine', lambda: c.patch(c.cm('mine'), {'data': {'x': '1'}}, headers=h, sel=lambda b: b['data'])), ('patch other', lambda: c.patch(c.cm('other'), {'data': {'x': '1'}}, headers=h)), ('apply new', lambda: c.req('PATCH', c.cm('mine2'), cm('mine2'), ct=AP, q={'fieldManager': 'm'}, headers=h)), ('delete all', lambda: c.delete(c.cm(), headers=h)), ('secrets', lambda: c.get(c.n('v1', 'secrets'), headers=h)), ('scale', lambda: c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 0}}, headers=h, sel=lambda b: b['kind'])), ('deployment', lambda: c.get(c.dep('d'), headers=h)), ('unknown', lambda: c.get(c.n('v1', 'nopes'), headers=h)), ('version', lambda: c.get('/version', headers=h, sel=lambda b: 'ok')), ('metrics', lambda: c.get('/metrics', headers=h)), ('put new', lambda: c.put(c.n('v1', 'services', 'n'), svc('n'), headers=h)),
                     ('bind more', lambda: c.post(c.n(RBAC, 'rolebindings'), obj(RBAC, 'RoleBinding', 'c', roleRef={'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'admin'}, subjects=[]), headers=h))):
        f()
    A = lambda **k: {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SubjectAccessReview', 'spec': {'user': user, 'resourceAttributes': dict({'namespace': c.ns}, **k)}}
    for k in ({'verb': 'get', 'resource': 'configmaps'}, {'verb': 'update', 'resource': 'configmaps'}, {'verb': 'update', 'resource': 'configmaps', 'name': 'mine'}, {'verb': 'patch', 'group': 'apps', 'resource': 'deployments', 'subresource': 'scale'}, {'verb': '*', 'resource': '*'}, {'verb': 'get', 'resource': 'configmaps', 'namespace': ''}):
        c.post('/apis/authorization.k8s.io/v1/subjectaccessreviews', A(**k), sel=lambda b: [b['status'].get('allowed'), bool(b['status'].get('reason'))], label=json.dumps(k))
    c.post('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SelfSubjectRulesReview', 'spec': {'namespace': c.ns}}, headers=h, sel=lambda b: sorted(json.dumps(x, sort_keys=True) for x in b['status']['resourceRules'] if 'configmaps' in str(x) or 'scale' in str(x)))
    c.post('/apis/authorization.k8s.io/v1/namespaces/%s/localsubjectaccessreviews' % c.ns, dict(A(verb='get', resource='configmaps'), kind='LocalSubjectAccessReview'), sel=lambda b: b['status'].get('allowed'), label='local')
    c.post('/apis/authorization.k8s.io/v1/namespaces/%s/localsubjectaccessreviews' % c.ns, dict(A(verb='get', resource='configmaps', namespace='x'), kind='LocalSubjectAccessReview'), label='local elsewhere')


@sc('misc', 'events-of-all-forms')
def _(c):
    p, q = c.n('v1', 'events'), c.n('events.k8s.io/v1', 'events')
    old = lambda n, **k: dict({'apiVersion': 'v1', 'kind': 'Event', 'metadata': {'name': n}, 'involvedObject': {'kind': 'Pod', 'namespace': c.ns, 'name': 'p'}, 'reason': 'R', 'type': 'Normal'}, **k)
    new = lambda n, **k: dict({'apiVersion': 'events.k8s.io/v1', 'kind': 'Event', 'metadata': {'name': n}, 'regarding': {'kind': 'Pod', 'namespace': c.ns, 'name': 'p'}, 'reason': 'R', 'type': 'Normal', 'eventTime': '2024-01-01T00:00:00.000000Z', 'action': 'A', 'reportingController': 'a.b/c', 'reportingInstance': 'i', 'note': 'n'}, **k)
    c.post(p, old('a', count=2, firstTimestamp='2024-01-01T00:00:00Z', source={'component': 'x'}), sel=m.quiet)
    c.get(q + '/a', sel=m.quiet, label='old as new')
    c.post(q, new('b'), sel=m.quiet)
    c.get(p + '/b', sel=m.quiet, label='new as old')
    for label, path, o in (('no type', q, new('x', type='')), ('odd type', q, new('x', type='Nope')), ('no time', q, new('x', eventTime=None)), ('no action', q, new('x', action='')), ('no reason', q, new('x', reason='')), ('long note', q, new('x', note='n' * 1025)), ('long reason', q, new('x', reason='n' * 129)), ('odd controller', q, new('x', reportingController='a b')), ('no instance', q, new('x', reportingInstance='')), ('deprecated', q, new('x', deprecatedCount=3)), ('series', q, new('x', series={'count': 1, 'lastObservedTime': '2024-01-01T00:00:00.000000Z'})), ('other namespace', p, old('x', involvedObject={'kind': 'Pod', 'namespace': 'nope'})), ('cluster object', p, old('x', involvedObject={'kind': 'Node', 'name': 'n'})), ('odd old type', p, old('x', type='Nope')), ('old with time', p, old('x', eventTime='2024-01-01T00:00:00.000000Z'))):
        c.post(path, o, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label=label)
    c.patch(q + '/b', {'series': {'count': 3, 'lastObservedTime': '2024-01-01T00:00:00.000000Z'}}, sel=lambda b: b.get('series'), label='count on')
    c.patch(q + '/b', {'note': 'other'}, label='change the note')
    c.patch(p + '/a', {'count': 3}, ct=SMP, sel=lambda b: b['count'], label='count old')
    for s in ('involvedObject.name=p', 'regarding.name=p', 'reason=R,type=Normal', 'source=x', 'reportingController=a.b/c'):
        c.get(p, q={'fieldSelector': s}, sel=lambda b: sorted(names(b)), label='old by ' + s)
        c.get(q, q={'fieldSelector': s}, sel=lambda b: sorted(names(b)), label='new by ' + s)
    c.get(p, accept=TABLE, sel=lambda b: [[x['name'] for x in b['columnDefinitions']], len(b['rows'])])
    c.get(q, accept=TABLE, sel=lambda b: [[x['name'] for x in b['columnDefinitions']], len(b['rows'])], label='new table')


@sc('misc', 'error-bodies')
def _(c):
    for method, path, body in (('GET', '/api/v1/namespaces/%s/pods/x/nope' % c.ns, None), ('GET', c.pods('x') + '/log', None), ('GET', c.pods('x') + '/exec', None), ('POST', c.pods('x') + '/exec', None), ('GET', c.pods('x') + '/proxy/', None), ('GET', '/api/v1/nodes/none/proxy/x', None), ('PUT', c.cm(), cm('x')), ('POST', c.cm('x'), cm('x')), ('PATCH', c.cm(), {}), ('DELETE', '/api/v1', None), ('POST', '/version', {}), ('GET', '/apis/nope.io/v1', None), ('GET', '/apis/apps/v9', None), ('GET', '/apis/apps/v1/nope', None), ('GET', '/api/v1/namespaces/x/nodes', None), ('GET', '/api/v1/nodes/a/b/c', None), ('GET', '/apis/apps/v1/deployments/x', None), ('POST', '/apis/apps/v1/deployments', dep('x')), ('POST', '/api/v1/configmaps', cm('x')), ('GET', '/api/v1/namespaces/%s' % ('x' * 300), None), ('GET', '/api/v1/componentstatuses', None), ('GET', '/api//v1/pods', None), ('GET', '/API/v1', None), ('TRACE', c.cm(), None), ('OPTIONS', c.cm(), None), ('HEAD', c.cm(), None), ('NOPE', c.cm(), None)):
        c.req(method, path, body, ct=MP if method == 'PATCH' else None, sel=lambda b: b.get('kind') if isinstance(b, dict) else 'text', label='%s %s' % (method, path.replace(c.ns, 'ns')[:80]))
    for h in ({'Accept': 'text/html'}, {'Accept': 'application/xml, */*;q=0.1'}, {'Accept': ''}, {'Accept': 'application/json;q=0'}, {'Accept': 'application/yaml'}, {'Accept': 'text/*'}, {'Accept': 'application/*'}, {'Accept': 'application/json;stream=watch'}, {'Accept': 'nonsense'}):
        c.req('GET', c.cm('kube-root-ca.crt'), headers=h, sel=lambda b: b.get('kind') if isinstance(b, dict) else 'text', label=json.dumps(h))
    for ct in ('text/plain', 'application/json;charset=utf-8', 'application/JSON', 'application/yaml', 'text/yaml', '', 'application/', 'multipart/form-data'):
        c.req('POST', c.cm(), json.dumps(cm('ct')), q={'dryRun': 'All'}, headers={'Content-Type': ct}, sel=lambda b: b['kind'], label='content type %r' % ct)


@sc('misc', 'names-and-generated-names')
def _(c):
    for gv, res, o in (('v1', 'configmaps', cm('x')), ('v1', 'services', svc('x')), ('v1', 'serviceaccounts', obj('v1', 'ServiceAccount', 'x')), (RBAC, 'roles', obj(RBAC, 'Role', 'x', rules=[])), ('apps/v1', 'deployments', dep('x', 0)), ('apps/v1', 'statefulsets', sts('x', 0)), ('batch/v1', 'cronjobs', obj('batch/v1', 'CronJob', 'x', {'suspend': True, 'schedule': '* * * * *', 'jobTemplate': {'spec': job('x')['spec']}})), (NET, 'ingresses', obj(NET, 'Ingress', 'x', {'defaultBackend': {'service': {'name': 's', 'port': {'number': 80}}}})), ('v1', 'pods', pod('x')), ('v1', 'persistentvolumeclaims', obj('v1', 'PersistentVolumeClaim', 'x', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}}})), ('v1', 'limitranges', obj('v1', 'LimitRange', 'x', {'limits': []})), ('apps/v1', 'daemonsets', ds('x')), ('batch/v1', 'jobs', job('x')), ('policy/v1', 'poddisruptionbudgets', obj('policy/v1', 'PodDisruptionBudget', 'x', {'selector': {}}))):
        for n in ('A', 'a_b', 'a.b', '1a', '-a', 'a' * 64, 'a' * 254, 'a:b', 'a/b', '..', 'a..b', 'a%b'):
            c.post(c.n(gv, res), dict(copy.deepcopy(o), metadata={'name': n}), q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='%s %s' % (res, n[:20]))
        c.post(c.n(gv, res), dict(copy.deepcopy(o), metadata={'generateName': 'Bad_'}), q={'dryRun': 'All'}, sel=status_only, label=res + ' generated bad')
        c.post(c.n(gv, res), dict(copy.deepcopy(o), metadata={'generateName': 'x' * 70}), q={'dryRun': 'All'}, sel=status_only, label=res + ' generated long')
        c.post(c.n(gv, res), dict(copy.deepcopy(o), metadata={}), q={'dryRun': 'All'}, label=res + ' no name')


@sc('misc', 'openapi-documents')
def _(c):
    c.get('/openapi/v3', sel=lambda b: sorted(k for k in b['paths'] if '.example.com' not in k and 'openid' not in k))
    c.get('/openapi/v3/apis/nope/v1', sel=lambda b: 'x')


# ================================================================================================ seldom asked
def watch_first(c, path, q, accept, n, sel, label):
    c.watch(path, dict({'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'allowWatchBookmarks': 'true', 'resourceVersion': ''}, **q), n=n, timeout=4, accept=accept, sel=sel, label=label)


@sc('watch', 'bookmark-cells-of-many-kinds')
def _(c):
    for gv, res in (('v1', 'configmaps'), ('v1', 'services'), ('v1', 'pods'), ('v1', 'secrets'), ('v1', 'nodes'), ('v1', 'namespaces'), ('v1', 'events'), ('v1', 'endpoints'), ('v1', 'serviceaccounts'), ('v1', 'persistentvolumeclaims'), ('v1', 'persistentvolumes'), ('v1', 'replicationcontrollers'), ('v1', 'limitranges'), ('v1', 'resourcequotas'), ('apps/v1', 'deployments'), ('apps/v1', 'replicasets'), ('apps/v1', 'statefulsets'), ('apps/v1', 'daemonsets'), ('batch/v1', 'jobs'), ('batch/v1', 'cronjobs'),
                    (AUTO, 'horizontalpodautoscalers'), (NET, 'ingresses'), (NET, 'networkpolicies'), (NET, 'ingressclasses'), (RBAC, 'roles'), (RBAC, 'rolebindings'), (RBAC, 'clusterroles'), ('policy/v1', 'poddisruptionbudgets'), ('storage.k8s.io/v1', 'storageclasses'), ('coordination.k8s.io/v1', 'leases'), ('discovery.k8s.io/v1', 'endpointslices'), ('scheduling.k8s.io/v1', 'priorityclasses'), ('apiextensions.k8s.io/v1', 'customresourcedefinitions')):
        path = ('/api/v1/' if gv == 'v1' else '/apis/' + gv + '/') + res
        watch_first(c, path, {'labelSelector': 'nobody=has'}, TABLE, 1, lambda e: [e['type'], [[x['name'] for x in e['object'].get('columnDefinitions') or []], [r['cells'] for r in e['object'].get('rows') or []], dig(e, 'object.rows.0.object.metadata.annotations'), sorted(dig(e, 'object.rows.0.object', {}))]], res)
    watch_first(c, c.cm(), {'fieldSelector': 'metadata.name=kube-root-ca.crt'}, POM, 2, lambda e: [e['type'], e['object']['kind'], e['object']['apiVersion'], dig(e, 'object.metadata.annotations')], 'metadata')


@sc('crud', 'metadata-views-of-what-is-not-there')
def _(c):
    for accept in (TABLE, POM, 'application/json;as=Table;v=v1;g=meta.k8s.io', 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io', 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io', 'application/json;as=Table;v=v1beta1;g=meta.k8s.io', 'application/json;as=Nope;v=v1;g=meta.k8s.io'):
        for path in (c.cm('absent'), c.cm(), '/api/v1/namespaces/%s/nopes' % c.ns, '/api/v1/namespaces/absent-ns/configmaps', '/api/v1/namespaces/absent-ns/configmaps/x', '/apis/nope/v1/things', c.dep('absent') + '/scale', c.dep('absent') + '/status', c.pods('absent') + '/log', '/version', '/api/v1', '/openapi/v2/x'):
            c.get(path, accept=accept, sel=lambda b: [b.get('kind'), b.get('apiVersion')] if isinstance(b, dict) else 'text', label='%s %s' % (accept[20:60], path.replace(c.ns, 'ns')))


@sc('ssa', 'scale-at-nothing')
def _(c):
    S = lambda n, **m_: {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': dict({'name': 'd'}, **m_), 'spec': {'replicas': n}}
    c.mk(c.dep(), dep('d', 0))
    c.apply(c.dep('d') + '/scale', S(0), fm='a', label='the same')
    c.apply(c.dep('d') + '/scale', S(0), fm='a', force=True, sel=m.quiet, label='by force')
    c.get(c.dep('d'), sel=mf)
    c.apply(c.dep('d') + '/scale', S(1), fm='b', label='conflict')
    c.apply(c.dep('d') + '/scale', S(1), fm='b', force=True, q={'dryRun': 'All'}, sel=m.quiet, label='forced')
    c.apply(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd'}}, fm='a', q={'dryRun': 'All'}, sel=m.quiet, label='given up')
    c.get(c.dep('d') + '/scale', accept=TABLE, sel=tab, label='as a table')
    c.get(c.dep('d') + '/scale', accept=POM, sel=lambda b: [b['kind'], b['apiVersion'], sorted(b)], label='as metadata')
    c.put(c.dep('d') + '/scale', S(0, namespace=c.ns), accept=TABLE, q={'dryRun': 'All'}, sel=tab, label='put as a table')


@sc('crd', 'schema-error-texts')
def _(c):
    i = lambda **k: dict({'type': 'integer'}, **k)
    spec = {'one': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True, 'oneOf': [{'required': ['a']}, {'required': ['b']}]}, 'any': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True, 'anyOf': [{'required': ['a']}, {'required': ['b']}]}, 'not': {'type': 'string', 'not': {'enum': ['x']}}, 'all': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True, 'allOf': [{'required': ['a']}, {'required': ['b']}]},
            'i32': i(format='int32'), 'i64': i(format='int64'), 'f': {'type': 'number', 'format': 'float'}, 'mult': i(multipleOf=3), 'ex': i(minimum=1, exclusiveMinimum=True, maximum=9, exclusiveMaximum=True), 'n': {'type': 'string', 'nullable': True}, 'is': {'x-kubernetes-int-or-string': True}, 'date': {'type': 'string', 'format': 'date-time'}, 'mail': {'type': 'string', 'format': 'email'}, 'uri': {'type': 'string', 'format': 'uri'}, 'ip': {'type': 'string', 'format': 'ipv4'}, 'dur': {'type': 'string', 'format': 'duration'}, 'byte': {'type': 'string', 'format': 'byte'}, 'uuid': {'type': 'string', 'format': 'uuid'},
            'len': {'type': 'string', 'minLength': 2, 'maxLength': 3}, 'pat': {'type': 'string', 'pattern': '^a+$'}, 'en': {'type': 'string', 'enum': ['a', 'b']}, 'arr': {'type': 'array', 'minItems': 1, 'maxItems': 2, 'items': {'type': 'string'}}, 'set': {'type': 'array', 'x-kubernetes-list-type': 'set', 'items': {'type': 'string'}}, 'map': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'], 'items': osch({'k': {'type': 'string'}, 'v': i()}, required=['k'])}, 'ap': {'type': 'object', 'minProperties': 1, 'maxProperties': 2, 'additionalProperties': i()}, 'bool': {'type': 'boolean'}, 'tpl': {'type': 'object', 'x-kubernetes-embedded-resource': True, 'x-kubernetes-preserve-unknown-fields': True}}
    p = mkcrd(c, crd(c, osch({'spec': osch(spec), 'status': osch({'n': i(minimum=0), 'l': {'type': 'array', 'items': i()}})}), subresources={'status': {}}))
    for s in ({'one': {}}, {'one': {'a': 1, 'b': 2}}, {'one': {'a': 1}}, {'any': {}}, {'not': 'x'}, {'all': {'a': 1}}, {'i32': 1 << 31}, {'i32': -(1 << 31) - 1}, {'i32': 1.5}, {'i32': '1'}, {'i64': 1 << 63}, {'i64': 1e3}, {'f': 1e39}, {'f': 'x'}, {'mult': 4}, {'ex': 1}, {'ex': 9}, {'n': None}, {'n': 1}, {'is': True}, {'is': 'x'}, {'is': 1.5}, {'date': 'x'}, {'date': '2024-01-01T00:00:00Z'}, {'mail': 'x'}, {'uri': 'x y'}, {'ip': '1.2.3'}, {'dur': '1'}, {'byte': '?'}, {'uuid': 'x'}, {'len': 'a'}, {'len': 'aaaa'}, {'pat': 'b'}, {'en': 'c'}, {'arr': []}, {'arr': ['a', 'b', 'c']}, {'arr': [1]}, {'arr': 'x'}, {'set': ['a', 'a']}, {'map': [{'v': 1}]}, {'map': [{'k': 'a'}, {'k': 'a'}]}, {'ap': {}}, {'ap': {'a': 1, 'b': 2, 'c': 3}}, {'ap': {'a': 'x'}}, {'bool': 'true'}, {'bool': 1}, {'tpl': {}}, {'tpl': {'apiVersion': 'v1', 'kind': 'X', 'metadata': {'name': 'A b'}}}):
        c.post(p, cr(c, 'x', s), q={'dryRun': 'All'}, sel=lambda b: b['spec'], label=json.dumps(s))
    c.mk(p, cr(c, 's', {}))
    for s in ({'n': -1}, {'n': 'x'}, {'l': ['x']}, {'l': {}}, {'nope': 1}, None, 5):
        c.patch(p + '/s/status', {'status': s}, q={'dryRun': 'All'}, sel=lambda b: b.get('status'), label='status ' + json.dumps(s))
    c.patch(p + '/s/status', {'spec': {'i32': 'x'}}, q={'dryRun': 'All'}, sel=lambda b: b['spec'], label='spec by status')
    c.patch(p + '/s', {'status': {'n': -1}}, q={'dryRun': 'All'}, sel=lambda b: b.get('status'), label='status by main')


@sc('misc', 'tokens-of-other-audiences')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'sa'))
    token = lambda *a: c.raw('POST', c.n('v1', 'serviceaccounts', 'sa') + '/token', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {'audiences': list(a)}}).body['status']['token']
    for mine in ((), ('x',), ('x', 'y')):
        t = token(*mine)
        for asked in (None, [], ['x'], ['y'], ['x', 'y'], ['z'], ['https://kubernetes.default.svc.cluster.local'], ['x', 'https://kubernetes.default.svc.cluster.local']):
            spec = {'token': t}
            if asked is not None:
                spec['audiences'] = asked
            c.post('/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': spec}, sel=lambda b: [b['status'].get('authenticated'), dig(b, 'status.user.username'), b['status'].get('audiences'), b['status'].get('error')], label='%s %s' % (mine, asked))
        c.post('/apis/authentication.k8s.io/v1/selfsubjectreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}, headers={'Authorization': 'Bearer ' + t}, sel=lambda b: dig(b, 'status.userInfo.username'), label='use of %s' % (mine,))


@sc('update', 'ephemeral-containers-by-the-pod')
def _(c):
    c.mk(c.pods(), pod('p', dict(pspec(), schedulerName='nobody')))
    p, e = c.pods('p'), [{'name': 'd', 'image': 'busybox', 'targetContainerName': 'c'}]
    c.patch(p, {'spec': {'ephemeralContainers': e}}, ct=SMP, label='added by the pod')
    c.patch(p, {'spec': {'ephemeralContainers': e}}, ct=MP, label='by a merge')
    c.apply(p, {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}, 'spec': {'ephemeralContainers': e}}, fm='x', label='applied')
    c.patch(p + '/ephemeralcontainers', {'spec': {'ephemeralContainers': e}}, ct=SMP, sel=lambda b: [b['spec']['ephemeralContainers'], b['metadata'].get('generation')])
    c.patch(p, {'spec': {'ephemeralContainers': [{'name': 'd', 'image': 'other'}]}}, ct=SMP, label='changed by the pod')
    c.patch(p, {'spec': {'ephemeralContainers': None}}, ct=MP, label='removed by the pod', sel=lambda b: b['spec'].get('ephemeralContainers'))
    c.post(c.pods(), pod('q', dict(pspec(), ephemeralContainers=e)), label='with a new pod')
    c.get(p, sel=lambda b: [b['spec'].get('ephemeralContainers'), b['metadata'].get('generation')])


@sc('list', 'bad-continue-tokens')
def _(c):
    import base64
    for i in range(3):
        c.mk(c.cm(), cm('c%d' % i))
    rv = int(c.raw('GET', c.cm())['metadata.resourceVersion'])
    E = lambda o: base64.urlsafe_b64encode((o if isinstance(o, str) else json.dumps(o)).encode()).decode().rstrip('=')
    for label, t in (('no text', '!!'), ('no json', E('x')), ('empty', E({})), ('other version', E({'v': 'meta.k8s.io/v9', 'rv': rv, 'start': 'c1\u0000'})), ('no start', E({'v': 'meta.k8s.io/v1', 'rv': rv})), ('start outside', E({'v': 'meta.k8s.io/v1', 'rv': rv, 'start': '../../x'})), ('start with a slash', E({'v': 'meta.k8s.io/v1', 'rv': rv, 'start': '/x'})), ('no version', E({'v': 'meta.k8s.io/v1', 'start': 'c1\u0000'})), ('negative', E({'v': 'meta.k8s.io/v1', 'rv': -1, 'start': 'c1\u0000'})), ('wrong type', E({'v': 1, 'rv': 'x', 'start': []}))):
        c.get(c.cm(), q={'continue': t, 'limit': '1'}, sel=lambda b: names(b)[:1], label=label)
    c.get(c.cm(), q={'continue': E({'v': 'meta.k8s.io/v1', 'rv': rv, 'start': 'c1\u0000'})}, sel=lambda b: [n for n in names(b) if n.startswith('c')], label='a good one')


# ================================================================================================ what strangers try
@sc('list', 'versions-and-matches')
def _(c):
    for i in range(4):
        c.mk(c.cm(), cm('v%d' % i, labels={'v': 'y'}))
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.mk(c.cm(), cm('later', labels={'v': 'y'}))
    show = lambda b: [[n for n in names(b) if n[0] in 'vl'], b['metadata'].get('remainingItemCount'), bool(b['metadata'].get('continue'))]
    for q in ({'resourceVersion': rv, 'resourceVersionMatch': 'Exact'}, {'resourceVersion': rv, 'resourceVersionMatch': 'NotOlderThan'}, {'resourceVersion': rv, 'limit': '2'}, {'resourceVersion': '0', 'limit': '2'}, {'resourceVersion': '0', 'resourceVersionMatch': 'NotOlderThan', 'limit': '2'}, {'resourceVersion': rv, 'resourceVersionMatch': 'NotOlderThan', 'limit': '2'}, {'resourceVersion': rv, 'resourceVersionMatch': 'Exact', 'limit': '3', 'labelSelector': 'v=y'}, {'resourceVersionMatch': 'Exact'}, {'resourceVersion': 'x'}, {'resourceVersion': '-1'}, {'limit': '-1'}, {'limit': 'x'}, {'limit': '0'}, {'resourceVersion': rv, 'resourceVersionMatch': 'Nope'}):
        c.get(c.cm(), q=q, sel=show, label=json.dumps(dict(q, resourceVersion='rv' if q.get('resourceVersion') == rv else q.get('resourceVersion'))))
    c.get(c.cm('v0'), q={'resourceVersion': '0'}, sel=lambda b: b['kind'])
    c.get(c.cm('v0'), q={'resourceVersion': 'x'}, sel=lambda b: b['kind'])


@sc('list', 'field-selectors-per-kind')
def _(c):
    c.mk(c.pods(), pod('p', dict(pspec(), schedulerName='nobody', serviceAccountName='default', restartPolicy='Never')))
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's', type='a.b/c'))
    c.mk(c.n('v1', 'services'), svc('v', type='ClusterIP', clusterIP='None'))
    j = job('j')
    j['spec']['suspend'] = True
    c.mk(c.n('batch/v1', 'jobs'), j)
    for gv, res, sels in (('v1', 'pods', ('status.phase=Pending', 'status.phase!=Running', 'spec.nodeName=', 'spec.nodeName!=', 'spec.schedulerName=nobody', 'spec.serviceAccountName=default', 'spec.restartPolicy=Never', 'spec.restartPolicy=Always', 'status.podIP=', 'spec.hostNetwork=false', 'spec.hostNetwork=true', 'status.nominatedNodeName=', 'metadata.name=p,status.phase=Pending', 'spec.containers=x')), ('v1', 'secrets', ('type=a.b/c', 'type=Opaque', 'type!=Opaque')), ('v1', 'services', ('spec.clusterIP=None', 'spec.type=ClusterIP', 'spec.type!=ClusterIP')),
                          ('batch/v1', 'jobs', ('status.successful=0', 'status.successful!=0', 'status.failed=0')), ('apps/v1', 'replicasets', ('status.replicas=0', 'metadata.name=x')), ('v1', 'replicationcontrollers', ('status.replicas=0',)), ('apps/v1', 'deployments', ('status.replicas=0',)), ('v1', 'resourcequotas', ('metadata.name=q', 'status.x=y')), ('v1', 'persistentvolumeclaims', ('metadata.namespace=' + c.ns, 'spec.volumeName='))):
        for s in sels:
            c.get(c.n(gv, res), q={'fieldSelector': s}, sel=lambda b: sorted(names(b)), label='%s %s' % (res, s.replace(c.ns, 'ns')))
    for path, s in (('/api/v1/nodes', 'spec.unschedulable=true'), ('/api/v1/namespaces', 'status.phase=Terminating,metadata.name=nope'), ('/api/v1/namespaces', 'metadata.name=' + c.ns), ('/api/v1/pods', 'metadata.namespace=%s,metadata.name=p' % c.ns), ('/apis/certificates.k8s.io/v1/certificatesigningrequests', 'spec.signerName=x')):
        c.get(path, q={'fieldSelector': s}, sel=names, label=path + ' ' + s.replace(c.ns, 'ns'))


@sc('delete', 'collections-of-some')
def _(c):
    mk = lambda: [c.mk(c.cm(), cm('d%d' % i, labels={'d': 'y', 'n': str(i % 2)}, finalizers=['a.b/c'] if i == 3 else [])) for i in range(4)]
    left = lambda l: c.get(c.cm(), q={'labelSelector': 'd'}, sel=lambda b: [[dig(i, 'metadata.name'), bool(dig(i, 'metadata.deletionTimestamp'))] for i in b['items']], label=l)
    mk()
    c.delete(c.cm(), q={'labelSelector': 'd=y', 'dryRun': 'All'}, sel=lambda b: [b['kind'], names(b)], label='dry')
    left('after dry')
    c.delete(c.cm(), q={'labelSelector': 'd in ('}, label='bad labels')
    c.delete(c.cm(), q={'fieldSelector': 'nope=x'}, label='bad fields')
    c.delete(c.cm(), q={'labelSelector': 'd=y', 'fieldSelector': 'metadata.name=d0'}, sel=lambda b: [b['kind'], names(b)], label='both')
    left('after both')
    c.delete(c.cm(), body={'kind': 'DeleteOptions', 'apiVersion': 'v1', 'preconditions': {'uid': 'x'}}, q={'labelSelector': 'n=0'}, label='with a precondition', sel=status_only)
    left('after precondition')
    c.delete(c.cm(), body={'propagationPolicy': 'Nope'}, q={'labelSelector': 'd=y'}, label='odd policy')
    c.delete(c.cm(), q={'labelSelector': 'd=y', 'limit': '1'}, sel=lambda b: [b['kind'], len(names(b))], label='limited')
    c.delete(c.cm(), q={'labelSelector': 'd=y', 'propagationPolicy': 'Foreground', 'gracePeriodSeconds': '0'}, sel=lambda b: [b['kind']], label='the rest')
    left('after all')
    c.raw('PATCH', c.cm('d3'), {'metadata': {'finalizers': None}}, ct=MP)
    c.delete('/api/v1/configmaps', q={'labelSelector': 'nobody=has'}, label='of all namespaces')
    c.delete('/api/v1/namespaces', q={'labelSelector': 'nobody=has'}, label='of namespaces')


@sc('delete', 'owners-of-all-sorts')
def _(c):
    u = c.mk(c.cm(), cm('o'))['metadata.uid']
    R = lambda **k: dict({'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'o', 'uid': u}, **k)
    for label, refs in (('plain', [R()]), ('controller', [R(controller=True)]), ('two controllers', [R(controller=True), R(controller=True, uid='x')]), ('block', [R(blockOwnerDeletion=True)]), ('no uid', [R(uid='')]), ('no name', [R(name='')]), ('no kind', [R(kind='')]), ('no version', [R(apiVersion='')]), ('odd version', [R(apiVersion='a/b/c')]), ('an event', [R(kind='Event')]), ('twice', [R(), R()])):
        c.post(c.cm(), cm('x', ownerReferences=refs), q={'dryRun': 'All'}, sel=lambda b: b['metadata'].get('ownerReferences'), label=label)
    c.mk(c.cm(), cm('kid', ownerReferences=[R(blockOwnerDeletion=True)]))
    c.mk(c.cm(), cm('free', ownerReferences=[R()]))
    c.delete(c.cm('o'), body={'propagationPolicy': 'Foreground'}, sel=lambda b: [b['kind'], dig(b, 'metadata.finalizers')], label='foreground')
    c.until(lambda: c.raw('GET', c.cm('o')).code == 404, 20)
    c.get(c.cm('o'), label='gone')
    c.get(c.cm('kid'), label='kid gone')
    c.until(lambda: c.raw('GET', c.cm('free')).code == 404, 20)
    c.get(c.cm('free'), label='free gone')
    for body, q in (({'propagationPolicy': 'Orphan', 'orphanDependents': True}, {}), ({'propagationPolicy': 'Nope'}, {}), ({'gracePeriodSeconds': -1}, {}), ({'preconditions': {'resourceVersion': '1'}}, {}), ({'dryRun': ['Some']}, {}), ({'kind': 'Pod'}, {}), (None, {'gracePeriodSeconds': 'x'}), (None, {'propagationPolicy': 'x'}), (None, {'orphanDependents': 'true', 'propagationPolicy': 'Background'})):
        c.mk(c.cm(), cm('t'))
        c.delete(c.cm('t'), body=body, q=dict(q, dryRun='All'), sel=lambda b: b['kind'], label=json.dumps([body, q]))


@sc('crud', 'quantities-said-otherwise')
def _(c):
    for v in ('1000m', '0.5', '1.5', '1e3', '1024', '1024Ki', '1Gi', '1.5Gi', '0.1Gi', '1000Mi', '100k', '0', '-1', '1 Gi', '1gi', '', 'x', 5, 0.25, 1500, True, '.5', '1_000', '1Ti', '250Mi', '0.3'):
        c.post(c.n('v1', 'limitranges'), obj('v1', 'LimitRange', 'l', {'limits': [{'type': 'Container', 'max': {'cpu': v}}]}), q={'dryRun': 'All'}, sel=lambda b: b['spec'], label='limit %r' % (v,))
        c.post(c.pods(), pod('q', pspec(containers=[{'name': 'c', 'image': 'i', 'resources': {'requests': {'memory': v}}}])), q={'dryRun': 'All'}, sel=lambda b: b['spec']['containers'][0]['resources'], label='memory %r' % (v,))


@sc('crud', 'addresses-and-ports-of-services')
def _(c):
    P = lambda label, **s: c.post(c.n('v1', 'services'), svc('s', **s), q={'dryRun': 'All'}, sel=lambda b: {k: v for k, v in b['spec'].items() if k not in ('clusterIP', 'clusterIPs') or v in ('None', ['None'])}, label=label)
    p = [{'port': 80}]
    for label, s in (('outside', {'clusterIP': '1.2.3.4'}), ('no address', {'clusterIP': 'x'}), ('six', {'clusterIP': 'fd00::1'}), ('two', {'clusterIPs': ['10.96.0.77', '10.96.0.78']}), ('not the first', {'clusterIP': '10.96.0.77', 'clusterIPs': ['10.96.0.78']}), ('none and one', {'clusterIP': 'None', 'clusterIPs': ['10.96.0.77']}), ('low port', {'type': 'NodePort', 'ports': [{'port': 80, 'nodePort': 80}]}), ('port of a plain one', {'ports': [{'port': 80, 'nodePort': 30080}]}), ('same port twice', {'type': 'NodePort', 'ports': [{'port': 80, 'name': 'a', 'nodePort': 30999}, {'port': 81, 'name': 'b', 'nodePort': 30999}]}), ('both protocols', {'type': 'NodePort', 'ports': [{'port': 80, 'name': 'a', 'nodePort': 30998}, {'port': 80, 'name': 'b', 'protocol': 'UDP', 'nodePort': 30998}]}), ('family', {'ipFamilies': ['IPv6'], 'ports': p}), ('families', {'ipFamilies': ['IPv4', 'IPv4'], 'ports': p}), ('dual', {'ipFamilyPolicy': 'RequireDualStack', 'ports': p}), ('prefer', {'ipFamilyPolicy': 'PreferDualStack', 'ports': p}), ('odd policy', {'ipFamilyPolicy': 'Nope', 'ports': p}),
                     ('headless port', {'clusterIP': 'None', 'type': 'NodePort', 'ports': p}), ('external no name', {'type': 'ExternalName'}), ('external bad name', {'type': 'ExternalName', 'externalName': 'a_b'}), ('external with ip', {'type': 'ExternalName', 'externalName': 'a.b', 'clusterIP': '10.96.0.9'}), ('unnamed ports', {'ports': [{'port': 80}, {'port': 81}]}), ('no ports', {'ports': []}), ('affinity', {'sessionAffinity': 'ClientIP', 'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 0}}, 'ports': p}), ('affinity without', {'sessionAffinityConfig': {'clientIP': {'timeoutSeconds': 5}}, 'ports': p}), ('traffic', {'externalTrafficPolicy': 'Local', 'ports': p}), ('internal traffic', {'internalTrafficPolicy': 'Nope', 'ports': p}), ('ranges', {'loadBalancerSourceRanges': ['10.0.0.0/8'], 'ports': p}), ('bad ranges', {'type': 'LoadBalancer', 'loadBalancerSourceRanges': ['x'], 'ports': p}), ('class', {'loadBalancerClass': 'a.b/c', 'ports': p}), ('health port', {'type': 'LoadBalancer', 'healthCheckNodePort': 30100, 'ports': p}), ('external ips', {'externalIPs': ['127.0.0.1', 'x', '1.2.3.4'], 'ports': p}), ('target name', {'ports': [{'port': 80, 'targetPort': 'UPPER'}]}), ('target zero', {'ports': [{'port': 80, 'targetPort': 0}]}), ('app protocol', {'ports': [{'port': 80, 'appProtocol': 'a b'}]}), ('distribution', {'trafficDistribution': 'Nope', 'ports': p}), ('publish', {'publishNotReadyAddresses': True, 'ports': p}), ('allocate', {'allocateLoadBalancerNodePorts': False, 'ports': p})):
        P(label, **s)


@sc('crd', 'several-versions')
def _(c):
    o = crd(c, osch({'spec': osch({'a': {'type': 'string'}})}))
    v1 = o['spec']['versions'][0]
    o['spec']['versions'] = [dict(copy.deepcopy(v1), name='v1', storage=True), dict(copy.deepcopy(v1), name='v2', storage=False, schema={'openAPIV3Schema': osch({'spec': osch({'a': {'type': 'string'}, 'b': {'type': 'string', 'default': 'bb'}})})}), dict(copy.deepcopy(v1), name='v1beta1', storage=False, deprecated=True, deprecationWarning='old'), dict(copy.deepcopy(v1), name='v3', served=False, storage=False)]
    p = mkcrd(c, o)
    at_ = lambda v: p.replace('/v1/', '/%s/' % v)
    c.post(p, cr(c, 'x', {'a': '1', 'b': '2'}), sel=m.quiet, label='v1 drops b')
    for v in ('v2', 'v1beta1', 'v3'):
        c.get(at_(v) + '/x', sel=lambda b: [b['apiVersion'], b['spec']], label=v)
    c.post(at_('v2'), dict(cr(c, 'y', {'a': '1', 'b': '2'}), apiVersion=cr(c, 'y')['apiVersion'].replace('/v1', '/v2')), sel=lambda b: [b['apiVersion'], b['spec'], mf(b)], label='made in v2')
    c.get(p + '/y', sel=lambda b: [b['apiVersion'], b['spec']], label='read in v1')
    c.post(at_('v2'), cr(c, 'z'), label='other version in the body')
    c.patch(at_('v2') + '/y', {'spec': {'b': 'three'}}, sel=lambda b: [b['apiVersion'], b['spec'], mf(b)])
    c.apply(at_('v2') + '/y', dict(cr(c, 'y', {'b': 'four'}), apiVersion=cr(c, 'y')['apiVersion'].replace('/v1', '/v2')), fm='ap', force=True, sel=lambda b: [b['spec'], mf(b)])
    c.get(at_('v1beta1'), sel=lambda b: [names(b), b['apiVersion']])
    full = CRDS + '/' + o['metadata']['name']
    c.get(full, sel=lambda b: [b['status']['storedVersions'], b['spec']['conversion']])
    c.patch(full, [{'op': 'replace', 'path': '/spec/versions/0/storage', 'value': False}, {'op': 'replace', 'path': '/spec/versions/1/storage', 'value': True}], ct=JP, sel=lambda b: b['status']['storedVersions'], label='other storage')
    c.patch(full, [{'op': 'remove', 'path': '/spec/versions/0'}], ct=JP, label='remove a stored one')
    c.patch(full, {'spec': {'conversion': {'strategy': 'Webhook'}}}, label='webhook without one')
    c.patch(full, {'spec': {'conversion': {'strategy': 'Nope'}}}, label='odd strategy')
    c.patch(full, {'spec': {'scope': 'Cluster'}}, label='other scope')
    c.patch(full + '/status', {'status': {'storedVersions': ['v2']}}, sel=lambda b: b['status']['storedVersions'], label='stored versions')


@sc('patch', 'strategic-directives')
def _(c):
    o = dep('d', 0)
    o['spec']['template']['spec'] = {'containers': [{'name': 'a', 'image': 'a:1', 'env': [{'name': 'X', 'value': '1'}, {'name': 'Y', 'value': '2'}], 'ports': [{'containerPort': 80}], 'args': ['x', 'y']}, {'name': 'b', 'image': 'b:1'}], 'volumes': [{'name': 'v', 'emptyDir': {}}]}
    o['metadata']['finalizers'] = ['a.b/c', 'a.b/d']
    c.mk(c.dep(), o)
    T = lambda **k: {'spec': {'template': {'spec': k}}}
    for p in (T(**{'$setElementOrder/containers': [{'name': 'b'}, {'name': 'a'}], 'containers': [{'name': 'b', 'image': 'b:2'}]}), T(**{'$setElementOrder/containers': [{'name': 'b'}], 'containers': [{'name': 'a', 'image': 'z'}]}), T(containers=[{'name': 'b', '$patch': 'delete'}]), T(containers=[{'$patch': 'replace'}, {'name': 'z', 'image': 'z'}]), T(containers=[{'name': 'a', '$patch': 'merge', 'image': 'q'}]), T(containers=[{'name': 'a', '$patch': 'nope'}]), T(containers=[{'name': 'a', 'env': [{'name': 'X', '$patch': 'delete'}]}]),
              T(containers=[{'name': 'a', '$retainKeys': ['name', 'image'], 'image': 'r'}]), T(volumes=[{'name': 'v', '$retainKeys': ['name', 'configMap'], 'configMap': {'name': 'c'}}]), T(volumes=[{'name': 'v', 'configMap': {'name': 'c'}}]), {'metadata': {'$deleteFromPrimitiveList/finalizers': ['a.b/c']}}, {'metadata': {'finalizers': ['a.b/e']}}, {'metadata': {'$setElementOrder/finalizers': ['a.b/d', 'a.b/c']}}, {'metadata': {'$deleteFromPrimitiveList/finalizers': 'x'}}, {'metadata': {'labels': {'$patch': 'delete'}}}, {'metadata': {'labels': {'$patch': 'replace', 'n': 'm'}}}, {'metadata': {'labels': {'$patch': 'nope'}}},
              {'$patch': 'delete'}, {'$patch': 'replace', 'metadata': {'name': 'd'}}, T(containers=[{'name': 'a', 'args': None}]), T(containers=[{'name': 'a', 'ports': [{'containerPort': 80, 'name': 'h'}, {'containerPort': 81}]}]), {'spec': {'strategy': {'$retainKeys': ['type'], 'type': 'Recreate'}}}, {'spec': {'strategy': {'type': 'Recreate'}}}, {'spec': {'$nope': 1}}, T(**{'$setElementOrder/containers': 'x'}), T(containers=[{'name': 'a'}, {'name': 'a', 'image': '2'}]), T(imagePullSecrets=[{'name': 'p'}], tolerations=[{'key': 'k', 'operator': 'Exists'}])):
        c.patch(c.dep('d'), p, ct=SMP, q={'dryRun': 'All'}, sel=lambda b: [b['spec'].get('strategy'), b['spec']['template']['spec'], b['metadata'].get('finalizers'), b['metadata'].get('labels')], label=json.dumps(p)[:100])
    c.raw('PATCH', c.dep('d'), {'metadata': {'finalizers': None}}, ct=MP)


if __name__ == '__main__':
    sys.exit(d.main())

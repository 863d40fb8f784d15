#!/usr/bin/env python3
"""corner_cases: corners of the API a strict stranger would try, with the runner and the options of compare.py."""
import copy, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare as d
from compare import (AP, CRDS, JP, JSON, MP, OPEN, POM, POML, SMP, TABLE, cm, cr, crd, dep, dig, ds, job, mf, mkcrd, names, no_mf, obj,
                       osch, pod, pspec, rolled, status_only, sts, svc, tab, textnorm, ydump)

d.SCEN.clear()
# See docs/reference/sandbox-differences.md: internal Go values and diffs in messages.
d.RX.append((d.re.compile(r'\n@@ .*', d.re.S), ''))
sc = d.sc
meta = lambda b: {k: v for k, v in b['metadata'].items() if k in ('labels', 'annotations', 'finalizers', 'generation', 'ownerReferences')}


# ================================================================================================ server-side apply
@sc('ssa', 'config-map-keys')
def _(c):
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}, 'data': {'a': '1', 'b': '2'}}, sel=no_mf)
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}, 'data': {'b': '3', 'c': '4'}}, fm='mgr-b', label='conflict')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}, 'data': {'b': '2', 'c': '4'}}, fm='mgr-b', sel=mf, label='same value shared')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}, 'data': {'a': '1'}}, sel=lambda b: [mf(b), b['data']], label='gives up a shared one')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}}, fm='mgr-b', sel=lambda b: [mf(b), b['data']], label='empty')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}}, sel=lambda b: [mf(b), b.get('data')], label='all empty')


@sc('ssa', 'null-and-empty-values')
def _(c):
    for i, data in enumerate([{}, None, {'a': ''}, {'a': None}]):
        c.apply(c.cm('n%d' % i), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'n%d' % i}, 'data': data}, sel=lambda b: [mf(b), b.get('data')], label=json.dumps(data))
    c.apply(c.dep('d'), dict(dep('d', 0), spec=dict(dep('d', 0)['spec'], strategy={}, minReadySeconds=0)), sel=lambda b: [mf(b), b['spec'].get('strategy')])
    c.apply(c.dep('d'), dict(dep('d', 0), spec=dict(dep('d', 0)['spec'], strategy=None)), sel=lambda b: mf(b))


@sc('ssa', 'bad-requests')
def _(c):
    ok = cm('x')
    for label, path, body, q in [('no manager', c.cm('x'), ok, {}), ('empty manager', c.cm('x'), ok, {'fieldManager': ''}), ('long manager', c.cm('x'), ok, {'fieldManager': 'm' * 129}), ('other name', c.cm('y'), ok, {'fieldManager': 'm'}),
                                 ('other namespace', c.cm('x'), dict(ok, metadata={'name': 'x', 'namespace': 'default'}), {'fieldManager': 'm'}), ('other kind', c.cm('x'), dict(ok, kind='Secret'), {'fieldManager': 'm'}), ('other version', c.cm('x'), dict(ok, apiVersion='v2'), {'fieldManager': 'm'}),
                                 ('no kind', c.cm('x'), {'metadata': {'name': 'x'}}, {'fieldManager': 'm'}), ('list', c.cm('x'), [ok], {'fieldManager': 'm'}), ('string', c.cm('x'), '"x"', {'fieldManager': 'm'}), ('empty', c.cm('x'), '', {'fieldManager': 'm'}), ('bad yaml', c.cm('x'), 'a: [', {'fieldManager': 'm'}),
                                 ('bad force', c.cm('x'), ok, {'fieldManager': 'm', 'force': 'maybe'}), ('bad dry run', c.cm('x'), ok, {'fieldManager': 'm', 'dryRun': 'x'}), ('wrong type', c.cm('x'), dict(ok, data='x'), {'fieldManager': 'm'}), ('wrong inner type', c.cm('x'), dict(ok, data={'a': 1}), {'fieldManager': 'm'}), ('collection', c.cm(), ok, {'fieldManager': 'm'}),
                                 ('resource version', c.cm('x'), dict(ok, metadata={'name': 'x', 'resourceVersion': '1'}), {'fieldManager': 'm'}), ('uid', c.cm('x'), dict(ok, metadata={'name': 'x', 'uid': 'u'}), {'fieldManager': 'm'})]:
        c.req('PATCH', path, body, ct=AP, q=q, sel=lambda b: b['kind'], label=label)


@sc('ssa', 'lists-of-maps')
def _(c):
    s = svc('s', ports=[{'name': 'a', 'port': 80, 'protocol': 'TCP'}, {'name': 'b', 'port': 80, 'protocol': 'UDP'}])
    p = c.n('v1', 'services', 's')
    c.apply(p, s, sel=lambda b: [mf(b), b['spec']['ports']])
    c.apply(p, {'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's'}, 'spec': {'ports': [{'port': 443, 'name': 'c'}]}}, fm='mgr-b', sel=lambda b: [mf(b), b['spec']['ports']], label='default key')
    c.apply(p, {'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's'}, 'spec': {'ports': [{'port': 80, 'name': 'z'}]}}, fm='mgr-b', label='conflict by key')
    c.apply(p, {'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's'}, 'spec': {'ports': [{'port': 80, 'protocol': 'TCP'}, {'port': 80, 'protocol': 'TCP'}]}}, fm='mgr-b', label='same key twice')
    s['spec']['ports'].pop(0)
    c.apply(p, s, sel=lambda b: [mf(b), b['spec']['ports']], label='removes one')
    o = nested_pod('p')
    c.apply(c.pods('p'), o, sel=lambda b: [mf(b), b['spec']['containers'][0].get('env')])
    c.apply(c.pods('p'), dict(o, spec=dict(o['spec'], tolerations=[{'key': 'x', 'operator': 'Exists'}])), sel=lambda b: [mf(b), b['spec']['tolerations']], label='atomic list grows')


def nested_pod(name):
    return pod(name, {'schedulerName': 'nobody', 'containers': [{'name': 'c', 'image': 'i:1', 'env': [{'name': 'A', 'value': '1'}, {'name': 'B', 'value': '2'}], 'ports': [{'containerPort': 80}, {'containerPort': 80, 'protocol': 'UDP'}], 'volumeMounts': [{'name': 'v', 'mountPath': '/v'}]}], 'volumes': [{'name': 'v', 'emptyDir': {}}], 'topologySpreadConstraints': [{'maxSkew': 1, 'topologyKey': 'z', 'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {}}]})


@sc('ssa', 'apply-after-create')
def _(c):
    c.post(c.dep(), dep('d', 0), sel=mf)
    c.apply(c.dep('d'), dep('d', 0), sel=mf, label='same content')
    c.apply(c.dep('d'), dep('d', 0, 'nginx:2'), label='conflict with update')
    c.apply(c.dep('d'), dep('d', 0, 'nginx:2'), force=True, sel=mf)
    c.patch(c.dep('d'), {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:3'}]}}}}, ct=SMP, sel=mf)
    c.apply(c.dep('d'), dep('d', 0, 'nginx:2'), label='conflict again')
    c.apply(c.dep('d'), dep('d', 0, 'nginx:3'), sel=mf, label='agrees')


@sc('ssa', 'upgrade-from-client-side')
def _(c):
    o = cm('x', {'a': '1'})
    o['metadata']['annotations'] = {'kubectl.kubernetes.io/last-applied-configuration': json.dumps(o)}
    c.post(c.cm(), o, q={'fieldManager': 'kubectl-client-side-apply'}, sel=mf)
    c.kubectl('apply', '--server-side', '-f', '-', stdin=ydump(cm('x', {'a': '2'})))
    c.get(c.cm('x'), sel=lambda b: [mf(b), b['data'], b['metadata'].get('annotations')])
    c.kubectl('apply', '--server-side', '-f', '-', stdin=ydump(cm('x', {'b': '2'})))
    c.get(c.cm('x'), sel=lambda b: [mf(b), b['data']])
    c.kubectl('apply', '-f', '-', stdin=ydump(cm('x', {'c': '2'})))
    c.get(c.cm('x'), sel=lambda b: [mf(b), b['data']])


@sc('ssa', 'subresources')
def _(c):
    c.apply(c.dep('d'), dep('d', 0, paused=True), sel=mf)
    c.apply(c.dep('d') + '/status', {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'd', 'labels': {'new': 'x'}}, 'spec': {'replicas': 7}, 'status': {'conditions': [{'type': 'Mine', 'status': 'True', 'reason': 'R', 'message': 'm'}]}}, fm='st', sel=lambda b: [mf(b), b['spec']['replicas'], b['metadata']['labels']])
    c.apply(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd'}, 'spec': {'replicas': 2}}, fm='sc', label='scale conflict')
    c.get(c.dep('d'), sel=mf)
    c.put(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd'}, 'spec': {'replicas': 1}}, sel=lambda b: b['spec'])
    c.get(c.dep('d'), sel=mf)
    c.apply(c.dep('nope') + '/status', {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'nope'}, 'status': {}})


@sc('ssa', 'managed-fields-edits')
def _(c):
    c.apply(c.cm('x'), cm('x'), sel=mf)
    c.patch(c.cm('x'), {'data': {'z': '1'}}, sel=mf)
    for label, body, ct in [('empty list', {'metadata': {'managedFields': []}}, MP), ('one empty', {'metadata': {'managedFields': [{}]}}, MP), ('unknown type', {'metadata': {'managedFields': [{'manager': 'm', 'operation': 'Nope', 'fieldsType': 'FieldsV1', 'fieldsV1': {}}]}}, MP), ('bad fields', {'metadata': {'managedFields': [{'manager': 'm', 'operation': 'Apply', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {'x:y': {}}}]}}, MP),
                            ('by hand', {'metadata': {'managedFields': [{'manager': 'm', 'operation': 'Apply', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {'f:data': {'f:a': {}}}}]}}, MP), ('remove', [{'op': 'remove', 'path': '/metadata/managedFields'}], JP), ('first', [{'op': 'remove', 'path': '/metadata/managedFields/0'}], JP)]:
        c.patch(c.cm('x'), body, ct=ct, q={'fieldManager': 'editor'}, sel=mf, label=label)
        c.apply(c.cm('x'), cm('x'), force=True, sel=mf, label='apply after ' + label)


@sc('ssa', 'many-managers-then-delete')
def _(c):
    for m in 'abcd':
        c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x', 'labels': {m: '1', 'shared': 'y'}}, 'data': {m: '1'}}, fm=m, sel=lambda b: [mf(b), b['data'], b['metadata']['labels']])
    for m in 'abcd':
        c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}}, fm=m, sel=lambda b: [mf(b), b.get('data'), b['metadata'].get('labels')])


# ================================================================================================ patches
@sc('patch', 'strategic-directives')
def _(c):
    o = dep('d', 0, paused=True)
    o['metadata']['finalizers'] = ['a.b/1', 'a.b/2']
    o['spec']['template']['spec'] = {'containers': [{'name': 'a', 'image': 'a'}, {'name': 'b', 'image': 'b'}, {'name': 'e', 'image': 'e'}], 'volumes': [{'name': 'v', 'emptyDir': {}}], 'tolerations': [{'key': 'k', 'operator': 'Exists'}], 'nodeSelector': {'x': 'y', 'z': 'w'}}
    c.mk(c.dep(), o)
    t = lambda s: {'spec': {'template': {'spec': s}}}
    show = lambda b: [b['spec']['strategy'], b['spec']['template']['spec'], meta(b)]
    for label, p in [('order', t({'$setElementOrder/containers': [{'name': 'e'}, {'name': 'a'}, {'name': 'b'}], 'containers': [{'name': 'b', 'image': 'b2'}]})), ('order of absent', t({'$setElementOrder/containers': [{'name': 'a'}, {'name': 'nope'}], 'containers': [{'name': 'a', 'image': 'a3'}]})), ('not in order', t({'$setElementOrder/containers': [{'name': 'a'}], 'containers': [{'name': 'b', 'image': 'b9'}]})),
                     ('retain', {'spec': {'strategy': {'$retainKeys': ['type'], 'type': 'Recreate'}}}), ('retain twice', {'spec': {'strategy': {'$retainKeys': ['type', 'rollingUpdate'], 'rollingUpdate': {'maxSurge': 1}, 'type': 'RollingUpdate'}}}), ('retain missing', {'spec': {'strategy': {'$retainKeys': ['rollingUpdate'], 'type': 'Recreate'}}}), ('volume kind', t({'volumes': [{'$retainKeys': ['name', 'configMap'], 'name': 'v', 'configMap': {'name': 'x'}}]})),
                     ('delete from list', {'metadata': {'$deleteFromPrimitiveList/finalizers': ['a.b/1']}}), ('order of primitives', {'metadata': {'$setElementOrder/finalizers': ['c.d/3', 'a.b/2'], 'finalizers': ['c.d/3']}}), ('delete item', t({'containers': [{'$patch': 'delete', 'name': 'e'}]})), ('replace list', t({'containers': [{'$patch': 'replace'}, {'name': 'only', 'image': 'o'}]})), ('delete map', t({'nodeSelector': {'$patch': 'delete'}})), ('replace map', t({'nodeSelector': {'$patch': 'replace', 'q': 'r'}})),
                     ('unknown directive', t({'nodeSelector': {'$patch': 'nope'}})), ('directive alone', {'$patch': 'replace'}), ('delete all', {'$patch': 'delete'}), ('null list', t({'tolerations': None})), ('null item', t({'containers': [None]})), ('no key', t({'containers': [{'image': 'x'}]})), ('scalar for list', t({'containers': 'x'})), ('bad retain', {'spec': {'strategy': {'$retainKeys': 'x'}}}), ('bad order', t({'$setElementOrder/containers': 'x'})), ('bad delete list', {'metadata': {'$deleteFromPrimitiveList/finalizers': 'x'}})]:
        c.patch(c.dep('d'), p, ct=SMP, q={'dryRun': 'All'}, sel=show, label=label)


@sc('patch', 'json-failures')
def _(c):
    c.mk(c.cm(), dict(cm('x', {'a': '1'}), metadata={'name': 'x', 'annotations': {'b/c': '2'}}))
    for label, p in [('test ok', [{'op': 'test', 'path': '/data/a', 'value': '1'}]), ('test fails', [{'op': 'test', 'path': '/data/a', 'value': '2'}]), ('test missing', [{'op': 'test', 'path': '/data/zz', 'value': '2'}]), ('test null on missing', [{'op': 'test', 'path': '/data/zz', 'value': None}]), ('escapes', [{'op': 'replace', 'path': '/metadata/annotations/b~1c', 'value': 'x'}]), ('bad escape', [{'op': 'add', 'path': '/data/~2', 'value': 'x'}]),
                     ('no slash', [{'op': 'add', 'path': 'data', 'value': {}}]), ('root', [{'op': 'replace', 'path': '', 'value': {}}]), ('no op', [{'path': '/data/a', 'value': 'x'}]), ('unknown op', [{'op': 'nope', 'path': '/data/a'}]), ('no path', [{'op': 'add', 'value': 'x'}]), ('no value', [{'op': 'add', 'path': '/data/n'}]), ('null value', [{'op': 'add', 'path': '/data/n', 'value': None}]), ('move', [{'op': 'move', 'from': '/data/a', 'path': '/data/m'}]), ('copy missing', [{'op': 'copy', 'from': '/data/q', 'path': '/data/m'}]),
                     ('move into itself', [{'op': 'move', 'from': '/data', 'path': '/data/x'}]), ('index', [{'op': 'add', 'path': '/metadata/finalizers/-', 'value': 'a.b/c'}]), ('below scalar', [{'op': 'add', 'path': '/data/a/b', 'value': 'x'}]), ('name', [{'op': 'replace', 'path': '/metadata/name', 'value': 'y'}]), ('kind', [{'op': 'replace', 'path': '/kind', 'value': 'Secret'}]), ('type', [{'op': 'replace', 'path': '/data', 'value': 'x'}]), ('empty', []), ('null', None), ('object', {'op': 'add'}), ('numbers', [1, 2]), ('strings', ['x'])]:
        c.patch(c.cm('x'), json.dumps(p), ct=JP, q={'dryRun': 'All'}, sel=lambda b: [b.get('data'), meta(b)], label=label)


@sc('patch', 'merge-corners')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    for label, p in [('empty', {}), ('list replaced', {'spec': {'template': {'spec': {'containers': [{'name': 'z', 'image': 'z'}]}}}}), ('null spec', {'spec': None}), ('null in list', {'spec': {'template': {'spec': {'containers': [None]}}}}), ('wrong type', {'spec': {'replicas': 'x'}}), ('float', {'spec': {'replicas': 1.0}}), ('fraction', {'spec': {'replicas': 1.5}}), ('huge', {'spec': {'replicas': 3000000000}}), ('status', {'status': {'replicas': 5}}), ('rv', {'metadata': {'resourceVersion': '1'}}), ('rv empty', {'metadata': {'resourceVersion': ''}}),
                     ('uid', {'metadata': {'uid': 'x'}}), ('namespace', {'metadata': {'namespace': 'default'}}), ('name null', {'metadata': {'name': None}}), ('kind null', {'kind': None}), ('labels null', {'metadata': {'labels': None}}), ('label number', {'metadata': {'labels': {'a': 1}}}), ('unknown', {'spec': {'nope': 1}}), ('creation', {'metadata': {'creationTimestamp': '2001-01-01T00:00:00Z'}}), ('generation', {'metadata': {'generation': 99}}), ('deletion', {'metadata': {'deletionTimestamp': '2001-01-01T00:00:00Z'}})]:
        c.patch(c.dep('d'), p, q={'dryRun': 'All'}, sel=lambda b: [b['spec']['replicas'], b['spec']['template']['spec']['containers'], meta(b)], label=label)
    for body in ('', '[]', '1', '"x"', 'null', '{', 'nope'):
        c.req('PATCH', c.dep('d'), body, ct=MP, sel=lambda b: b['kind'], label='body %r' % body)
        c.req('PATCH', c.dep('d'), body, ct=SMP, sel=lambda b: b['kind'], label='strategic body %r' % body)


@sc('patch', 'of-a-custom-resource')
def _(c):
    mkcrd(c, crd(c, osch({'spec': osch({'a': {'type': 'string'}, 'l': {'type': 'array', 'items': {'type': 'string'}}, 'm': OPEN})})))
    p = c.n('%s.example.com/v1' % c.u, 'widgets')
    c.mk(p, cr(c, 'w', {'a': 'x', 'l': ['1', '2'], 'm': {'k': {'deep': 1}}}))
    show = lambda b: [b.get('spec'), b['metadata']['generation'], mf(b)]
    for ct, body in [(MP, {'spec': {'a': None, 'm': {'k': None, 'n': [1]}}}), (JP, [{'op': 'add', 'path': '/spec/l/1', 'value': 'mid'}]), (SMP, {'spec': {'a': 'y'}}), (MP, {'spec': {'l': 'x'}}), (MP, {'spec': {'nope': 1}}), (MP, {'metadata': {'labels': {'a': 'b'}}}), (JP, [{'op': 'remove', 'path': '/spec/none'}]), (MP, {'apiVersion': 'x/v1'}), (MP, {'kind': 'Other'})]:
        c.patch(p + '/w', body, ct=ct, sel=show, label=ct + json.dumps(body))
    c.apply(p + '/w', cr(c, 'w', {'a': 'z'}), sel=show, label='apply')
    c.apply(p + '/w', cr(c, 'w', {'a': 5}), label='apply of a wrong type')
    c.apply(p + '/w', cr(c, 'w', {'nope': 5}), q={'fieldValidation': 'Strict'}, label='strict apply')


# ================================================================================================ writes
@sc('update', 'put-corners')
def _(c):
    c.mk(c.cm(), cm('x', {'a': '1'}))
    live = c.raw('GET', c.cm('x')).body
    for label, change in [('no rv', {'resourceVersion': None}), ('zero rv', {'resourceVersion': '0'}), ('stale rv', {'resourceVersion': '1'}), ('bad rv', {'resourceVersion': 'abc'}), ('future rv', {'resourceVersion': '99999999'}), ('no uid', {'uid': None}), ('bad uid', {'uid': 'x'}), ('no name', {'name': None}), ('generateName', {'generateName': 'g-'}), ('deletion', {'deletionTimestamp': '2001-01-01T00:00:00Z'}), ('no namespace', {'namespace': None})]:
        o = copy.deepcopy(live)
        for k, v in change.items():
            o['metadata'].pop(k, None)
            if v is not None:
                o['metadata'][k] = v
        c.put(c.cm('x'), o, q={'dryRun': 'All'}, sel=lambda b: [b['data'], sorted(b['metadata'])], label=label)
    c.put(c.cm('nope'), cm('nope'), label='absent')
    c.put(c.cm('x'), '', label='empty')
    c.put(c.n('v1', 'serviceaccounts', 'new'), obj('v1', 'ServiceAccount', 'new'), label='no creation by update')
    c.put(c.n('coordination.k8s.io/v1', 'leases', 'new'), obj('coordination.k8s.io/v1', 'Lease', 'new', {'holderIdentity': 'h'}), sel=no_mf, label='creation by update')


@sc('update', 'dry-run-of-everything')
def _(c):
    q = {'dryRun': 'All'}
    c.mk(c.cm(), cm('x', {'a': '1'}))
    c.mk(c.dep(), dep('d', 0, paused=True))
    rv = lambda: c.raw('GET', c.cm('x'))['metadata.resourceVersion']
    before = rv()
    c.post(c.cm(), cm('x'), q=q, label='create of what is there')
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'generateName': 'g-'}}, q=q, sel=lambda b: b['kind'])
    c.put(c.cm('x'), cm('x', {'z': '1'}), q=q, sel=lambda b: b['data'])
    c.apply(c.cm('x'), cm('x', {'y': '1'}), q=q, sel=mf)
    c.apply(c.cm('new'), cm('new'), q=q, sel=mf)
    c.delete(c.cm('x'), q=q)
    c.delete(c.cm('x'), {'dryRun': ['All']}, label='in the body')
    c.delete(c.cm(), q=dict(q, labelSelector='none=here'), sel=names)
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 3}}, q=q, sel=lambda b: b['spec'])
    c.patch(c.dep('d') + '/status', {'status': {'replicas': 3}}, q=q, sel=lambda b: b['status'])
    c.post(c.n('v1', 'serviceaccounts', 'default') + '/token', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {}}, q=q, sel=lambda b: sorted(b['status']))
    c.post('/api/v1/namespaces', obj('v1', 'Namespace', c.u + '-dry'), q=q, sel=no_mf)
    c.get('/api/v1/namespaces/%s-dry' % c.u, sel=lambda b: b['kind'])
    c.post(c.n('v1', 'services'), svc('s', type='NodePort'), q=q, sel=lambda b: [bool(b['spec'].get('clusterIP')), bool(b['spec']['ports'][0].get('nodePort'))])
    c.rec('untouched', [before == rv(), c.raw('GET', c.dep('d'))['spec.replicas']])


@sc('update', 'status-isolation')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.put(c.dep('d') + '/status', dict(dep('d', 5), status={'observedGeneration': 1, 'replicas': 9}), sel=lambda b: [b['spec']['replicas'], b['status'].get('replicas'), b['metadata']['generation']])
    c.patch(c.dep('d') + '/status', {'spec': {'replicas': 4}, 'status': {'replicas': 2}, 'metadata': {'annotations': {'x': 'y'}}}, sel=lambda b: [b['spec']['replicas'], b['status'].get('replicas'), meta(b).get('annotations')])
    c.mk(c.n('v1', 'services'), svc('s', clusterIP='None'))
    c.patch(c.n('v1', 'services', 's') + '/status', {'status': {'loadBalancer': {'ingress': [{'ip': '1.2.3.4'}]}}}, sel=lambda b: b['status'])
    c.patch(c.n('v1', 'services', 's'), {'status': {'loadBalancer': {'ingress': [{'ip': '4.3.2.1'}]}}}, sel=lambda b: b['status'])
    c.get(c.cm('kube-root-ca.crt') + '/status')
    c.mk(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}}}))
    c.patch(c.n('v1', 'persistentvolumeclaims', 'p') + '/status', {'status': {'conditions': [{'type': 'X', 'status': 'True'}]}}, sel=lambda b: b['status'])


@sc('update', 'metadata-rules')
def _(c):
    for i, m in enumerate([{'labels': {'a/b/c': 'x'}}, {'labels': {'': 'x'}}, {'labels': {'x' * 64: 'y'}}, {'labels': {'a': 'b' * 64}}, {'labels': {'a': '-b'}}, {'annotations': {'A B': 'x'}}, {'annotations': {'a': 'x' * 262145}}, {'finalizers': ['no-slash']}, {'finalizers': ['a.b/c', 'a.b/c']}, {'finalizers': ['']}, {'finalizers': ['Bad_/x y']}, {'ownerReferences': [{'kind': 'X'}]}, {'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Event', 'name': 'e', 'uid': 'u'}]},
                            {'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Pod', 'name': 'a', 'uid': 'u', 'controller': True}, {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'b', 'uid': 'w', 'controller': True}]}, {'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Pod', 'name': 'a', 'uid': 'u'}, {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'a', 'uid': 'u'}]}, {'generation': -1}, {'deletionGracePeriodSeconds': 5}, {'selfLink': '/x', 'uid': 'mine', 'creationTimestamp': '2001-01-01T00:00:00Z'}, {'namespace': 'other'}, {'managedFields': [{'manager': 'x'}]}]):
        c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': dict({'name': 'x'}, **m)}, q={'dryRun': 'All'}, sel=no_mf, label='%d %s' % (i, json.dumps(m)[:80]))


# ================================================================================================ deletion
@sc('delete', 'options-and-preconditions')
def _(c):
    for i in range(3):
        c.mk(c.cm(), cm('x%d' % i))
    o = c.raw('GET', c.cm('x0')).body['metadata']
    c.delete(c.cm('x0'), {'preconditions': {'uid': 'nope'}}, label='uid')
    c.delete(c.cm('x0'), {'preconditions': {'resourceVersion': '1'}}, label='rv')
    c.delete(c.cm('x0'), {'preconditions': {'uid': o['uid'], 'resourceVersion': o['resourceVersion']}}, label='both')
    for label, body in [('negative', {'gracePeriodSeconds': -1}), ('policy', {'propagationPolicy': 'Nope'}), ('both', {'propagationPolicy': 'Orphan', 'orphanDependents': True}), ('type', {'gracePeriodSeconds': 'x'}), ('kind', {'kind': 'ConfigMap', 'apiVersion': 'v1'}), ('unknown', {'nope': 1}), ('dry', {'dryRun': ['Nope']}), ('list', [])]:
        c.delete(c.cm('x1'), body, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label=label)
    c.req('DELETE', c.cm('x1'), '{', label='broken')
    c.delete(c.cm('x1'), {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'propagationPolicy': 'Foreground'}, sel=meta)
    c.gone(c.cm('x1'))
    c.delete(c.cm('gone'), {'preconditions': {'uid': 'x'}})


@sc('delete', 'finalizers-hold')
def _(c):
    c.mk(c.cm(), dict(cm('x'), metadata={'name': 'x', 'finalizers': ['a.b/c']}))
    c.delete(c.cm('x'), sel=lambda b: [b['kind'], sorted(b['metadata']), b['metadata'].get('deletionGracePeriodSeconds')])
    c.delete(c.cm('x'), sel=lambda b: b['kind'], label='again')
    c.post(c.cm(), cm('x'), label='create while it goes')
    c.patch(c.cm('x'), {'data': {'new': '1'}}, sel=lambda b: b['data'], label='still writable')
    c.patch(c.cm('x'), {'metadata': {'finalizers': ['a.b/c', 'd.e/f']}}, label='no new finalizer')
    c.apply(c.cm('x'), cm('x', {'ap': '1'}), sel=lambda b: b['data'])
    c.patch(c.cm('x'), [{'op': 'remove', 'path': '/metadata/finalizers'}], ct=JP, sel=lambda b: [b['kind'], b['metadata'].get('finalizers')])
    c.get(c.cm('x'))


@sc('delete', 'collections')
def _(c):
    for i in range(4):
        c.mk(c.cm(), cm('x%d' % i, labels={'g': str(i % 2)}))
    c.delete(c.cm(), q={'labelSelector': 'bad in'}, label='bad selector')
    c.delete(c.cm(), q={'fieldSelector': 'spec.x=1'}, label='bad field')
    c.delete(c.cm(), q={'labelSelector': 'g=0', 'limit': '1'}, sel=lambda b: [b['kind'], names(b)], label='limited')
    c.delete(c.cm(), {'propagationPolicy': 'Background'}, q={'labelSelector': 'g=1'}, sel=lambda b: [b['kind'], names(b)])
    c.get(c.cm(), q={'labelSelector': 'g'}, sel=names)
    c.delete(c.n('v1', 'services'), label='services')
    c.delete('/api/v1/namespaces', label='namespaces')
    c.delete(c.cm(), q={'labelSelector': 'none=x'}, accept=TABLE, sel=lambda b: b['kind'], label='as a table')


@sc('delete', 'owned-objects')
def _(c):
    owner = c.mk(c.cm(), cm('owner')).body
    ref = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'owner', 'uid': owner['metadata']['uid']}
    c.mk(c.cm(), dict(cm('child'), metadata={'name': 'child', 'ownerReferences': [ref]}))
    c.mk(c.cm(), dict(cm('blocks'), metadata={'name': 'blocks', 'finalizers': ['a.b/c'], 'ownerReferences': [dict(ref, blockOwnerDeletion=True)]}))
    c.mk(c.n('v1', 'secrets'), {'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'two', 'ownerReferences': [ref, dict(ref, name='other', uid='00000000-0000-0000-0000-000000000000')]}})
    c.delete(c.cm('owner'), {'propagationPolicy': 'Foreground'}, sel=meta)
    c.gone(c.cm('child'))
    c.wait('blocked', lambda: c.raw('GET', c.cm('blocks'))['metadata.deletionTimestamp'])
    c.get(c.cm('owner'), sel=meta)
    c.raw('PATCH', c.cm('blocks'), {'metadata': {'finalizers': None}}, ct=MP)
    c.gone(c.cm('owner'))
    c.gone(c.n('v1', 'secrets', 'two'))


# ================================================================================================ lists and watches
@sc('list', 'continue-tokens')
def _(c):
    for i in range(5):
        c.mk(c.cm(), cm('p%d' % i, labels={'k': 'v'}))
    q = {'limit': '2', 'labelSelector': 'k=v'}
    r = c.get(c.cm(), q=q, sel=lambda b: [names(b), sorted(b['metadata'])])
    t = r['metadata.continue']
    for label, more in [('other selector', {'continue': t, 'labelSelector': 'k!=v'}), ('with rv', {'continue': t, 'resourceVersion': '1'}), ('with match', {'continue': t, 'resourceVersionMatch': 'Exact'}), ('zero', {'limit': '0'}), ('rv zero', {'resourceVersion': '0'}), ('exact zero', {'resourceVersion': '0', 'resourceVersionMatch': 'Exact'}), ('exact none', {'resourceVersionMatch': 'Exact'}), ('not older', {'resourceVersion': '1', 'resourceVersionMatch': 'NotOlderThan'}), ('huge limit', {'limit': '9223372036854775807'}), ('over', {'limit': '9223372036854775808'})]:
        c.get(c.cm(), q=dict(q, **more), sel=lambda b: [len(b['items']), sorted(b['metadata'])], label=label)
    c.get(c.cm(), q=dict(q, **{'continue': t}), accept=TABLE, sel=lambda b: [r['cells'][0] for r in b['rows']], label='next as a table')
    c.get('/api/v1/configmaps', q={'limit': '1', 'labelSelector': 'k=v', 'fieldSelector': 'metadata.namespace=' + c.ns}, sel=lambda b: [names(b), sorted(b['metadata'])], label='all namespaces')


@sc('list', 'field-selectors-per-kind')
def _(c):
    c.mk(c.pods(), pod('p', pspec(schedulerName='nobody', restartPolicy='Never')))
    c.mk(c.n('v1', 'secrets'), dict(obj('v1', 'Secret', 's'), type='a/b'))
    c.mk(c.n('v1', 'services'), svc('s', clusterIP='None'))
    c.mk(c.n('batch/v1', 'jobs'), dict(job('j'), spec=dict(job('j')['spec'], suspend=True)))
    for gv, res, sels in [('v1', 'pods', ['spec.schedulerName=nobody', 'spec.restartPolicy=Never', 'spec.restartPolicy!=Never', 'status.phase=Pending', 'status.phase==Running', 'spec.serviceAccountName=default', 'spec.hostNetwork=false', 'spec.hostNetwork=true', 'spec.nodeName=', 'status.podIP=', 'metadata.name=p,status.phase=Pending', 'spec.containers=x']), ('v1', 'secrets', ['type=a/b', 'type!=a/b', 'type=', 'data=x']), ('v1', 'services', ['spec.clusterIP=None', 'spec.type=ClusterIP', 'spec.type=NodePort']),
                          ('batch/v1', 'jobs', ['status.successful=0', 'status.successful=1', 'metadata.name=j']), ('apps/v1', 'replicasets', ['status.replicas=0']), ('apps/v1', 'deployments', ['metadata.namespace=' + c.ns, 'status.replicas=0']), ('v1', 'events', ['involvedObject.kind=Pod', 'source=x', 'reportingComponent=', 'type=Normal', 'nope=1']), ('v1', 'namespaces', []), ('v1', 'persistentvolumeclaims', ['metadata.name=x', 'spec.volumeName=x']), ('v1', 'replicationcontrollers', ['status.replicas=0'])]:
        for s in sels:
            c.get(c.n(gv, res), q={'fieldSelector': s}, sel=lambda b: [n for n in names(b) if n in ('p', 's', 'j')], label=res + ' ' + s)
    c.get('/api/v1/namespaces', q={'fieldSelector': 'status.phase=Active,metadata.name=' + c.ns}, sel=lambda b: len(b['items']))
    c.get('/api/v1/nodes', q={'fieldSelector': 'spec.unschedulable=true'}, sel=names)
    c.get('/apis/certificates.k8s.io/v1/certificatesigningrequests', q={'fieldSelector': 'spec.signerName=x'}, sel=names)


@sc('list', 'negotiation')
def _(c):
    c.mk(c.cm(), cm('x'))
    for a in ('application/json;as=Table;v=v1;g=meta.k8s.io', TABLE, POM, POML, 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io', 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io', 'application/yaml', 'application/vnd.kubernetes.protobuf;as=Nope;v=v1;g=meta.k8s.io', 'application/json;q=0.1,application/yaml;q=0.9', 'application/json;profile=x', 'application/json; charset=utf-8', '', 'application/json;as=Table;v=v9;g=meta.k8s.io,application/json', 'application/json;as=Table;v=v1;g=other'):
        for path, what in ((c.cm('x'), 'one'), (c.cm(), 'list')):
            c.get(path, accept=a, sel=lambda b: [b.get('kind'), b.get('apiVersion')] if isinstance(b, dict) else 'text', label='%s %r' % (what, a))
    c.req('GET', c.cm('x'), headers={'Accept-Encoding': 'gzip'}, sel=lambda b: 'ok', label='gzip')


@sc('list', 'tables-with-rows')
def _(c):
    c.mk(c.n('v1', 'secrets'), dict(obj('v1', 'Secret', 's'), stringData={'a': 'b'}))
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'sa'))
    c.mk(c.n('v1', 'services'), svc('e', type='ExternalName', externalName='a.b', ports=None, selector=None))
    c.mk(c.n('v1', 'services'), svc('h', clusterIP='None', ports=[{'port': 1, 'name': 'a'}, {'port': 2, 'name': 'b', 'protocol': 'UDP'}]))
    c.mk(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce', 'ReadOnlyMany'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}}}))
    c.mk(c.n('networking.k8s.io/v1', 'ingresses'), obj('networking.k8s.io/v1', 'Ingress', 'i', {'ingressClassName': 'x', 'tls': [{'hosts': ['a.b']}], 'rules': [{'host': h, 'http': {'paths': [{'path': '/', 'pathType': 'Prefix', 'backend': {'service': {'name': 's', 'port': {'number': 1}}}}]}} for h in ('a.b', 'c.d', 'e.f', 'g.h')]}))
    c.mk(c.n('policy/v1', 'poddisruptionbudgets'), obj('policy/v1', 'PodDisruptionBudget', 'b', {'minAvailable': '50%', 'selector': {'matchLabels': {'a': 'b'}}}))
    c.mk(c.n('batch/v1', 'cronjobs'), obj('batch/v1', 'CronJob', 'c', {'schedule': '@daily', 'suspend': True, 'jobTemplate': {'spec': job('x')['spec']}}))
    c.mk(c.n('batch/v1', 'jobs'), dict(job('j'), spec=dict(job('j')['spec'], suspend=True, completions=3)))
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.mk(c.n('apps/v1', 'statefulsets'), sts('t', 0))
    c.mk(c.n('autoscaling/v2', 'horizontalpodautoscalers'), obj('autoscaling/v2', 'HorizontalPodAutoscaler', 'a', {'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'none'}, 'metrics': [{'type': 'Resource', 'resource': {'name': 'memory', 'target': {'type': 'AverageValue', 'averageValue': '1Gi'}}}, {'type': 'Pods', 'pods': {'metric': {'name': 'q'}, 'target': {'type': 'AverageValue', 'averageValue': '5'}}}]}))
    c.mk(c.n('rbac.authorization.k8s.io/v1', 'rolebindings'), dict(obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'r'), roleRef={'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'view'}, subjects=[{'kind': 'User', 'name': 'u', 'apiGroup': 'rbac.authorization.k8s.io'}, {'kind': 'ServiceAccount', 'name': 's', 'namespace': 'n'}]))
    c.mk(c.n('networking.k8s.io/v1', 'networkpolicies'), obj('networking.k8s.io/v1', 'NetworkPolicy', 'n', {'podSelector': {'matchExpressions': [{'key': 'a', 'operator': 'NotIn', 'values': ['b', 'c']}]}}))
    c.mk(c.n('coordination.k8s.io/v1', 'leases'), obj('coordination.k8s.io/v1', 'Lease', 'l', {'holderIdentity': 'me'}))
    c.mk(c.n('v1', 'resourcequotas'), obj('v1', 'ResourceQuota', 'q', {'hard': {'pods': '5', 'limits.cpu': '2', 'requests.memory': '1Gi'}}))
    c.wait('quota', lambda: c.raw('GET', c.n('v1', 'resourcequotas', 'q'))['status.used'])
    for gv, res in [('v1', 'secrets'), ('v1', 'serviceaccounts'), ('v1', 'services'), ('v1', 'persistentvolumeclaims'), ('networking.k8s.io/v1', 'ingresses'), ('policy/v1', 'poddisruptionbudgets'), ('batch/v1', 'cronjobs'), ('batch/v1', 'jobs'), ('apps/v1', 'deployments'), ('apps/v1', 'statefulsets'), ('autoscaling/v2', 'horizontalpodautoscalers'), ('autoscaling/v1', 'horizontalpodautoscalers'), ('rbac.authorization.k8s.io/v1', 'rolebindings'), ('networking.k8s.io/v1', 'networkpolicies'), ('coordination.k8s.io/v1', 'leases'), ('v1', 'resourcequotas')]:
        c.get(c.n(gv, res), accept=TABLE, sel=lambda b: [[x for i, x in enumerate(r['cells'])] for r in tab(b)['rows']], label='%s %s' % (gv, res))


@sc('watch', 'resource-version-corners')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.mk(c.cm(), cm('w'))
    c.raw('PATCH', c.cm('w'), {'data': {'x': '1'}}, ct=MP)
    c.raw('DELETE', c.cm('w'))
    brief = lambda e: [e['type'], dig(e, 'object.metadata.name'), dig(e, 'object.data')]
    c.watch(c.cm(), {'resourceVersion': rv}, n=3, sel=brief)
    c.watch(c.cm(), {'resourceVersion': rv, 'fieldSelector': 'metadata.name=w'}, n=3, sel=brief)
    c.watch(c.cm(), {'resourceVersion': rv, 'labelSelector': 'none'}, n=1, timeout=1, sel=brief, label='nothing selected')
    c.watch(c.cm(), {'resourceVersion': '0', 'fieldSelector': 'metadata.name=kube-root-ca.crt'}, n=1, sel=lambda e: [e['type'], dig(e, 'object.metadata.name')], label='from any')
    c.watch(c.cm(), {'fieldSelector': 'metadata.name=kube-root-ca.crt'}, n=1, sel=lambda e: [e['type'], dig(e, 'object.metadata.name')], label='from now')
    c.watch(c.cm(), {'resourceVersion': '99999999'}, n=1, timeout=5, sel=lambda e: [e['type'], dig(e, 'object.reason')], label='from the future')
    # Watching a name is reading it: the object itself comes back, not events.
    c.get(c.cm('kube-root-ca.crt'), q={'watch': 'true', 'resourceVersion': rv}, sel=lambda b: [b['kind'], dig(b, 'metadata.name')], label='of one object')


@sc('watch', 'initial-events')
def _(c):
    c.mk(c.cm(), cm('a'))
    q = {'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'allowWatchBookmarks': 'true', 'fieldSelector': 'metadata.name=a'}
    brief = lambda e: [e['type'], dig(e, 'object.kind'), dig(e, 'object.metadata.name'), dig(e, 'object.metadata.annotations'), sorted(e['object'])]
    for rv in ('', '0', '1'):
        c.watch(c.cm(), dict(q, resourceVersion=rv), n=2, sel=brief, label='rv %r' % rv)
    c.watch(c.cm(), dict(q, allowWatchBookmarks='false'), n=1, timeout=2, sel=brief, label='without bookmarks')
    c.watch(c.cm(), dict(q, sendInitialEvents='false', resourceVersion=c.raw('GET', c.cm())['metadata.resourceVersion']), n=1, timeout=1, sel=brief, label='none wanted')
    c.watch(c.cm(), q, n=2, accept=POM, sel=brief, label='metadata')
    c.watch(c.cm(), q, n=2, accept=TABLE, sel=lambda e: [e['type'], e['object']['kind'], len(e['object']['rows'])], label='table')


@sc('watch', 'many-kinds')
def _(c):
    paths = [c.n('v1', 'secrets'), c.n('v1', 'services'), c.n('rbac.authorization.k8s.io/v1', 'roles'), c.n('batch/v1', 'cronjobs')]
    new = [obj('v1', 'Secret', 'w'), svc('w', clusterIP='None'), dict(obj('rbac.authorization.k8s.io/v1', 'Role', 'w'), rules=[]), obj('batch/v1', 'CronJob', 'w', {'schedule': '@yearly', 'suspend': True, 'jobTemplate': {'spec': job('x')['spec']}})]
    for p, o in zip(paths, new):
        rv = c.raw('GET', p)['metadata.resourceVersion']
        c.mk(p, o)
        c.raw('DELETE', p + '/w')
        c.watch(p, {'resourceVersion': rv, 'fieldSelector': 'metadata.name=w'}, stop=lambda e: e['type'] == 'DELETED', sel=lambda e: [e['type'], dig(e, 'object.kind'), dig(e, 'object.apiVersion')] if e['type'] != 'MODIFIED' else None, label=o['kind'])


# ================================================================================================ custom resources
@sc('crd', 'defaults-and-pruning')
def _(c):
    mkcrd(c, crd(c, osch({'spec': osch({'a': {'type': 'string', 'default': 'da'}, 'n': osch({'x': {'type': 'integer', 'default': 3}, 'y': {'type': 'integer'}}, default={}), 'l': {'type': 'array', 'items': osch({'k': {'type': 'string', 'default': 'dk'}})}, 'm': {'type': 'object', 'additionalProperties': osch({'v': {'type': 'string', 'default': 'dv'}})}, 'raw': OPEN, 'e': dict(OPEN, **{'x-kubernetes-embedded-resource': True}), 'is': {'x-kubernetes-int-or-string': True}, 'nul': {'type': 'string', 'nullable': True, 'default': 'dn'}})})))
    p = c.n('%s.example.com/v1' % c.u, 'widgets')
    for i, s in enumerate([{}, {'n': {'y': 1}}, {'n': None}, {'a': None}, {'nul': None}, {'l': [{}, {'k': 'x', 'z': 1}]}, {'m': {'q': {}, 'r': {'v': 'x', 'w': 1}}}, {'raw': {'any': [1, {'b': None}]}}, {'e': {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'x', 'bogus': 1}, 'foo': 1}}, {'e': {'kind': 'x'}}, {'is': 5}, {'is': '5%'}, {'is': True}, {'zzz': 1}]):
        c.post(p, cr(c, 'w%d' % i, s), sel=lambda b: b['spec'], label=json.dumps(s))
    c.post(p, cr(c, 'none'), sel=lambda b: b.get('spec', '<absent>'), label='no spec')
    c.post(p, cr(c, 'strict', {'zzz': 1, 'n': {'q': 1}}), q={'fieldValidation': 'Strict'}, label='strict')


@sc('crd', 'cel-rules')
def _(c):
    s = osch({'spec': osch({'min': {'type': 'integer'}, 'max': {'type': 'integer'}, 'name': {'type': 'string', 'maxLength': 20, 'x-kubernetes-validations': [{'rule': "self.startsWith('a')", 'message': 'must start with a', 'reason': 'FieldValueForbidden', 'fieldPath': None}]}, 'fixed': {'type': 'string', 'x-kubernetes-validations': [{'rule': 'self == oldSelf', 'message': 'is fixed'}]}, 'tags': {'type': 'array', 'maxItems': 5, 'items': {'type': 'string', 'maxLength': 9}, 'x-kubernetes-validations': [{'rule': 'self.all(t, t.size() > 1)', 'message': 'short tags'}]}},
                      **{'x-kubernetes-validations': [{'rule': '!has(self.min) || !has(self.max) || self.min <= self.max', 'message': 'min must not exceed max'}, {'rule': 'has(self.name)'}]})})
    s['properties']['spec']['properties']['name']['x-kubernetes-validations'][0].pop('fieldPath')
    mkcrd(c, crd(c, s))
    p = c.n('%s.example.com/v1' % c.u, 'widgets')
    for i, v in enumerate([{'name': 'ab'}, {'name': 'b'}, {'name': 'a', 'min': 3, 'max': 1}, {'min': 3, 'max': 1}, {'name': 'a', 'tags': ['xx', 'y', 'z']}, {'name': 'a', 'tags': ['xx']}]):
        c.post(p, cr(c, 'w%d' % i, v), sel=lambda b: b['spec'], label=json.dumps(v))
    c.mk(p, cr(c, 'f', {'name': 'a', 'fixed': 'x'}))
    c.patch(p + '/f', {'spec': {'fixed': 'y'}}, label='transition')
    c.patch(p + '/f', {'spec': {'fixed': None}}, sel=lambda b: b['spec'], label='removed')
    for rule in ('self.nope > 1', '1', "self.name.matches('(')", 'self.min == "x"'):
        o = crd(c, osch({'spec': osch({'min': {'type': 'integer'}, 'name': {'type': 'string'}}, **{'x-kubernetes-validations': [{'rule': rule}]})}), plural='gizmos', kind='Gizmo')
        c.post(CRDS, o, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='rule ' + rule)


@sc('crd', 'ratcheting')
def _(c):
    mkcrd(c, crd(c, osch({'spec': osch({'a': {'type': 'string'}, 'b': {'type': 'string'}})})))
    p = c.n('%s.example.com/v1' % c.u, 'widgets')
    c.mk(p, cr(c, 'w', {'a': 'long value', 'b': 'x'}))
    n = 'widgets.%s.example.com' % c.u
    c.patch(CRDS + '/' + n, [{'op': 'add', 'path': '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength', 'value': 3}], ct=JP, sel=lambda b: b['kind'])
    c.until(lambda: c.raw('POST', p, cr(c, 'probe', {'a': 'too long'}), q={'dryRun': 'All'}).code == 422, 15)
    c.patch(p + '/w', {'spec': {'b': 'y'}}, sel=lambda b: b['spec'], label='unchanged stays')
    c.patch(p + '/w', {'spec': {'a': 'still long'}}, label='changed is refused')
    c.patch(p + '/w', {'spec': {'a': 'ok'}}, sel=lambda b: b['spec'])
    c.patch(p + '/w', {'spec': {'a': 'long again'}}, label='not back')


@sc('crd', 'selectable-fields-and-columns')
def _(c):
    o = crd(c, osch({'spec': osch({'color': {'type': 'string'}, 'size': {'type': 'integer'}, 'when': {'type': 'string', 'format': 'date-time'}})}), columns=[{'name': 'Color', 'type': 'string', 'jsonPath': '.spec.color'}, {'name': 'Size', 'type': 'integer', 'jsonPath': '.spec.size', 'priority': 1}, {'name': 'When', 'type': 'date', 'jsonPath': '.spec.when'}, {'name': 'Lab', 'type': 'string', 'jsonPath': '.metadata.labels.x'}])
    o['spec']['versions'][0]['selectableFields'] = [{'jsonPath': '.spec.color'}, {'jsonPath': '.spec.size'}]
    mkcrd(c, o)
    p = c.n('%s.example.com/v1' % c.u, 'widgets')
    c.mk(p, cr(c, 'a', {'color': 'red', 'size': 1}))
    c.mk(p, cr(c, 'b', {'color': 'blue', 'size': 2, 'when': 'x'}))
    for s in ('spec.color=red', 'spec.color!=red', 'spec.size=2', 'spec.color=red,spec.size=2', 'spec.nope=1', 'metadata.name=a'):
        c.get(p, q={'fieldSelector': s}, sel=names, label=s)
    c.get(p, accept=TABLE, sel=lambda b: [[x['name'] for x in b['columnDefinitions']], [r['cells'] for r in b['rows']]])
    bad = crd(c, osch({'spec': OPEN}), plural='gizmos', kind='Gizmo')
    bad['spec']['versions'][0]['selectableFields'] = [{'jsonPath': '.metadata.name'}]
    c.post(CRDS, bad, q={'dryRun': 'All'}, sel=lambda b: b['kind'])


@sc('crd', 'versions')
def _(c):
    o = crd(c, osch({'spec': OPEN}))
    v = o['spec']['versions'][0]
    o['spec']['versions'] = [dict(v, name='v1', storage=True), dict(v, name='v1beta1', storage=False, deprecated=True), dict(v, name='v1alpha1', storage=False, served=False)]
    mkcrd(c, o)
    g = '%s.example.com' % c.u
    c.mk(c.n(g + '/v1', 'widgets'), cr(c, 'w', {'a': 1}))
    c.get(c.n(g + '/v1beta1', 'widgets', 'w'), sel=lambda b: [b['apiVersion'], b['spec']])
    c.get(c.n(g + '/v1alpha1', 'widgets', 'w'))
    c.get(c.n(g + '/v1beta1', 'widgets'), sel=lambda b: [b['apiVersion'], b['kind'], [i['apiVersion'] for i in b['items']]])
    c.post(c.n(g + '/v1beta1', 'widgets'), cr(c, 'x', {'b': 1}, v='v1beta1'), sel=lambda b: [b['apiVersion'], mf(b)])
    c.post(c.n(g + '/v1', 'widgets'), cr(c, 'y', {'b': 1}, v='v1beta1'))
    c.get(c.n(g + '/v1', 'widgets', 'x'), sel=lambda b: [b['apiVersion'], mf(b)])
    c.apply(c.n(g + '/v1', 'widgets', 'x'), cr(c, 'x', {'b': 2}), fm='mgr-b', label='apply in the other version')
    c.get('/apis/' + g, sel=lambda b: [[x['version'] for x in b['versions']], b['preferredVersion']['version']])
    c.get(CRDS + '/widgets.' + g, sel=lambda b: [b['status']['storedVersions'], [x['type'] for x in b['status']['conditions']]])


# ================================================================================================ limits and access
@sc('workloads', 'quota-of-objects')
def _(c):
    c.post(c.n('v1', 'resourcequotas'), obj('v1', 'ResourceQuota', 'q', {'hard': {'count/secrets': '1', 'services.nodeports': '0', 'count/deployments.apps': '1', 'persistentvolumeclaims': '0'}}), sel=no_mf)
    c.wait('status', lambda: c.raw('GET', c.n('v1', 'resourcequotas', 'q'))['status.hard'])
    c.post(c.n('v1', 'secrets'), obj('v1', 'Secret', 'a'), sel=lambda b: b['kind'])
    c.wait('used', lambda: dig(c.raw('GET', c.n('v1', 'resourcequotas', 'q')).body, 'status.used', {}).get('count/secrets') == '1')
    c.post(c.n('v1', 'secrets'), obj('v1', 'Secret', 'b'))
    c.post(c.n('v1', 'services'), svc('s', type='NodePort'))
    c.post(c.dep(), dep('d', 0), sel=lambda b: b['kind'])
    c.post(c.dep(), dep('e', 0))
    c.post(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}))
    c.delete(c.n('v1', 'secrets', 'a'), sel=lambda b: b['kind'])
    c.wait('freed', lambda: dig(c.raw('GET', c.n('v1', 'resourcequotas', 'q')).body, 'status.used', {}).get('count/secrets') == '0')
    c.get(c.n('v1', 'resourcequotas', 'q'), sel=lambda b: b['status'])


@sc('workloads', 'limit-range-kinds')
def _(c):
    c.mk(c.n('v1', 'limitranges'), obj('v1', 'LimitRange', 'l', {'limits': [{'type': 'Pod', 'max': {'cpu': '1'}}, {'type': 'PersistentVolumeClaim', 'min': {'storage': '1Gi'}, 'max': {'storage': '2Gi'}}, {'type': 'Container', 'defaultRequest': {'cpu': '100m'}, 'default': {'cpu': '200m'}}]}))
    r = lambda **k: pspec(schedulerName='nobody', containers=[{'name': n, 'image': 'i', 'resources': k} for n in ('a', 'b')])
    # a new range is noticed a little later
    c.until(lambda: c.raw('POST', c.pods(), pod('probe', r()), q={'dryRun': 'All'}).body['spec']['containers'][0]['resources'], 15)
    c.post(c.pods(), pod('ok', r()), sel=lambda b: [[x['resources'] for x in b['spec']['containers']], b['metadata'].get('annotations')])
    c.post(c.pods(), pod('big', r(limits={'cpu': '700m'})))
    for size in ('500Mi', '1Gi', '3Gi'):
        c.post(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p' + size.lower(), {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': size}}}), sel=lambda b: b['kind'], label=size)


@sc('workloads', 'budget-status')
def _(c):
    c.mk(c.dep(), dep('d', 2))
    c.wait('rolled', rolled(c))
    for name, spec in [('min', {'minAvailable': 1}), ('percent', {'minAvailable': '100%'}), ('max', {'maxUnavailable': 1}), ('none', {'minAvailable': 1})]:
        c.mk(c.n('policy/v1', 'poddisruptionbudgets'), obj('policy/v1', 'PodDisruptionBudget', name, dict(spec, selector={'matchLabels': {'app': 'none' if name == 'none' else 'd'}})))
        p = c.n('policy/v1', 'poddisruptionbudgets', name)
        c.wait(name, lambda: c.raw('GET', p)['status.observedGeneration'])
        c.get(p, sel=lambda b: {k: v for k, v in b['status'].items() if k != 'conditions'})
        c.get(p, sel=lambda b: [[x['type'], x['status'], x['reason']] for x in b['status'].get('conditions', [])])
    pods = [i['metadata']['name'] for i in c.raw('GET', c.pods()).body['items']]
    c.post(c.pods(pods[0]) + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': pods[0]}}, label='two budgets')


@sc('workloads', 'job-failure-policy')
def _(c):
    p = c.n('batch/v1', 'jobs')
    fails = {c.srv.fault + 'fail': 'true', c.srv.fault + 'exit-code': '42'}
    o = job('j', ann=fails)
    o['spec'].update({'backoffLimit': 6, 'podFailurePolicy': {'rules': [{'action': 'FailJob', 'onExitCodes': {'containerName': 'c', 'operator': 'In', 'values': [1, 42]}}]}})
    o['spec']['template']['spec']['restartPolicy'] = 'Never'
    c.mk(p, o)
    c.wait('failed', lambda: any(x['type'] == 'Failed' and x['status'] == 'True' for x in c.raw('GET', p + '/j').body.get('status', {}).get('conditions', [])), 40)
    c.get(p + '/j', sel=lambda b: [b['status'].get('failed'), [[x['type'], x['status'], x['reason']] for x in b['status']['conditions']]])


@sc('workloads', 'pod-conditions-and-gates')
def _(c):
    c.post(c.pods(), pod('g', pspec(schedulingGates=[{'name': 'a.b/c'}])), sel=lambda b: [b['spec'].get('schedulingGates'), b['status']])
    c.patch(c.pods('g'), {'spec': {'schedulingGates': [{'name': 'a.b/c'}, {'name': 'd.e/f'}]}}, label='no new gate')
    c.patch(c.pods('g'), {'spec': {'nodeSelector': {'x': 'y'}}}, sel=lambda b: b['spec']['nodeSelector'], label='gated may be narrowed')
    c.patch(c.pods('g'), {'spec': {'schedulingGates': None}}, sel=lambda b: b['spec'].get('schedulingGates'))
    c.patch(c.pods('g'), {'spec': {'nodeSelector': {'x': 'z'}}}, sel=lambda b: 'changed', label='no longer')
    c.patch(c.pods('g') + '/status', {'status': {'conditions': [{'type': 'example.com/ready', 'status': 'True'}]}}, ct=SMP, sel=lambda b: [x['type'] for x in b['status']['conditions'] if x['type'] == 'example.com/ready'])
    c.patch(c.pods('g') + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'e', 'image': 'i'}]}}, ct=SMP, sel=lambda b: b['spec'].get('ephemeralContainers'))
    c.patch(c.pods('g') + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'e', 'image': 'other'}]}}, ct=SMP, sel=lambda b: 'changed', label='no change of one')
    c.patch(c.pods('g'), {'spec': {'tolerations': []}}, sel=lambda b: b['spec']['tolerations'], label='tolerations come back')
    c.patch(c.pods('g'), {'spec': {'activeDeadlineSeconds': 100}}, sel=lambda b: b['spec']['activeDeadlineSeconds'])
    c.patch(c.pods('g'), {'spec': {'activeDeadlineSeconds': 200}}, label='deadline only shrinks')


@sc('misc', 'certificate-requests')
def _(c):
    p = '/apis/certificates.k8s.io/v1/certificatesigningrequests'
    o = dict(obj('certificates.k8s.io/v1', 'CertificateSigningRequest', c.u), spec={'request': 'eA==', 'signerName': 'example.com/x', 'usages': ['client auth']})
    c.post(p, o, label='no request')
    c.post(p, dict(o, spec={'signerName': 'bad'}), label='bad signer')
    c.post(p, dict(o, spec=dict(o['spec'], usages=['nope'])), label='bad usage')
    c.post(p, dict(o, spec=dict(o['spec'], expirationSeconds=5)), label='too short')


@sc('misc', 'reviews')
def _(c):
    for path, body in [('authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': c.ns}}}), ('authorization.k8s.io/v1/selfsubjectaccessreviews', {'spec': {'nonResourceAttributes': {'verb': 'get', 'path': '/version'}}}), ('authorization.k8s.io/v1/selfsubjectaccessreviews', {}), ('authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'user': 'nobody-' + c.u, 'resourceAttributes': {'verb': 'list', 'resource': 'secrets', 'group': '', 'namespace': c.ns}}}), ('authorization.k8s.io/v1/subjectaccessreviews', {'spec': {'groups': ['system:masters'], 'user': 'x', 'resourceAttributes': {'verb': '*', 'resource': '*'}}}),
                       ('authorization.k8s.io/v1/namespaces/%s/localsubjectaccessreviews' % c.ns, {'metadata': {'namespace': c.ns}, 'spec': {'user': 'u', 'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': c.ns}}}), ('authorization.k8s.io/v1/namespaces/%s/localsubjectaccessreviews' % c.ns, {'spec': {'user': 'u', 'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': 'other'}}}), ('authentication.k8s.io/v1/tokenreviews', {'spec': {'token': 'nope'}}), ('authentication.k8s.io/v1/tokenreviews', {'spec': {}})]:
        kind = {'self': 'SelfSubjectAccessReview', 'subj': 'SubjectAccessReview', 'loca': 'LocalSubjectAccessReview', 'toke': 'TokenReview'}[path.split('/')[-1][:4]]
        c.post('/apis/' + path, dict({'apiVersion': path.split('/')[0] + '/v1', 'kind': kind}, **body), sel=lambda b: b['status'], label=kind + json.dumps(body)[:80])


@sc('misc', 'rbac-rules')
def _(c):
    r = 'rbac.authorization.k8s.io/v1'
    who = {'Impersonate-User': 'user-' + c.u}
    c.mk(c.n(r, 'roles'), dict(obj(r, 'Role', 'r'), rules=[{'apiGroups': [''], 'resources': ['configmaps'], 'verbs': ['get', 'list'], 'resourceNames': ['x']}, {'apiGroups': ['apps'], 'resources': ['deployments/scale'], 'verbs': ['*']}]))
    c.mk(c.n(r, 'rolebindings'), dict(obj(r, 'RoleBinding', 'b'), roleRef={'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Role', 'name': 'r'}, subjects=[{'kind': 'User', 'name': 'user-' + c.u, 'apiGroup': 'rbac.authorization.k8s.io'}]))
    c.mk(c.cm(), cm('x'))
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.until(lambda: c.raw('GET', c.cm('x'), headers=who).code == 200, 10)
    for m, p, b in [('GET', c.cm('x'), None), ('GET', c.cm('y'), None), ('GET', c.cm(), None), ('GET', c.cm() + '?fieldSelector=metadata.name%3Dx', None), ('POST', c.cm(), cm('n')), ('DELETE', c.cm('x'), None), ('GET', c.dep('d'), None), ('GET', c.dep('d') + '/scale', None), ('PATCH', c.dep('d') + '/scale', {'spec': {'replicas': 0}}), ('GET', '/api/v1/nodes', None), ('GET', '/version', None), ('GET', '/metrics', None), ('GET', '/apis/apps/v1', None)]:
        c.req(m, p, b, ct=MP if m == 'PATCH' else None, headers=who, sel=lambda b: b.get('kind') if isinstance(b, dict) else 'text', label='%s %s' % (m, p.split('/')[-1]))


@sc('misc', 'warnings')
def _(c):
    for label, path, o in [('duplicate env', c.pods(), pod('a', {'containers': [{'name': 'c', 'image': 'i', 'env': [{'name': 'A', 'value': '1'}, {'name': 'A', 'value': '2'}]}]})), ('duplicate port', c.pods(), pod('b', {'containers': [{'name': 'c', 'image': 'i', 'ports': [{'containerPort': 80}, {'containerPort': 80}]}]})), ('null spread selector', c.pods(), pod('c', pspec(topologySpreadConstraints=[{'maxSkew': 1, 'topologyKey': 'z', 'whenUnsatisfiable': 'ScheduleAnyway'}]))), ('deprecated label', c.pods(), pod('d', pspec(nodeSelector={'beta.kubernetes.io/os': 'linux'}))), ('host ip', c.n('v1', 'services'), svc('e', externalIPs=['010.1.1.1'])), ('long name', c.n('batch/v1', 'cronjobs'), obj('batch/v1', 'CronJob', 'x' * 52, {'schedule': '@yearly', 'suspend': True, 'jobTemplate': {'spec': job('x')['spec']}})),
                           ('unknown', c.cm(), dict(cm('f'), bogus=1)), ('dotted name', c.pods(), pod('a.b')), ('ephemeral', c.pods(), pod('g', pspec(volumes=[{'name': 'v', 'gitRepo': {'repository': 'x'}}]))), ('fractional', c.pods(), pod('h', {'containers': [{'name': 'c', 'image': 'i', 'resources': {'requests': {'memory': '100m'}}}]})), ('ingress annotation', c.n('networking.k8s.io/v1', 'ingresses'), dict(obj('networking.k8s.io/v1', 'Ingress', 'j', {'defaultBackend': {'service': {'name': 's', 'port': {'number': 1}}}}), metadata={'name': 'j', 'annotations': {'kubernetes.io/ingress.class': 'x'}}))]:
        c.post(path, o, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label=label)
        if label == 'unknown':
            c.post(path, o, q={'dryRun': 'All', 'fieldValidation': 'Ignore'}, sel=lambda b: b['kind'], label='ignored')


@sc('misc', 'services')
def _(c):
    p = c.n('v1', 'services')
    show = lambda b: {k: v for k, v in b['spec'].items() if k not in ('clusterIP', 'clusterIPs')}
    c.post(p, svc('a'), sel=show)
    for label, patch in [('to node port', {'spec': {'type': 'NodePort'}}), ('to balancer', {'spec': {'type': 'LoadBalancer'}}), ('back', {'spec': {'type': 'ClusterIP'}}), ('to external', {'spec': {'type': 'ExternalName', 'externalName': 'a.b'}}), ('to cluster ip', {'spec': {'type': 'ClusterIP', 'externalName': None}}), ('headless', {'spec': {'clusterIP': 'None'}}), ('affinity', {'spec': {'sessionAffinity': 'ClientIP'}}), ('no affinity', {'spec': {'sessionAffinity': 'None'}}), ('families', {'spec': {'ipFamilyPolicy': 'PreferDualStack'}}), ('dual', {'spec': {'ipFamilyPolicy': 'RequireDualStack'}}), ('policy', {'spec': {'internalTrafficPolicy': 'Local'}}), ('ports', {'spec': {'ports': [{'port': 81, 'targetPort': 'http'}]}}), ('no ports', {'spec': {'ports': None}})]:
        c.patch(p + '/a', patch, sel=show, label=label)
    c.post(p, svc('b', type='NodePort', ports=[{'port': 80, 'nodePort': 100}]), label='port out of range')
    c.post(p, svc('c', clusterIP='10.96.0.1'), label='taken address')
    c.post(p, svc('e', ipFamilies=['IPv6']), label='no such family')
    c.post(p, svc('f', type='LoadBalancer', loadBalancerClass='a.b/c', allocateLoadBalancerNodePorts=False), sel=show)


@sc('misc', 'claims-and-volumes')
def _(c):
    p, v = c.n('v1', 'persistentvolumeclaims'), '/api/v1/persistentvolumes'
    for i, s in enumerate([{'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}, 'storageClassName': 'none', 'dataSource': {'kind': 'PersistentVolumeClaim', 'name': 'x'}}, {'accessModes': ['ReadWriteOncePod', 'ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}, {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '-1'}}}, {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}, 'limits': {'storage': '500Mi'}}}, {'accessModes': ['ReadWriteOnce'], 'volumeMode': 'Nope', 'resources': {'requests': {'storage': '1Gi'}}}, {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'Bad_', 'resources': {'requests': {'storage': '1Gi'}}}]):
        c.post(p, obj('v1', 'PersistentVolumeClaim', 'x', s), q={'dryRun': 'All'}, sel=lambda b: no_mf(b)['spec'], label='claim %d' % i)
    for i, s in enumerate([{}, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce']}, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'hostPath': {'path': '/x'}, 'nfs': {'server': 's', 'path': '/'}}, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'hostPath': {'path': '/../x'}}, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'local': {'path': '/x'}}, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'csi': {'driver': 'd'}}, {'capacity': {'storage': '1Gi'}, 'accessModes': ['Nope'], 'persistentVolumeReclaimPolicy': 'Nope', 'hostPath': {'path': '/x'}}]):
        c.post(v, obj('v1', 'PersistentVolume', c.u, s), q={'dryRun': 'All'}, sel=lambda b: no_mf(b)['spec'], label='volume %d' % i)


@sc('misc', 'more-validation')
def _(c):
    for i, (gv, kind, res, o) in enumerate([
            ('apps/v1', 'Deployment', 'deployments', {'spec': dict(dep('x')['spec'], template={'metadata': {'labels': {'app': 'x'}}, 'spec': {'containers': [{'name': 'c', 'image': 'i'}], 'restartPolicy': 'Never'}})}), ('apps/v1', 'Deployment', 'deployments', {'spec': dict(dep('x')['spec'], revisionHistoryLimit=-1)}), ('apps/v1', 'StatefulSet', 'statefulsets', {'spec': dict(sts('x')['spec'], persistentVolumeClaimRetentionPolicy={'whenDeleted': 'Nope'})}), ('apps/v1', 'DaemonSet', 'daemonsets', {'spec': dict(ds('x')['spec'], updateStrategy={'type': 'Nope'})}),
            ('batch/v1', 'Job', 'jobs', {'spec': dict(job('x')['spec'], template={'spec': pspec(restartPolicy='Always')})}), ('batch/v1', 'Job', 'jobs', {'spec': dict(job('x')['spec'], selector={'matchLabels': {'a': 'b'}})}), ('batch/v1', 'Job', 'jobs', {'spec': dict(job('x')['spec'], ttlSecondsAfterFinished=-1)}), ('batch/v1', 'Job', 'jobs', {'spec': dict(job('x')['spec'], completionMode='Indexed', completions=2, parallelism=200000)}), ('batch/v1', 'Job', 'jobs', {'spec': dict(job('x')['spec'], backoffLimitPerIndex=1)}), ('batch/v1', 'CronJob', 'cronjobs', {'spec': {'schedule': '61 * * * *', 'jobTemplate': {'spec': job('x')['spec']}}}), ('batch/v1', 'CronJob', 'cronjobs', {'spec': {'schedule': '* * * * *', 'startingDeadlineSeconds': -1, 'successfulJobsHistoryLimit': -1, 'jobTemplate': {'spec': job('x')['spec']}}}),
            ('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies', {'spec': {'podSelector': {}, 'ingress': [{'from': [{'ipBlock': {'cidr': 'x'}}]}]}}), ('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies', {'spec': {'podSelector': {}, 'ingress': [{'from': [{'ipBlock': {'cidr': '10.0.0.0/8', 'except': ['11.0.0.0/8']}}]}]}}), ('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies', {'spec': {'podSelector': {}, 'ingress': [{'ports': [{'port': 90, 'endPort': 80}, {'endPort': 5}, {'port': 'x', 'endPort': 9}]}]}}), ('networking.k8s.io/v1', 'Ingress', 'ingresses', {'spec': {'rules': [{'host': '1.2.3.4'}, {'host': '*.*.x'}, {'host': 'a.*.b'}]}}), ('networking.k8s.io/v1', 'Ingress', 'ingresses', {'spec': {'tls': [{'hosts': ['Bad_']}], 'defaultBackend': {'service': {'name': 's', 'port': {'number': 1, 'name': 'x'}}}}}), ('networking.k8s.io/v1', 'Ingress', 'ingresses', {'spec': {'rules': [{'http': {'paths': [{'path': '/a//b', 'pathType': 'Prefix', 'backend': {'service': {'name': 's', 'port': {'number': 1}}}}, {'path': '', 'pathType': 'Exact', 'backend': {'service': {'name': 'S_', 'port': {'name': 'Bad_'}}}}]}}]}}),
            ('autoscaling/v2', 'HorizontalPodAutoscaler', 'horizontalpodautoscalers', {'spec': {'maxReplicas': 0, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'D', 'name': 'd'}}}), ('autoscaling/v2', 'HorizontalPodAutoscaler', 'horizontalpodautoscalers', {'spec': {'minReplicas': 0, 'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'D', 'name': 'd'}}}), ('policy/v1', 'PodDisruptionBudget', 'poddisruptionbudgets', {'spec': {'maxUnavailable': 'x', 'selector': {'matchLabels': {'a b': 'c'}}}}), ('policy/v1', 'PodDisruptionBudget', 'poddisruptionbudgets', {'spec': {'unhealthyPodEvictionPolicy': 'Nope', 'selector': {}}}), ('v1', 'Secret', 'secrets', {'type': 'kubernetes.io/basic-auth'}), ('v1', 'Secret', 'secrets', {'type': 'kubernetes.io/ssh-auth'}), ('v1', 'Secret', 'secrets', {'data': {'a': '!'}}), ('v1', 'ConfigMap', 'configmaps', {'data': {'..': 'x'}}), ('v1', 'ConfigMap', 'configmaps', {'data': {'a' * 254: 'x'}}),
            ('rbac.authorization.k8s.io/v1', 'Role', 'roles', {'rules': [{'verbs': ['get']}]}), ('rbac.authorization.k8s.io/v1', 'Role', 'roles', {'rules': [{'verbs': ['get'], 'apiGroups': [''], 'resources': [], 'resourceNames': ['x']}]}), ('rbac.authorization.k8s.io/v1', 'RoleBinding', 'rolebindings', {'roleRef': {'apiGroup': 'nope', 'kind': 'Role', 'name': 'a/b'}}), ('v1', 'ServiceAccount', 'serviceaccounts', {'secrets': [{}]}), ('v1', 'LimitRange', 'limitranges', {'spec': {'limits': [{}]}}), ('v1', 'LimitRange', 'limitranges', {'spec': {'limits': [{'type': 'Container', 'default': {'cpu': '1'}, 'defaultRequest': {'cpu': '2'}}]}}), ('v1', 'ResourceQuota', 'resourcequotas', {'spec': {'hard': {'pods': '1'}, 'scopes': ['BestEffort', 'NotBestEffort']}}), ('discovery.k8s.io/v1', 'EndpointSlice', 'endpointslices', {'addressType': 'IPv4', 'endpoints': [{'addresses': ['::1']}], 'ports': [{'name': 'A_', 'protocol': 'X'}]}), ('v1', 'Event', 'events', {'involvedObject': {}}), ('v1', 'ReplicationController', 'replicationcontrollers', {'spec': {'selector': {'a': 'b'}, 'template': {'metadata': {'labels': {'a': 'c'}}, 'spec': pspec()}}})]):
        c.post(c.n(gv, res), dict({'apiVersion': gv, 'kind': kind, 'metadata': {'name': 'x'}}, **o), q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='%d %s %s' % (i, kind, json.dumps(o)[:60]))


@sc('misc', 'more-pod-validation')
def _(c):
    ctr = lambda **k: {'containers': [dict({'name': 'c', 'image': 'i'}, **k)]}
    vol = lambda **k: dict(pspec(), volumes=[dict({'name': 'v'}, **k)])
    for i, s in enumerate([ctr(ports=[{'containerPort': 70000}]), ctr(ports=[{'containerPort': 80, 'hostPort': -1}]), ctr(ports=[{'containerPort': 80, 'name': 'a'}, {'containerPort': 81, 'name': 'a'}]), ctr(env=[{'name': 'A', 'valueFrom': {'configMapKeyRef': {'name': 'x'}}}]), ctr(env=[{'name': 'A', 'valueFrom': {'secretKeyRef': {'name': 'x', 'key': 'b d'}}}]), ctr(env=[{'name': 'A', 'valueFrom': {'resourceFieldRef': {'resource': 'nope'}}}]), ctr(env=[{'name': 'A', 'valueFrom': {'fieldRef': {'fieldPath': 'status.phase'}}}]), ctr(env=[{'name': 'A', 'valueFrom': {'fieldRef': {'fieldPath': "metadata.labels['x']"}}}]), ctr(envFrom=[{'prefix': '1=', 'configMapRef': {'name': 'x'}}]), ctr(volumeMounts=[{'name': 'v', 'mountPath': '/a'}]), dict(vol(emptyDir={}), containers=[{'name': 'c', 'image': 'i', 'volumeMounts': [{'name': 'v', 'mountPath': '/a', 'subPath': '../x'}, {'name': 'v', 'mountPath': '/a'}, {'name': 'v', 'mountPath': '/b:c', 'mountPropagation': 'Nope'}]}]),
                           ctr(resources={'limits': {'memory': 'x'}}), ctr(resources={'limits': {'example.com/gpu': '1.5'}}), ctr(resources={'requests': {'example.com/gpu': '1'}}), ctr(resources={'limits': {'hugepages-2Mi': '1Mi'}}), ctr(livenessProbe={'httpGet': {'port': 'Bad_Name'}}), ctr(livenessProbe={'httpGet': {'port': 0, 'path': 'x', 'scheme': 'FTP'}}), ctr(livenessProbe={'grpc': {'port': 0}}), ctr(livenessProbe={'exec': {'command': ['x']}, 'terminationGracePeriodSeconds': 0}), ctr(lifecycle={'postStart': {'httpGet': {'port': 80}, 'exec': {'command': ['x']}}}), ctr(lifecycle={'preStop': {'sleep': {'seconds': -1}}}), ctr(securityContext={'capabilities': {'add': ['CAP_SYS_ADMIN']}, 'allowPrivilegeEscalation': False}), ctr(securityContext={'procMount': 'Nope'}), ctr(securityContext={'seccompProfile': {'type': 'Localhost'}}), ctr(restartPolicy='Always'), ctr(workingDir=''), ctr(terminationMessagePath=''), ctr(stdin=True, tty=True),
                           vol(hostPath={}), vol(hostPath={'path': '/../x', 'type': 'Nope'}), vol(secret={}), vol(secret={'secretName': 'x', 'defaultMode': 1000}), vol(configMap={'name': 'x', 'items': [{'key': 'a'}, {'path': '../b', 'key': 'b'}]}), vol(projected={}), vol(projected={'sources': [{'secret': {}}]}), vol(projected={'sources': [{'serviceAccountToken': {'path': '', 'expirationSeconds': 5}}]}), vol(downwardAPI={'items': [{'path': 'x', 'fieldRef': {'fieldPath': 'status.podIP'}}]}), vol(nfs={}), vol(persistentVolumeClaim={}), vol(emptyDir={'sizeLimit': '-1'}), vol(ephemeral={}), vol(csi={}), vol(name='Bad_', emptyDir={}),
                           dict(pspec(), hostNetwork=True, containers=[{'name': 'c', 'image': 'i', 'ports': [{'containerPort': 80, 'hostPort': 81}]}]), dict(pspec(), containers=[{'name': 'a', 'image': 'i', 'ports': [{'containerPort': 80, 'hostPort': 80}]}, {'name': 'b', 'image': 'i', 'ports': [{'containerPort': 81, 'hostPort': 80}]}]), dict(pspec(), affinity={'nodeAffinity': {'preferredDuringSchedulingIgnoredDuringExecution': [{'weight': 0, 'preference': {}}]}}), dict(pspec(), affinity={'podAffinity': {'preferredDuringSchedulingIgnoredDuringExecution': [{'weight': 101, 'podAffinityTerm': {'topologyKey': ''}}]}}), dict(pspec(), tolerations=[{'key': 'a b', 'operator': 'Nope'}]), dict(pspec(), tolerations=[{'key': 'a', 'effect': 'NoSchedule', 'tolerationSeconds': 5}]), dict(pspec(), topologySpreadConstraints=[{'maxSkew': 1, 'topologyKey': 'z', 'whenUnsatisfiable': 'DoNotSchedule', 'minDomains': 0, 'nodeTaintsPolicy': 'X'}]), dict(pspec(), dnsConfig={'nameservers': ['x'], 'searches': ['Bad_ x'], 'options': [{}]}), dict(pspec(), readinessGates=[{'conditionType': 'a b'}]), dict(pspec(), initContainers=[{'name': 'i', 'image': 'i', 'restartPolicy': 'Never'}]), dict(pspec(), setHostnameAsFQDN=True, hostUsers=False), dict(pspec(), nodeName='Bad_'), dict(pspec(), schedulerName='')]):
        c.post(c.pods(), {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}, 'spec': s}, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='%d %s' % (i, json.dumps(s)[:90]))


# ================================================================================================ protocol
@sc('protocol', 'cbor-and-protobuf-bodies')
def _(c):
    for ct in ('application/vnd.kubernetes.protobuf', 'application/cbor', 'application/json-patch+json', 'application/apply-patch+yaml'):
        c.req('POST', c.cm(), b'k8s\x00garbage' if 'protobuf' in ct else b'\xd9\xd9\xf7\xff', ct=ct, sel=status_only, label='create as ' + ct)
        c.req('PUT', c.cm('x'), b'k8s\x00', ct=ct, sel=status_only, label='update as ' + ct)


@sc('protocol', 'invalid-text')
def _(c):
    for i, b in enumerate([b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a\xff"}}', b'\xff\xfe\x00', b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"\xff\xfe"}}', b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"\\ud800"}}', b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a\\u0000b"}}', b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"\\u0001"}}}']):
        c.req('POST', c.cm(), b, q={'dryRun': 'All'}, sel=lambda x: x.get('data'), label='body %d' % i)
    for b in (b'\x00', b'a: \xff', b'a: &a [*a]', b'%YAML 9.9\n---\n', b'? {a: b}\n: c\n', b'!!binary "x"'):
        c.req('POST', c.cm(), b, ct='application/yaml', sel=status_only, label=repr(b))


@sc('protocol', 'bad-names-in-paths')
def _(c):
    for n in ('%2e%2e%2fsecrets', '..%2f..%2f', 'a%20b', '%', '%zz', 'x%0a', '.', '..', 'A' * 300):
        c.get(c.cm() + '/' + n, sel=lambda b: 'found', label='get ' + n[:20])
        c.delete(c.cm() + '/' + n, sel=lambda b: 'found', label='delete ' + n[:20])
        if '.' in n or '%2e' in n:
            continue
        c.req('GET', '/api/v1/namespaces/' + n + '/configmaps', sel=lambda b: [b['kind'], len(b['items'])], label='namespace ' + n[:20])


@sc('protocol', 'discovery-details')
def _(c):
    for g in ('autoscaling/v1', 'autoscaling/v2', 'policy/v1', 'storage.k8s.io/v1', 'events.k8s.io/v1', 'discovery.k8s.io/v1', 'scheduling.k8s.io/v1', 'coordination.k8s.io/v1', 'batch/v1', 'apps/v1'):
        c.get('/apis/' + g, sel=d.strip_hash)
    for g in ('apps', 'batch', 'storage.k8s.io', 'rbac.authorization.k8s.io', 'apiextensions.k8s.io'):
        c.get('/apis/' + g)
    r = c.raw('GET', '/apis', accept=d.AGG)
    c.rec('etag', [bool(r.headers.get('ETag')), r.headers.get('Vary'), r.headers.get('Content-Type')])
    r2 = c.raw('GET', '/apis', accept=d.AGG, headers={'If-None-Match': r.headers.get('ETag')})
    c.rec('not modified', [r2.code, len(r2.raw)])


if __name__ == '__main__':
    sys.exit(d.main())

#!/usr/bin/env python3
"""admission_and_lifecycle: what plugins, policies, budgets and owners do to objects over their lives; runner and options of compare.py."""
import copy, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare as d
from compare import (CRDS, JP, MP, OPEN, SMP, TABLE, cm, cr, crd, dep, dig, ds, job, mf, mkcrd, names, no_mf, obj, osch, pod, pspec, sts, svc)

d.SCEN.clear()
# See docs/reference/sandbox-differences.md: what a parser could have taken, and text diffs.
d.RX.insert(0, (d.re.compile(r'\n@@ .*?\n(?=, [a-zA-Z]|\]$|$)', d.re.S), ''))
d.RX.append((d.re.compile(r'(<input>:\d+:)\d+: Syntax error: .*', d.re.S), r'\1 Syntax error'))
sc = d.sc

ADM = '/apis/admissionregistration.k8s.io/v1'
VAP, VAPB = ADM + '/validatingadmissionpolicies', ADM + '/validatingadmissionpolicybindings'
MAP, MAPB = ADM + '/mutatingadmissionpolicies', ADM + '/mutatingadmissionpolicybindings'
CORE = lambda *resources, ops=('CREATE', 'UPDATE'), group='': [{'apiGroups': [group], 'apiVersions': ['v1'], 'operations': list(ops), 'resources': list(resources)}]


def meta(b):
    b = no_mf(b)
    return {k: v for k, v in b.get('metadata', {}).items() if k not in ('uid', 'resourceVersion', 'creationTimestamp', 'name', 'namespace')}


def install(c, kind, spec, actions=('Deny',), binding=None, name='p'):
    """a policy with a binding that is about the scenario's namespace alone"""
    full = '%s-%s' % (name, c.u)
    policies, bindings, word = (VAP, VAPB, 'Validating') if kind == 'validating' else (MAP, MAPB, 'Mutating')
    spec = dict({'failurePolicy': 'Fail'}, **spec)
    bound = dict({'policyName': full, 'matchResources': {'namespaceSelector': {'matchLabels': {'kubernetes.io/metadata.name': c.ns}}}}, **(binding or {}))
    if kind == 'validating':
        bound['validationActions'] = list(actions)
    for path, o in ((policies, obj('admissionregistration.k8s.io/v1', word + 'AdmissionPolicy', full, spec)), (bindings, obj('admissionregistration.k8s.io/v1', word + 'AdmissionPolicyBinding', full, bound))):
        c.cleanup(path + '/' + full)
        c.mk(path, o)
    return full


def in_force(c, refused, allowed=None):
    """waits until a policy acts: both servers compile policies after they have answered"""
    return c.until(refused, 15, 0.2)


def denies(c, path, o):
    return lambda: c.raw('POST', path, o, {'dryRun': 'All'}).code >= 400


def changes(c, path, o):
    marked = lambda b: 'marked' in (dig(b, 'metadata.labels', {}) or {})
    return lambda: marked(c.raw('POST', path, o, {'dryRun': 'All'}).body)


# ================================================================================================ validating policies
@sc('policy', 'reasons-and-messages')
def _(c):
    v = [{'expression': "object.data.a != 'one'", 'message': 'not one'}, {'expression': "object.data.a != 'two'", 'messageExpression': "'two is ' + object.data.a", 'reason': 'Invalid'},
         {'expression': "object.data.a != 'three'", 'reason': 'Forbidden'}, {'expression': "object.data.a != 'four'", 'reason': 'RequestEntityTooLarge'}, {'expression': "object.data.a != 'five'", 'messageExpression': "''", 'message': 'fallback'},
         {'expression': "object.data.a != 'six' ", 'messageExpression': "'' + object.data.nope"}, {'expression': "object.metadata.name.startsWith('x') || object.data.a == 'none'"}]
    install(c, 'validating', {'matchConstraints': {'resourceRules': CORE('configmaps')}, 'validations': v})
    in_force(c, denies(c, c.cm(), cm('x', {'a': 'one'})))
    for a in ('one', 'two', 'three', 'four', 'five', 'six', 'seven'):
        c.post(c.cm(), cm('x', {'a': a}), q={'dryRun': 'All'}, label=a)
    c.post(c.cm(), cm('y', {'a': 'seven'}), label='name')
    c.mk(c.cm(), cm('x', {'a': 'fine'}))
    c.patch(c.cm('x'), {'data': {'a': 'one'}}, label='merge')
    c.patch(c.cm('x'), [{'op': 'replace', 'path': '/data/a', 'value': 'two'}], ct=JP, label='json')
    c.apply(c.cm('x'), cm('x', {'a': 'three'}), force=True, label='apply')
    c.put(c.cm('x'), cm('x', {'a': 'four'}), label='put')


@sc('policy', 'warn-and-audit')
def _(c):
    install(c, 'validating', {'matchConstraints': {'resourceRules': CORE('configmaps')}, 'validations': [{'expression': "object.data.a != 'one'", 'message': 'not one'}, {'expression': "object.data.a != 'one' && object.data.a != 'two'"}],
                              'auditAnnotations': [{'key': 'k', 'valueExpression': "'v' + object.data.a"}]}, actions=('Warn', 'Audit'))
    c.until(lambda: c.raw('POST', c.cm(), cm('x', {'a': 'one'}), {'dryRun': 'All'}).headers.get('Warning'), 15)
    for a in ('one', 'two', 'three'):
        c.post(c.cm(), cm('x' + a, {'a': a}), sel=lambda b: b['data'], label=a)


@sc('policy', 'parameters')
def _(c):
    for name, most in (('small', '1'), ('large', '3')):
        c.mk(c.cm(), cm(name, {'most': most}, labels={'params': 'yes'}))
    spec = {'paramKind': {'apiVersion': 'v1', 'kind': 'ConfigMap'}, 'matchConstraints': {'resourceRules': CORE('secrets')}, 'validations': [{'expression': 'size(object.data) <= int(params.data.most)', 'messageExpression': "'at most ' + params.data.most + ' by ' + params.metadata.name"}]}
    sec = lambda n: obj('v1', 'Secret', 's%d' % n, data={'k%d' % i: 'eA==' for i in range(n)})
    p = c.n('v1', 'secrets')
    install(c, 'validating', spec, binding={'paramRef': {'name': 'small', 'namespace': c.ns, 'parameterNotFoundAction': 'Deny'}}, name='named')
    in_force(c, denies(c, p, sec(2)))
    for n in (1, 2):
        c.post(p, sec(n), q={'dryRun': 'All'}, label='named %d' % n, sel=lambda b: b['kind'])
    c.raw('DELETE', c.cm('small'))
    c.until(lambda: 'ailed to configure' in str(c.raw('POST', p, sec(1), {'dryRun': 'All'}).body), 10)
    c.post(p, sec(1), q={'dryRun': 'All'}, label='parameter is gone')


@sc('policy', 'parameters-by-selector')
def _(c):
    for name, most in (('small', '1'), ('large', '3')):
        c.mk(c.cm(), cm(name, {'most': most}, labels={'params': 'yes'}))
    spec = {'paramKind': {'apiVersion': 'v1', 'kind': 'ConfigMap'}, 'matchConstraints': {'resourceRules': CORE('secrets')}, 'validations': [{'expression': 'size(object.data) <= int(params.data.most)', 'messageExpression': "'at most ' + params.data.most"}]}
    sec = lambda n: obj('v1', 'Secret', 's%d' % n, data={'k%d' % i: 'eA==' for i in range(n)})
    p = c.n('v1', 'secrets')
    install(c, 'validating', spec, binding={'paramRef': {'selector': {'matchLabels': {'params': 'yes'}}, 'parameterNotFoundAction': 'Allow'}})
    in_force(c, denies(c, p, sec(2)))
    for n in (1, 2):
        c.post(p, sec(n), q={'dryRun': 'All'}, label='selected %d' % n, sel=lambda b: b['kind'])
    for name in ('small', 'large'):
        c.raw('DELETE', c.cm(name))
    c.wait('allowed without', lambda: c.raw('POST', p, sec(4), {'dryRun': 'All'}).code == 201, 10)


@sc('policy', 'variables-and-conditions')
def _(c):
    install(c, 'validating', {'matchConstraints': {'resourceRules': CORE('configmaps', ops=('CREATE', 'UPDATE', 'DELETE'))}, 'matchConditions': [{'name': 'not-exempt', 'expression': "request.operation == 'DELETE' || !('exempt' in object.data)"}, {'name': 'not-root', 'expression': "!(request.name == 'kube-root-ca.crt')"}],
                              'variables': [{'name': 'old', 'expression': 'oldObject == null ? "" : oldObject.data.a'}, {'name': 'double', 'expression': 'variables.old + variables.old'}],
                              'validations': [{'expression': "request.operation != 'DELETE' || variables.old != 'keep'", 'messageExpression': "'keep ' + variables.double"}, {'expression': "request.operation == 'DELETE' || object.data.a != variables.double || variables.old == ''", 'message': 'doubled'},
                                              {'expression': "request.operation == 'DELETE' || object.data.a != 'bad'", 'messageExpression': 'string(namespaceObject.metadata.name.size() > 0) + request.resource.resource + request.kind.kind + request.userInfo.username.substring(0, 2)'}]})
    in_force(c, denies(c, c.cm(), cm('x', {'a': 'bad'})))
    c.post(c.cm(), cm('x', {'a': 'bad', 'exempt': ''}), q={'dryRun': 'All'}, sel=lambda b: b['data'])
    c.post(c.cm(), cm('x', {'a': 'k'}), sel=lambda b: b['data'])
    c.patch(c.cm('x'), {'data': {'a': 'kk'}}, label='doubled')
    c.patch(c.cm('x'), {'data': {'a': 'keep'}}, sel=lambda b: b['data'])
    c.delete(c.cm('x'), label='kept')
    c.delete(c.cm(), q={'fieldSelector': 'metadata.name=x'}, label='collection')
    c.patch(c.cm('x'), {'data': {'a': 'free'}}, sel=lambda b: b['data'])
    c.delete(c.cm('x'), sel=lambda b: b['status'])


@sc('policy', 'failing-expressions')
def _(c):
    for name, policy in (('fail', 'Fail'), ('ignore', 'Ignore')):
        install(c, 'validating', {'failurePolicy': policy, 'matchConstraints': {'resourceRules': CORE('configmaps')}, 'validations': [{'expression': "object.data.missing == 'x'"}, {'expression': "object.data.a != '%s'" % name}]}, name=name)
    in_force(c, lambda: 'no such key' in str(c.raw('POST', c.cm(), cm('x'), {'dryRun': 'All'}).body))
    c.post(c.cm(), cm('x'), label='no such key')
    c.post(c.cm(), cm('x', {'a': 'ignore', 'missing': 'x'}), label='ignore applies to errors alone')
    c.post(c.cm(), cm('x', {'a': 'a', 'missing': 'x'}), sel=lambda b: b['data'])


@sc('policy', 'matching-of-resources')
def _(c):
    install(c, 'validating', {'matchConstraints': {'resourceRules': [dict(CORE('*', group='apps')[0], scope='Namespaced'), dict(CORE('pods', 'pods/binding', 'pods/ephemeralcontainers')[0])], 'excludeResourceRules': CORE('statefulsets', group='apps'), 'objectSelector': {'matchExpressions': [{'key': 'skip', 'operator': 'DoesNotExist'}]}},
                              'validations': [{'expression': 'false', 'messageExpression': "request.resource.resource + '/' + request.subResource + ' ' + request.operation"}]})
    in_force(c, denies(c, c.pods(), pod('p')))
    c.post(c.dep(), dep('d', 0), label='deployment')
    c.post(c.n('apps/v1', 'statefulsets'), sts('s', 0), sel=lambda b: b['kind'], label='excluded')
    skipped = dep('e', 0)
    skipped['metadata']['labels']['skip'] = 'yes'
    c.post(c.dep(), skipped, sel=lambda b: b['kind'], label='selected out')
    c.patch(c.dep('e') + '/scale', {'spec': {'replicas': 1}}, sel=lambda b: b['kind'], label='scale is another resource')
    c.patch(c.dep('e'), {'metadata': {'labels': {'skip': None}}}, label='old object is selected out, the new one not')
    c.post(c.n('apps/v1', 'controllerrevisions'), obj('apps/v1', 'ControllerRevision', 'r', revision=1), label='revision')


@sc('policy', 'subresources-and-scale')
def _(c):
    install(c, 'validating', {'matchConstraints': {'resourceRules': CORE('deployments/scale', 'deployments/status', group='apps', ops=('UPDATE',))}, 'validations': [{'expression': "request.subResource == 'scale' ? object.spec.replicas < 5 : !has(object.status.collisionCount)", 'messageExpression': "request.subResource + ' ' + request.requestKind.kind"}]})
    c.mk(c.dep(), dep('d', 0))
    c.until(lambda: c.raw('PATCH', c.dep('d') + '/scale', {'spec': {'replicas': 9}}, {'dryRun': 'All'}, MP).code >= 400, 15)
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 7}}, label='scale')
    c.put(c.dep('d') + '/scale', obj('autoscaling/v1', 'Scale', 'd', {'replicas': 8}), label='put scale')
    c.patch(c.dep('d') + '/status', {'status': {'collisionCount': 3}}, label='status')
    c.patch(c.dep('d'), {'spec': {'replicas': 0, 'paused': True}}, sel=lambda b: b['spec']['paused'], label='main')


@sc('policy', 'custom-resources')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({'size': {'type': 'integer'}, 'tags': {'type': 'array', 'items': {'type': 'string'}}})})))
    install(c, 'validating', {'matchConstraints': {'resourceRules': CORE('widgets', group=c.u + '.example.com', ops=('*',))}, 'validations': [{'expression': "!has(object.spec.size) || object.spec.size < 10", 'messageExpression': "'size ' + string(object.spec.size)"}, {'expression': "!has(object.spec.tags) || object.spec.tags.all(t, t.matches('^[a-z]+$'))", 'message': 'tags'}]})
    in_force(c, denies(c, p, cr(c, 'a', {'size': 11})))
    for spec in ({'size': 11}, {'tags': ['a', 'B']}, {'size': 3, 'tags': ['a']}, {'size': 'x'}):
        c.post(p, cr(c, 'a', spec), sel=lambda b: b['spec'], label=json.dumps(spec))
    c.apply(p + '/a', cr(c, 'a', {'size': 12}), force=True, label='apply')


@sc('policy', 'bad-policies')
def _(c):
    rules = {'resourceRules': CORE('configmaps')}
    for label, spec in (('syntax', {'validations': [{'expression': 'object..x'}]}), ('type', {'validations': [{'expression': '1 + 1'}]}), ('unknown variable', {'validations': [{'expression': 'variables.nope == 1'}]}), ('none', {'validations': []}), ('params without kind', {'validations': [{'expression': 'params.data.x == "y"'}]}),
                        ('message', {'validations': [{'expression': 'true', 'messageExpression': '1'}]}), ('reason', {'validations': [{'expression': 'true', 'reason': 'Nope'}]}), ('line break', {'validations': [{'expression': 'true', 'message': 'a\nb'}]}), ('condition', {'validations': [{'expression': 'true'}], 'matchConditions': [{'name': 'a b', 'expression': '1'}]}),
                        ('twice', {'validations': [{'expression': 'true'}], 'matchConditions': [{'name': 'a', 'expression': 'true'}, {'name': 'a', 'expression': 'true'}]}), ('variable', {'validations': [{'expression': 'true'}], 'variables': [{'name': '1x', 'expression': '1'}, {'name': 'y', 'expression': 'variables.z'}]}), ('policy', {'validations': [{'expression': 'true'}], 'failurePolicy': 'Maybe'}),
                        ('audit', {'validations': [{'expression': 'true'}], 'auditAnnotations': [{'key': 'a/b', 'valueExpression': '1'}]}), ('unauthorized', {'validations': [{'expression': 'true', 'reason': 'Unauthorized'}]}), ('untyped', {'validations': [{'expression': 'object.data.x', 'messageExpression': 'object.data.y'}]}), ('object unknown', {'validations': [{'expression': "authorizer.group('').resource('pods').check('get').allowed()"}]})):
        c.post(VAP, obj('admissionregistration.k8s.io/v1', 'ValidatingAdmissionPolicy', 'bad-' + c.u, dict({'matchConstraints': rules}, **spec)), q={'dryRun': 'All'}, label=label, sel=lambda b: no_mf(b)['spec'])
    for label, spec in (('actions', {'policyName': 'x', 'validationActions': []}), ('both', {'policyName': 'x', 'validationActions': ['Deny', 'Warn']}), ('twice', {'policyName': 'x', 'validationActions': ['Deny', 'Deny']}), ('nameless', {'validationActions': ['Deny']}), ('ref', {'policyName': 'x', 'validationActions': ['Deny'], 'paramRef': {'name': 'a', 'selector': {}}})):
        c.post(VAPB, obj('admissionregistration.k8s.io/v1', 'ValidatingAdmissionPolicyBinding', 'bad-' + c.u, spec), q={'dryRun': 'All'}, label='binding ' + label, sel=lambda b: no_mf(b)['spec'])


@sc('policy', 'type-checking')
def _(c):
    for label, rules, expression in (('field', CORE('deployments', group='apps'), 'object.spec.replicaz > 1'), ('type', CORE('deployments', group='apps'), "object.spec.replicas > '1'"), ('two kinds', CORE('deployments', 'statefulsets', group='apps'), 'object.spec.strategy.type == "x"'), ('fine', CORE('deployments', group='apps'), 'object.spec.replicas > 1')):
        name = '%s-%s' % (label.replace(' ', ''), c.u)
        c.cleanup(VAP + '/' + name)
        c.mk(VAP, obj('admissionregistration.k8s.io/v1', 'ValidatingAdmissionPolicy', name, {'matchConstraints': {'resourceRules': rules}, 'validations': [{'expression': expression}]}))
        c.until(lambda: c.raw('GET', VAP + '/' + name)['status.observedGeneration'], 20)
        c.get(VAP + '/' + name, sel=lambda b: b['status'], label=label)


# ================================================================================================ mutating policies
def mutation(expression, patch='ApplyConfiguration'):
    return {'patchType': patch, ('applyConfiguration' if patch == 'ApplyConfiguration' else 'jsonPatch'): {'expression': expression}}


MARK = "Object{metadata: Object.metadata{labels: {'marked': 'yes'}}}"


@sc('policy', 'mutations-by-apply-configuration')
def _(c):
    install(c, 'mutating', {'reinvocationPolicy': 'Never', 'matchConstraints': {'resourceRules': CORE('configmaps') + CORE('deployments', group='apps')}, 'variables': [{'name': 'n', 'expression': "string(size(object.metadata.name))"}], 'mutations': [
        mutation("Object{metadata: Object.metadata{labels: {'marked': 'yes', 'size': variables.n}}}"), mutation("has(object.spec) ? Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{initContainers: [Object.spec.template.spec.initContainers{name: 'mesh', image: 'mesh:1', restartPolicy: 'Always'}]}}}} : Object{}")]})
    in_force(c, changes(c, c.cm(), cm('x')))
    c.post(c.cm(), cm('x', labels={'own': 'l'}), sel=lambda b: [meta(b), mf(b)])
    c.post(c.dep(), dep('d', 0), sel=lambda b: [meta(b), b['spec']['template']['spec'], mf(b)])
    c.patch(c.dep('d'), {'metadata': {'labels': {'marked': None}}}, sel=lambda b: [b['metadata']['labels'], mf(b)], label='again')
    c.apply(c.cm('y'), cm('y'), sel=lambda b: [meta(b), mf(b)], label='apply')
    c.post(c.cm(), cm('z'), q={'dryRun': 'All'}, sel=meta, label='dry run')


@sc('policy', 'mutations-by-json-patch')
def _(c):
    install(c, 'mutating', {'reinvocationPolicy': 'IfNeeded', 'matchConstraints': {'resourceRules': CORE('configmaps')}, 'mutations': [mutation(e, 'JSONPatch') for e in (
        "has(object.metadata.labels) ? [] : [JSONPatch{op: 'add', path: '/metadata/labels', value: {}}]", "[JSONPatch{op: 'add', path: '/metadata/labels/marked', value: 'yes'}, JSONPatch{op: 'test', path: '/data/a', value: '1'}]",
        "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/x'), value: object.data.a}]", "[JSONPatch{op: 'add', path: '/data/n', value: Object.data{x: '1'}.x}]")]})
    in_force(c, changes(c, c.cm(), cm('x')))
    c.post(c.cm(), cm('x'), sel=lambda b: [meta(b), b['data']])
    c.post(c.cm(), cm('y', {'a': '2'}), label='test fails')
    c.patch(c.cm('x'), {'data': {'b': 'z'}}, sel=lambda b: b['data'])


@sc('policy', 'mutations-that-fail')
def _(c):
    for name, policy, m in (('ignored', 'Ignore', "Object{metadata: Object.metadata{labels: {'l': object.data.missing}}}"), ('fails', 'Fail', "Object{metadata: Object.metadata{labels: {'l': object.data.a == 'go' ? 'x' : object.data.missing}}}"), ('mark', 'Fail', MARK)):
        install(c, 'mutating', {'failurePolicy': policy, 'reinvocationPolicy': 'Never', 'matchConstraints': {'resourceRules': CORE('configmaps')}, 'mutations': [mutation(m)]}, name=name)
    in_force(c, changes(c, c.cm(), cm('x', {'a': 'go'})))
    c.post(c.cm(), cm('x', {'a': 'go'}), sel=meta)
    c.post(c.cm(), cm('y', {'a': 'stop'}), label='fails')


@sc('policy', 'mutations-with-invalid-results')
def _(c):
    install(c, 'mutating', {'reinvocationPolicy': 'Never', 'matchConstraints': {'resourceRules': CORE('services')}, 'matchConditions': [{'name': 'm', 'expression': "object.metadata.name != 'free'"}], 'mutations': [mutation("Object{metadata: Object.metadata{labels: {'bad label!': 'x'}}}")]})
    in_force(c, denies(c, c.n('v1', 'services'), svc('x')))
    c.post(c.n('v1', 'services'), svc('x'), label='invalid label')
    c.post(c.n('v1', 'services'), svc('free'), sel=lambda b: b['metadata'].get('labels'))


@sc('policy', 'mutations-of-custom-resources')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({'size': {'type': 'integer', 'maximum': 5}, 'parts': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], 'items': osch({'name': {'type': 'string'}, 'n': {'type': 'integer', 'default': 2}}, required=['name'])}})})))
    install(c, 'mutating', {'reinvocationPolicy': 'Never', 'matchConstraints': {'resourceRules': CORE('widgets', group=c.u + '.example.com')}, 'mutations': [mutation(MARK), mutation("Object{spec: Object.spec{size: has(object.spec.size) ? object.spec.size + 1 : 1, parts: [Object.spec.parts{name: 'added'}]}}")]})
    in_force(c, changes(c, p, cr(c, 'a', {'size': 1})))
    c.post(p, cr(c, 'a', {'size': 1, 'parts': [{'name': 'own', 'n': 7}]}), sel=lambda b: [b['spec'], b['metadata']['labels'], mf(b)])
    c.post(p, cr(c, 'b', {'size': 5}), label='too big after all')
    c.patch(p + '/a', {'spec': {'size': 3}}, sel=lambda b: b['spec'])


@sc('policy', 'bad-mutations')
def _(c):
    rules = {'resourceRules': CORE('configmaps')}
    for label, spec in (('none', {'mutations': []}), ('type', {'mutations': [{'patchType': 'Nope'}]}), ('missing', {'mutations': [{'patchType': 'JSONPatch'}]}), ('both', {'mutations': [dict(mutation(MARK), jsonPatch={'expression': '[]'})]}), ('other result', {'mutations': [mutation("'x'")]}), ('syntax', {'mutations': [mutation('Object{')]}), ('reinvocation', {'mutations': [mutation(MARK)], 'reinvocationPolicy': 'Sometimes'}), ('delete', {'mutations': [mutation(MARK)], 'reinvocationPolicy': 'Never', 'matchConstraints': {'resourceRules': CORE('configmaps', ops=('DELETE',))}})):
        c.post(MAP, obj('admissionregistration.k8s.io/v1', 'MutatingAdmissionPolicy', 'bad-' + c.u, dict({'matchConstraints': rules, 'reinvocationPolicy': 'Never'}, **spec)), q={'dryRun': 'All'}, label=label, sel=lambda b: no_mf(b)['spec'])


# ================================================================================================ quotas and limits
def quota(c, hard, name='q', used=None, **spec):
    c.mk(c.n('v1', 'resourcequotas'), obj('v1', 'ResourceQuota', name, dict({'hard': hard}, **spec)))
    return c.until(lambda: set(c.raw('GET', c.n('v1', 'resourcequotas', name))['status.hard'] or {}) == set(hard), 15)


def sized(name, requests=None, limits=None, **spec):
    r = {k: v for k, v in (('requests', requests), ('limits', limits)) if v}
    return pod(name, dict({'containers': [{'name': 'c', 'image': 'i', 'resources': r}]}, **spec))


def used(c, name, **want):
    c.until(lambda: all(c.raw('GET', c.n('v1', 'resourcequotas', name)).body['status']['used'].get(k.replace('_', '.')) == v for k, v in want.items()), 12)
    c.get(c.n('v1', 'resourcequotas', name), sel=lambda b: b['status'], label='used of ' + name)


@sc('quota', 'scopes')
def _(c):
    quota(c, {'pods': '1'}, 'besteffort', scopes=['BestEffort'])
    quota(c, {'pods': '1', 'requests.cpu': '1'}, 'sized', scopes=['NotBestEffort', 'NotTerminating'])
    quota(c, {'pods': '1'}, 'ending', scopes=['Terminating'])
    quota(c, {'pods': '1'}, 'class', scopeSelector={'matchExpressions': [{'scopeName': 'PriorityClass', 'operator': 'In', 'values': ['system-cluster-critical']}]})
    for name, p in (('a', sized('a')), ('b', sized('b')), ('c', sized('c', {'cpu': '2'})), ('d', sized('d', {'cpu': '500m'})), ('e', sized('e', {'cpu': '100m'})), ('f', sized('f', {'cpu': '1'}, activeDeadlineSeconds=500)), ('g', sized('g', {'cpu': '1'}, activeDeadlineSeconds=500)), ('h', sized('h', {'cpu': '1'}, priorityClassName='system-cluster-critical', activeDeadlineSeconds=500))):
        c.post(c.pods(), p, label=name, sel=lambda b: b['kind'])
    for q in ('besteffort', 'sized', 'ending', 'class'):
        used(c, q, pods='1' if q != 'class' else '0')


@sc('quota', 'counts-of-anything')
def _(c):
    quota(c, {'count/deployments.apps': '1', 'count/jobs.batch': '0', 'count/ingresses.networking.k8s.io': '1', 'services.nodeports': '1', 'services.loadbalancers': '0', 'services': '3', 'persistentvolumeclaims': '1', 'requests.storage': '1Gi', 'replicationcontrollers': '1'})
    for name, path, o in (('d1', c.dep(), dep('a', 0)), ('d2', c.dep(), dep('b', 0)), ('job', c.n('batch/v1', 'jobs'), job('j')), ('nodeport', c.n('v1', 'services'), svc('n1', type='NodePort')), ('nodeport 2', c.n('v1', 'services'), svc('n2', type='NodePort')),
                          ('balancer', c.n('v1', 'services'), svc('l', type='LoadBalancer')), ('plain', c.n('v1', 'services'), svc('s')), ('claim', c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '2Gi'}}, 'storageClassName': 'none'})),
                          ('small claim', c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}, 'storageClassName': 'none'}))):
        c.post(path, o, label=name, sel=lambda b: b['kind'])
    c.patch(c.n('v1', 'services', 's'), {'spec': {'type': 'NodePort'}}, label='to node port')
    c.delete(c.n('v1', 'services', 'n1'), sel=lambda b: b['status'])
    c.wait('freed', lambda: c.raw('PATCH', c.n('v1', 'services', 's'), {'spec': {'type': 'NodePort'}}, None, MP).code == 200, 12)
    c.until(lambda: c.raw('GET', c.n('v1', 'resourcequotas', 'q')).body['status']['used'].get('services') == '1', 12)
    c.get(c.n('v1', 'resourcequotas', 'q'), sel=lambda b: b['status'])


@sc('quota', 'compute')
def _(c):
    quota(c, {'requests.cpu': '1', 'limits.memory': '1Gi', 'requests.example.com/gpu': '1', 'requests.ephemeral-storage': '1Gi'})
    for name, p in (('nothing', sized('a')), ('cpu alone', sized('a', {'cpu': '1'})), ('all', sized('a', {'cpu': '500m', 'ephemeral-storage': '10Mi', 'example.com/gpu': '1'}, {'memory': '512Mi', 'example.com/gpu': '1'})), ('second device', sized('b', {'cpu': '1m', 'ephemeral-storage': '1', 'example.com/gpu': '1'}, {'memory': '1', 'example.com/gpu': '1'})), ('too much', sized('b', {'cpu': '600m', 'ephemeral-storage': '2Gi'}, {'memory': '600Mi'})), ('by limits', sized('b', None, {'cpu': '500m', 'memory': '512Mi', 'ephemeral-storage': '1Mi'}))):
        c.post(c.pods(), p, label=name, sel=lambda b: b['spec']['containers'][0]['resources'])
    used(c, 'q', requests_cpu='1')
    c.patch(c.n('v1', 'resourcequotas', 'q'), {'spec': {'hard': {'requests.cpu': '200m'}}}, sel=lambda b: b['spec'], label='less than is used')
    c.until(lambda: c.raw('GET', c.n('v1', 'resourcequotas', 'q')).body['status']['hard']['requests.cpu'] == '200m', 10)
    c.post(c.pods(), sized('z', {'cpu': '1m', 'ephemeral-storage': '1'}, {'memory': '1'}), label='over')
    c.delete(c.pods('a'), q={'gracePeriodSeconds': 0}, sel=lambda b: b['kind'])
    used(c, 'q', requests_cpu='500m')


@sc('quota', 'bad-quotas')
def _(c):
    p = c.n('v1', 'resourcequotas')
    for label, spec in (('negative', {'hard': {'pods': '-1'}}), ('fraction', {'hard': {'pods': '1.5'}}), ('name', {'hard': {'nope': '1'}}), ('qualified', {'hard': {'example.com/x': '1'}}), ('scope', {'hard': {'pods': '1'}, 'scopes': ['Nope']}), ('both scopes', {'hard': {'pods': '1'}, 'scopes': ['BestEffort', 'NotBestEffort']}), ('scope of cpu', {'hard': {'cpu': '1'}, 'scopes': ['BestEffort']}), ('selector', {'hard': {'pods': '1'}, 'scopeSelector': {'matchExpressions': [{'scopeName': 'PriorityClass', 'operator': 'In'}]}}), ('exists', {'hard': {'pods': '1'}, 'scopeSelector': {'matchExpressions': [{'scopeName': 'BestEffort', 'operator': 'In', 'values': ['x']}]}})):
        c.post(p, obj('v1', 'ResourceQuota', 'q', spec), q={'dryRun': 'All'}, label=label, sel=lambda b: b['spec'])


@sc('quota', 'limit-ranges-of-pods-and-claims')
def _(c):
    lim = [{'type': 'Container', 'default': {'cpu': '200m', 'memory': '64Mi'}, 'defaultRequest': {'cpu': '100m'}, 'min': {'cpu': '50m'}, 'max': {'cpu': '1', 'memory': '1Gi'}, 'maxLimitRequestRatio': {'cpu': '4'}}, {'type': 'Pod', 'max': {'cpu': '1500m'}, 'min': {'memory': '10Mi'}}, {'type': 'PersistentVolumeClaim', 'min': {'storage': '1Gi'}, 'max': {'storage': '5Gi'}}]
    c.post(c.n('v1', 'limitranges'), obj('v1', 'LimitRange', 'l', {'limits': lim}), sel=lambda b: b['spec'])
    two = sized('two', {'cpu': '900m'}, {'cpu': '900m'})
    two['spec']['containers'].append(dict(two['spec']['containers'][0], name='d'))
    for name, p in (('defaults', sized('a')), ('requests', sized('b', {'cpu': '150m'})), ('ratio', sized('x', {'cpu': '100m'}, {'cpu': '500m'})), ('small', sized('x', {'cpu': '10m'})), ('large', sized('x', {'cpu': '2'}, {'cpu': '2', 'memory': '2Gi'})), ('sum', two), ('init', pod('c', {'initContainers': [{'name': 'i', 'image': 'i'}], 'containers': [{'name': 'c', 'image': 'i'}]}))):
        c.post(c.pods(), p, label=name, sel=lambda b: [b['metadata'].get('annotations'), [x['resources'] for x in b['spec']['containers'] + b['spec'].get('initContainers', [])]])
    for size in ('500Mi', '2Gi', '9Gi'):
        c.post(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': size}}, 'storageClassName': 'none'}), label=size, sel=lambda b: b['spec'])
    c.post(c.dep(), dep('d', 1), sel=lambda b: b['spec']['template']['spec']['containers'][0]['resources'], label='templates are left alone')


# ================================================================================================ admission plugins
@sc('admission', 'priorities')
def _(c):
    base = '/apis/scheduling.k8s.io/v1/priorityclasses'
    hi, lo = 'hi-' + c.u, 'lo-' + c.u
    for name, o in ((hi, {'value': 1000, 'preemptionPolicy': 'Never', 'description': 'd'}), (lo, {'value': -5})):
        c.cleanup(base + '/' + name)
        c.post(base, obj('scheduling.k8s.io/v1', 'PriorityClass', name, **o))
    pp = lambda b: {k: b['spec'].get(k) for k in ('priority', 'priorityClassName', 'preemptionPolicy')}
    for i, spec in enumerate(({'priorityClassName': hi}, {'priorityClassName': lo}, {'priorityClassName': 'nope'}, {'priority': 5}, {'priority': 0}, {'priorityClassName': hi, 'priority': 1000}, {'priorityClassName': hi, 'priority': 7}, {'preemptionPolicy': 'Never'}, {'priorityClassName': hi, 'preemptionPolicy': 'PreemptLowerPriority'}, {'priorityClassName': 'system-node-critical'}, {})):
        c.post(c.pods(), pod('p%d' % i, dict(pspec(), **spec)), label=json.dumps(spec), sel=pp)
    c.patch(base + '/' + hi, {'value': 1001}, label='value')
    c.patch(base + '/' + hi, {'preemptionPolicy': 'PreemptLowerPriority'}, label='policy')
    c.patch(base + '/' + hi, {'description': 'other'}, sel=lambda b: [b['description'], meta(b)])
    for name, o in (('system-' + c.u, {'value': 1}), ('big-' + c.u, {'value': 2000000000})):
        c.post(base, obj('scheduling.k8s.io/v1', 'PriorityClass', name, **o), label=name.split('-')[0])
    c.delete(base + '/system-node-critical', q={'dryRun': 'All'}, label='system class')


@sc('admission', 'runtime-classes')
def _(c):
    base = '/apis/node.k8s.io/v1/runtimeclasses'
    name = 'rc-' + c.u
    c.cleanup(base + '/' + name)
    c.post(base, obj('node.k8s.io/v1', 'RuntimeClass', name, handler='h', overhead={'podFixed': {'cpu': '10m', 'memory': '5Mi'}}, scheduling={'nodeSelector': {'a': 'b'}, 'tolerations': [{'key': 'k', 'operator': 'Exists'}]}))
    f = lambda b: {k: b['spec'].get(k) for k in ('runtimeClassName', 'overhead', 'nodeSelector', 'tolerations')}
    for i, spec in enumerate(({'runtimeClassName': name}, {'runtimeClassName': name, 'nodeSelector': {'c': 'd'}, 'tolerations': [{'key': 'z', 'operator': 'Exists'}]}, {'runtimeClassName': name, 'nodeSelector': {'a': 'other'}}, {'runtimeClassName': 'nope'}, {'overhead': {'cpu': '1'}}, {'runtimeClassName': name, 'overhead': {'cpu': '1'}})):
        c.post(c.pods(), pod('p%d' % i, dict(pspec(), **spec)), label=json.dumps(spec), sel=f)
    c.patch(base + '/' + name, {'handler': 'other'}, label='handler')
    c.post(base, obj('node.k8s.io/v1', 'RuntimeClass', name + 'x', handler='Bad_'), label='bad handler')


@sc('admission', 'service-accounts')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'quiet', automountServiceAccountToken=False, imagePullSecrets=[{'name': 'pull'}]))
    f = lambda b: {'spec': {k: b['spec'].get(k) for k in ('serviceAccountName', 'serviceAccount', 'automountServiceAccountToken', 'imagePullSecrets')}, 'volumes': [sorted(v) for v in b['spec'].get('volumes', [])], 'mounts': [m['mountPath'] for m in b['spec']['containers'][0].get('volumeMounts', [])]}
    for i, spec in enumerate(({}, {'serviceAccountName': 'quiet'}, {'serviceAccountName': 'nope'}, {'serviceAccountName': 'quiet', 'automountServiceAccountToken': True}, {'automountServiceAccountToken': False}, {'serviceAccountName': 'quiet', 'imagePullSecrets': [{'name': 'own'}]}, {'serviceAccount': 'quiet'}, {'serviceAccount': 'default', 'serviceAccountName': 'quiet'})):
        c.post(c.pods(), pod('p%d' % i, dict(pspec(), **spec)), label=json.dumps(spec), sel=f)
    mounted = pspec()
    mounted['containers'][0]['volumeMounts'] = [{'name': 'mine', 'mountPath': '/var/run/secrets/kubernetes.io/serviceaccount'}]
    c.post(c.pods(), pod('mounted', dict(mounted, volumes=[{'name': 'mine', 'emptyDir': {}}])), sel=f, label='mounted by hand')
    mirror = pod('mirror')
    mirror['metadata']['annotations'] = {'kubernetes.io/config.mirror': 'x'}
    c.post(c.pods(), mirror, label='mirror', sel=f)


@sc('admission', 'token-secrets')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'bot'))
    sec = lambda name, account, **k: dict(obj('v1', 'Secret', name, type='kubernetes.io/service-account-token', **k), metadata={'name': name, 'annotations': {'kubernetes.io/service-account.name': account} if account else {}})
    c.post(c.n('v1', 'secrets'), sec('t', 'bot'), sel=lambda b: [b['type'], sorted(b.get('data', {}))])
    c.wait('filled', lambda: set(c.raw('GET', c.n('v1', 'secrets', 't')).body.get('data', {})) == {'token', 'ca.crt', 'namespace'}, 12)
    c.get(c.n('v1', 'secrets', 't'), sel=lambda b: [sorted(b['data']), sorted(b['metadata']['annotations']), b['metadata'].get('labels')])
    c.post(c.n('v1', 'secrets'), sec('u', ''), label='no account')
    c.post(c.n('v1', 'secrets'), sec('v', 'nobody'), sel=lambda b: b['type'], label='unknown account')
    c.gone(c.n('v1', 'secrets', 'v'), 12)
    c.delete(c.n('v1', 'serviceaccounts', 'bot'), sel=lambda b: b['kind'])
    c.gone(c.n('v1', 'secrets', 't'), 12)


@sc('admission', 'default-classes')
def _(c):
    name = 'dc-' + c.u
    base = '/apis/networking.k8s.io/v1/ingressclasses'
    ing = lambda n, **k: obj('networking.k8s.io/v1', 'Ingress', n, dict({'defaultBackend': {'service': {'name': 's', 'port': {'number': 80}}}}, **k))
    c.post(c.n('networking.k8s.io/v1', 'ingresses'), ing('none'), sel=lambda b: b['spec'])
    c.post(c.n('networking.k8s.io/v1', 'ingresses'), ing('unknown', ingressClassName='nope'), sel=lambda b: b['spec'])
    both = ing('both', ingressClassName='nope')
    both['metadata']['annotations'] = {'kubernetes.io/ingress.class': 'x'}
    c.post(c.n('networking.k8s.io/v1', 'ingresses'), both)
    c.post(base, dict(obj('networking.k8s.io/v1', 'IngressClass', name, {'controller': 'Bad Controller'})), label='bad controller')
    c.post(base, dict(obj('networking.k8s.io/v1', 'IngressClass', name, {'controller': 'example.com/c', 'parameters': {'kind': 'ConfigMap', 'name': 'x', 'scope': 'Namespace'}})), label='bad parameters')


@sc('admission', 'tolerations-and-taints')
def _(c):
    c.post(c.pods(), pod('p'), sel=lambda b: b['spec']['tolerations'])
    c.post(c.pods(), pod('q', dict(pspec(), tolerations=[{'key': 'node.kubernetes.io/not-ready', 'operator': 'Exists', 'effect': 'NoExecute', 'tolerationSeconds': 5}])), sel=lambda b: b['spec']['tolerations'])
    c.post(c.pods(), pod('r', dict(pspec(), tolerations=[{'operator': 'Exists'}])), sel=lambda b: b['spec']['tolerations'])
    c.post(c.pods(), sized('s', {'memory': '1Mi'}, tolerations=[]), sel=lambda b: b['spec']['tolerations'])
    c.patch(c.pods('p'), {'spec': {'tolerations': [{'key': 'n', 'operator': 'Exists'}]}}, ct=SMP, label='add', sel=lambda b: b['spec']['tolerations'])
    c.patch(c.pods('p'), {'spec': {'tolerations': []}}, label='take away')


@sc('admission', 'volume-expansion-and-protection')
def _(c):
    base = '/apis/storage.k8s.io/v1/storageclasses'
    for name, grows in (('grows-' + c.u, True), ('fixed-' + c.u, False)):
        c.cleanup(base + '/' + name)
        c.post(base, obj('storage.k8s.io/v1', 'StorageClass', name, provisioner='example.com/none', allowVolumeExpansion=grows), sel=lambda b: {k: v for k, v in b.items() if k != 'metadata'})
        c.post(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', name[:5], {'accessModes': ['ReadWriteOnce'], 'storageClassName': name, 'resources': {'requests': {'storage': '1Gi'}}}), sel=lambda b: [b['metadata']['finalizers'], b['spec'], b['status']])
        c.patch(c.n('v1', 'persistentvolumeclaims', name[:5]), {'spec': {'resources': {'requests': {'storage': '2Gi'}}}}, label='unbound')
    pv = 'pv-' + c.u
    c.cleanup('/api/v1/persistentvolumes/' + pv)
    c.post('/api/v1/persistentvolumes', obj('v1', 'PersistentVolume', pv, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'hostPath': {'path': '/x'}, 'storageClassName': 'manual-' + c.u}), sel=lambda b: [b['metadata']['finalizers'], b['spec']])
    c.post(c.n('v1', 'persistentvolumeclaims'), obj('v1', 'PersistentVolumeClaim', 'bound', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'manual-' + c.u, 'resources': {'requests': {'storage': '500Mi'}}}), sel=lambda b: b['spec'])
    c.wait('bound', lambda: c.raw('GET', c.n('v1', 'persistentvolumeclaims', 'bound'))['status.phase'] == 'Bound', 15)
    c.get(c.n('v1', 'persistentvolumeclaims', 'bound'), sel=lambda b: [b['spec'], b['status'], meta(b)])
    c.get('/api/v1/persistentvolumes/' + pv, sel=lambda b: [{k: v for k, v in b['spec']['claimRef'].items()}, b['status']['phase'], meta(b)])
    c.patch(c.n('v1', 'persistentvolumeclaims', 'bound'), {'spec': {'resources': {'requests': {'storage': '2Gi'}}}}, label='grow')
    c.delete('/api/v1/persistentvolumes/' + pv, sel=lambda b: [b['metadata'].get('finalizers'), 'deletionTimestamp' in b['metadata']])
    c.delete(c.n('v1', 'persistentvolumeclaims', 'bound'), sel=lambda b: b['kind'])
    c.gone(c.n('v1', 'persistentvolumeclaims', 'bound'))
    c.gone('/api/v1/persistentvolumes/' + pv)


# ================================================================================================ budgets and evictions
@sc('budget', 'of-percentages')
def _(c):
    c.mk(c.dep(), dep('web', 4))
    c.until(lambda: c.raw('GET', c.dep('web'))['status.readyReplicas'] == 4, 30)
    pdb = lambda n, **k: obj('policy/v1', 'PodDisruptionBudget', n, dict({'selector': {'matchLabels': {'app': 'web'}}}, **k))
    p = c.n('policy/v1', 'poddisruptionbudgets')
    for i, spec in enumerate(({'minAvailable': '50%'}, {'maxUnavailable': '30%'}, {'minAvailable': 4}, {'maxUnavailable': 0, 'unhealthyPodEvictionPolicy': 'AlwaysAllow'}, {'minAvailable': '110%'}, {'minAvailable': 1, 'maxUnavailable': 1}, {'minAvailable': -1}, {'unhealthyPodEvictionPolicy': 'Nope', 'minAvailable': 1}, {})):
        r = c.post(p, pdb('b%d' % i, **spec), label=json.dumps(spec), sel=lambda b: b['spec'])
        if r.code == 201:
            c.until(lambda: c.raw('GET', p + '/b%d' % i)['status.expectedPods'] == 4, 10)
            c.get(p + '/b%d' % i, sel=lambda b: b['status'], label='status')
            c.raw('DELETE', p + '/b%d' % i)
    name = c.raw('GET', c.pods()).body['items'][0]['metadata']['name']
    c.mk(p, pdb('all', minAvailable=4))
    c.until(lambda: c.raw('GET', p + '/all')['status.expectedPods'] == 4, 10)
    ev = obj('policy/v1', 'Eviction', name)
    c.post(c.pods(name) + '/eviction', ev, label='refused')
    c.post(c.pods(name) + '/eviction', ev, q={'dryRun': 'All'}, label='refused in a dry run')
    c.patch(p + '/all', {'spec': {'minAvailable': 3}}, sel=lambda b: [b['spec'], b['metadata']['generation']])
    c.until(lambda: c.raw('GET', p + '/all')['status.disruptionsAllowed'] == 1, 10)
    c.post(c.pods(name) + '/eviction', dict(ev, deleteOptions={'dryRun': ['All']}), label='allowed in a dry run')
    c.post(c.pods('nope') + '/eviction', obj('policy/v1', 'Eviction', 'nope'), label='missing')
    c.post(c.pods(name) + '/eviction', ev, label='allowed')
    c.post(c.pods(c.raw('GET', c.pods()).body['items'][-1]['metadata']['name']) + '/eviction', obj('policy/v1beta1', 'Eviction', 'x'), label='old version')


@sc('budget', 'selectors-and-scale')
def _(c):
    p = c.n('policy/v1', 'poddisruptionbudgets')
    for n, sel in (('none', {}), ('expr', {'matchExpressions': [{'key': 'app', 'operator': 'In', 'values': ['web']}]})):
        c.post(p, obj('policy/v1', 'PodDisruptionBudget', n, {'selector': sel, 'maxUnavailable': 1}), sel=lambda b: [b['spec'], b.get('status')])
    c.raw('DELETE', p + '/none')         # a pod wakes only one of the budgets that select it
    c.mk(c.pods(), pod('bare', labels={'app': 'web'}))
    c.until(lambda: c.raw('GET', c.pods('bare'))['status.phase'] == 'Running', 15)
    c.until(lambda: c.raw('GET', p + '/expr')['status.conditions.0.reason'] == 'SyncFailed', 10)
    c.get(p + '/expr', sel=lambda b: b['status'])
    c.patch(p + '/expr', {'spec': {'selector': {'matchLabels': {'x': 'y'}}}}, sel=lambda b: b['spec'])
    c.get(p, accept=TABLE, sel=lambda b: [r['cells'][:4] for r in b['rows']])


# ================================================================================================ owners
@sc('owners', 'of-other-scopes')
def _(c):
    c.mk(c.cm(), cm('owner'))
    uid = c.raw('GET', c.cm('owner'))['metadata.uid']
    ref = lambda **k: dict({'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'owner', 'uid': uid}, **k)
    c.post(c.cm(), cm('plain', ownerReferences=[ref()]), sel=meta)
    c.post(c.cm(), cm('block', ownerReferences=[ref(blockOwnerDeletion=True, controller=True)]), sel=meta)
    c.post(c.cm(), cm('renamed', ownerReferences=[ref(name='someone')]), sel=meta)
    c.post(c.cm(), cm('stranger', ownerReferences=[ref(uid='no-such')]), sel=meta)
    c.post(c.cm(), cm('node', ownerReferences=[{'apiVersion': 'v1', 'kind': 'Namespace', 'name': c.ns, 'uid': c.raw('GET', '/api/v1/namespaces/' + c.ns)['metadata.uid']}]), sel=meta)
    c.gone(c.cm('stranger'), 30)
    c.delete(c.cm('owner'), {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'propagationPolicy': 'Foreground'}, sel=lambda b: [b['kind'], dig(b, 'metadata.finalizers')])
    for n in ('owner', 'plain', 'block'):
        c.gone(c.cm(n), 30)
    c.get(c.cm('node'), sel=meta)


@sc('owners', 'orphan-and-adopt')
def _(c):
    c.mk(c.n('apps/v1', 'replicasets'), dict(dep('rs', 2), kind='ReplicaSet'))
    ready = lambda n: c.until(lambda: c.raw('GET', c.n('apps/v1', 'replicasets', n))['status.readyReplicas'] == 2, 30)
    ready('rs')
    before = sorted(p['metadata']['name'] for p in c.raw('GET', c.pods()).body['items'])
    c.delete(c.n('apps/v1', 'replicasets', 'rs'), {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'propagationPolicy': 'Orphan'}, sel=lambda b: [b['kind'], dig(b, 'metadata.finalizers')])
    c.gone(c.n('apps/v1', 'replicasets', 'rs'))
    c.get(c.pods(), sel=lambda b: [p['metadata'].get('ownerReferences') for p in b['items']])
    c.mk(c.n('apps/v1', 'replicasets'), dict(dep('rs', 2), kind='ReplicaSet'))
    ready('rs')
    after = c.raw('GET', c.pods()).body['items']
    c.rec('adopted', [sorted(p['metadata']['name'] for p in after) == before, [[o['kind'], o['name'], o['controller'], o['blockOwnerDeletion']] for p in after for o in p['metadata']['ownerReferences']]])
    c.patch(c.pods(before[0]), {'metadata': {'labels': {'app': 'other'}}}, sel=lambda b: b['metadata']['labels'], label='relabel')
    c.wait('released', lambda: not c.raw('GET', c.pods(before[0]))['metadata.ownerReferences'] and len(c.raw('GET', c.pods()).body['items']) == 3, 15)


@sc('owners', 'collections-and-propagation')
def _(c):
    for i, l in enumerate(('a', 'a', 'b', 'b')):
        c.mk(c.dep(), dep('d%d' % i, 1))
        c.raw('PATCH', c.dep('d%d' % i), {'metadata': {'labels': {'set': l}}}, None, MP)
    c.until(lambda: len(c.raw('GET', c.pods()).body['items']) == 4, 20)
    c.delete(c.dep(), q={'labelSelector': 'set=a', 'propagationPolicy': 'Orphan'}, sel=lambda b: [b['kind'], len(b.get('items', []))])
    c.wait('two deployments', lambda: len(c.raw('GET', c.dep()).body['items']) == 2, 20)
    c.delete(c.dep(), q={'labelSelector': 'set=b', 'dryRun': 'All'}, sel=lambda b: [b['kind'], len(b.get('items', []))])
    c.delete(c.dep(), q={'labelSelector': 'set=b', 'limit': 1}, sel=lambda b: [b['kind'], len(b.get('items', []))], label='limit')
    c.delete(c.dep(), q={'fieldSelector': 'metadata.name!=d0', 'labelSelector': 'set=b'}, sel=lambda b: b['kind'], label='fields')
    c.wait('orphans stay', lambda: [names(c.raw('GET', c.dep()).body), len(c.raw('GET', c.n('apps/v1', 'replicasets')).body['items'])] == [[], 2], 30)
    c.delete(c.n('apps/v1', 'replicasets'), {'kind': 'DeleteOptions', 'apiVersion': 'v1', 'propagationPolicy': 'Nope'}, label='bad policy')
    c.delete(c.n('apps/v1', 'replicasets'), q={'labelSelector': '!!'}, label='bad selector')


@sc('owners', 'foreground-with-finalizers')
def _(c):
    c.mk(c.cm(), cm('owner'))
    uid = c.raw('GET', c.cm('owner'))['metadata.uid']
    c.mk(c.cm(), cm('child', finalizers=['example.com/hold'], ownerReferences=[{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'owner', 'uid': uid, 'blockOwnerDeletion': True}]))
    c.until(lambda: c.raw('GET', c.cm('child')).code == 200, 5)
    c.delete(c.cm('owner'), q={'propagationPolicy': 'Foreground'}, sel=lambda b: [b['metadata'].get('finalizers'), b['metadata'].get('deletionGracePeriodSeconds')])
    c.wait('child is being deleted', lambda: c.raw('GET', c.cm('child'))['metadata.deletionTimestamp'], 15)
    c.get(c.cm('owner'), sel=lambda b: b['metadata'].get('finalizers'))
    c.patch(c.cm('owner'), {'metadata': {'finalizers': ['foregroundDeletion', 'a.b/late']}}, label='new finalizer')
    c.patch(c.cm('child'), {'data': {'still': 'writable'}}, sel=lambda b: b['data'])
    c.patch(c.cm('child'), {'metadata': {'finalizers': None}}, sel=lambda b: b['metadata'].get('finalizers'))
    c.gone(c.cm('child'))
    c.gone(c.cm('owner'))


# ================================================================================================ workloads
@sc('lifecycle', 'jobs-by-index-and-policy')
def _(c):
    p = c.n('batch/v1', 'jobs')
    spec = dict(completionMode='Indexed', completions=3, parallelism=3)
    st = lambda b: {k: v for k, v in b['status'].items() if k not in ('startTime', 'completionTime')}
    for name, more in (('indexed', {}), ('success', {'successPolicy': {'rules': [{'succeededIndexes': '0', 'succeededCount': 1}]}}), ('limit', {'backoffLimitPerIndex': 0, 'maxFailedIndexes': 1})):
        c.mk(p, job(name, **dict(spec, **more)))
        c.wait(name, lambda: any(x['type'] == 'Complete' and x['status'] == 'True' for x in c.raw('GET', p + '/' + name).body['status'].get('conditions', [])), 30)
        c.get(p + '/' + name, sel=st)
    c.mk(p, job('fails', ann=c.ff('true'), **dict(spec, backoffLimitPerIndex=0)))
    c.wait('fails', lambda: any(x['type'] == 'Failed' and x['status'] == 'True' for x in c.raw('GET', p + '/fails').body['status'].get('conditions', [])), 30)
    c.get(p + '/fails', sel=st)
    c.mk(p, job('managed', managedBy='example.com/other'))
    c.get(p + '/managed', sel=lambda b: [b['spec']['managedBy'], b.get('status')])
    c.mk(p, job('held', suspend=True, parallelism=2, completions=2))
    c.until(lambda: c.raw('GET', p + '/held')['status.conditions'], 10)
    c.get(p + '/held', sel=st)
    c.patch(p + '/held', {'spec': {'template': {'spec': {'nodeSelector': {'kubernetes.io/os': 'linux'}}}}}, sel=lambda b: b['spec']['template']['spec']['nodeSelector'], label='while suspended')
    c.patch(p + '/held', {'spec': {'suspend': False}}, sel=lambda b: b['spec']['suspend'])
    c.wait('held', lambda: c.raw('GET', p + '/held')['status.succeeded'] == 2, 30)
    c.patch(p + '/held', {'spec': {'parallelism': 1}}, sel=lambda b: b['spec']['parallelism'], label='parallelism of an ended one')
    c.patch(p + '/held', {'spec': {'completions': 4}}, label='completions')


@sc('lifecycle', 'stateful-sets-and-claims')
def _(c):
    p = c.n('apps/v1', 'statefulsets')
    claim = {'metadata': {'name': 'data'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none-' + c.u, 'resources': {'requests': {'storage': '1Gi'}}}}
    s = sts('db', 2, podManagementPolicy='Parallel', ordinals={'start': 3}, minReadySeconds=0)
    c.mk(p, s)
    c.wait('ready', lambda: c.raw('GET', p + '/db')['status.readyReplicas'] == 2, 30)
    c.get(c.pods(), sel=lambda b: [[x['metadata']['name'], {k: v for k, v in x['metadata']['labels'].items() if 'hash' not in k}, x['spec']['hostname'], x['spec']['subdomain']] for x in b['items']])
    c.patch(p + '/db', {'spec': {'ordinals': {'start': 2}}}, sel=lambda b: b['spec']['ordinals'])
    c.wait('moved', lambda: names(c.raw('GET', c.pods()).body) == ['db-2', 'db-3'], 30)
    c.patch(p + '/db', {'spec': {'serviceName': 'other'}}, label='fixed field')
    c.patch(p + '/db', {'spec': {'updateStrategy': {'type': 'OnDelete', 'rollingUpdate': None}, 'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:2'}]}}}}, ct=SMP, sel=lambda b: b['spec']['updateStrategy'])
    c.until(lambda: c.raw('GET', p + '/db')['status.observedGeneration'] == c.raw('GET', p + '/db')['metadata.generation'], 10)
    c.get(p + '/db', sel=lambda b: {k: v for k, v in b['status'].items() if 'Revision' not in k and k != 'collisionCount'})
    c.raw('DELETE', c.pods('db-2'))
    c.wait('updated one', lambda: c.raw('GET', p + '/db')['status.updatedReplicas'] == 1 and c.raw('GET', p + '/db')['status.readyReplicas'] == 2, 30)
    kept = sts('kept', 1, persistentVolumeClaimRetentionPolicy={'whenDeleted': 'Delete', 'whenScaled': 'Retain'}, volumeClaimTemplates=[claim])
    c.mk(p, kept)
    c.until(lambda: c.raw('GET', c.n('v1', 'persistentvolumeclaims', 'data-kept-0'))['metadata.ownerReferences'], 15)
    c.get(c.n('v1', 'persistentvolumeclaims', 'data-kept-0'), sel=lambda b: [{k: v for k, v in b['metadata']['ownerReferences'][0].items() if k != 'uid'}, b['metadata']['labels']])
    c.raw('DELETE', p + '/kept')
    c.gone(c.n('v1', 'persistentvolumeclaims', 'data-kept-0'))


@sc('lifecycle', 'rollouts-in-parts')
def _(c):
    c.mk(c.dep(), dep('web', 3, strategy={'type': 'RollingUpdate', 'rollingUpdate': {'maxSurge': 1, 'maxUnavailable': 0}}, revisionHistoryLimit=1, progressDeadlineSeconds=5))
    ready = lambda: c.raw('GET', c.dep('web')).body
    c.until(lambda: ready()['status'].get('readyReplicas') == 3, 30)
    c.patch(c.dep('web'), {'spec': {'paused': True, 'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:2'}]}}}}, ct=SMP, sel=lambda b: b['metadata']['generation'])
    c.until(lambda: any(x['reason'] == 'DeploymentPaused' for x in ready()['status']['conditions']), 10)
    c.get(c.dep('web'), sel=lambda b: [[x['type'], x['status'], x['reason']] for x in b['status']['conditions']])
    c.patch(c.dep('web'), {'spec': {'paused': False}}, sel=lambda b: b['spec'].get('paused'))
    c.wait('rolled', lambda: ready()['status'].get('updatedReplicas') == 3 and ready()['status'].get('replicas') == 3 and ready()['status'].get('readyReplicas') == 3, 40)
    for image in ('nginx:3', 'nginx:4'):
        c.raw('PATCH', c.dep('web'), {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': image}]}}}}, None, SMP)
        c.until(lambda: ready()['status'].get('updatedReplicas') == 3 and ready()['status'].get('replicas') == 3 and ready()['status']['observedGeneration'] == ready()['metadata']['generation'], 40)
    c.wait('history', lambda: len(c.raw('GET', c.n('apps/v1', 'replicasets')).body['items']) == 2, 20)
    c.get(c.n('apps/v1', 'replicasets'), sel=lambda b: sorted([x['metadata']['annotations']['deployment.kubernetes.io/revision'], x['spec']['replicas'], x['spec']['template']['spec']['containers'][0]['image']] for x in b['items']))
    c.raw('PATCH', c.dep('web'), {'spec': {'template': {'metadata': {'annotations': c.ff('unready')}}}}, None, SMP)
    c.wait('stuck', lambda: any(x['reason'] == 'ProgressDeadlineExceeded' for x in ready()['status']['conditions']), 40)
    c.get(c.dep('web'), sel=lambda b: [{k: v for k, v in b['status'].items() if k != 'conditions'}, [[x['type'], x['status'], x['reason']] for x in b['status']['conditions']]])
    c.patch(c.dep('web') + '/scale', {'spec': {'replicas': 6}}, sel=lambda b: b['spec'])
    c.wait('in proportion', lambda: sum(x['spec']['replicas'] for x in c.raw('GET', c.n('apps/v1', 'replicasets')).body['items']) >= 6, 20)
    c.get(c.n('apps/v1', 'replicasets'), sel=lambda b: sorted(x['spec']['replicas'] for x in b['items']))


@sc('lifecycle', 'endpoints-by-hand')
def _(c):
    s = svc('ext')
    s['spec'].pop('selector')
    c.mk(c.n('v1', 'services'), s)
    c.post(c.n('v1', 'endpoints'), dict(obj('v1', 'Endpoints', 'ext', subsets=[{'addresses': [{'ip': '192.0.2.10'}, {'ip': '192.0.2.11', 'hostname': 'h'}], 'notReadyAddresses': [{'ip': '192.0.2.12'}], 'ports': [{'port': 80, 'name': 'http'}, {'port': 443, 'name': 'https', 'appProtocol': 'https'}]}])), sel=lambda b: b['subsets'])
    slices = c.n('discovery.k8s.io/v1', 'endpointslices') + '?labelSelector=kubernetes.io/service-name=ext'
    c.wait('mirrored', lambda: c.raw('GET', slices).body['items'], 15)
    look = lambda b: [[x['addressType'], sorted(x['endpoints'], key=lambda e: e['addresses']), sorted(x['ports'], key=lambda e: e['name']), x['metadata']['labels'], [[o['kind'], o['name']] for o in x['metadata']['ownerReferences']]] for x in b['items']]
    c.get(slices, sel=look)
    c.raw('PATCH', c.n('v1', 'endpoints', 'ext'), {'subsets': [{'addresses': [{'ip': '192.0.2.20'}], 'ports': [{'port': 81}]}]}, None, MP)
    c.wait('followed', lambda: 'name' in str(c.raw('GET', slices).body) and [e['addresses'] for x in c.raw('GET', slices).body['items'] for e in x['endpoints']] == [['192.0.2.20']], 15)
    c.raw('DELETE', c.n('v1', 'endpoints', 'ext'))
    c.wait('gone with it', lambda: not c.raw('GET', slices).body['items'], 15)


@sc('lifecycle', 'namespaces-that-wait')
def _(c):
    ns = 'nw-' + c.u
    base = '/api/v1/namespaces/' + ns
    c.mk('/api/v1/namespaces', obj('v1', 'Namespace', ns))
    c.mk(base + '/configmaps', cm('held', finalizers=['example.com/hold']))
    c.delete(base, sel=lambda b: [b['status'], b['spec']])
    c.wait('told', lambda: any(x['type'] == 'NamespaceFinalizersRemaining' and x['status'] == 'True' for x in c.raw('GET', base).body['status'].get('conditions', [])), 30)
    c.get(base, sel=lambda b: sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']))
    c.post(base + '/configmaps', cm('late'), label='create in it')
    c.patch(base, {'metadata': {'labels': {'a': 'b'}}}, sel=lambda b: b['metadata']['labels'].get('a'))
    c.put(base + '/finalize', obj('v1', 'Namespace', ns, {'finalizers': ['kubernetes', 'example.com/x']}), sel=lambda b: b['spec'], label='finalize')
    c.raw('PATCH', base + '/configmaps/held', {'metadata': {'finalizers': None}}, None, MP)
    c.wait('emptied', lambda: c.raw('GET', base).body['spec'].get('finalizers') == ['example.com/x'], 30)
    c.put(base + '/finalize', obj('v1', 'Namespace', ns, {'finalizers': []}), sel=lambda b: b['spec'], label='finalize')
    c.gone(base, 30)


@sc('lifecycle', 'aggregated-roles')
def _(c):
    base = '/apis/rbac.authorization.k8s.io/v1/clusterroles'
    rule = lambda r: [{'apiGroups': [''], 'resources': [r], 'verbs': ['get']}]
    names_ = ['sum-' + c.u, 'a-' + c.u, 'b-' + c.u]
    for n in names_:
        c.cleanup(base + '/' + n)
    c.mk(base, dict(obj('rbac.authorization.k8s.io/v1', 'ClusterRole', names_[0]), aggregationRule={'clusterRoleSelectors': [{'matchLabels': {'into': c.u}}]}))
    for n, r in ((names_[2], 'secrets'), (names_[1], 'pods')):
        c.mk(base, dict(obj('rbac.authorization.k8s.io/v1', 'ClusterRole', n, rules=rule(r)), metadata={'name': n, 'labels': {'into': c.u}}))
    c.wait('summed', lambda: len(c.raw('GET', base + '/' + names_[0]).body['rules'] or []) == 2, 15)
    c.get(base + '/' + names_[0], sel=lambda b: [b['rules'], b['aggregationRule']])
    c.patch(base + '/' + names_[1], {'metadata': {'labels': {'into': None}}}, sel=lambda b: b['metadata'].get('labels'))
    c.wait('taken out', lambda: len(c.raw('GET', base + '/' + names_[0]).body['rules']) == 1, 15)


@sc('lifecycle', 'nodes-that-leave')
def _(c):
    node = 'leaves-' + c.u
    base = '/api/v1/nodes/' + node
    c.cleanup(base)
    c.post('/api/v1/nodes', obj('v1', 'Node', node, {'unschedulable': True}), sel=lambda b: [b['spec'], b.get('status')])
    c.patch(base, {'spec': {'taints': [{'key': 'a', 'effect': 'NoSchedule'}, {'key': 'a', 'effect': 'NoSchedule'}]}}, label='twice')
    c.patch(base, {'spec': {'taints': [{'key': 'a', 'effect': 'Nope'}]}}, label='effect')
    c.patch(base, {'spec': {'podCIDR': '10.9.0.0/24', 'podCIDRs': ['10.9.0.0/24'], 'providerID': 'x://y'}}, sel=lambda b: [b['spec'].get('podCIDRs'), b['spec'].get('providerID')])
    c.patch(base, {'spec': {'providerID': 'z'}}, label='provider')
    c.mk(c.pods(), pod('there', dict(pspec(), nodeName=node)))
    c.delete(base, sel=lambda b: b['status'])
    c.get(base)


# ================================================================================================ custom resources
@sc('crd', 'transition-rules')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({
        'phase': {'type': 'string', 'x-kubernetes-validations': [{'rule': "!(oldSelf == 'done' && self != 'done')", 'message': 'done stays done', 'reason': 'FieldValueForbidden'}]},
        'size': {'type': 'integer', 'x-kubernetes-validations': [{'rule': 'self >= oldSelf', 'message': 'shrinks'}]},
        'first': {'type': 'string', 'x-kubernetes-validations': [{'rule': 'oldSelf.hasValue() || self != ""', 'optionalOldSelf': True, 'message': 'not empty at first'}]},
        'parts': {'type': 'array', 'maxItems': 5, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'], 'items': osch({'k': {'type': 'string', 'maxLength': 9}, 'v': {'type': 'integer', 'x-kubernetes-validations': [{'rule': 'self <= oldSelf + 1', 'message': 'steps'}]}}, required=['k'])},
        'free': {'type': 'array', 'items': osch({'v': {'type': 'integer'}})}}, **{'x-kubernetes-validations': [{'rule': "!has(self.size) || self.size != 13", 'fieldPath': '.size', 'reason': 'FieldValueInvalid', 'message': 'unlucky'}]})}), subresources={'status': {}}))
    c.post(p, cr(c, 'a', {'first': ''}), label='empty first')
    c.post(p, cr(c, 'a', {'phase': 'done', 'size': 3, 'parts': [{'k': 'x', 'v': 1}]}), sel=lambda b: b['spec'])
    for spec in ({'phase': 'open'}, {'size': 2}, {'size': 13}, {'parts': [{'k': 'x', 'v': 5}]}, {'parts': [{'k': 'y', 'v': 5}]}, {'first': ''}, {'phase': None}, {'size': 4, 'parts': [{'k': 'y', 'v': 6}]}):
        c.patch(p + '/a', {'spec': spec}, sel=lambda b: b['spec'], label=json.dumps(spec))


@sc('crd', 'ratcheting')
def _(c):
    o = crd(c, osch({'spec': osch({'name': {'type': 'string'}, 'other': {'type': 'string'}, 'list': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'], 'items': osch({'k': {'type': 'string'}, 'n': {'type': 'integer'}}, required=['k'])}})}))
    p = mkcrd(c, o)
    c.mk(p, cr(c, 'a', {'name': 'Bad', 'list': [{'k': 'x', 'n': 50}]}))
    path = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties'
    c.patch(CRDS + '/' + o['metadata']['name'], [{'op': 'add', 'path': path + '/name/pattern', 'value': '^[a-z]+$'}, {'op': 'add', 'path': path + '/list/items/properties/n/maximum', 'value': 10}, {'op': 'add', 'path': path + '/name/x-kubernetes-validations', 'value': [{'rule': "self != 'Bad'", 'message': 'bad'}]}, {'op': 'add', 'path': path + '/must', 'value': {'type': 'string'}}], ct=JP, sel=lambda b: b['metadata']['generation'])
    c.until(lambda: c.raw('POST', p, cr(c, 'b', {'name': 'Bad'}), {'dryRun': 'All'}).code >= 400, 15)
    for spec in ({'other': 'x'}, {'name': 'Worse'}, {'list': [{'k': 'x', 'n': 50}, {'k': 'y', 'n': 60}]}, {'list': [{'k': 'y', 'n': 5}, {'k': 'x', 'n': 50}]}, {'name': 'good'}, {'name': 'Bad'}):
        c.patch(p + '/a', {'spec': spec}, sel=lambda b: b['spec'], label=json.dumps(spec))
    c.apply(p + '/a', cr(c, 'a', {'other': 'y'}), fm='f', force=True, sel=lambda b: b['spec'])


@sc('crd', 'embedded-objects-and-unions')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({
        'template': {'type': 'object', 'x-kubernetes-embedded-resource': True, 'x-kubernetes-preserve-unknown-fields': True},
        'typed': {'type': 'object', 'x-kubernetes-embedded-resource': True, 'properties': {'spec': osch({'a': {'type': 'string'}})}},
        'one': osch({'a': {'type': 'string'}, 'b': {'type': 'string'}}, oneOf=[{'required': ['a']}, {'required': ['b']}]),
        'any': {'x-kubernetes-int-or-string': True}, 'not': {'type': 'string', 'not': {'enum': ['x']}}, 'all': {'type': 'integer', 'allOf': [{'minimum': 3}, {'maximum': 7}]},
        'uuid': {'type': 'string', 'format': 'uuid'}, 'bytes': {'type': 'string', 'format': 'byte'}, 'when': {'type': 'string', 'format': 'date-time'}, 'for': {'type': 'string', 'format': 'duration'}, 'null': {'type': 'string', 'nullable': True, 'default': 'd'}})})))
    pod_ = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'x', 'labels': {'a': 'b'}, 'odd': 1}, 'spec': {'any': 'thing'}}
    for i, spec in enumerate(({'template': pod_}, {'template': {'kind': 'Pod'}}, {'template': {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'Bad Name', 'labels': {'a b': 'c'}}}}, {'typed': {'apiVersion': 'a/v1', 'kind': 'K', 'spec': {'a': 'x', 'z': 1}, 'status': {}}}, {'one': {'a': 'x'}}, {'one': {'a': 'x', 'b': 'y'}}, {'one': {}},
                              {'any': 5}, {'any': 'x'}, {'any': 1.5}, {'any': True}, {'not': 'x'}, {'not': 'y'}, {'all': 2}, {'all': 5}, {'uuid': 'x'}, {'uuid': '123e4567-e89b-12d3-a456-426614174000'}, {'bytes': '!!'}, {'when': 'yesterday'}, {'for': '5m'}, {'for': '5 apples'}, {'null': None})):
        c.post(p, cr(c, 'e%d' % i, spec), label=json.dumps(spec)[:100], sel=lambda b: b['spec'])


@sc('crd', 'scale-and-autoscaler')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({'count': {'type': 'integer'}}), 'status': osch({'count': {'type': 'integer'}, 'sel': {'type': 'string'}})}), subresources={'status': {}, 'scale': {'specReplicasPath': '.spec.count', 'statusReplicasPath': '.status.count', 'labelSelectorPath': '.status.sel'}}))
    c.mk(p, cr(c, 'a', {'count': 2}))
    c.patch(p + '/a/status', {'status': {'count': 1, 'sel': 'x=y'}}, sel=lambda b: b['status'])
    c.get(p + '/a/scale', sel=lambda b: [b['spec'], b['status'], b['kind'], b['apiVersion']])
    c.patch(p + '/a/scale', {'spec': {'replicas': 5}}, sel=lambda b: [b['spec'], b['status']])
    c.put(p + '/a/scale', obj('autoscaling/v1', 'Scale', 'a', {'replicas': 6}), sel=lambda b: b['spec'])
    c.put(p + '/a/scale', obj('autoscaling/v1', 'Scale', 'a', {'replicas': -6}), label='negative')
    c.get(p + '/a', sel=lambda b: [b['spec'], b['metadata']['generation'], mf(b)])
    c.kubectl('scale', 'widgets.' + c.u + '.example.com/a', '--replicas=3')
    c.get(p + '/a', sel=lambda b: b['spec'])


# ================================================================================================ access
@sc('access', 'impersonation-of-everything')
def _(c):
    review = lambda: obj('authentication.k8s.io/v1', 'SelfSubjectReview', '')
    path = '/apis/authentication.k8s.io/v1/selfsubjectreviews'
    for headers in ({'Impersonate-User': 'jane'}, {'Impersonate-User': 'jane', 'Impersonate-Group': 'dev', 'Impersonate-Uid': '7', 'Impersonate-Extra-scopes': 'view', 'Impersonate-Extra-acme.com%2fproject': 'x'}, {'Impersonate-Group': 'dev'}, {'Impersonate-User': 'system:serviceaccount:%s:default' % c.ns}, {'Impersonate-User': 'system:anonymous'}, {'Impersonate-Uid': '7', 'Impersonate-Extra-b': 'x'}):
        c.post(path, {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}, headers=headers, label=json.dumps(headers), sel=lambda b: b['status'])
    c.get(c.cm(), headers={'Impersonate-User': 'jane'}, label='jane may not')
    c.mk(c.n('rbac.authorization.k8s.io/v1', 'roles'), obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['configmaps'], 'verbs': ['list', 'create'], }, {'apiGroups': [''], 'resources': ['configmaps'], 'resourceNames': ['mine'], 'verbs': ['get', 'delete', 'patch']}]))
    c.mk(c.n('rbac.authorization.k8s.io/v1', 'rolebindings'), obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'r', roleRef={'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Role', 'name': 'r'}, subjects=[{'kind': 'User', 'name': 'jane', 'apiGroup': 'rbac.authorization.k8s.io'}]))
    jane = {'Impersonate-User': 'jane'}
    c.until(lambda: c.raw('GET', c.cm(), headers=jane).code == 200, 10)
    c.post(c.cm(), cm('mine'), headers=jane, sel=lambda b: b['data'])
    c.get(c.cm('mine'), headers=jane, sel=lambda b: b['data'])
    c.get(c.cm('other'), headers=jane)
    c.patch(c.cm('mine'), {'data': {'b': '2'}}, headers=jane, sel=lambda b: b['data'])
    c.put(c.cm('mine'), cm('mine'), headers=jane)
    c.apply(c.cm('new'), cm('new'), headers=jane, label='apply of what is not there')
    c.delete(c.cm(), headers=jane, label='collection')
    c.get(c.cm() + '?watch=1&timeoutSeconds=1', headers=jane, label='watch')
    c.delete(c.cm('mine'), headers=jane, sel=lambda b: b['status'])


@sc('access', 'tokens-and-their-reviews')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 'bot'))
    c.mk(c.pods(), pod('p', dict(pspec(), serviceAccountName='bot')))
    uid = c.raw('GET', c.pods('p'))['metadata.uid']
    token = lambda spec: c.raw('POST', c.n('v1', 'serviceaccounts', 'bot') + '/token', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': spec})
    review = lambda t, **k: c.post('/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': dict({'token': t}, **k)}, sel=lambda b: [{k: v for k, v in b['status'].items() if k != 'user'}, {k: v for k, v in b['status'].get('user', {}).items() if k not in ('uid', 'extra')}, sorted(b['status'].get('user', {}).get('extra', {}))], label='review')
    plain = token({})['status.token']
    bound = token({'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'p', 'uid': uid}, 'expirationSeconds': 700})['status.token']
    review(plain)
    review(bound)
    review('nonsense')
    review(plain, audiences=['https://kubernetes.default.svc.cluster.local', 'x'])
    review(plain, audiences=['x'])
    for spec in ({'expirationSeconds': 5}, {'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'nope'}}, {'boundObjectRef': {'kind': 'ConfigMap', 'apiVersion': 'v1', 'name': 'x'}}, {'boundObjectRef': {'kind': 'Pod', 'apiVersion': 'v1', 'name': 'p', 'uid': 'other'}}, {'expirationSeconds': 2 ** 33}):
        r = token(spec)
        c.rec(json.dumps(spec), [r.code, r.body if r.code >= 400 else sorted(r.body['status'])])
    c.raw('DELETE', c.pods('p'), q={'gracePeriodSeconds': 0})
    c.until(lambda: c.raw('GET', c.pods('p')).code == 404, 10)
    c.until(lambda: not c.raw('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': {'token': bound}})['status.authenticated'], 15)
    review(bound)


# ================================================================================================ lists and watches
@sc('lists', 'pages-while-objects-change')
def _(c):
    for i in range(7):
        c.mk(c.cm(), cm('m%d' % i, labels={'odd': str(i % 2)}))
    first = c.get(c.cm(), q={'limit': 3, 'labelSelector': 'odd'}, sel=lambda b: [names(b), sorted(b['metadata'])])
    token = first['metadata.continue']
    c.raw('DELETE', c.cm('m3'))
    c.mk(c.cm(), cm('m31', labels={'odd': '1'}))
    second = c.get(c.cm(), q={'limit': 3, 'labelSelector': 'odd', 'continue': token}, sel=names)
    c.get(c.cm(), q={'limit': 3, 'labelSelector': 'odd=1', 'continue': token}, sel=names, label='other selector')
    c.get(c.n('v1', 'secrets'), q={'limit': 3, 'continue': token}, sel=names, label='other resource')
    c.get(c.cm(), q={'continue': token}, sel=lambda b: [names(b), sorted(b['metadata'])], label='no limit')
    c.get(c.cm(), q={'continue': token, 'resourceVersionMatch': 'NotOlderThan'}, label='match')
    c.get(c.cm(), q={'limit': 2, 'resourceVersion': first['metadata.resourceVersion'], 'resourceVersionMatch': 'Exact', 'labelSelector': 'odd'}, sel=names, label='exact')
    c.get(c.cm(), q={'limit': 2, 'resourceVersion': first['metadata.resourceVersion'], 'resourceVersionMatch': 'NotOlderThan', 'labelSelector': 'odd'}, sel=names, label='not older')
    c.get(c.cm(), q={'limit': 2, 'labelSelector': 'odd'}, accept=TABLE, sel=lambda b: [[r['cells'][0] for r in b['rows']], sorted(b['metadata'])], label='table')


@sc('lists', 'bookmarks-and-resumption')
def _(c):
    c.mk(c.cm(), cm('a', labels={'w': '1'}))
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    shape = lambda e: [e['type'], dig(e, 'object.metadata.name'), dig(e, 'object.data'), dig(e, 'object.metadata.annotations')]
    def act():
        c.raw('POST', c.cm(), cm('b', labels={'w': '1'}))
        c.raw('PATCH', c.cm('a'), {'metadata': {'labels': {'w': '2'}}}, None, MP)
        c.raw('PATCH', c.cm('a'), {'metadata': {'labels': {'w': '1'}}}, None, MP)
        c.raw('DELETE', c.cm('b'))
    c.watch(c.cm(), {'resourceVersion': rv, 'labelSelector': 'w=1'}, n=4, actions=act, sel=shape, label='selected')
    c.watch(c.cm(), {'resourceVersion': rv, 'labelSelector': 'w=1'}, n=4, sel=shape, label='replayed')
    c.watch(c.cm(), {'resourceVersion': rv, 'labelSelector': 'w=2'}, n=2, sel=shape, label='the other side')
    c.watch(c.cm(), {'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'allowWatchBookmarks': 'true', 'labelSelector': 'w=1'}, n=2, sel=shape, label='initial')
    c.watch(c.cm(), {'fieldSelector': 'metadata.name=a', 'resourceVersion': '0'}, n=1, sel=shape, label='by name')
    c.watch(c.cm(), {'resourceVersion': 'x'}, n=1, timeout=2, label='bad version')
    c.watch(c.cm(), {'sendInitialEvents': 'true', 'resourceVersionMatch': 'Exact'}, n=1, timeout=2, label='bad match')


@sc('lists', 'dry-runs')
def _(c):
    c.mk(c.dep(), dep('d', 0))
    c.mk(c.pods(), pod('p'))
    c.until(lambda: c.raw('GET', c.pods('p'))['status.phase'] == 'Running', 15)
    dry = {'dryRun': 'All'}
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 3}}, q=dry, sel=lambda b: b['spec'])
    c.patch(c.dep('d') + '/status', {'status': {'replicas': 3}}, q=dry, sel=lambda b: b['status'].get('replicas'))
    c.delete(c.dep(), q=dry, sel=lambda b: [b['kind'], len(b.get('items', []))])
    c.delete(c.pods('p'), q=dry, sel=lambda b: [b['kind'], 'deletionTimestamp' in b['metadata']])
    c.post(c.n('v1', 'serviceaccounts', 'default') + '/token', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {}}, q=dry, sel=lambda b: sorted(b['status']))
    c.post(c.n('v1', 'services'), svc('s', type='NodePort'), q=dry, sel=lambda b: [b['spec'].get('clusterIP') is not None, b['spec']['ports'][0].get('nodePort') is not None])
    c.post('/api/v1/namespaces', obj('v1', 'Namespace', 'dry-' + c.u), q=dry, sel=lambda b: [b['spec'], b['status']])
    c.post(CRDS, crd(c, OPEN, plural='dries', kind='Dry'), q=dry, sel=lambda b: b.get('status'))
    c.put(c.n('coordination.k8s.io/v1', 'leases', 'l'), obj('coordination.k8s.io/v1', 'Lease', 'l', {'holderIdentity': 'x'}), q=dry, sel=lambda b: b['spec'], label='create by put')
    c.get(c.n('coordination.k8s.io/v1', 'leases', 'l'))
    c.post(c.cm(), cm('x'), q={'dryRun': 'Some'})
    c.post(c.cm(), cm('x'), q=[('dryRun', 'All'), ('dryRun', 'All')], sel=lambda b: b['data'], label='twice')
    c.get(c.dep('d'), sel=lambda b: [b['spec']['replicas'], b['metadata']['generation']])


if __name__ == '__main__':
    sys.exit(d.main())

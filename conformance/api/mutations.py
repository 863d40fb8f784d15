#!/usr/bin/env python3
"""mutate: one object of every kind, changed in one place after the other, sent to two servers.

  mutations.py --a KUBECONFIG_A --b KUBECONFIG_B [--mode create,update,apply,merge,strategic,json] [--encoding json|yaml|protobuf|cbor] [--kinds k[,k]] [--random N --seed S] [--json FILE]

Every field of the objects of kinds_and_verbs.py is left out, emptied, set to a value of another type, to values
beyond every limit; every field the reference's OpenAPI knows of is added. Each request is a dry run, so the
answers depend on nothing but the request; code, warnings and body must be the same.
A is the reference. `--random N` makes N requests with two to four changes each instead. `--encoding` sends what is
created and replaced in another form; what the form cannot say is left out.
"""
import argparse, collections, copy, json, random, sys
from concurrent.futures import ThreadPoolExecutor

import compare as d
import encodings_of_bodies as encodings
import kinds_and_verbs as more

# Text diffs of two values, empty values, and ports taken by chance (the table of intended differences).
d.RX.insert(0, (d.re.compile(r'\n@@ .*?\n(?=, [a-zA-Z]|\]$|$)', d.re.S), ''))
d.RX.append((d.re.compile(r'(Invalid|Unsupported) value: (?:\{\}|null|\[\]): '), r'\1 value: <empty>: '))
d.RX.append((d.re.compile(r'(duplicate nodePort: \{\w+) \d+\}'), r'\1 <nodePort>}'))
d.RX.append((d.re.compile(r'nodePort:\d+'), 'nodePort:<nodePort>'))
d.RX.append((d.re.compile(r'\\u00e9'), 'é'))      # raw fields are quoted as they were sent
# What a parser of CEL could take instead is not said by the other.
d.RX.append((d.re.compile(r'(?:ERROR: <input>:\d+:\d+: Syntax error: [^\n]*(?:\n \| [^\n]*\n \| [.\uff0e]*[\^\uff3e]\n?)?)+', d.re.S), 'ERROR: Syntax error'))

# Row two of the page of differences: big values of Go.
d.RX.append((d.re.compile(r'(Invalid value: )\{"[A-Z].*\}(: field is immutable)', d.re.S), r'\1{<object>}\2'))

d.RX.append((d.re.compile(r'(openAPIV3Schema: Invalid value: |^Invalid value: )\{".*\}(: only \[)', d.re.S), r'\1{<object>}\2'))

# Values that are tried in place of a value of the type.
STRINGS = ['', 'x', 'Bad_Name!', '-a', 'a' * 300, '10', ' ', 'a/b/c', '1.2.3.4', '../x', 'é']
NUMBERS = [0, 1, -1, 70000, 2 ** 31, 2 ** 63 - 1, 1.5]
OTHER = {str: [5, True, {}, []], int: ['x', '5', True, {}], bool: ['true', 1, {}], list: ['x', {}, 5], dict: ['x', [], 5, True]}
# Tried only when named; see the rows on definitions and on slices in docs/reference/sandbox-differences.md.
ONLY_NAMED = {'crd', 'resourceslice'}
# The reference compares the bytes of raw fields, which patches write anew: it refuses what did not change.
ANEW = {'controllerrevision', 'resourceclaim'}
# Rules that tell an empty map from none, which the sandbox does not (row two of that page).
EMPTY = {('pod-full', '.spec.overhead'), ('configmap-immutable', '.binaryData')}
METADATA = {'configmap', 'deployment-recreate', 'clusterrole-agg'}     # the same code for all kinds
LEFT_ALONE = {('apiVersion',), ('kind',), ('metadata',), ('metadata', 'name'), ('metadata', 'namespace')}


# A definition and its objects: nested objects, lists of every type, numbers that may be texts, rules.
WIDE = {'type': 'object', 'properties': {
    'spec': {'type': 'object', 'required': ['size'], 'x-kubernetes-validations': [{'rule': "self.size < 100", 'message': 'too big'}], 'properties': {
        'size': {'type': 'integer', 'minimum': 1, 'maximum': 1000},
        'name': {'type': 'string', 'pattern': '^[a-z]+$', 'minLength': 2, 'maxLength': 10, 'default': 'abc'},
        'color': {'type': 'string', 'enum': ['red', 'green']},
        'port': {'x-kubernetes-int-or-string': True, 'anyOf': [{'type': 'integer'}, {'type': 'string'}]},
        'ratio': {'type': 'number', 'exclusiveMinimum': True, 'minimum': 0, 'multipleOf': 0.5},
        'on': {'type': 'boolean', 'nullable': True},
        'when': {'type': 'string', 'format': 'date-time'},
        'tags': {'type': 'array', 'maxItems': 4, 'x-kubernetes-list-type': 'set', 'items': {'type': 'string', 'maxLength': 20}},
        'ports': {'type': 'array', 'maxItems': 4, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name', 'proto'], 'items': {
            'type': 'object', 'required': ['name'], 'properties': {'name': {'type': 'string'}, 'proto': {'type': 'string', 'default': 'TCP'}, 'number': {'type': 'integer', 'format': 'int32'}}}},
        'atoms': {'type': 'array', 'minItems': 1, 'items': {'type': 'object', 'properties': {'a': {'type': 'string'}}}},
        'labels': {'type': 'object', 'maxProperties': 3, 'additionalProperties': {'type': 'string'}},
        'open': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True, 'properties': {'known': {'type': 'string'}}},
        'nested': {'type': 'object', 'default': {}, 'properties': {'deep': {'type': 'object', 'properties': {'x': {'type': 'integer', 'default': 7}, 'y': {'type': 'string', 'format': 'ipv4'}}}}},
        'pair': {'type': 'object', 'properties': {'min': {'type': 'integer'}, 'max': {'type': 'integer'}}, 'x-kubernetes-validations': [
            {'rule': '!has(self.min) || !has(self.max) || self.min <= self.max', 'messageExpression': "'min' + ' is too big'", 'reason': 'FieldValueForbidden', 'fieldPath': '.min'}]},
        'fixed': {'type': 'string', 'x-kubernetes-validations': [{'rule': 'self == oldSelf', 'message': 'fixed stays'}]},
    }},
    'status': {'type': 'object', 'properties': {'replicas': {'type': 'integer'}, 'phase': {'type': 'string', 'enum': ['Up', 'Down']}}}}}
CRD = {'kind': 'CustomResourceDefinition', 'spec': {
    'group': 'mutate.example.com', 'scope': 'Namespaced',
    'names': {'plural': 'things', 'singular': 'thing', 'kind': 'Thing', 'listKind': 'ThingList', 'shortNames': ['th'], 'categories': ['all']},
    'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': {'type': 'object', 'properties': {
        'spec': {'type': 'object', 'required': ['n'], 'properties': {
            'n': {'type': 'integer', 'format': 'int32', 'minimum': 0, 'default': 1, 'description': 'd'},
            's': {'type': 'string', 'enum': ['a', 'b'], 'pattern': '^a'},
            'l': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'], 'items': {'type': 'object', 'required': ['k'], 'properties': {'k': {'type': 'string'}}}},
            'm': {'type': 'object', 'additionalProperties': {'type': 'string'}},
            'u': {'x-kubernetes-preserve-unknown-fields': True, 'type': 'object'},
            'v': {'type': 'string', 'maxLength': 10, 'x-kubernetes-validations': [{'rule': "self != 'x'", 'message': 'no'}]}}},
        'status': {'type': 'object', 'properties': {'r': {'type': 'integer'}, 'sel': {'type': 'string'}}}}}},
        'subresources': {'status': {}, 'scale': {'specReplicasPath': '.spec.n', 'statusReplicasPath': '.status.r', 'labelSelectorPath': '.status.sel'}},
        'additionalPrinterColumns': [{'name': 'N', 'type': 'integer', 'jsonPath': '.spec.n'}],
        'selectableFields': [{'jsonPath': '.spec.s'}]}]}}
POLICY = {'matchConstraints': {'resourceRules': [{'apiGroups': ['zz.example'], 'apiVersions': ['v1'], 'operations': ['CREATE'], 'resources': ['things']}]}, 'reinvocationPolicy': 'Never'}
more.KINDS.update({
    'crd': ('apiextensions.k8s.io/v1', 'customresourcedefinitions', CRD, False),
    'custom': ('wide.example.com/v1', 'wides', {'kind': 'Wide', 'spec': {
        'size': 3, 'name': 'abc', 'color': 'red', 'port': 80, 'ratio': 1.5, 'on': True, 'when': '2024-01-01T00:00:00Z', 'tags': ['a', 'b'], 'ports': [{'name': 'a', 'number': 1}, {'name': 'b'}],
        'atoms': [{'a': 'x'}], 'labels': {'k': 'v'}, 'open': {'known': 'x', 'other': {'z': 1}}, 'nested': {'deep': {'y': '1.2.3.4'}}, 'pair': {'min': 1, 'max': 2}, 'fixed': 'f'}}, True),
    'apiservice': ('apiregistration.k8s.io/v1', 'apiservices', {'kind': 'APIService', 'spec': {'group': 'agg.example.com', 'version': 'v1', 'groupPriorityMinimum': 100, 'versionPriority': 10, 'insecureSkipTLSVerify': True, 'service': {'name': 's', 'namespace': 'default'}}}, False),
    'csr': ('certificates.k8s.io/v1', 'certificatesigningrequests', {'kind': 'CertificateSigningRequest', 'spec': {'request': 'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlITU1ITUNBUUF3RVRFUE1BMEdBMVVFQXd3R2JYVjBZWFJsTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowRApBUWNEUWdBRVNkdGdvN1gyUjN4aDRLK1kwWHRLNGV4RGdBQ0lIYnZUVWVmNDhnbFBGY0EybnU0dThtYjFMNzVoCnErcCt2Qms3ODNPZmc1L3ZzTi91QzMxTFI0Z1lmYUFBTUFvR0NDcUdTTTQ5QkFNQ0Ewa0FNRVlDSVFEbjB6b0cKK0d6NHFCV3BDUU9iNXNCTERjaUI1Uk0xS1lvcFI5Unc3b0t0cmdJaEFPSW5NeS9XY2dxcEtQMCtNNkNHeVlvTQo2dVk2RzYrd2hUVysvZmxMcUhXYwotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K', 'signerName': 'example.com/signer', 'usages': ['client auth', 'digital signature'], 'expirationSeconds': 3600}}, False),
    'controllerrevision': ('apps/v1', 'controllerrevisions', {'kind': 'ControllerRevision', 'revision': 1, 'data': {'a': 'b'}}, True),
    'resourceclaim': ('resource.k8s.io/v1', 'resourceclaims', {'kind': 'ResourceClaim', 'spec': {'devices': {
        'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'c', 'selectors': [{'cel': {'expression': 'true'}}], 'tolerations': [{'key': 'k', 'operator': 'Exists', 'effect': 'NoSchedule'}], 'capacity': {'requests': {'m': '1Gi'}}}},
                     {'name': 'q', 'firstAvailable': [{'name': 'one', 'deviceClassName': 'c', 'allocationMode': 'All'}]}],
        'constraints': [{'requests': ['r'], 'matchAttribute': 'example.com/numa'}],
        'config': [{'requests': ['r'], 'opaque': {'driver': 'driver.example.com', 'parameters': {'a': 'b'}}}]}}}, True),
    'resourceslice': ('resource.k8s.io/v1', 'resourceslices', {'kind': 'ResourceSlice', 'spec': {'driver': 'driver.example.com', 'nodeName': 'n1', 'pool': {'name': 'p', 'generation': 1, 'resourceSliceCount': 1}, 'devices': [
        {'name': 'd', 'attributes': {'a': {'string': 'x'}, 'b': {'int': 1}, 'c': {'bool': True}, 'example.com/v': {'version': '1.2.3'}}, 'capacity': {'m': {'value': '1Gi'}}, 'taints': [{'key': 'k', 'value': 'v', 'effect': 'NoSchedule'}]}]}}, False),
    'ipaddress': ('networking.k8s.io/v1', 'ipaddresses', {'kind': 'IPAddress', 'spec': {'parentRef': {'group': '', 'resource': 'services', 'namespace': 'default', 'name': 's'}}}, False),
    'servicecidr': ('networking.k8s.io/v1', 'servicecidrs', {'kind': 'ServiceCIDR', 'spec': {'cidrs': ['10.9.0.0/24']}}, False),
    'mutatingpolicy': ('admissionregistration.k8s.io/v1', 'mutatingadmissionpolicies', {'kind': 'MutatingAdmissionPolicy', 'spec': dict(POLICY, failurePolicy='Ignore', matchConditions=[{'name': 'm', 'expression': 'true'}], variables=[{'name': 'v', 'expression': '1'}], mutations=[
        {'patchType': 'ApplyConfiguration', 'applyConfiguration': {'expression': 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}}, {'patchType': 'JSONPatch', 'jsonPatch': {'expression': '[JSONPatch{op: "add", path: "/metadata/labels/x", value: "y"}]'}}])}, False),
    'mutatingpolicybinding': ('admissionregistration.k8s.io/v1', 'mutatingadmissionpolicybindings', {'kind': 'MutatingAdmissionPolicyBinding', 'spec': {'policyName': 'none', 'paramRef': {'name': 'p', 'parameterNotFoundAction': 'Deny'}, 'matchResources': {'objectSelector': {'matchLabels': {'a': 'b'}}}}}, False),
})
# Names that are not free: that of the object there is, and what makes another of it.
NAMES = {'crd': ('things.mutate.example.com', 'mutate.example', 'fresh.example'), 'apiservice': ('v1.agg.example.com', 'agg.example', 'fresh.example'), 'ipaddress': ('10.0.77.1', '10.0.77.1', '10.0.77.2')}


def kind_of(v):
    return bool if isinstance(v, bool) else int if isinstance(v, (int, float)) else type(v)


class Schemas:
    """The reference's OpenAPI, to know which fields there are."""

    def __init__(self, server):
        self.server, self.docs = server, {}

    def of(self, gv, kind):
        path = '/openapi/v3/' + ('api/v1' if gv == 'v1' else 'apis/' + gv)
        if path not in self.docs:
            self.docs[path] = json.loads(self.server.request('GET', path)[2])['components']['schemas']
        group, _, version = gv.rpartition('/')
        for s in self.docs[path].values():
            for g in s.get('x-kubernetes-group-version-kind', []):
                if (g['group'], g['version'], g['kind']) == (group, version, kind):
                    return s, self.docs[path]
        return {}, {}

    @staticmethod
    def open(s, defs):
        while True:
            if 'allOf' in s and s['allOf']:
                s = s['allOf'][0]
            elif '$ref' in s:
                s = defs[s['$ref'].rsplit('/', 1)[1]]
            else:
                return s


def sample(s, defs, depth, rnd):
    """A value for a field that is not there: as empty as its type allows, or its required parts."""
    s = Schemas.open(s, defs)
    t = s.get('type')
    if 'enum' in s:
        return rnd.choice(s['enum'])
    if t == 'array':
        return [sample(s.get('items', {}), defs, depth - 1, rnd)]
    if t == 'object' or 'properties' in s:
        if 'properties' in s:
            keys = list(s.get('required', []))
            optional = [k for k in s['properties'] if k not in keys]
            if depth > 0 and optional:
                keys += rnd.sample(optional, min(len(optional), 2))
            return {k: sample(s['properties'][k], defs, depth - 1, rnd) for k in keys}
        return {'k': sample(s['additionalProperties'], defs, depth - 1, rnd)} if isinstance(s.get('additionalProperties'), dict) else {}
    if t in ('integer', 'number'):
        return 1
    if t == 'boolean':
        return True
    if s.get('format') == 'date-time':
        return '2024-01-01T00:00:00Z'
    if s.get('format') == 'byte':
        return 'AAE='
    return 'x'


def changes(o, schema, defs, rnd, metadata):
    """Every single change: (path, what, value); value DELETE takes the field out."""
    out = []

    def walk(v, s, path):
        s = Schemas.open(s, defs) if s else {}
        if path and path not in LEFT_ALONE:
            out.append((path, 'delete', DELETE))
            out.append((path, 'null', None))
            for w in OTHER.get(kind_of(v), []):
                out.append((path, 'type', w))
            if isinstance(v, str):
                out.extend((path, 'string', w) for w in STRINGS if w != v)
            elif isinstance(v, bool):
                out.append((path, 'flip', not v))
            elif isinstance(v, (int, float)):
                out.extend((path, 'number', w) for w in NUMBERS if w != v)
            elif isinstance(v, list):
                out.append((path, 'empty', []))
                if v:
                    out.append((path, 'twice', v + [copy.deepcopy(v[0])]))
                    out.append((path, 'many', [copy.deepcopy(v[0]) for _ in range(40)]))
                    out.append((path, 'hole', v + [None]))
            elif isinstance(v, dict):
                out.append((path, 'empty', {}))
                out.append((path, 'unknown', dict(v, noSuchField=1)))
        if path == ('metadata',) and not metadata:
            return
        if isinstance(v, dict):
            for k, w in v.items():
                sub = s.get('properties', {}).get(k) or s.get('additionalProperties')
                walk(w, sub if isinstance(sub, dict) else {}, path + (k,))
            for k, sub in s.get('properties', {}).items():
                if k not in v and not (path == () and k in ('status',)) and path + (k,) not in LEFT_ALONE and (path + (k,))[:2] != ('metadata', 'managedFields'):
                    for depth in (0, 1, 1):
                        w = sample(sub, defs, depth, rnd)
                        out.append((path + (k,), 'add', w))
                    t = Schemas.open(sub, defs)
                    if t.get('type') == 'string':
                        out.extend((path + (k,), 'add', w) for w in STRINGS)
                    elif t.get('type') in ('integer', 'number'):
                        out.extend((path + (k,), 'add', w) for w in NUMBERS)
                    elif t.get('type') == 'array':
                        out.extend((path + (k,), 'add', w) for w in ([], [''], [{}]))
                    elif t.get('type') == 'object':
                        out.extend((path + (k,), 'add', w) for w in ({}, {'': ''}, {'Bad_Name!': 'x'}))
        elif isinstance(v, list) and v:
            walk(v[0], s.get('items', {}), path + (0,))
    walk(o, schema, ())
    return out


PATCHES = {'merge': d.MP, 'strategic': d.SMP, 'json': d.JP}


# The same of empty values within those that are quoted.
d.RX.append((d.re.compile(r'("[A-Z]\w*"):(?:\{\}|\[\])'), r'\1:null'))


class Delete:
    pass


DELETE = Delete()


def changed(o, path, value):
    o = copy.deepcopy(o)
    at = o
    try:
        for p in path[:-1]:
            at = at[p]
        if value is DELETE:
            del at[path[-1]]
        elif isinstance(at, list) and path[-1] >= len(at):
            return o
        else:
            at[path[-1]] = copy.deepcopy(value)
    except (KeyError, IndexError, TypeError):
        pass            # an earlier change took it away
    return o


def patch_of(mode, before, path, value):
    """The change as a patch: of the members on the way to it, or one operation."""
    if mode == 'json':
        at = before
        for p in path[:-1]:
            at = at[p]
        known = path[-1] in at if isinstance(at, dict) else True
        pointer = ''.join('/' + str(p).replace('~', '~0').replace('/', '~1') for p in path)
        if value is DELETE:
            return [{'op': 'remove', 'path': pointer}]
        return [{'op': 'replace' if known else 'add', 'path': pointer, 'value': value}]
    after = changed(before, path, value)

    def cut(v, w, at):
        if not at:
            return w
        if isinstance(v, list):     # merge patches replace a list, strategic ones merge its items
            return w if mode == 'merge' else [w[at[0]]] if at[0] < len(w) else []
        return {at[0]: cut(v.get(at[0]), w[at[0]], at[1:]) if at[0] in w else None}
    return cut(before, after, path)


class Run:
    def __init__(self, servers, ns, encoding='json'):
        self.servers, self.ns, self.encoding = servers, ns, encoding
        self.norm = d.Norm({ns: '<ns>'})
        self.versions = {}      # of objects that want theirs said when they are replaced

    def where(self, gv, res, namespaced, name=None):
        p = '/api/v1' if gv == 'v1' else '/apis/' + gv
        return p + ('/namespaces/' + self.ns if namespaced else '') + '/' + res + ('/' + name if name else '')

    def send(self, server, mode, key, o):
        gv, res, _, namespaced = more.KINDS[key]
        name = named(key)
        q = '?dryRun=All&fieldValidation=Warn&fieldManager=m'
        if mode == 'create' and key in NAMES:
            o = json.loads(json.dumps(o).replace(*NAMES[key][1:]))
        elif mode == 'create' and isinstance(o.get('metadata'), dict):
            o = dict(o, metadata=dict(o['metadata'], name='new-' + name))
        if mode == 'update' and (server, key) in self.versions and isinstance(o.get('metadata'), dict):
            o = dict(o, metadata=dict({'resourceVersion': self.versions[server, key]}, **o['metadata']))
        body = json.dumps(o).encode()
        if mode in ('create', 'update'):
            body = encodings.encode(self.encoding, o)
            if body is None:
                return 'cannot be said'
            body = body if isinstance(body, bytes) else body.encode()
        form = {'Content-Type': encodings.TYPES[self.encoding]}
        if mode == 'create':
            r = server.request('POST', self.where(gv, res, namespaced) + q, body, form)
        elif mode == 'update':
            r = server.request('PUT', self.where(gv, res, namespaced, name) + q, body, form)
        elif mode == 'apply':
            r = server.request('PATCH', self.where(gv, res, namespaced, name) + q + '&force=true', body, {'Content-Type': d.AP})
        else:
            r = server.request('PATCH', self.where(gv, res, namespaced, name) + q, body, {'Content-Type': PATCHES[mode]})
        code, headers, raw = r
        try:
            answer = json.loads(raw)
            if isinstance(answer, dict) and ': errors:\n' in str(answer.get('message')):      # in no order
                first, *rest = answer['message'].split('\n')
                answer['message'] = '\n'.join([first] + sorted(rest))
        except ValueError:
            answer = raw.decode('utf-8', 'replace')
        if isinstance(answer, dict) and 'metadata' in answer and answer.get('kind') != 'Status':
            for k in ('uid', 'creationTimestamp') + (() if mode == 'create' else ('resourceVersion', 'generation', 'selfLink')):
                answer['metadata'].pop(k, None)
            answer.pop('status', None) if mode != 'create' else None
            if key == 'pvc' and answer.get('spec', {}).get('storageClassName') == 'standard':
                del answer['spec']['storageClassName']          # the default class of the sandbox
            if key == 'node' and mode != 'create':      # taints of controllers: nobody runs this node
                mine = [t for t in answer['spec'].pop('taints', []) if not t.get('key', '').startswith('node.kubernetes.io/')]
                answer['spec'].update({'taints': mine} if mine else {})
            if key == 'csr':        # who asks is not the same
                answer['spec'] = {k: v for k, v in (answer.get('spec') or {}).items() if k not in ('username', 'uid')}
            if mode != 'apply':
                answer['metadata'].pop('managedFields', None)
            else:
                answer['metadata']['managedFields'] = [m for m in answer['metadata'].get('managedFields', []) if m.get('manager') == 'm']
        return self.norm({'code': code, 'warning': headers.get_all('Warning') or [], 'body': answer})

    def both(self, case):
        mode, key, label, o = case
        a, b = [self.answer(s, mode, key, o) for s in self.servers]
        return case, [] if isinstance(a, str) else d.diff(a, b), a, b     # where the reference fails there is nothing to be equal to

    def answer(self, *what):
        try:
            return self.send(*what)
        except (OSError, d.http.client.HTTPException) as e:
            return 'no answer: %r' % e


TOKEN = 'mutate-u' + ''.join(random.choice('aeiou013') for _ in range(7))       # never looks like a generated suffix


def named(key):
    return NAMES.get(key, (TOKEN + '-' + key,))[0]


def base(key, ns):
    gv, res, o, _ = more.KINDS[key]
    o = json.loads(json.dumps(o).replace('@ns', ns))
    if key == 'pod-full':       # one that stays as it is: on no node, and not scheduled
        del o['spec']['nodeName']
        o['spec']['schedulingGates'] = [{'name': 'example.com/wait'}]
    if key == 'event':
        o['involvedObject']['namespace'] = ns
    return dict({'apiVersion': gv, 'kind': o.pop('kind'), 'metadata': {'name': named(key), 'labels': {'l': 'v'}, 'annotations': {'n': 'v'}}}, **o)


def shown(path):
    return ''.join('[%d]' % p if isinstance(p, int) else '.' + p for p in path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--a', required=True)
    ap.add_argument('--b', required=True)
    ap.add_argument('--mode', default='create,update,apply')
    ap.add_argument('--kinds')
    ap.add_argument('--encoding', default='json', choices=list(encodings.TYPES))
    ap.add_argument('--every', type=int, default=1, help='only every Nth change')
    ap.add_argument('--random', type=int, default=0)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--jobs', type=int, default=6)
    ap.add_argument('--json')
    ap.add_argument('--show', type=int, default=60)
    ap.add_argument('--retries', type=int, default=0)
    args = ap.parse_args()
    A, B = d.Server(args.a, 'a'), d.Server(args.b, 'b')
    run = Run((A, B), TOKEN, args.encoding)
    if args.encoding != 'json' and 'apply' in args.mode:
        args.mode = 'create,update'
    keys = [k for k in more.KINDS if more.KINDS[k][2] and (k in args.kinds.split(',') if args.kinds else k not in ONLY_NAMED)]
    for s in (A, B):
        s.request('POST', '/api/v1/namespaces', json.dumps({'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': run.ns}}), {'Content-Type': d.JSON})
    wide = {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': 'wides.wide.example.com'}, 'spec': {
        'group': 'wide.example.com', 'scope': 'Namespaced', 'names': {'plural': 'wides', 'kind': 'Wide'},
        'versions': [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': WIDE}, 'subresources': {'status': {}, 'scale': {'specReplicasPath': '.spec.size', 'statusReplicasPath': '.status.replicas'}}}]}}
    if 'custom' in keys:
        for s in (A, B):
            code, _, raw = s.request('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', json.dumps(wide), {'Content-Type': d.JSON})
            if code not in (201, 409):
                print('set-up of the definition: %d %s' % (code, raw[:300]))
    d.time.sleep(2)
    for key in keys:
        gv, res, _, namespaced = more.KINDS[key]
        for s in (A, B):
            code, _, raw = s.request('POST', run.where(gv, res, namespaced), json.dumps(base(key, run.ns)), {'Content-Type': d.JSON})
            if code not in (201, 409):
                print('set-up of %s: %d %s' % (key, code, raw[:300]))
    d.time.sleep(2)     # for controllers to say what they have to say
    for key in keys:
        gv, res, _, namespaced = more.KINDS[key]
        for s in (A, B):
            sent = run.send(s, 'update', key, base(key, run.ns))
            if 'must be specified for an update' in json.dumps(sent):
                live = json.loads(s.request('GET', run.where(gv, res, namespaced, named(key)))[2])
                run.versions[s, key] = live['metadata']['resourceVersion']
    schemas, rnd = Schemas(A), random.Random(args.seed)
    cases = []
    for key in keys:
        o = base(key, run.ns)
        schema, defs = (WIDE, {}) if key == 'custom' else schemas.of(o['apiVersion'], o['kind'])
        all_changes = changes(o, schema, defs, rnd, key in METADATA)
        for mode in args.mode.split(','):
            if key in ANEW and (mode not in ('create', 'update') or (mode, args.encoding) == ('update', 'yaml')):
                continue
            if args.random:
                for i in range(args.random // len(keys) + 1):
                    some = rnd.sample(all_changes, min(len(all_changes), rnd.randint(2, 4)))
                    m = o
                    for path, _, value in some:
                        m = changed(m, path, value)
                    cases.append((mode, key, ' & '.join('%s %s' % (shown(p), w) for p, w, _ in some), m))
            else:
                for path, what, value in all_changes[::args.every]:
                    if value == {} and (key, shown(path)) in EMPTY:
                        continue
                    if mode in PATCHES:
                        cases.append((mode, key, '%s %s %s' % (shown(path), what, '' if value is DELETE else json.dumps(value)[:60]), patch_of(mode, o, path, value)))
                        continue
                    cases.append((mode, key, '%s %s %s' % (shown(path), what, '' if value is DELETE else json.dumps(value)[:60]), changed(o, path, value)))
    print('%d requests' % len(cases), flush=True)
    bad, per, unsaid = [], collections.Counter(), 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for case, diff, a, b in pool.map(run.both, cases):
            tries = 0
            unsaid += a == 'cannot be said'
            while diff and tries < args.retries:
                tries += 1
                case, diff, a, b = run.both(case)
            if diff:
                bad.append((case, diff, a, b))
                per[case[0] + ' ' + case[1]] += 1
    for (mode, key, label, o), diff, a, b in bad[:args.show]:
        print('DIFF %s %s %s' % (mode, key, label))
        for p, x, y in diff[:3]:
            print('      %s: A=%s B=%s' % (p, d.short(x, 400), d.short(y, 400)))
    for k, n in per.most_common():
        print('%6d %s' % (n, k))
    said = len(cases) - unsaid
    print('%d of %d equal' % (said - len(bad), said) + (', %d cannot be said in %s' % (unsaid, args.encoding) if unsaid else ''))
    if args.json:
        with open(args.json, 'w') as f:
            json.dump([{'case': c[:3], 'sent': c[3], 'diff': x, 'a': a, 'b': b} for c, x, a, b in bad], f)
    for s in (A, B):
        for key in keys:
            gv, res, _, namespaced = more.KINDS[key]
            s.request('DELETE', run.where(gv, res, namespaced, named(key)))
        if 'custom' in keys:
            s.request('DELETE', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/wides.wide.example.com')
        s.request('DELETE', '/api/v1/namespaces/' + run.ns)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""kinds_and_verbs: scenarios beyond those of compare.py, with the same runner and the same options.

Every kind through every verb, error paths, selectors, paging, ownership, custom resources, garbage collection.
"""
import copy, json, os, sys, time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare as d
from compare import (AGG, AP, CRDS, JP, JSON, MP, OPEN, POM, POML, SMP, TABLE, cm, cr, crd, dep, dig, ds, evs, job, mf, mkcrd, names,
                       no_mf, obj, osch, pick, pod, pspec, rolled, status_only, sts, svc, tab, textnorm, ydump)

d.SCEN.clear()
# What docs/reference/sandbox-differences.md says of messages that quote an internal Go value, or a diff of two.
d.RX.append((d.re.compile(r'\n@@ .*', d.re.S), ''))
d.RX.append((d.re.compile(r'(Invalid value: )\{"(?:[Vv]olumes|restartPolicy|[Cc]ontainers|[Ii]nitContainers).*\}(: field is immutable)', d.re.S), r'\1{<object>}\2'))
sc, S = d.sc, d.S

# ================================================================================================ kinds
# (group-version, resource, object without metadata.name, namespaced)
TEMPLATE = {'metadata': {'labels': {'a': 'b'}}, 'spec': pspec()}
KINDS = {
    'configmap': ('v1', 'configmaps', {'kind': 'ConfigMap', 'data': {'a': 'b'}, 'binaryData': {'x': 'AAE='}}, True),
    'configmap-immutable': ('v1', 'configmaps', {'kind': 'ConfigMap', 'data': {'a': 'b'}, 'immutable': True}, True),
    'secret': ('v1', 'secrets', {'kind': 'Secret', 'stringData': {'a': 'b'}, 'type': 'Opaque'}, True),
    'secret-tls': ('v1', 'secrets', {'kind': 'Secret', 'data': {'tls.crt': '', 'tls.key': ''}, 'type': 'kubernetes.io/tls'}, True),
    'secret-basic': ('v1', 'secrets', {'kind': 'Secret', 'stringData': {'username': 'u', 'password': 'p'}, 'type': 'kubernetes.io/basic-auth'}, True),
    'secret-docker': ('v1', 'secrets', {'kind': 'Secret', 'stringData': {'.dockerconfigjson': '{"auths":{}}'}, 'type': 'kubernetes.io/dockerconfigjson'}, True),
    'service-nodeport': ('v1', 'services', {'kind': 'Service', 'spec': {'type': 'NodePort', 'ports': [{'port': 80}], 'externalTrafficPolicy': 'Local'}}, True),
    'service-lb': ('v1', 'services', {'kind': 'Service', 'spec': {'type': 'LoadBalancer', 'ports': [{'port': 80, 'name': 'h'}, {'port': 443, 'name': 's', 'appProtocol': 'https'}], 'sessionAffinity': 'ClientIP', 'externalTrafficPolicy': 'Local', 'loadBalancerSourceRanges': ['10.0.0.0/8']}}, True),
    'service-headless-named': ('v1', 'services', {'kind': 'Service', 'spec': {'clusterIP': 'None', 'publishNotReadyAddresses': True, 'ports': [{'port': 5432, 'targetPort': 'pg', 'protocol': 'TCP', 'name': 'pg'}], 'selector': {'x': 'y'}}}, True),
    'endpoints': ('v1', 'endpoints', {'kind': 'Endpoints', 'subsets': [{'addresses': [{'ip': '1.2.3.4', 'hostname': 'h'}], 'ports': [{'port': 80, 'name': 'p'}]}]}, True),
    'limitrange': ('v1', 'limitranges', {'kind': 'LimitRange', 'spec': {'limits': [{'type': 'Container', 'default': {'cpu': '500m', 'memory': '1Gi'}, 'max': {'cpu': '2'}, 'min': {'cpu': '10m'}}]}}, True),
    'resourcequota': ('v1', 'resourcequotas', {'kind': 'ResourceQuota', 'spec': {'hard': {'pods': '10', 'requests.cpu': '4', 'count/configmaps': '100'}}}, True),
    'serviceaccount': ('v1', 'serviceaccounts', {'kind': 'ServiceAccount', 'automountServiceAccountToken': False, 'imagePullSecrets': [{'name': 'x'}], 'secrets': [{'name': 's'}]}, True),
    'podtemplate': ('v1', 'podtemplates', {'kind': 'PodTemplate', 'template': TEMPLATE}, True),
    'replicationcontroller': ('v1', 'replicationcontrollers', {'kind': 'ReplicationController', 'spec': {'replicas': 0, 'template': TEMPLATE}}, True),
    'pvc': ('v1', 'persistentvolumeclaims', {'kind': 'PersistentVolumeClaim', 'spec': {'accessModes': ['ReadWriteMany'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1.5Gi'}}, 'volumeMode': 'Block', 'selector': {'matchLabels': {'a': 'b'}}}}, True),
    'pv': ('v1', 'persistentvolumes', {'kind': 'PersistentVolume', 'spec': {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'nfs': {'server': 's', 'path': '/p'}, 'storageClassName': 'zz', 'mountOptions': ['hard']}}, False),
    'namespace': ('v1', 'namespaces', {'kind': 'Namespace'}, False),
    'node': ('v1', 'nodes', {'kind': 'Node', 'spec': {'unschedulable': True, 'taints': [{'key': 'k', 'effect': 'NoSchedule'}]}}, False),
    'event': ('v1', 'events', {'kind': 'Event', 'involvedObject': {'kind': 'Pod', 'name': 'p'}, 'reason': 'R', 'message': 'm', 'type': 'Normal', 'count': 2, 'source': {'component': 'c'}}, True),
    'pod-full': ('v1', 'pods', {'kind': 'Pod', 'spec': {'nodeName': 'absent-node', 'hostNetwork': True, 'terminationGracePeriodSeconds': 5, 'dnsConfig': {'nameservers': ['1.1.1.1']}, 'hostAliases': [{'ip': '1.2.3.4', 'hostnames': ['h']}], 'topologySpreadConstraints': [{'maxSkew': 1, 'topologyKey': 'z', 'whenUnsatisfiable': 'ScheduleAnyway', 'labelSelector': {}}],
        'initContainers': [{'name': 'i', 'image': 'busybox', 'restartPolicy': 'Always', 'startupProbe': {'exec': {'command': ['true']}}}],
        'containers': [{'name': 'c', 'image': 'nginx:latest', 'ports': [{'containerPort': 80, 'hostPort': 80}], 'livenessProbe': {'tcpSocket': {'port': 80}}, 'readinessProbe': {'grpc': {'port': 80}}, 'lifecycle': {'preStop': {'sleep': {'seconds': 3}}}, 'resources': {'limits': {'cpu': '1', 'memory': '1Gi'}}, 'envFrom': [{'configMapRef': {'name': 'x'}}], 'env': [{'name': 'F', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}]}],
        'volumes': [{'name': 'cm', 'configMap': {'name': 'x'}}, {'name': 's', 'secret': {'secretName': 'x'}}, {'name': 'd', 'downwardAPI': {'items': [{'path': 'p', 'fieldRef': {'fieldPath': 'metadata.labels'}}]}}, {'name': 'p', 'projected': {'sources': [{'serviceAccountToken': {'path': 't'}}]}}, {'name': 'h', 'hostPath': {'path': '/x'}}, {'name': 'e', 'ephemeral': {'volumeClaimTemplate': {'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}}}, {'name': 'iscsi', 'iscsi': {'targetPortal': 'a', 'iqn': 'iqn.2000-01.a:b', 'lun': 0}}]}}, True),
    'deployment-recreate': ('apps/v1', 'deployments', {'kind': 'Deployment', 'spec': {'replicas': 0, 'strategy': {'type': 'Recreate'}, 'selector': {'matchExpressions': [{'key': 'a', 'operator': 'In', 'values': ['b']}]}, 'template': TEMPLATE, 'minReadySeconds': 3, 'revisionHistoryLimit': 0, 'paused': True}}, True),
    'replicaset': ('apps/v1', 'replicasets', {'kind': 'ReplicaSet', 'spec': {'replicas': 0, 'selector': {'matchLabels': {'a': 'b'}}, 'template': TEMPLATE}}, True),
    'statefulset': ('apps/v1', 'statefulsets', {'kind': 'StatefulSet', 'spec': {'replicas': 0, 'serviceName': 's', 'selector': {'matchLabels': {'a': 'b'}}, 'template': TEMPLATE, 'updateStrategy': {'type': 'RollingUpdate', 'rollingUpdate': {'partition': 1}}, 'persistentVolumeClaimRetentionPolicy': {'whenDeleted': 'Delete'}, 'ordinals': {'start': 2}, 'volumeClaimTemplates': [{'metadata': {'name': 'v'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}]}}, True),
    'daemonset': ('apps/v1', 'daemonsets', {'kind': 'DaemonSet', 'spec': {'selector': {'matchLabels': {'a': 'b'}}, 'updateStrategy': {'type': 'OnDelete'}, 'template': {'metadata': {'labels': {'a': 'b'}}, 'spec': pspec(nodeSelector={'no': 'node'})}}}, True),
    'job-indexed': ('batch/v1', 'jobs', {'kind': 'Job', 'spec': {'suspend': True, 'completionMode': 'Indexed', 'completions': 3, 'parallelism': 2, 'backoffLimitPerIndex': 1, 'maxFailedIndexes': 1, 'podFailurePolicy': {'rules': [{'action': 'FailIndex', 'onExitCodes': {'operator': 'In', 'values': [42]}}, {'action': 'Ignore', 'onPodConditions': [{'type': 'DisruptionTarget'}]}]}, 'template': {'spec': pspec(restartPolicy='Never')}}}, True),
    'job-success-policy': ('batch/v1', 'jobs', {'kind': 'Job', 'spec': {'suspend': True, 'completionMode': 'Indexed', 'completions': 3, 'successPolicy': {'rules': [{'succeededIndexes': '0-1', 'succeededCount': 1}]}, 'podReplacementPolicy': 'Failed', 'template': {'spec': pspec(restartPolicy='Never')}}}, True),
    'cronjob': ('batch/v1', 'cronjobs', {'kind': 'CronJob', 'spec': {'schedule': '0 3 * * 1-5', 'timeZone': 'Europe/Madrid', 'suspend': True, 'startingDeadlineSeconds': 10, 'jobTemplate': {'spec': {'template': {'spec': pspec(restartPolicy='OnFailure')}}}}}, True),
    'hpa-v2': ('autoscaling/v2', 'horizontalpodautoscalers', {'kind': 'HorizontalPodAutoscaler', 'spec': {'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'none'}, 'maxReplicas': 3, 'metrics': [{'type': 'Resource', 'resource': {'name': 'cpu', 'target': {'type': 'Utilization', 'averageUtilization': 70}}}, {'type': 'External', 'external': {'metric': {'name': 'q'}, 'target': {'type': 'AverageValue', 'averageValue': '30'}}}], 'behavior': {'scaleDown': {'stabilizationWindowSeconds': 60}}}}, True),
    'pdb': ('policy/v1', 'poddisruptionbudgets', {'kind': 'PodDisruptionBudget', 'spec': {'maxUnavailable': '25%', 'selector': {'matchLabels': {'zz': 'b'}}, 'unhealthyPodEvictionPolicy': 'AlwaysAllow'}}, True),
    'ingress-tls': ('networking.k8s.io/v1', 'ingresses', {'kind': 'Ingress', 'spec': {'ingressClassName': 'nginx', 'tls': [{'hosts': ['a.b'], 'secretName': 's'}], 'defaultBackend': {'service': {'name': 's', 'port': {'name': 'http'}}}, 'rules': [{'host': 'a.b', 'http': {'paths': [{'path': '/', 'pathType': 'Prefix', 'backend': {'service': {'name': 's', 'port': {'number': 80}}}}, {'path': '/x', 'pathType': 'Exact', 'backend': {'resource': {'apiGroup': 'g', 'kind': 'K', 'name': 'n'}}}]}}, {'host': '*.c.d'}]}}, True),
    'ingressclass': ('networking.k8s.io/v1', 'ingressclasses', {'kind': 'IngressClass', 'spec': {'controller': 'a.b/c', 'parameters': {'apiGroup': 'g', 'kind': 'K', 'name': 'n'}}}, False),
    'networkpolicy': ('networking.k8s.io/v1', 'networkpolicies', {'kind': 'NetworkPolicy', 'spec': {'podSelector': {}, 'ingress': [{'from': [{'ipBlock': {'cidr': '10.0.0.0/8', 'except': ['10.1.0.0/16']}}, {'namespaceSelector': {}}], 'ports': [{'port': 80, 'endPort': 90}, {'port': 'http'}]}], 'egress': [{}]}}, True),
    'role': ('rbac.authorization.k8s.io/v1', 'roles', {'kind': 'Role', 'rules': [{'apiGroups': ['', 'apps'], 'resources': ['pods', 'pods/log'], 'verbs': ['get'], 'resourceNames': ['x']}]}, True),
    'clusterrole-agg': ('rbac.authorization.k8s.io/v1', 'clusterroles', {'kind': 'ClusterRole', 'rules': [{'nonResourceURLs': ['/x/*'], 'verbs': ['get']}]}, False),
    'rolebinding': ('rbac.authorization.k8s.io/v1', 'rolebindings', {'kind': 'RoleBinding', 'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'view'}, 'subjects': [{'kind': 'ServiceAccount', 'name': 'default', 'namespace': 'x'}, {'kind': 'User', 'name': 'u'}, {'kind': 'Group', 'name': 'g'}]}, True),
    'clusterrolebinding': ('rbac.authorization.k8s.io/v1', 'clusterrolebindings', {'kind': 'ClusterRoleBinding', 'roleRef': {'kind': 'ClusterRole', 'name': 'view'}, 'subjects': [{'kind': 'User', 'name': 'u'}]}, False),
    'storageclass': ('storage.k8s.io/v1', 'storageclasses', {'kind': 'StorageClass', 'provisioner': 'a.b/c', 'parameters': {'a': 'b'}, 'allowVolumeExpansion': True, 'mountOptions': ['x']}, False),
    'csidriver': ('storage.k8s.io/v1', 'csidrivers', {'kind': 'CSIDriver', 'spec': {'podInfoOnMount': True, 'tokenRequests': [{'audience': 'a'}]}}, False),
    'csinode': ('storage.k8s.io/v1', 'csinodes', {'kind': 'CSINode', 'spec': {'drivers': []}}, False),
    'csistoragecapacity': ('storage.k8s.io/v1', 'csistoragecapacities', {'kind': 'CSIStorageCapacity', 'storageClassName': 'x', 'capacity': '1Gi', 'nodeTopology': {}}, True),
    'volumeattachment': ('storage.k8s.io/v1', 'volumeattachments', {'kind': 'VolumeAttachment', 'spec': {'attacher': 'a', 'nodeName': 'n', 'source': {'persistentVolumeName': 'p'}}}, False),
    'priorityclass': ('scheduling.k8s.io/v1', 'priorityclasses', {'kind': 'PriorityClass', 'value': 100, 'description': 'd', 'preemptionPolicy': 'Never'}, False),
    'runtimeclass': ('node.k8s.io/v1', 'runtimeclasses', {'kind': 'RuntimeClass', 'handler': 'runc', 'overhead': {'podFixed': {'cpu': '250m'}}, 'scheduling': {'nodeSelector': {'a': 'b'}, 'tolerations': [{'key': 'k', 'operator': 'Exists'}]}}, False),
    'lease': ('coordination.k8s.io/v1', 'leases', {'kind': 'Lease', 'spec': {'holderIdentity': 'h', 'leaseDurationSeconds': 15, 'acquireTime': '2024-01-01T00:00:00.000000Z', 'renewTime': '2024-01-01T00:00:00.123456Z', 'leaseTransitions': 1}}, True),
    'endpointslice': ('discovery.k8s.io/v1', 'endpointslices', {'kind': 'EndpointSlice', 'addressType': 'IPv4', 'endpoints': [{'addresses': ['1.2.3.4'], 'conditions': {'ready': True}, 'zone': 'z', 'hints': {'forZones': [{'name': 'z'}]}}], 'ports': [{'port': 80}]}, True),
    'validatingwebhook': ('admissionregistration.k8s.io/v1', 'validatingwebhookconfigurations', {'kind': 'ValidatingWebhookConfiguration', 'webhooks': [{'name': 'a.b.c', 'clientConfig': {'service': {'name': 's', 'namespace': 'n'}}, 'rules': [{'apiGroups': ['zz.example'], 'apiVersions': ['v1'], 'operations': ['CREATE'], 'resources': ['nothings']}], 'sideEffects': 'None', 'admissionReviewVersions': ['v1'], 'failurePolicy': 'Ignore'}]}, False),
    'mutatingwebhook': ('admissionregistration.k8s.io/v1', 'mutatingwebhookconfigurations', {'kind': 'MutatingWebhookConfiguration', 'webhooks': [{'name': 'a.b.c', 'clientConfig': {'url': 'https://localhost:1/x'}, 'rules': [{'apiGroups': ['zz.example'], 'apiVersions': ['v1'], 'operations': ['*'], 'resources': ['nothings']}], 'sideEffects': 'NoneOnDryRun', 'admissionReviewVersions': ['v1'], 'failurePolicy': 'Ignore'}]}, False),
    'admissionpolicy': ('admissionregistration.k8s.io/v1', 'validatingadmissionpolicies', {'kind': 'ValidatingAdmissionPolicy', 'spec': {'matchConstraints': {'resourceRules': [{'apiGroups': ['zz.example'], 'apiVersions': ['v1'], 'operations': ['CREATE'], 'resources': ['nothings']}]}, 'validations': [{'expression': 'true'}]}}, False),
    'admissionpolicybinding': ('admissionregistration.k8s.io/v1', 'validatingadmissionpolicybindings', {'kind': 'ValidatingAdmissionPolicyBinding', 'spec': {'policyName': 'none', 'validationActions': ['Deny']}}, False),
    'apiservice': ('apiregistration.k8s.io/v1', 'apiservices', None, False),
    'flowschema': ('flowcontrol.apiserver.k8s.io/v1', 'flowschemas', {'kind': 'FlowSchema', 'spec': {'priorityLevelConfiguration': {'name': 'exempt'}, 'matchingPrecedence': 5000, 'distinguisherMethod': {'type': 'ByUser'}, 'rules': []}}, False),
    'prioritylevel': ('flowcontrol.apiserver.k8s.io/v1', 'prioritylevelconfigurations', {'kind': 'PriorityLevelConfiguration', 'spec': {'type': 'Limited', 'limited': {'nominalConcurrencyShares': 5, 'limitResponse': {'type': 'Reject'}}}}, False),
    'volumeattributesclass': ('storage.k8s.io/v1', 'volumeattributesclasses', {'kind': 'VolumeAttributesClass', 'driverName': 'a.b', 'parameters': {'x': 'y'}}, False),
    'deviceclass': ('resource.k8s.io/v1', 'deviceclasses', {'kind': 'DeviceClass', 'spec': {'selectors': [{'cel': {'expression': 'true'}}]}}, False),
    'resourceclaimtemplate': ('resource.k8s.io/v1', 'resourceclaimtemplates', {'kind': 'ResourceClaimTemplate', 'spec': {'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'c'}}]}}}}, True),
}


def instance(c, key, name):
    gv, res, o, namespaced = KINDS[key]
    o = json.loads(json.dumps(o).replace('@ns', c.ns))
    o = dict({'apiVersion': gv, 'kind': o.pop('kind'), 'metadata': {'name': name, 'labels': {'l': 'v'}}}, **o)
    p = c.n(gv, res) if namespaced else ('/api/v1/' if gv == 'v1' else '/apis/%s/' % gv) + res
    return p, o


def quiet(o):
    """without what a controller writes at its own time"""
    o = no_mf(o)
    if isinstance(o, dict):
        o.get('metadata', {}).pop('generation', None) if o.get('kind') in ('Pod',) else None
        o.pop('status', None)
        notes = o.get('metadata', {}).get('annotations', {})
        if notes.pop('node.alpha.kubernetes.io/ttl', None) and not notes:
            del o['metadata']['annotations']
        if 'taints' in o.get('spec', {}):
            o['spec']['taints'] = [t for t in o['spec']['taints'] if not t['key'].startswith('node.kubernetes.io/')]
    return o


# What a controller fills in and a table shows.
SETTLED = {'resourcequota': lambda o: dig(o, 'status.used'), 'pdb': lambda o: dig(o, 'status.observedGeneration'), 'pv': lambda o: dig(o, 'status.phase') == 'Available'}


def bare_table(b):
    b = tab(b)
    for r in b.get('rows', []):
        # which port or address was free, and whether a balancer has one yet (see docs/reference/sandbox-differences.md)
        r['cells'] = [d.re.sub(r'<pending>|172\.18\.255\.\d+', '<balancer>', d.re.sub(r':3\d{4}/', ':<nodePort>/', x)) if isinstance(x, str) else x for x in r['cells']]
        if isinstance(r.get('object'), dict):
            r['object'] = r['object'].get('kind')
    return b


def a_kind(key):
    gv, res, template, namespaced = KINDS[key]

    def run(c):
        name = 'x' if namespaced else c.u
        if key == 'node':
            c.srv.lacks.add('nodes')
        if template is None:
            p = '/apis/%s/%s' % (gv, res)
            c.get(p, sel=lambda b: b['kind'])
            return
        p, o = instance(c, key, name)
        if not namespaced:
            c.cleanup(p + '/' + name)
        c.post(p, o, q={'dryRun': 'All'}, sel=no_mf, label='dry create')
        c.get(p + '/' + name, label='not created')
        c.post(p, o, label='create')
        c.post(p, o, label='create again')
        if key in SETTLED:
            c.wait('settled', lambda: SETTLED[key](c.raw('GET', p + '/' + name).body))
        live = c.get(p + '/' + name, sel=quiet).body
        c.get(p + '/' + name, accept=TABLE, sel=bare_table, label='table')
        c.get(p + '/' + name, accept=POM, sel=quiet, label='partial')
        c.get(p, q={'fieldSelector': 'metadata.name=' + name}, sel=lambda b: [sorted(b), b['kind'], [quiet(i) for i in b['items']]], label='list')
        for _ in range(5):      # a controller may write in between
            r = c.raw('PUT', p + '/' + name, c.raw('GET', p + '/' + name).body)
            if r.code != 409:
                break
        c.rec('no-op put', {'code': r.code, 'body': r.body if r.code >= 400 else quiet(r.body)})
        c.patch(p + '/' + name, {'metadata': {'annotations': {'n': '1'}}}, sel=lambda b: [quiet(b), b['metadata'].get('generation')], label='merge patch')
        c.patch(p + '/' + name, {'metadata': {'labels': {'l': None, 'm': 'w'}}}, ct=SMP, sel=lambda b: b['metadata'].get('labels'), label='strategic')
        c.patch(p + '/' + name, [{'op': 'test', 'path': '/metadata/name', 'value': name}, {'op': 'add', 'path': '/metadata/labels/j', 'value': 'p'}], ct=JP, sel=lambda b: b['metadata'].get('labels'), label='json patch')
        c.apply(p + '/' + name, dict(o, metadata={'name': name, 'labels': {'l': 'ssa'}}), force=True, sel=mf, label='apply')
        c.apply(p + '/' + name, {'apiVersion': gv, 'kind': o['kind'], 'metadata': {'name': name, 'labels': {'l': 'other'}}}, fm='mgr-b', label='apply conflict')
        c.apply(p + '/' + name, dict(o, metadata={'name': name, 'labels': {'l': 'ssa'}}, bogus=1), sel=status_only, label='apply bogus')
        c.patch(p + '/' + name, {'metadata': {'annotations': {'n': '2'}}}, q={'dryRun': 'All'}, sel=lambda b: b['metadata'].get('annotations'), label='dry patch')
        c.delete(p + '/' + name, q={'dryRun': 'All'}, sel=lambda b: b.get('kind'), label='dry delete')
        c.raw('GET', p + '/' + name)
        c.delete(p, q={'labelSelector': 'l=ssa,m=w', 'fieldSelector': 'metadata.name=' + name}, sel=lambda b: [b['kind'], names(b)], label='delete collection')
        if key not in ('namespace', 'pod-full'):
            c.until(lambda: c.raw('GET', p + '/' + name).code == 404, 5)
            c.get(p + '/' + name, sel=lambda b: b['metadata'].get('finalizers'), label='gone')
    return run


for key in KINDS:
    S('kinds', key, a_kind(key))


# ================================================================================================ protocol
@sc('protocol', 'methods')
def _(c):
    for m, p in [('PUT', '/api/v1/namespaces'), ('POST', c.cm('x')), ('PATCH', c.cm()), ('PUT', c.cm()), ('DELETE', '/version'), ('POST', '/api/v1'), ('POST', c.pods('x') + '/log'), ('PUT', c.pods('x') + '/eviction'),
                 ('DELETE', c.dep('x') + '/scale'), ('POST', c.dep('x') + '/status'), ('GET', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'), ('DELETE', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x'),
                 ('POST', '/api/v1/pods'), ('DELETE', '/api/v1/configmaps'), ('DELETE', '/api/v1/namespaces'), ('POST', '/api/v1/componentstatuses'), ('PATCH', '/api/v1/namespaces/default/bindings'), ('GET', c.n('v1', 'bindings'))]:
        c.req(m, p, {} if m in ('PUT', 'POST', 'PATCH') else None, ct=MP if m == 'PATCH' else None, label='%s %s' % (m, p))


S('protocol', 'head-options', lambda c: [c.req('HEAD', c.cm('nope')), c.req('HEAD', c.cm('kube-root-ca.crt')), c.req('HEAD', '/version')])


@sc('protocol', 'media-types')
def _(c):
    c.mk(c.cm(), cm('x'))
    for ct in ('text/plain', 'application/xml', 'application/json;charset=utf-8', 'application/x-www-form-urlencoded', 'application/merge-patch+json', '', 'x', 'application/json; q=1'):
        c.req('POST', c.cm(), json.dumps(cm('t')), ct=ct or None, headers={'Content-Type': ct} if not ct else None, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='create as %r' % ct)
    for ct in ('application/json', 'text/plain', 'application/yaml', 'application/apply-patch+cbor', '', 'application/merge-patch+json; charset=utf-8', 'application/patch'):
        c.req('PATCH', c.cm('x'), '{}', ct=ct or None, headers={'Content-Type': ct} if not ct else None, sel=lambda b: b['kind'], label='patch as %r' % ct)
    for a in ('text/html', 'application/xml', 'image/png, text/plain', '*/*', 'application/*', 'application/json;as=Table;v=v2;g=meta.k8s.io', 'application/json;as=Foo;v=v1;g=meta.k8s.io', 'application/yaml;as=Table;v=v1;g=meta.k8s.io', 'text/html, application/json;q=0.5', 'application/json;stream=watch', 'application/json;as=Table;v=v1beta1;g=meta.k8s.io'):
        c.req('GET', c.cm('x'), accept=a, sel=lambda b: b.get('kind') if isinstance(b, dict) else 'text', label='accept %r' % a)
    c.req('POST', c.cm(), json.dumps(cm('t')), accept=TABLE, q={'dryRun': 'All'}, sel=lambda b: b.get('kind'), label='create table')
    c.req('DELETE', c.cm('x'), '{}', ct='text/plain', q={'dryRun': 'All'}, sel=lambda b: b.get('kind'), label='delete text')


@sc('protocol', 'bad-bodies')
def _(c):
    for i, b in enumerate(['', '{', '[]', 'null', '"x"', '1', '{"kind":1}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":"x"}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}}',
                           '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":["x"]}}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":1}}}',
                           '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":[1]}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"immutable":"yes"}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} trailing',
                           '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":"yesterday"}}', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"binaryData":{"k":"%%%"}}', '\xff\xfe']):
        c.req('POST', c.cm(), b, label='body %d' % i)
    for i, b in enumerate(['a: [', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: 1}\n', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\n---\nkind: X\n', '- a\n', 'x', 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: z\n  name: w\n']):
        c.req('POST', c.cm(), b, ct='application/yaml', label='yaml %d' % i)
    for i, b in enumerate(['{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":"3"}}', '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1.5}}', '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":99999999999}}',
                           '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":{"a":1}}}}}', '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"abc"}}}]}}}}',
                           '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"strategy":{"rollingUpdate":{"maxSurge":true}}}}', '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"paused":"x"}}']):
        c.req('POST', c.dep(), b, label='deployment %d' % i)


@sc('protocol', 'deep-json')
def _(c):
    c.req('POST', c.cm(), '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":' + '[' * 20000 + ']' * 20000 + '}', sel=lambda b: b['kind'], label='deep')
    c.req('POST', c.cm(), '[' * 20000, sel=status_only, label='open')


@sc('protocol', 'query-options')
def _(c):
    c.mk(c.cm(), cm('x'))
    for q in ({'dryRun': 'Some'}, {'dryRun': ''}, {'fieldValidation': 'Maybe'}, {'fieldManager': 'x' * 129}, {'fieldManager': 'a\tb'}, {'fieldManager': ''}, {'pretty': 'true'}, {'unknown': 'x'}):
        c.post(c.cm(), cm('t'), q=dict({'dryRun': 'All'}, **q), sel=lambda b: mf(b), label='create %s' % json.dumps(q))
        c.patch(c.cm('x'), {'data': {'b': '2'}}, q=dict({'dryRun': 'All'}, **q), sel=lambda b: b['data'], label='patch %s' % json.dumps(q))
    for q in ({'limit': 'x'}, {'limit': '-1'}, {'timeoutSeconds': 'abc'}, {'watch': 'maybe', 'timeoutSeconds': '1'}, {'resourceVersion': 'abc'}, {'resourceVersion': '-1'}, {'resourceVersionMatch': 'Nope', 'resourceVersion': '1'}, {'continue': 'zzz'}, {'continue': 'e30'}, {'limit': '1', 'continue': 'eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi94In0'}, {'sendInitialEvents': 'true'}, {'allowWatchBookmarks': 'true'}):
        c.get(c.cm(), q=q, sel=lambda b: b['kind'] if isinstance(b, dict) else 'events', label='list %s' % json.dumps(q))
    for q in ({'gracePeriodSeconds': 'x'}, {'propagationPolicy': 'Nope'}, {'orphanDependents': 'true', 'propagationPolicy': 'Orphan'}, {'gracePeriodSeconds': '-1', 'dryRun': 'All'}, {'dryRun': 'Nope'}):
        c.delete(c.cm('x'), q=q, sel=lambda b: b['kind'], label='delete %s' % json.dumps(q))
    c.get(c.cm('x'), q={'resourceVersion': 'abc'})
    c.get(c.cm('x'), q={'resourceVersion': '0'}, sel=lambda b: b['kind'])


@sc('protocol', 'odd-names')
def _(c):
    for n in ('..', '.', 'a%2Fb', 'a%00b', '%2e%2e', 'x' * 300, 'A', 'a_b', 'ünïcode', 'a b', "a'b", 'a;b', '-x', 'a..b'):
        n = urllib.parse.quote(n, safe='%.')
        c.get(c.cm() + '/' + n, label='get ' + n[:20])
    for n in ('..', 'A', 'a/b', 'x' * 254, 'a_b', 'ünï', ' a', 'a..b', 'a-', '1', '%'):
        c.post(c.cm(), cm(n), label='create ' + n[:20])
    for n in ('A', '1a', 'x' * 64, 'a.b', 'a-', '-a'):
        c.post(c.n('v1', 'services'), svc(n), q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='service ' + n[:20])
    for n in ('A', 'a.b', 'x' * 64):
        c.post('/api/v1/namespaces', obj('v1', 'Namespace', n), q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='namespace ' + n[:20])


@sc('protocol', 'generate-name')
def _(c):
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'generateName': 'A_'}}, sel=status_only)
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'generateName': 'x' * 70}}, sel=lambda b: len(b['metadata']['name']))
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {}})
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'n', 'generateName': 'g-'}}, sel=lambda b: b['metadata']['name'])


@sc('protocol', 'unknown-paths')
def _(c):
    for p in ('/nope', '/api', '/api/', '/api/v2', '/apis/nope.io', '/apis/nope.io/v1', '/apis/apps/v2', '/apis/apps/v1/nopes', '/api/v1/nopes', '/apis/apps/v1/namespaces/x/nopes/y', '/api/v1/namespaces/x/configmaps/y/nope', '/healthz/nope', '/apis/apps/', '/metrics/nope', '/openapi/v3/apis/nope/v1', '/openapi/v4', '/api/v1/configmaps/x', '/apis/apps/v1/namespaces/x/deployments/y/z/w', '/api/v1/namespaces/default/pods/p/nope', '/.well-known/nope', '//api/v1'):
        c.get(p, sel=lambda b: b.get('kind') if isinstance(b, dict) else b, label='GET ' + p)


S('protocol', 'well-known', lambda c: [c.get('/.well-known/openid-configuration', sel=sorted), c.get('/livez', q={'verbose': 'true'}, sel=lambda b: 'text'), c.get('/readyz/ping'), c.get('/version/', sel=lambda b: 'x')])
S('protocol', 'too-large', lambda c: [c.post(c.cm(), cm('big', {'a': 'x' * (1 << 20), 'b': 'y' * (1 << 19)}), sel=lambda b: b['kind']), c.post(c.n('v1', 'secrets'), obj('v1', 'Secret', 's', stringData={'a': 'x' * ((1 << 20) + 1)}), sel=lambda b: b['kind']), c.post(c.cm(), cm('ok', {'a': 'x' * (1 << 20)}), sel=lambda b: b['kind']), c.post(c.cm(), cm('huge', {'a': 'x' * (4 << 20)}), sel=lambda b: b['kind'])])


# ================================================================================================ selectors and lists
@sc('list', 'bad-field-selectors')
def _(c):
    for res, gv in (('pods', 'v1'), ('configmaps', 'v1'), ('deployments', 'apps/v1'), ('events', 'v1'), ('secrets', 'v1'), ('services', 'v1'), ('jobs', 'batch/v1'), ('replicasets', 'apps/v1')):
        for s in ('foo=bar', 'metadata.name', 'metadata.name=', 'metadata.name in (a)', 'status.phase=Running', '=x', 'metadata.name=a,metadata.name=b', 'metadata.labels.x=y', 'spec.nodeName=', 'type=Opaque', 'status.successful=1', 'metadata.name==x', 'metadata.name!=x,metadata.namespace=' + c.ns):
            c.get(c.n(gv, res), q={'fieldSelector': s}, sel=lambda b: b['kind'], label=res + ' ' + s)


@sc('list', 'label-selector-sets')
def _(c):
    for i, l in enumerate([{'app': 'a', 'n': '1'}, {'app': 'b', 'n': '2'}, {'app': 'c'}, {}, {'x.y/z': 'q'}]):
        c.mk(c.cm(), cm('m%d' % i, labels=l))
    for s in ('app in (a,b)', 'app notin (a)', 'app in (a, b),n', '!app', 'app,!n', 'n>1', 'n<2', 'n>=1', 'x.y/z=q', 'x.y/z in (q,)', 'app in ()', 'app in (,)', 'app=a,', ',', 'app = a', 'app == b , n != 3', 'app in (a),app in (b)', 'a' * 64 + '=x', 'x=' + 'a' * 64, 'app=a\tb', '!app=a', 'app in a', '(a)', 'a/b/c=d', 'app exists', 'app!', 'not app', 'n>1,n<9', 'app notin', '/x=y', 'x/=y'):
        c.get(c.cm(), q={'labelSelector': s}, sel=lambda b: [n for n in names(b) if n.startswith('m')], label=s[:40])


@sc('list', 'paging-exact')
def _(c):
    for i in range(7):
        c.mk(c.cm(), cm('p%d' % i, labels={'p': 'y'}))
    r = c.get(c.cm(), q={'limit': '3'}, sel=lambda b: [names(b), b['metadata'].get('remainingItemCount'), bool(b['metadata'].get('continue'))])
    t, rv = r['metadata.continue'], r['metadata.resourceVersion']
    c.raw('DELETE', c.cm('p4'))
    c.mk(c.cm(), cm('p5a'))
    c.raw('PATCH', c.cm('p6'), {'data': {'z': 'new'}}, ct=MP)
    r = c.get(c.cm(), q={'limit': '3', 'continue': t}, sel=lambda b: [names(b), b['metadata'].get('remainingItemCount'), b['metadata']['resourceVersion'] == rv])
    r2 = c.get(c.cm(), q={'limit': '30', 'continue': r['metadata.continue']}, sel=lambda b: [names(b), b['metadata'].get('remainingItemCount'), 'continue' in b['metadata'], [dig(i, 'data.z') for i in b['items']]])
    c.get(c.cm(), q={'resourceVersion': rv, 'resourceVersionMatch': 'Exact', 'limit': '2'}, sel=lambda b: [names(b), b['metadata'].get('remainingItemCount')])
    c.get(c.cm(), q={'resourceVersion': rv, 'resourceVersionMatch': 'Exact'}, sel=names)
    c.get(c.cm(), q={'resourceVersion': rv, 'limit': '2'}, sel=lambda b: len(b['items']))
    c.get(c.cm(), q={'limit': '2', 'labelSelector': 'p=y'}, sel=lambda b: [names(b), b['metadata'].get('remainingItemCount'), bool(b['metadata'].get('continue'))])
    c.get(c.cm(), q={'limit': '3', 'continue': t, 'resourceVersion': '5'})
    c.get(c.n('v1', 'secrets'), q={'limit': '3', 'continue': t}, sel=names)
    c.get(c.cm(), q={'limit': '2'}, accept=TABLE, sel=lambda b: [len(b['rows']), bool(b['metadata'].get('continue')), b['metadata'].get('remainingItemCount')])
    c.get(c.cm(), q={'limit': '2'}, accept=POML, sel=lambda b: [names(b), bool(b['metadata'].get('continue')), b['metadata'].get('remainingItemCount')])
    c.get(c.cm(), q={'limit': '8'}, sel=lambda b: [len(b['items']), bool(b['metadata'].get('continue'))])
    c.get(c.cm(), q={'limit': '2', 'fieldSelector': 'metadata.name=p1'}, sel=lambda b: [names(b), sorted(b['metadata'])])


@sc('list', 'include-object')
def _(c):
    c.mk(c.cm(), cm('x'))
    for i in ('None', 'Metadata', 'Object', 'Nope', ''):
        c.get(c.cm('x'), q={'includeObject': i}, accept=TABLE, sel=lambda b: [r['object'] and sorted(r['object']) for r in b['rows']], label=i)
        c.get(c.cm(), q={'includeObject': i, 'fieldSelector': 'metadata.name=x'}, accept=TABLE, sel=lambda b: [r['object'] and sorted(r['object']) for r in b['rows']], label='list ' + i)


@sc('list', 'tables-of-many-kinds')
def _(c):
    for p in ('nodes', 'namespaces', 'persistentvolumes', 'events', 'pods', 'services', 'endpoints', 'secrets', 'serviceaccounts', 'limitranges', 'resourcequotas', 'replicationcontrollers', 'podtemplates', 'persistentvolumeclaims'):
        c.get('/api/v1/' + p, accept=TABLE, q={'limit': '1'}, sel=lambda b: b['columnDefinitions'], label=p)
    for p in ('apps/v1/deployments', 'apps/v1/daemonsets', 'apps/v1/controllerrevisions', 'batch/v1/jobs', 'batch/v1/cronjobs', 'autoscaling/v2/horizontalpodautoscalers', 'autoscaling/v1/horizontalpodautoscalers', 'policy/v1/poddisruptionbudgets', 'networking.k8s.io/v1/ingresses', 'networking.k8s.io/v1/networkpolicies', 'networking.k8s.io/v1/ingressclasses', 'rbac.authorization.k8s.io/v1/roles', 'rbac.authorization.k8s.io/v1/clusterrolebindings', 'storage.k8s.io/v1/storageclasses', 'coordination.k8s.io/v1/leases', 'discovery.k8s.io/v1/endpointslices', 'events.k8s.io/v1/events', 'apiextensions.k8s.io/v1/customresourcedefinitions', 'apiregistration.k8s.io/v1/apiservices', 'scheduling.k8s.io/v1/priorityclasses', 'node.k8s.io/v1/runtimeclasses', 'certificates.k8s.io/v1/certificatesigningrequests', 'admissionregistration.k8s.io/v1/validatingwebhookconfigurations'):
        c.get('/apis/' + p, accept=TABLE, q={'limit': '1'}, sel=lambda b: b['columnDefinitions'], label=p)


# ================================================================================================ watch
@sc('watch', 'initial-events-selectors')
def _(c):
    for i in range(3):
        c.mk(c.cm(), cm('w%d' % i, labels={'k': str(i % 2)}))
    q = {'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'allowWatchBookmarks': 'true', 'resourceVersion': ''}
    c.watch(c.cm(), dict(q, labelSelector='k=0'), n=3, sel=lambda e: [e['type'], dig(e, 'object.metadata.name'), dig(e, 'object.metadata.annotations')])
    c.watch(c.cm(), dict(q, fieldSelector='metadata.name=w1'), n=2, timeout=3, sel=lambda e: [e['type'], dig(e, 'object.metadata.name')])
    c.watch(c.cm(), dict(q, fieldSelector='metadata.name=w2'), n=2, accept=TABLE, sel=lambda e: [e['type'], e['object']['kind'], [r['cells'] and r['cells'][0] for r in e['object']['rows']], bool(e['object']['columnDefinitions'])])
    c.watch(c.cm(), dict(q, fieldSelector='metadata.name=w2'), n=2, accept=POM, sel=lambda e: [e['type'], e['object']['kind'], e['object'].get('apiVersion')])


@sc('watch', 'errors')
def _(c):
    for q in ({'resourceVersion': 'abc'}, {'timeoutSeconds': 'x'}, {'labelSelector': 'a in'}, {'fieldSelector': 'foo=bar'}, {'resourceVersionMatch': 'Exact', 'resourceVersion': '1'}, {'resourceVersionMatch': 'NotOlderThan'}, {'sendInitialEvents': 'true', 'resourceVersionMatch': 'Exact', 'resourceVersion': '1'}, {'sendInitialEvents': 'x'}, {'resourceVersion': '-1'}, {'continue': 'abc'}, {'limit': '1'}):
        c.watch(c.cm(), dict(q), n=1, timeout=1, sel=lambda e: [e['type'], e['object'].get('message') if e['type'] == 'ERROR' else None], label=json.dumps(q))


@sc('watch', 'all-namespaces-and-metadata')
def _(c):
    c.ns
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.mk(c.cm(), cm('a', labels={'w': c.u}))
    c.raw('PATCH', c.cm('a'), {'metadata': {'labels': {'w': None}}}, ct=MP)
    c.watch('/api/v1/configmaps', {'resourceVersion': rv, 'labelSelector': 'w=' + c.u}, n=2, sel=lambda e: [e['type'], no_mf(e['object'])])
    c.watch(c.cm(), {'resourceVersion': rv, 'fieldSelector': 'metadata.name=a'}, n=2, accept=POM, sel=lambda e: [e['type'], no_mf(e['object'])])
    c.watch('/api/v1/watch/namespaces/%s/configmaps/a' % c.ns, {'resourceVersion': rv}, n=2, sel=lambda e: e['type'])
    c.watch('/api/v1/watch/namespaces/%s/configmaps' % c.ns, {'resourceVersion': rv, 'labelSelector': 'w'}, n=2, sel=lambda e: e['type'])


# ================================================================================================ ownership
def nested(name, **extra):
    o = dep(name, 0, paused=True)
    o['spec']['template']['spec'] = {'containers': [{'name': 'a', 'image': 'a:1', 'env': [{'name': 'X', 'value': '1'}, {'name': 'Y', 'value': '2'}], 'ports': [{'containerPort': 80}, {'containerPort': 81, 'protocol': 'UDP', 'name': 'u'}], 'volumeMounts': [{'name': 'v', 'mountPath': '/v'}], 'args': ['--x']}], 'volumes': [{'name': 'v', 'emptyDir': {}}], 'nodeSelector': {'d': 'e'}, 'tolerations': [{'key': 'k', 'operator': 'Exists'}]}
    o['spec'].update(extra)
    return o


def part(o, **containers):
    return {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': o['metadata']['name']}, 'spec': {'template': {'spec': {'containers': [dict({'name': k}, **v) for k, v in containers.items()]}}}}


@sc('ssa', 'nested-lists')
def _(c):
    o = nested('d')
    c.apply(c.dep('d'), o, sel=lambda b: [mf(b), b['spec']])
    c.apply(c.dep('d'), part(o, a={'env': [{'name': 'Z', 'value': '3'}]}), fm='mgr-b', sel=lambda b: [mf(b), b['spec']['template']])
    c.apply(c.dep('d'), part(o, a={'env': [{'name': 'X', 'value': 'other'}], 'image': 'b:2', 'ports': [{'containerPort': 80, 'name': 'n'}]}), fm='mgr-b', label='conflicts')
    c.apply(c.dep('d'), part(o, a={'env': [{'name': 'X', 'value': 'other'}], 'image': 'b:2'}, b={'image': 'side:1'}), fm='mgr-b', force=True, sel=lambda b: [mf(b), b['spec']['template']])
    o2 = copy.deepcopy(o)
    o2['spec']['template']['spec']['containers'][0].pop('env')
    o2['spec']['template']['spec']['containers'][0].pop('image')
    c.apply(c.dep('d'), o2, sel=lambda b: [mf(b), b['spec']['template']], label='gives up')
    c.apply(c.dep('d'), part(o, b={'image': 'side:1'}), fm='mgr-b', sel=lambda b: [mf(b), b['spec']['template']], label='b gives up')
    c.apply(c.dep('d'), dict(o, spec=dict(o['spec'], template={'metadata': {'labels': {'app': 'd'}}, 'spec': {'containers': [{'name': 'a', 'image': 'x', 'env': [{'name': 'X', 'value': '1'}, {'name': 'X', 'value': '2'}]}]}})), label='duplicate key')
    c.apply(c.dep('d'), dict(o, spec=dict(o['spec'], template={'metadata': {'labels': {'app': 'd'}}, 'spec': {'containers': [{'image': 'x'}]}})), label='no key')
    c.apply(c.dep('d'), dict(o, spec=dict(o['spec'], template={'metadata': {'labels': {'app': 'd'}}, 'spec': {'containers': 'x'}})), label='wrong type')
    c.apply(c.dep('d'), dict(o, spec=None), label='null spec')


@sc('ssa', 'scale-and-replicas')
def _(c):
    o = nested('d', replicas=0)
    c.apply(c.dep('d'), o, sel=mf)
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 1}}, sel=lambda b: b['spec'])
    c.get(c.dep('d'), sel=mf)
    c.apply(c.dep('d'), o, label='conflict with scale')
    o['spec'].pop('replicas')
    c.apply(c.dep('d'), o, sel=lambda b: [mf(b), b['spec']['replicas']])
    c.apply(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd'}, 'spec': {'replicas': 0}}, fm='scaler', force=True, label='apply to scale')
    c.get(c.dep('d'), sel=lambda b: [mf(b), b['spec']['replicas']])
    c.apply(c.dep('d') + '/scale', {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'd'}}, fm='scaler', label='wrong kind')
    c.put(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd', 'namespace': c.ns}, 'spec': {'replicas': -1}}, label='negative')
    c.put(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd', 'namespace': c.ns, 'resourceVersion': '1'}, 'spec': {'replicas': 0}}, label='stale')
    c.put(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'e', 'namespace': c.ns}, 'spec': {'replicas': 0}}, label='other name')
    c.get(c.dep('nope') + '/scale')
    c.patch(c.dep('d') + '/scale', [{'op': 'replace', 'path': '/spec/replicas', 'value': 0}], ct=JP, sel=lambda b: b['spec'])
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 0}}, ct=SMP, sel=lambda b: b['spec'])
    c.put(c.dep('d') + '/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'd', 'namespace': c.ns}, 'spec': {'replicas': 0}}, q={'dryRun': 'All'}, sel=lambda b: b['spec'])


@sc('ssa', 'status')
def _(c):
    p = c.n('v1', 'pods')
    c.mk(p, pod('p', pspec(nodeName='absent-node')))
    st = {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}, 'status': {'conditions': [{'type': 'My', 'status': 'True', 'lastTransitionTime': '2024-01-01T00:00:00Z'}], 'message': 'hi'}}
    c.apply(p + '/p/status', st, fm='st', sel=lambda b: [mf(b), [x for x in b['status']['conditions'] if x['type'] == 'My'], b['status'].get('message')])
    c.apply(p + '/p/status', dict(st, status={'conditions': [{'type': 'My', 'status': 'False'}], 'message': 'other'}), fm='st2', label='conflict')
    c.apply(p + '/p/status', dict(st, status={'message': 'x'}), fm='st', sel=lambda b: [mf(b), [x for x in b['status'].get('conditions', []) if x['type'] == 'My']])
    c.patch(p + '/p/status', {'status': {'reason': 'Because'}, 'spec': {'nodeName': 'other'}}, q={'fieldManager': 'st'}, sel=lambda b: [b['spec']['nodeName'], b['status']['reason']])
    c.apply(p + '/nope/status', dict(st, metadata={'name': 'nope'}), fm='st')


@sc('ssa', 'owner-refs-and-finalizers')
def _(c):
    u = c.mk(c.cm(), cm('owner'))['metadata.uid']
    ref = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'owner', 'uid': u}
    o = cm('x', ownerReferences=[ref], finalizers=['a.b/c'])
    c.apply(c.cm('x'), o, sel=lambda b: [mf(b), b['metadata'].get('finalizers')])
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x', 'finalizers': ['d.e/f']}}, fm='mgr-b', sel=lambda b: [mf(b), b['metadata'].get('finalizers')])
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}}, sel=lambda b: [mf(b), b['metadata'].get('finalizers'), b.get('data'), b['metadata'].get('ownerReferences')])
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x', 'uid': 'other'}}, label='uid')
    c.apply(c.cm('y'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'y', 'resourceVersion': '5'}}, label='rv on create')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x', 'resourceVersion': '5'}}, label='stale rv')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x', 'namespace': 'other'}}, label='namespace')
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}}, q={'dryRun': 'All', 'force': 'maybe'}, label='bad force', sel=lambda b: b['kind'])
    c.patch(c.cm('x'), {'metadata': {'finalizers': None}}, sel=lambda b: b['metadata'].get('finalizers'))


@sc('ssa', 'other-types')
def _(c):
    sv = c.n('v1', 'services')
    c.apply(sv + '/s', svc('s', ports=[{'port': 80, 'name': 'a'}, {'port': 81, 'name': 'b'}]), sel=lambda b: mf(b))
    c.apply(sv + '/s', {'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's'}, 'spec': {'ports': [{'port': 82, 'name': 'c', 'protocol': 'TCP'}], 'selector': {'b': 'c'}}}, fm='mgr-b', label='atomic selector')
    c.apply(sv + '/s', {'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's'}, 'spec': {'ports': [{'port': 82, 'name': 'c', 'protocol': 'TCP'}]}}, fm='mgr-b', sel=lambda b: [mf(b), b['spec']['ports']])
    np = c.n('networking.k8s.io/v1', 'networkpolicies')
    c.apply(np + '/n', obj('networking.k8s.io/v1', 'NetworkPolicy', 'n', {'podSelector': {'matchLabels': {'a': 'b'}}, 'ingress': [{'from': [{'podSelector': {}}]}]}), sel=mf)
    r = c.n('rbac.authorization.k8s.io/v1', 'roles')
    c.apply(r + '/r', obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['pods'], 'verbs': ['get']}]), sel=mf)
    c.apply(r + '/r', obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['pods'], 'verbs': ['list']}]), fm='mgr-b', label='atomic rules')
    se = c.n('v1', 'secrets')
    c.apply(se + '/s', obj('v1', 'Secret', 's', stringData={'a': 'b'}, data={'c': 'ZA=='}), sel=lambda b: [mf(b), b['data']])
    sa = c.n('v1', 'serviceaccounts')
    c.apply(sa + '/s', obj('v1', 'ServiceAccount', 's', imagePullSecrets=[{'name': 'a'}]), sel=mf)
    c.apply(sa + '/s', obj('v1', 'ServiceAccount', 's', imagePullSecrets=[{'name': 'b'}]), fm='mgr-b', sel=lambda b: [mf(b), b['imagePullSecrets']])
    i = c.n('networking.k8s.io/v1', 'ingresses')
    c.apply(i + '/i', obj('networking.k8s.io/v1', 'Ingress', 'i', {'rules': [{'host': 'a.b', 'http': {'paths': [{'path': '/', 'pathType': 'Prefix', 'backend': {'service': {'name': 's', 'port': {'number': 80}}}}]}}]}), sel=mf)
    q = c.n('v1', 'resourcequotas')
    c.apply(q + '/q', obj('v1', 'ResourceQuota', 'q', {'hard': {'cpu': '1000m'}}), sel=lambda b: [mf(b), b['spec']])
    c.apply(q + '/q', obj('v1', 'ResourceQuota', 'q', {'hard': {'cpu': '1'}}), fm='mgr-b', sel=lambda b: [mf(b), b['spec']])


@sc('ssa', 'update-after-apply')
def _(c):
    c.apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}), sel=mf)
    o = c.raw('GET', c.cm('x')).body
    o['data']['a'] = 'changed'
    o['data']['c'] = 'new'
    c.put(c.cm('x'), o, q={'fieldManager': 'putter'}, sel=mf)
    o = c.raw('GET', c.cm('x')).body
    o['metadata']['managedFields'] = []
    c.put(c.cm('x'), o, q={'fieldManager': 'putter'}, sel=mf, label='reset')
    o = c.raw('GET', c.cm('x')).body
    o['metadata']['managedFields'] = [{'manager': 'made-up', 'operation': 'Apply', 'apiVersion': 'v1', 'time': '2024-01-01T00:00:00Z', 'fieldsType': 'FieldsV1', 'fieldsV1': {'f:data': {'f:a': {}}}}]
    c.put(c.cm('x'), o, q={'fieldManager': 'putter'}, sel=mf, label='made up')
    o['metadata'].pop('resourceVersion')
    for bad in ([{'manager': 'm', 'operation': 'Nope', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {}}], [{'manager': 'm', 'operation': 'Apply', 'apiVersion': 'v1', 'fieldsType': 'FieldsV2', 'fieldsV1': {}}], [{'manager': 'm', 'operation': 'Apply', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {'x': {}}}], [{'manager': 'm' * 200, 'operation': 'Apply', 'apiVersion': 'v1', 'fieldsType': 'FieldsV1', 'fieldsV1': {}}]):
        o['metadata']['managedFields'] = bad
        c.put(c.cm('x'), o, q={'fieldManager': 'putter'}, sel=mf, label='bad %s' % json.dumps(bad)[:80])


@sc('ssa', 'many-updaters')
def _(c):
    c.mk(c.cm(), cm('x'))
    for i in range(13):
        c.raw('PATCH', c.cm('x'), {'data': {'k%d' % i: 'v'}}, ct=MP, q={'fieldManager': 'm%02d' % i})
    c.get(c.cm('x'), sel=mf)


# ================================================================================================ update, patch
@sc('update', 'every-verb-dry-run')
def _(c):
    c.mk(c.dep(), nested('d'))
    o = c.raw('GET', c.dep('d')).body
    o['spec']['minReadySeconds'] = 9
    o['metadata'].pop('resourceVersion', None)      # its controller writes at its own time
    c.put(c.dep('d'), o, q={'dryRun': 'All'}, sel=pick('spec.minReadySeconds', 'metadata.generation'))
    c.patch(c.dep('d'), {'spec': {'minReadySeconds': 8}}, q={'dryRun': 'All'}, sel=pick('spec.minReadySeconds', 'metadata.generation'))
    c.apply(c.dep('d'), nested('d'), q={'dryRun': 'All'}, force=True, sel=pick('metadata.generation'))
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 5}}, q={'dryRun': 'All'}, sel=lambda b: b['spec'])
    c.delete(c.dep('d'), {'dryRun': ['All']}, sel=lambda b: b.get('kind'))
    c.delete(c.dep(), q={'dryRun': 'All'}, sel=lambda b: [b['kind'], names(b)])
    c.post(c.n('v1', 'pods'), pod('p', pspec(nodeName='absent-node')), q={'dryRun': 'All'}, sel=pick('metadata.name', 'status'))
    c.post(c.n('v1', 'services'), svc('s'), q={'dryRun': 'All'}, sel=pick('spec.type'))
    c.post(c.n('v1', 'serviceaccounts', 'default') + '/token', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {}}, q={'dryRun': 'All'}, sel=lambda b: sorted(b['status']))
    c.get(c.dep('d'), sel=pick('spec.minReadySeconds', 'metadata.generation', 'spec.replicas'))
    c.get(c.n('v1', 'pods', 'p'))


@sc('update', 'preconditions')
def _(c):
    c.mk(c.cm(), cm('x'))
    o = c.raw('GET', c.cm('x')).body
    c.delete(c.cm('x'), {'preconditions': {'uid': 'nope'}})
    c.delete(c.cm('x'), {'preconditions': {'resourceVersion': '1'}})
    c.patch(c.cm('x'), {'metadata': {'resourceVersion': '1'}, 'data': {'z': '1'}})
    c.patch(c.cm('x'), {'metadata': {'resourceVersion': o['metadata']['resourceVersion'], 'uid': o['metadata']['uid']}, 'data': {'z': '1'}}, sel=lambda b: b['data'])
    c.patch(c.cm('x'), {'metadata': {'uid': 'nope'}, 'data': {'z': '2'}})
    c.patch(c.cm('x'), {'metadata': {'name': 'y'}})
    c.patch(c.cm('x'), {'metadata': {'namespace': 'y'}})
    c.patch(c.cm('x'), {'metadata': {'creationTimestamp': None, 'generation': 77, 'selfLink': 'x', 'deletionTimestamp': '2024-01-01T00:00:00Z'}}, sel=no_mf)
    c.patch(c.cm('x'), {'kind': 'Secret'})
    c.patch(c.cm('x'), {'apiVersion': 'v2'})
    c.put(c.cm('x'), dict(o, metadata=dict(o['metadata'], resourceVersion='')), sel=lambda b: b['data'])
    c.put(c.cm('x'), dict(o, metadata=dict(o['metadata'], resourceVersion='abc')))
    c.put(c.cm('x'), dict(o, metadata=dict(o['metadata'], resourceVersion='', uid='u')))
    c.put(c.cm('nope'), cm('nope'))
    c.put(c.n('v1', 'services', 'new'), svc('new'), sel=lambda b: b['kind'])
    c.put(c.n('coordination.k8s.io/v1', 'leases', 'l'), obj('coordination.k8s.io/v1', 'Lease', 'l', {}), sel=lambda b: b['kind'])
    c.put(c.n('coordination.k8s.io/v1', 'leases', 'l'), obj('coordination.k8s.io/v1', 'Lease', 'l', {}))
    c.put(c.n('rbac.authorization.k8s.io/v1', 'roles', 'r'), obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[]), sel=lambda b: b['kind'])


@sc('update', 'immutables')
def _(c):
    c.mk(c.cm(), dict(cm('i'), immutable=True))
    c.patch(c.cm('i'), {'data': {'a': 'z'}})
    c.patch(c.cm('i'), {'immutable': None})
    c.patch(c.cm('i'), {'metadata': {'labels': {'x': 'y'}}}, sel=lambda b: b['metadata']['labels'])
    j = c.n('batch/v1', 'jobs')
    c.mk(j, job('j', suspend=True))
    for p in ({'spec': {'completions': 4}}, {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'z'}]}}}}, {'spec': {'parallelism': 3}}, {'spec': {'backoffLimit': 1}}, {'spec': {'selector': {'matchLabels': {'a': 'b'}}}}, {'spec': {'completionMode': 'Indexed'}}, {'spec': {'suspend': False, 'activeDeadlineSeconds': 5}}, {'spec': {'ttlSecondsAfterFinished': -1}}):
        c.patch(j + '/j', p, sel=lambda b: 'ok', label=json.dumps(p))
    s = c.n('apps/v1', 'statefulsets')
    c.mk(s, sts('s', 0))
    for p in ({'spec': {'serviceName': 'z'}}, {'spec': {'podManagementPolicy': 'Parallel'}}, {'spec': {'minReadySeconds': 3}}, {'spec': {'selector': {'matchLabels': {'app': 'z'}}}}, {'spec': {'replicas': -1}}, {'spec': {'volumeClaimTemplates': [{'metadata': {'name': 'v'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}]}}):
        c.patch(s + '/s', p, sel=lambda b: 'ok', label=json.dumps(p))
    dd = c.n('apps/v1', 'daemonsets')
    c.mk(dd, ds('d'))
    c.patch(dd + '/d', {'spec': {'selector': {'matchLabels': {'app': 'z'}}}})
    c.patch(dd + '/d', {'spec': {'template': {'metadata': {'labels': {'app': 'z'}}}}})
    rb = c.n('rbac.authorization.k8s.io/v1', 'rolebindings')
    c.mk(rb, obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'b', roleRef={'kind': 'Role', 'name': 'r', 'apiGroup': 'rbac.authorization.k8s.io'}))
    c.patch(rb + '/b', {'roleRef': {'name': 'other'}})
    pv = c.n('v1', 'persistentvolumeclaims')
    c.mk(pv, obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}}}))
    for p in ({'spec': {'accessModes': ['ReadWriteMany']}}, {'spec': {'storageClassName': 'z'}}, {'spec': {'resources': {'requests': {'storage': '2Gi'}}}}, {'spec': {'volumeName': 'v'}}):
        c.patch(pv + '/p', p, sel=lambda b: 'ok', label=json.dumps(p))
    c.mk(c.n('v1', 'services'), svc('s'))
    for p in ({'spec': {'type': 'ExternalName', 'externalName': 'a.b', 'clusterIP': ''}}, {'spec': {'clusterIP': 'None'}}, {'spec': {'type': 'NodePort'}}, {'spec': {'ports': [{'port': 80, 'nodePort': 99999}]}}, {'spec': {'ports': []}}, {'spec': {'type': 'Nope'}}, {'spec': {'sessionAffinity': 'X'}}, {'spec': {'ipFamilyPolicy': 'RequireDualStack'}}):
        c.patch(c.n('v1', 'services', 's'), p, sel=lambda b: b['spec']['type'], label=json.dumps(p))
    sc_ = '/apis/storage.k8s.io/v1/storageclasses'
    c.mk(sc_, obj('storage.k8s.io/v1', 'StorageClass', c.u, provisioner='a/b'))
    c.cleanup(sc_ + '/' + c.u)
    for p in ({'provisioner': 'c/d'}, {'parameters': {'a': 'b'}}, {'reclaimPolicy': 'Retain'}, {'allowVolumeExpansion': True}):
        c.patch(sc_ + '/' + c.u, p, sel=lambda b: 'ok', label=json.dumps(p))


@sc('patch', 'json-patch-corners')
def _(c):
    c.mk(c.dep(), nested('d'))
    for ops in ([], [{}], [{'op': 'nope', 'path': '/x'}], [{'op': 'add', 'path': '/spec/template/spec/containers/-', 'value': {'name': 'z', 'image': 'z'}}], [{'op': 'remove', 'path': '/spec/nothing'}], [{'op': 'replace', 'path': '/spec/nothing', 'value': 1}], [{'op': 'move', 'from': '/metadata/labels/app', 'path': '/metadata/labels/b'}], [{'op': 'copy', 'from': '/spec/selector', 'path': '/metadata/annotations'}], [{'op': 'test', 'path': '/spec/replicas', 'value': 5}], [{'op': 'add', 'path': 'spec', 'value': 1}], [{'op': 'add', 'path': '/metadata/labels/a~1b', 'value': 'x'}], [{'op': 'replace', 'path': '', 'value': {}}], [{'op': 'add', 'path': '/spec/template/spec/containers/9', 'value': {}}], [{'op': 'remove', 'path': '/spec/template/spec/containers/-1'}], [{'op': 'remove', 'path': '/metadata/managedFields'}], [{'op': 'replace', 'path': '/metadata/name', 'value': 'e'}], [{'op': 'add', 'path': '/spec/replicas', 'value': 'x'}], {'a': 1}, 'x', [{'op': 'add', 'path': '/metadata/annotations/x', 'value': 'y'}]):
        c.patch(c.dep('d'), ops, ct=JP, q={'dryRun': 'All'}, sel=lambda b: [b['metadata'].get('labels'), b['metadata'].get('annotations'), [x['name'] for x in b['spec']['template']['spec']['containers']]], label=json.dumps(ops)[:100])


@sc('patch', 'strategic-corners')
def _(c):
    c.mk(c.dep(), nested('d'))
    t = lambda p: {'spec': {'template': {'spec': p}}}
    for p in (t({'containers': [{'name': 'a', 'env': [{'name': 'X', '$patch': 'delete'}]}]}), t({'containers': [{'name': 'a', 'ports': [{'containerPort': 80, 'hostPort': 1}]}]}), t({'$setElementOrder/containers': [{'name': 'b'}, {'name': 'a'}], 'containers': [{'name': 'b', 'image': 'b'}]}), t({'containers': [{'image': 'x'}]}), t({'containers': [{'$patch': 'replace'}, {'name': 'z', 'image': 'z'}]}),
              t({'volumes': [{'name': 'v', '$retainKeys': ['name', 'hostPath'], 'emptyDir': None, 'hostPath': {'path': '/x'}}]}), t({'tolerations': [{'key': 'z'}]}), t({'nodeSelector': {'$patch': 'replace', 'n': 'm'}}), t({'nodeSelector': {'d': None}}), t({'containers': [{'name': 'a', 'args': ['1', '2']}]}), t({'containers': None}), t({'containers': []}), {'metadata': {'labels': {'$patch': 'delete'}}}, {'spec': {'$patch': 'nope'}}, t({'$deleteFromPrimitiveList/finalizers': ['x']}), {'metadata': {'finalizers': ['a.b/c']}}, {'metadata': {'finalizers': ['a.b/c', 'a.b/c']}}, t({'containers': [{'name': 'a', 'volumeMounts': [{'mountPath': '/v', 'readOnly': True}]}]}), t({'imagePullSecrets': [{'name': 'q'}], 'hostAliases': [{'ip': '1.1.1.1', 'hostnames': ['a']}]}), {'spec': {'strategy': {'$retainKeys': ['type'], 'type': 'Recreate'}}}, {'spec': {'unknown': 1}}, {'spec': {'replicas': '5'}}, [], 'x', None, {'status': {'replicas': 9}}):
        c.patch(c.dep('d'), p, ct=SMP, q={'dryRun': 'All'}, sel=lambda b: [b['metadata'].get('labels'), b['metadata'].get('finalizers'), b['spec']['template']['spec'], b['spec']['strategy'], b.get('status', {}).get('replicas')], label=json.dumps(p)[:110])


@sc('patch', 'field-validation')
def _(c):
    bad = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'f', 'nope': 1}, 'data': {}, 'x': {'y': 1}}
    dup = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f","name":"f"},"data":{"a":"1","a":"2"}}'
    for v in ('Strict', 'Warn', 'Ignore', ''):
        q = {'dryRun': 'All', **({'fieldValidation': v} if v else {})}
        c.post(c.cm(), bad, q=q, sel=no_mf, label='create ' + v)
        c.req('POST', c.cm(), dup, q=q, sel=no_mf, label='duplicates ' + v)
        c.req('POST', c.cm(), 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: f\n  x: 1\ndata:\n  a: "1"\n  a: "2"\n', ct='application/yaml', q=q, sel=no_mf, label='yaml ' + v)
    c.mk(c.dep(), nested('d'))
    for v in ('Strict', 'Warn', 'Ignore'):
        q = {'dryRun': 'All', 'fieldValidation': v}
        c.patch(c.dep('d'), {'spec': {'nope': 1, 'template': {'spec': {'bogus': {}}}}}, q=q, sel=lambda b: 'ok', label='merge ' + v)
        c.patch(c.dep('d'), {'spec': {'nope': 1}}, ct=SMP, q=q, sel=lambda b: 'ok', label='strategic ' + v)
        c.patch(c.dep('d'), [{'op': 'add', 'path': '/spec/nope', 'value': 1}, {'op': 'add', 'path': '/spec/x', 'value': 1}], ct=JP, q=q, sel=lambda b: 'ok', label='json ' + v)
        c.apply(c.dep('d'), dict(nested('d'), nope=1), force=True, q=q, sel=lambda b: 'ok', label='apply ' + v)
        c.req('PATCH', c.dep('d'), '{"spec":{"paused":true,"paused":false}}', ct=MP, q=q, sel=lambda b: 'ok', label='dup merge ' + v)
        c.req('PATCH', c.dep('d'), 'apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n  name: d\n', ct=AP, q=dict(q, fieldManager='x'), sel=lambda b: 'ok', label='dup apply ' + v)
        o = c.raw('GET', c.dep('d')).body
        o['spec']['zzz'] = 1
        c.put(c.dep('d'), o, q=q, sel=lambda b: 'ok', label='put ' + v)


# ================================================================================================ deletion
def child(name, owner, uid, **ref):
    return cm(name, ownerReferences=[dict({'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': owner, 'uid': uid}, **ref)])


@sc('delete', 'foreground-blocking')
def _(c):
    u = c.mk(c.cm(), cm('o'))['metadata.uid']
    c.mk(c.cm(), child('blocker', 'o', u, blockOwnerDeletion=True))
    held = child('held', 'o', u, blockOwnerDeletion=True)
    held['metadata']['finalizers'] = ['a.b/c']
    c.mk(c.cm(), held)
    c.delete(c.cm('o'), {'propagationPolicy': 'Foreground'}, sel=lambda b: [b['kind'], b['metadata'].get('finalizers'), 'deletionTimestamp' in b['metadata']])
    c.gone(c.cm('blocker'))
    c.get(c.cm('o'), sel=lambda b: b['metadata'].get('finalizers'))
    c.wait('held deleting', lambda: c.raw('GET', c.cm('held'))['metadata.deletionTimestamp'])
    c.patch(c.cm('held'), {'metadata': {'finalizers': None}}, sel=lambda b: b['kind'])
    c.gone(c.cm('o'))


@sc('delete', 'orphan-chain')
def _(c):
    u = c.mk(c.cm(), cm('a'))['metadata.uid']
    v = c.mk(c.cm(), child('b', 'a', u))['metadata.uid']
    c.mk(c.cm(), child('c', 'b', v))
    time.sleep(1)
    c.delete(c.cm('a'), {'propagationPolicy': 'Orphan'}, sel=lambda b: [b['kind'], dig(b, 'metadata.finalizers')])
    c.gone(c.cm('a'))
    c.wait('orphaned', lambda: not c.raw('GET', c.cm('b'))['metadata.ownerReferences'])
    c.delete(c.cm('b'), q={'propagationPolicy': 'Background'}, sel=lambda b: b['kind'])
    c.gone(c.cm('c'))


@sc('delete', 'two-owners-and-absent-owner')
def _(c):
    u = c.mk(c.cm(), cm('a'))['metadata.uid']
    v = c.mk(c.cm(), cm('b'))['metadata.uid']
    o = child('kid', 'a', u)
    o['metadata']['ownerReferences'].append({'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'b', 'uid': v})
    c.mk(c.cm(), o)
    c.mk(c.cm(), child('lost', 'never', '11111111-1111-1111-1111-111111111111'))
    c.gone(c.cm('lost'))
    c.delete(c.cm('a'), sel=lambda b: b['kind'])
    c.wait('one owner left', lambda: [r['name'] for r in c.raw('GET', c.cm('kid'))['metadata.ownerReferences']] == ['b'])
    c.delete(c.cm('b'), sel=lambda b: b['kind'])
    c.gone(c.cm('kid'))


@sc('delete', 'collection-selectors')
def _(c):
    for i in range(4):
        c.mk(c.cm(), cm('d%d' % i, labels={'k': str(i % 2)}, **({'finalizers': ['a.b/c']} if i == 2 else {})))
    c.delete(c.cm(), q={'labelSelector': 'k=0'}, sel=lambda b: [b['kind'], names(b)])
    c.get(c.cm(), sel=lambda b: [[i['metadata']['name'], 'deletionTimestamp' in i['metadata']] for i in b['items']])
    c.delete(c.cm(), q={'fieldSelector': 'metadata.name=d1'}, sel=lambda b: names(b))
    c.delete(c.cm(), q={'labelSelector': 'k in'})
    c.delete(c.cm(), {'propagationPolicy': 'Nope'})
    c.delete(c.cm(), q={'labelSelector': 'k=1', 'limit': '1'}, sel=lambda b: names(b))
    c.patch(c.cm('d2'), {'metadata': {'finalizers': []}}, sel=lambda b: b['kind'])
    c.get(c.cm('d2'))


@sc('delete', 'namespace-content')
def _(c):
    n = 'x-' + c.u
    p = '/api/v1/namespaces/' + n
    c.mk('/api/v1/namespaces', obj('v1', 'Namespace', n))
    c.mk(p + '/configmaps', cm('held', finalizers=['a.b/c']))
    c.delete(p, sel=lambda b: [b['kind'], b['status']['phase']])
    c.post(p + '/configmaps', cm('late'), sel=lambda b: b['kind'])
    c.wait('condition', lambda: any(x['type'] == 'NamespaceFinalizersRemaining' and x['status'] == 'True' for x in c.raw('GET', p).body['status']['conditions']), 20)
    c.get(p, sel=lambda b: sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']))
    c.delete(p)
    c.patch(p + '/configmaps/held', {'metadata': {'finalizers': None}}, sel=lambda b: b['kind'])
    c.gone(p, 30)
    c.get(p + '/configmaps', sel=names)


@sc('delete', 'finalizer-rules')
def _(c):
    c.mk(c.cm(), cm('x', finalizers=['a.b/c']))
    c.delete(c.cm('x'), sel=lambda b: [b['kind'], 'deletionTimestamp' in b['metadata'], b['metadata'].get('deletionGracePeriodSeconds')])
    c.delete(c.cm('x'), sel=lambda b: b['kind'], label='again')
    c.patch(c.cm('x'), {'metadata': {'finalizers': ['a.b/c', 'd.e/f']}})
    c.patch(c.cm('x'), {'data': {'still': 'writable'}}, sel=lambda b: b['data'])
    c.post(c.cm(), cm('x'))
    c.patch(c.cm('x'), {'metadata': {'deletionTimestamp': None}}, sel=lambda b: 'deletionTimestamp' in b['metadata'])
    c.patch(c.cm('x'), {'metadata': {'finalizers': None}}, sel=lambda b: 'deletionTimestamp' in b['metadata'])
    c.get(c.cm('x'))


# ================================================================================================ custom resources
SIZED = osch({'spec': osch({'size': {'type': 'integer', 'minimum': 1, 'maximum': 10, 'default': 2}, 'mode': {'type': 'string', 'enum': ['a', 'b']}, 'items': {'type': 'array', 'maxItems': 2, 'items': {'type': 'string', 'maxLength': 3}}, 'map': {'type': 'object', 'additionalProperties': {'type': 'integer'}}, 'at': {'type': 'string', 'format': 'date-time'}, 'either': {'x-kubernetes-int-or-string': True}, 'raw': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}, 'nul': {'type': 'string', 'nullable': True}, 'pat': {'type': 'string', 'pattern': '^a+$'}, 'num': {'type': 'number', 'multipleOf': 0.5}}, required=['mode']), 'status': osch({'ready': {'type': 'boolean'}, 'replicas': {'type': 'integer'}, 'selector': {'type': 'string'}})})


@sc('crd', 'validation-messages')
def _(c):
    p = mkcrd(c, crd(c, SIZED))
    for i, s in enumerate(({'mode': 'a'}, {}, {'mode': 'c'}, {'mode': 'a', 'size': 0}, {'mode': 'a', 'size': 11}, {'mode': 'a', 'size': '3'}, {'mode': 'a', 'size': 1.5}, {'mode': 'a', 'items': ['x', 'y', 'z']}, {'mode': 'a', 'items': ['long']}, {'mode': 'a', 'items': 'x'}, {'mode': 'a', 'map': {'k': 'v'}}, {'mode': 'a', 'at': 'yesterday'}, {'mode': 'a', 'either': 1}, {'mode': 'a', 'either': '50%'}, {'mode': 'a', 'either': True}, {'mode': 'a', 'raw': {'x': [1, {'y': None}]}}, {'mode': 'a', 'nul': None}, {'mode': 'a', 'pat': 'b'}, {'mode': 'a', 'num': 0.3}, {'mode': None}, {'mode': 'a', 'unknown': 1}, 'text', None)):
        c.post(p, cr(c, 'v%d' % i, s) if s is not None else cr(c, 'v%d' % i), q={'dryRun': 'All'}, sel=no_mf, label=json.dumps(s))
    for v in ('Strict', 'Warn', 'Ignore'):
        c.post(p, cr(c, 'f', {'mode': 'a', 'bogus': 1, 'raw': {'fine': 1}}, more=2), q={'dryRun': 'All', 'fieldValidation': v}, sel=no_mf, label=v)
    c.post(p, cr(c, 'm', {'mode': 'a'}, metadata={'name': 'm', 'labels': {'a b': 'c'}}), label='bad label')
    c.post(p, cr(c, 'm', {'mode': 'a'}, metadata={'name': 'm', 'bogus': 1}), q={'fieldValidation': 'Strict'}, label='bad metadata')
    c.post(p, cr(c, 'Bad_Name', {'mode': 'a'}), label='bad name')
    c.post(p, dict(cr(c, 'k', {'mode': 'a'}), kind='Other'), label='bad kind')
    c.post(p, dict(cr(c, 'k', {'mode': 'a'}), apiVersion='v1'), label='bad version')


@sc('crd', 'verbs-of-a-custom-resource')
def _(c):
    p = mkcrd(c, crd(c, SIZED, subresources={'status': {}, 'scale': {'specReplicasPath': '.spec.size', 'statusReplicasPath': '.status.replicas', 'labelSelectorPath': '.status.selector'}}))
    c.post(p, cr(c, 'x', {'mode': 'a'}, status={'ready': True}))
    c.put(p + '/x', cr(c, 'x', {'mode': 'b'}), label='no rv')
    o = c.raw('GET', p + '/x').body
    o['spec']['size'] = 3
    o['status'] = {'ready': False}
    c.put(p + '/x', o)
    c.put(p + '/x/status', dict(o, metadata=dict(o['metadata'], resourceVersion='')), label='status without rv')
    c.patch(p + '/x/status', {'status': {'ready': True, 'replicas': 2, 'selector': 'a=b', 'zzz': 1}, 'spec': {'size': 9}}, sel=lambda b: [no_mf(b), mf(b)])
    c.get(p + '/x/scale')
    c.patch(p + '/x/scale', {'spec': {'replicas': 5}}, sel=lambda b: [b['spec'], b['status']])
    c.patch(p + '/x/scale', {'spec': {'replicas': 50}}, label='beyond the schema')
    c.put(p + '/x/scale', {'apiVersion': 'autoscaling/v1', 'kind': 'Scale', 'metadata': {'name': 'x', 'namespace': c.ns}, 'spec': {'replicas': -2}}, label='negative')
    c.patch(p + '/x', {'spec': {'size': 4}}, ct=SMP, label='strategic')
    c.patch(p + '/x', [{'op': 'replace', 'path': '/spec/size', 'value': 6}], ct=JP, sel=lambda b: [b['spec'], b['metadata']['generation']])
    c.patch(p + '/x', {'spec': {'size': None}}, sel=lambda b: [b['spec'], b['metadata']['generation']], label='null brings the default')
    c.apply(p + '/x', cr(c, 'x', {'mode': 'b', 'items': ['p']}), label='conflict')
    c.apply(p + '/x', cr(c, 'x', {'mode': 'b', 'items': ['p']}), force=True, sel=lambda b: [b['spec'], mf(b)])
    c.apply(p + '/x/status', cr(c, 'x', None, status={'ready': False}), fm='st', force=True, sel=lambda b: [b['status'], mf(b)])
    c.apply(p + '/new', cr(c, 'new', {'mode': 'a'}), sel=lambda b: [no_mf(b), mf(b)])
    c.get(p, accept=TABLE, sel=tab)
    c.get(p, q={'limit': '1'}, sel=lambda b: [names(b), b['metadata'].get('remainingItemCount')])
    c.get(p, q={'fieldSelector': 'spec.mode=b'})
    c.get(p, q={'fieldSelector': 'metadata.name=new'}, sel=names)
    c.get(p + '/nope')
    c.get(p + '/x/nope')
    c.delete(p + '/x', sel=no_mf)
    c.delete(p, sel=lambda b: [b['kind'], names(b)])


@sc('crd', 'columns')
def _(c):
    cols = [{'name': 'Mode', 'type': 'string', 'jsonPath': '.spec.mode', 'description': 'd'}, {'name': 'Size', 'type': 'integer', 'jsonPath': '.spec.size', 'priority': 1}, {'name': 'Ready', 'type': 'boolean', 'jsonPath': '.status.ready'}, {'name': 'Made', 'type': 'date', 'jsonPath': '.metadata.creationTimestamp'}, {'name': 'First', 'type': 'string', 'jsonPath': '.spec.items[0]'}, {'name': 'Cond', 'type': 'string', 'jsonPath': '.spec.raw.conditions[?(@.type=="Ready")].status'}, {'name': 'Num', 'type': 'number', 'jsonPath': '.spec.num'}, {'name': 'Map', 'type': 'string', 'jsonPath': '.spec.map'}, {'name': 'Items', 'type': 'string', 'jsonPath': '.spec.items[*]'}]
    p = mkcrd(c, crd(c, SIZED, columns=cols))
    c.mk(p, cr(c, 'a', {'mode': 'a', 'items': ['x', 'y'], 'raw': {'conditions': [{'type': 'Ready', 'status': 'True'}]}, 'num': 1.5, 'map': {'k': 1}}, status={'ready': True}))
    c.mk(p, cr(c, 'b', {'mode': 'b'}))
    c.get(p, accept=TABLE, sel=tab)
    c.kubectl('get', 'widgets.%s.example.com' % c.u, '-o', 'wide')


@sc('crd', 'versions-and-conversion')
def _(c):
    vs = [{'name': 'v1', 'served': True, 'storage': False, 'schema': {'openAPIV3Schema': osch({'spec': OPEN})}}, {'name': 'v2', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': osch({'spec': OPEN})}, 'deprecated': True, 'deprecationWarning': 'old hat'}, {'name': 'v1beta1', 'served': False, 'storage': False, 'schema': {'openAPIV3Schema': osch({'spec': OPEN})}}]
    o = crd(c, None, versions=vs)
    p = mkcrd(c, o)
    p2 = p.replace('/v1/', '/v2/')
    c.post(p, cr(c, 'x', {'a': 1}), sel=no_mf)
    c.get(p2 + '/x', sel=no_mf)
    c.get(p.replace('/v1/', '/v1beta1/') + '/x')
    c.patch(p2 + '/x', {'spec': {'b': 2}}, sel=lambda b: [no_mf(b), mf(b)])
    c.apply(p + '/x', cr(c, 'x', {'a': 1}), sel=mf)
    c.apply(p2 + '/x', cr(c, 'x', {'a': 1}, v='v2'), sel=mf)
    rv = c.raw('GET', p)['metadata.resourceVersion']
    c.raw('PATCH', p2 + '/x', {'spec': {'c': 3}}, ct=MP)
    c.watch(p, {'resourceVersion': rv}, n=1, sel=lambda e: [e['type'], e['object']['apiVersion']])
    c.get('/apis/%s.example.com' % c.u)
    c.get(CRDS + '/' + o['metadata']['name'], sel=lambda b: [b['status']['storedVersions'], b['status']['acceptedNames'], sorted([x['type'], x['status'], x['reason']] for x in b['status']['conditions'])])


@sc('crd', 'bad-definitions')
def _(c):
    base = crd(c, osch({'spec': OPEN}))

    def bad(label, f):
        o = copy.deepcopy(base)
        f(o)
        c.post(CRDS, o, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label=label)
    v = lambda o: o['spec']['versions'][0]
    bad('name', lambda o: o['metadata'].update(name='x'))
    bad('no versions', lambda o: o['spec'].update(versions=[]))
    bad('no storage', lambda o: v(o).update(storage=False))
    bad('two storages', lambda o: o['spec']['versions'].append(dict(v(o), name='v2')))
    bad('same version', lambda o: o['spec']['versions'].append(dict(v(o), storage=False)))
    bad('no schema', lambda o: v(o).pop('schema'))
    bad('no type', lambda o: v(o).update(schema={'openAPIV3Schema': {'properties': {'spec': {'type': 'string'}}}}))
    bad('not structural', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': {'properties': {'x': {'type': 'string'}}}})}))
    bad('bad type', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': {'type': 'strnig'}})}))
    bad('bad default', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': osch({'x': {'type': 'integer', 'default': 'a'}})})}))
    bad('bad pattern', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': osch({'x': {'type': 'string', 'pattern': '('}})})}))
    bad('scope', lambda o: o['spec'].update(scope='Nope'))
    bad('names', lambda o: o['spec']['names'].update(plural='Widgets'))
    bad('no kind', lambda o: o['spec']['names'].pop('kind'))
    bad('group', lambda o: o['spec'].update(group='Bad_Group'))
    bad('list map without keys', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': osch({'x': {'type': 'array', 'x-kubernetes-list-type': 'map', 'items': {'type': 'object'}}})})}))
    bad('column', lambda o: v(o).update(additionalPrinterColumns=[{'name': 'X', 'type': 'nope', 'jsonPath': '.spec'}]))
    bad('column path', lambda o: v(o).update(additionalPrinterColumns=[{'name': 'X', 'type': 'string', 'jsonPath': 'spec'}]))
    bad('conversion', lambda o: o['spec'].update(conversion={'strategy': 'Nope'}))
    bad('webhook without config', lambda o: o['spec'].update(conversion={'strategy': 'Webhook'}))
    bad('scale paths', lambda o: v(o).update(subresources={'scale': {'specReplicasPath': 'x', 'statusReplicasPath': '.status.r'}}))
    bad('metadata schema', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'metadata': osch({'labels': {'type': 'object'}})})}))
    bad('version name', lambda o: v(o).update(name='V_1'))
    bad('$ref', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': {'$ref': '#/x'}})}))
    bad('uniqueItems', lambda o: v(o).update(schema={'openAPIV3Schema': osch({'spec': {'type': 'array', 'uniqueItems': True, 'items': {'type': 'string'}}})}))


@sc('crd', 'name-conflict-and-update')
def _(c):
    o = crd(c, osch({'spec': OPEN}))
    p = mkcrd(c, o)
    two = crd(c, osch({'spec': OPEN}), plural='gadgets')
    c.cleanup(CRDS + '/' + two['metadata']['name'])
    c.mk(CRDS, two)
    c.wait('names', lambda: any(x['type'] == 'NamesAccepted' and x['status'] == 'False' for x in c.raw('GET', CRDS + '/' + two['metadata']['name']).body['status']['conditions']))
    c.get(CRDS + '/' + two['metadata']['name'], sel=lambda b: sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']))
    n = CRDS + '/' + o['metadata']['name']
    c.patch(n, {'spec': {'group': 'other.example.com'}})
    c.patch(n, {'spec': {'scope': 'Cluster'}})
    c.patch(n, {'spec': {'names': {'kind': 'Other'}}}, sel=lambda b: b['spec']['names']['kind'])
    c.patch(n, {'spec': {'versions': []}})
    c.get(n, sel=lambda b: [b['metadata'].get('finalizers'), b['metadata']['generation']])


@sc('crd', 'list-types')
def _(c):
    sch = osch({'spec': osch({'set': {'type': 'array', 'x-kubernetes-list-type': 'set', 'items': {'type': 'string'}}, 'atomic': {'type': 'array', 'x-kubernetes-list-type': 'atomic', 'items': {'type': 'string'}}, 'map': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k', 'p'], 'items': osch({'k': {'type': 'string'}, 'p': {'type': 'string', 'default': 'TCP'}, 'v': {'type': 'integer'}}, required=['k'])}, 'am': {'type': 'object', 'x-kubernetes-map-type': 'atomic', 'properties': {'a': {'type': 'string'}, 'b': {'type': 'string'}}}})})
    p = mkcrd(c, crd(c, sch))
    c.apply(p + '/x', cr(c, 'x', {'set': ['a', 'b'], 'atomic': ['a'], 'map': [{'k': 'a', 'v': 1}], 'am': {'a': '1'}}), sel=lambda b: [b['spec'], mf(b)])
    c.apply(p + '/x', cr(c, 'x', {'set': ['c'], 'map': [{'k': 'b', 'v': 2}, {'k': 'a', 'p': 'UDP', 'v': 9}]}), fm='mgr-b', sel=lambda b: [b['spec'], mf(b)])
    c.apply(p + '/x', cr(c, 'x', {'atomic': ['z'], 'am': {'b': '2'}, 'map': [{'k': 'a', 'v': 5}]}), fm='mgr-b', label='conflicts')
    c.apply(p + '/x', cr(c, 'x', {'set': ['b']}), sel=lambda b: [b['spec'], mf(b)], label='gives up')
    c.post(p, cr(c, 'dup', {'set': ['a', 'a']}), label='duplicate in set')
    c.post(p, cr(c, 'dup', {'map': [{'k': 'a'}, {'k': 'a'}]}), label='duplicate in map')


# ================================================================================================ workloads
@sc('workloads', 'eviction-with-budget')
def _(c):
    c.mk(c.n('policy/v1', 'poddisruptionbudgets'), obj('policy/v1', 'PodDisruptionBudget', 'b', {'minAvailable': 2, 'selector': {'matchLabels': {'app': 'd'}}}))
    c.mk(c.dep(), dep('d', 2))
    c.wait('rolled', rolled(c))
    b = c.n('policy/v1', 'poddisruptionbudgets', 'b')
    c.wait('budget', lambda: c.raw('GET', b)['status.currentHealthy'] == 2 and c.raw('GET', b)['status.expectedPods'] == 2)
    c.get(b, sel=lambda o: {k: v for k, v in o['status'].items() if k != 'conditions'})
    p = names(c.raw('GET', c.pods()).body)[0]
    r = c.raw('POST', c.pods(p) + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': p}})
    c.rec('refused', [r.code, r.body, r.headers.get('Retry-After')])
    c.raw('PATCH', b, {'spec': {'minAvailable': 1}}, ct=MP)
    c.wait('allowed', lambda: c.raw('GET', b)['status.disruptionsAllowed'] == 1)
    c.post(c.pods(p) + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': p}, 'deleteOptions': {'dryRun': ['All']}}, label='dry')
    c.post(c.pods(p) + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'other'}}, sel=status_only, label='other name')
    c.post(c.pods(p) + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': p}}, label='evict')
    c.post(c.pods('nope') + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'nope'}}, label='missing')


@sc('workloads', 'job-failure')
def _(c):
    j = c.n('batch/v1', 'jobs')
    c.mk(j, job('j', ann=c.ff('job'), backoffLimit=0))
    c.wait('failed', lambda: any(x['type'] == 'Failed' and x['status'] == 'True' for x in c.raw('GET', j + '/j').body['status']['conditions']))
    c.get(j + '/j', sel=lambda b: [b['status'].get('failed'), sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions'])])


@sc('workloads', 'job-indexed')
def _(c):
    j = c.n('batch/v1', 'jobs')
    c.mk(j, job('j', completionMode='Indexed', completions=3, parallelism=2))
    c.wait('complete', lambda: any(x['type'] == 'Complete' and x['status'] == 'True' for x in c.raw('GET', j + '/j').body['status']['conditions']))
    c.get(j + '/j', sel=lambda b: [b['status'].get('succeeded'), b['status'].get('completedIndexes'), b['status'].get('uncountedTerminatedPods')])
    c.get(c.pods(), sel=lambda b: sorted([i['metadata']['annotations'].get('batch.kubernetes.io/job-completion-index'), i['metadata']['labels'].get('batch.kubernetes.io/job-completion-index'), i['spec'].get('hostname'), [e['name'] for e in i['spec']['containers'][0].get('env', [])], i['metadata'].get('finalizers')] for i in b['items']))


@sc('workloads', 'job-deadline')
def _(c):
    j = c.n('batch/v1', 'jobs')
    c.mk(j, job('j', ann=c.ff('unready'), activeDeadlineSeconds=1))
    c.until(lambda: c.raw('GET', j + '/j')['status.conditions'], 15)
    c.wait('finished', lambda: any(x['type'] in ('Failed', 'Complete') and x['status'] == 'True' for x in c.raw('GET', j + '/j').body['status']['conditions']), 20)


@sc('workloads', 'statefulset-update')
def _(c):
    s = c.n('apps/v1', 'statefulsets')
    c.mk(s, sts('s', 2))
    c.wait('ready', lambda: c.raw('GET', s + '/s')['status.availableReplicas'] == 2)
    c.raw('PATCH', s + '/s', {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:2'}]}}}}, ct=SMP)
    c.wait('updated', lambda: c.raw('GET', s + '/s')['status.updatedReplicas'] == 2 and c.raw('GET', s + '/s')['status.availableReplicas'] == 2 and c.raw('GET', s + '/s')['status.observedGeneration'] == 2 and c.raw('GET', s + '/s')['status.currentRevision'] == c.raw('GET', s + '/s')['status.updateRevision'], 60)
    c.get(s + '/s', sel=lambda b: b['status'])
    c.get(c.n('apps/v1', 'controllerrevisions'), sel=lambda b: sorted([i['revision'], dig(i, 'data.spec.template.spec.containers.0.image')] for i in b['items']))


@sc('workloads', 'daemonset-update')
def _(c):
    p = c.n('apps/v1', 'daemonsets')
    c.mk(p, ds('d'))
    ready = lambda: (lambda s, g: s.get('observedGeneration') == g and s.get('updatedNumberScheduled') == s['desiredNumberScheduled'] == s.get('numberAvailable'))(c.raw('GET', p + '/d').body['status'], c.raw('GET', p + '/d')['metadata.generation'])
    c.wait('ready', ready)
    c.raw('PATCH', p + '/d', {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:2'}]}}}}, ct=SMP)
    c.wait('updated', ready, 60)
    c.get(p + '/d', sel=lambda b: [b['metadata']['generation'], b['metadata'].get('annotations'), sorted(b['status'])])
    c.get(c.n('apps/v1', 'controllerrevisions'), sel=lambda b: sorted(i['revision'] for i in b['items']))


@sc('workloads', 'deployment-recreate-and-pause')
def _(c):
    c.mk(c.dep(), dep('d', 2, strategy={'type': 'Recreate'}))
    c.wait('rolled', rolled(c))
    c.raw('PATCH', c.dep('d'), {'spec': {'paused': True, 'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:2'}]}}}}, ct=SMP)
    c.wait('paused', lambda: any(x['reason'] == 'DeploymentPaused' for x in c.raw('GET', c.dep('d')).body['status']['conditions']))
    c.get(c.n('apps/v1', 'replicasets'), sel=lambda b: len(b['items']))
    c.raw('PATCH', c.dep('d'), {'spec': {'paused': False}}, ct=SMP)
    c.wait('rolled', rolled(c))
    c.get(c.dep('d'), sel=lambda b: sorted([x['type'], x['status'], x['reason']] for x in b['status']['conditions']))


@sc('workloads', 'pod-phases')
def _(c):
    c.mk(c.pods(), pod('never', pspec(restartPolicy='Never')))
    c.mk(c.pods(), pod('pending', pspec(nodeSelector={'no': 'such'})))
    c.wait('pending', lambda: c.raw('GET', c.pods('pending'))['status.conditions'])
    c.get(c.pods('pending'), sel=lambda b: [b['status']['phase'], [[x['type'], x['status'], x.get('reason')] for x in b['status']['conditions']], b['status'].get('qosClass')])
    c.post(c.pods('pending') + '/binding', {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'pending'}, 'target': {'kind': 'Node', 'name': c.srv.nodes[0]}})
    c.wait('bound', lambda: c.raw('GET', c.pods('pending'))['spec.nodeName'])
    c.post(c.pods('pending') + '/binding', {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'pending'}, 'target': {'kind': 'Node', 'name': 'other'}}, label='again')
    c.patch(c.pods('pending'), {'spec': {'containers': [{'name': 'c', 'image': 'nginx:9'}]}}, ct=SMP, sel=lambda b: b['spec']['containers'][0]['image'])
    c.patch(c.pods('pending'), {'spec': {'terminationGracePeriodSeconds': 1}}, label='immutable')
    c.patch(c.pods('pending') + '/ephemeralcontainers', {'spec': {'ephemeralContainers': [{'name': 'dbg', 'image': 'busybox'}]}}, ct=SMP, sel=lambda b: b['spec'].get('ephemeralContainers'))
    c.patch(c.pods('pending') + '/resize', {'spec': {'containers': [{'name': 'c', 'resources': {'requests': {'cpu': '10m'}}}]}}, ct=SMP, sel=lambda b: b['spec']['containers'][0]['resources'])


@sc('workloads', 'quota')
def _(c):
    q = c.n('v1', 'resourcequotas')
    c.mk(q, obj('v1', 'ResourceQuota', 'q', {'hard': {'count/configmaps': '3', 'services': '1', 'pods': '1', 'requests.cpu': '1'}}))
    c.wait('counted', lambda: c.raw('GET', q + '/q')['status.used'])
    c.get(q + '/q', sel=lambda b: b['status'])
    c.mk(c.cm(), cm('a'))
    c.mk(c.cm(), cm('b'))
    c.post(c.cm(), cm('c'))
    c.mk(c.n('v1', 'services'), svc('a'))
    c.post(c.n('v1', 'services'), svc('b'), sel=lambda b: b['kind'])
    c.post(c.pods(), pod('p'), label='needs requests')
    c.post(c.pods(), pod('p', {'containers': [{'name': 'c', 'image': 'i', 'resources': {'requests': {'cpu': '2'}}}]}), label='too much')
    c.raw('DELETE', c.cm('a'))
    c.wait('freed', lambda: c.raw('GET', q + '/q')['status.used'] and c.raw('GET', q + '/q').body['status']['used']['count/configmaps'] == '2', 20)


@sc('workloads', 'limit-range')
def _(c):
    l = c.n('v1', 'limitranges')
    c.mk(l, obj('v1', 'LimitRange', 'l', {'limits': [{'type': 'Container', 'default': {'cpu': '500m'}, 'defaultRequest': {'cpu': '100m', 'memory': '64Mi'}, 'max': {'cpu': '1'}, 'min': {'cpu': '50m'}, 'maxLimitRequestRatio': {'cpu': '10'}}]}))
    time.sleep(1)
    c.post(c.pods(), pod('d', pspec(nodeName='absent-node')), sel=lambda b: [b['spec']['containers'][0]['resources'], b['metadata'].get('annotations'), b['status'].get('qosClass')])
    c.post(c.pods(), pod('x', {'containers': [{'name': 'c', 'image': 'i', 'resources': {'limits': {'cpu': '2'}}}]}), label='over')
    c.post(c.pods(), pod('x', {'containers': [{'name': 'c', 'image': 'i', 'resources': {'requests': {'cpu': '1m'}}}]}), label='under')


@sc('workloads', 'service-endpoints-changes')
def _(c):
    c.mk(c.n('v1', 'services'), svc('d', ports=[{'name': 'http', 'port': 80, 'targetPort': 'web'}]))
    o = dep('d', 2)
    o['spec']['template']['spec']['containers'][0]['ports'] = [{'containerPort': 8080, 'name': 'web'}]
    c.mk(c.dep(), o)
    c.wait('rolled', rolled(c))
    sl = c.n('discovery.k8s.io/v1', 'endpointslices')
    c.wait('two', lambda: len([e for i in c.raw('GET', sl).body['items'] for e in i['endpoints'] if e['conditions'].get('ready')]) == 2)
    c.get(sl, sel=lambda b: [[i['ports'], i['metadata']['labels'], i['addressType'], [sorted(e) for e in i['endpoints']]] for i in b['items']])
    c.raw('PATCH', c.dep('d') + '/scale', {'spec': {'replicas': 1}}, ct=MP)
    c.wait('one', lambda: len([e for i in c.raw('GET', sl).body['items'] for e in i['endpoints'] or []]) == 1)
    c.raw('PATCH', c.n('v1', 'services', 'd'), {'spec': {'selector': {'app': 'none'}}}, ct=MP)
    c.wait('none', lambda: not [e for i in c.raw('GET', sl).body['items'] for e in i['endpoints'] or []])
    c.raw('DELETE', c.n('v1', 'services', 'd'))
    c.wait('gone', lambda: not c.raw('GET', sl).body['items'])


# ================================================================================================ misc
@sc('misc', 'access-reviews')
def _(c):
    p = '/apis/authorization.k8s.io/v1/'
    for a in ({'resourceAttributes': {'verb': 'get', 'resource': 'pods', 'namespace': 'default'}}, {'nonResourceAttributes': {'path': '/healthz', 'verb': 'get'}}, {}, {'resourceAttributes': {}, 'nonResourceAttributes': {}}):
        c.post(p + 'selfsubjectaccessreviews', {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SelfSubjectAccessReview', 'spec': a}, sel=lambda b: b.get('status', {}).get('allowed'), label=json.dumps(a))
    for s in ({'user': 'system:serviceaccount:x:y', 'resourceAttributes': {'verb': 'list', 'resource': 'secrets'}}, {'user': 'u', 'groups': ['system:masters'], 'resourceAttributes': {'verb': 'list', 'resource': 'secrets'}}, {'resourceAttributes': {'verb': 'list', 'resource': 'secrets'}}):
        c.post(p + 'subjectaccessreviews', {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SubjectAccessReview', 'spec': s}, sel=lambda b: sorted(b), label=json.dumps(s))
    c.post(c.n('authorization.k8s.io/v1', 'localsubjectaccessreviews'), {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'LocalSubjectAccessReview', 'metadata': {'namespace': 'other'}, 'spec': {'user': 'u', 'resourceAttributes': {'verb': 'get', 'resource': 'pods'}}}, sel=lambda b: sorted(b))
    c.post('/apis/authentication.k8s.io/v1/selfsubjectreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}, sel=lambda b: sorted(b['status']['userInfo']))
    c.post('/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': {'token': 'garbage'}}, sel=lambda b: b['status'].get('authenticated'))


@sc('misc', 'tokens')
def _(c):
    p = c.n('v1', 'serviceaccounts', 'default') + '/token'
    req = lambda **s: {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': s}
    t = c.post(p, req(), sel=lambda b: [sorted(b['status']), b['spec'], b['kind']]).body
    c.post(p, req(expirationSeconds=60))
    c.post(p, req(expirationSeconds=3600, audiences=['a']), sel=lambda b: b['spec'])
    c.post(p, req(boundObjectRef={'kind': 'Pod', 'apiVersion': 'v1', 'name': 'nope'}))
    c.post(p, req(boundObjectRef={'kind': 'Nope', 'apiVersion': 'v1', 'name': 'nope'}))
    c.post(c.n('v1', 'serviceaccounts', 'nope') + '/token', req())
    c.post('/apis/authentication.k8s.io/v1/tokenreviews', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': {'token': dig(t, 'status.token')}}, sel=lambda b: [b['status'].get('authenticated'), b['status'].get('user', {}).get('username'), sorted(b['status'].get('user', {}).get('groups', [])), b['status'].get('audiences')])
    conn = c.srv.conn()
    conn.request('GET', '/api/v1/namespaces/default/secrets', headers={'Authorization': 'Bearer ' + str(dig(t, 'status.token')), 'Accept': JSON})
    r = conn.getresponse()
    r.read()
    conn.close()
    c.rec('recognised', r.status != 401)


@sc('misc', 'events-api')
def _(c):
    e = {'apiVersion': 'events.k8s.io/v1', 'kind': 'Event', 'metadata': {'name': 'e'}, 'eventTime': '2024-01-01T00:00:00.000000Z', 'reportingController': 'a.b/c', 'reportingInstance': 'i', 'action': 'A', 'reason': 'R', 'type': 'Warning', 'note': 'n', 'regarding': {'kind': 'Pod', 'name': 'p', 'namespace': c.ns, 'apiVersion': 'v1'}}
    c.post(c.n('events.k8s.io/v1', 'events'), e, sel=no_mf)
    c.get(c.n('v1', 'events', 'e'), sel=no_mf)
    c.post(c.n('events.k8s.io/v1', 'events'), dict(e, metadata={'name': 'f'}, type='Nope'))
    c.post(c.n('events.k8s.io/v1', 'events'), dict(e, metadata={'name': 'f'}, eventTime=None))
    c.post(c.n('v1', 'events'), {'apiVersion': 'v1', 'kind': 'Event', 'metadata': {'name': 'g'}, 'involvedObject': {'kind': 'Pod', 'name': 'p', 'namespace': 'other'}})
    c.get(c.n('v1', 'events'), q={'fieldSelector': 'involvedObject.name=p,reason=R,type=Warning'}, sel=names)
    c.get(c.n('events.k8s.io/v1', 'events'), q={'fieldSelector': 'regarding.name=p'}, sel=names)
    c.patch(c.n('events.k8s.io/v1', 'events', 'e'), {'series': {'count': 2, 'lastObservedTime': '2024-01-01T00:01:00.000000Z'}}, ct=SMP, sel=no_mf)
    c.get(c.n('v1', 'events', 'e'), accept=TABLE, sel=lambda b: [r['cells'] for r in tab(b)['rows']])


@sc('misc', 'legacy-and-aggregated-discovery')
def _(c):
    for g in ('apps/v1', 'networking.k8s.io/v1', 'apiextensions.k8s.io/v1', 'apiregistration.k8s.io/v1', 'admissionregistration.k8s.io/v1', 'certificates.k8s.io/v1', 'node.k8s.io/v1', 'flowcontrol.apiserver.k8s.io/v1', 'authentication.k8s.io/v1', 'authorization.k8s.io/v1', 'resource.k8s.io/v1'):
        c.get('/apis/' + g, sel=d.strip_hash, label=g)
    c.get('/apis', accept=AGG, sel=lambda b: [i for i in b['items'] if d.builtin(i['metadata']['name'])])
    c.get('/api', accept=AGG, sel=lambda b: b['items'])
    c.get('/apis', accept='application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json', sel=lambda b: b['kind'])
    r = c.raw('GET', '/apis', accept=AGG)
    r2 = c.raw('GET', '/apis', accept=AGG, headers={'If-None-Match': r.headers.get('ETag')})
    c.rec('not modified', [r2.code, len(r2.raw)])


@sc('misc', 'openapi')
def _(c):
    r = c.raw('GET', '/openapi/v3')
    for g in ('apis/batch/v1', 'apis/networking.k8s.io/v1', 'api/v1'):
        u = r.body['paths'][g]['serverRelativeURL']
        x = c.raw('GET', u)
        own = [k for k, s in x.body['components']['schemas'].items() if len(s.get('x-kubernetes-group-version-kind', [])) == 1]
        c.rec(g, {'code': x.code, 'kinds': sorted(k for k in own if not k.startswith(('io.k8s.api.autoscaling', 'io.k8s.api.authentication', 'io.k8s.api.policy', 'io.k8s.apimachinery')))})
    x = c.raw('GET', r.body['paths']['apis/batch/v1']['serverRelativeURL'])
    spec = x.body['components']['schemas']['io.k8s.api.batch.v1.JobSpec']
    c.rec('job spec', [spec['type'], sorted(spec['properties']), spec.get('required'), spec['properties']['completions']['type']])
    c.rec('gvk', x.body['components']['schemas']['io.k8s.api.batch.v1.Job'].get('x-kubernetes-group-version-kind'))


@sc('misc', 'pod-logs')
def _(c):
    c.mk(c.pods(), pod('p'))
    c.wait('running', lambda: c.raw('GET', c.pods('p'))['status.phase'] == 'Running')
    for q in ({'container': 'nope'}, {'tailLines': '-1'}, {'sinceSeconds': '0'}, {'limitBytes': '0'}, {'sinceSeconds': '1', 'sinceTime': '2024-01-01T00:00:00Z'}):
        c.get(c.pods('p') + '/log', q=q, sel=lambda b: 'text', label=json.dumps(q))
    c.get(c.pods('nope') + '/log')
    c.mk(c.pods(), pod('q', pspec(nodeSelector={'no': 'such'})))
    c.get(c.pods('q') + '/log')


@sc('misc', 'validation-of-many-kinds')
def _(c):
    bad = [
        ('apps/v1', 'deployments', {'spec': {'selector': {}, 'template': {}}}), ('apps/v1', 'deployments', {'spec': dict(dep('x')['spec'], replicas=-1, minReadySeconds=-1, progressDeadlineSeconds=0)}), ('apps/v1', 'deployments', {'spec': dict(dep('x')['spec'], strategy={'type': 'RollingUpdate', 'rollingUpdate': {'maxSurge': 0, 'maxUnavailable': 0}})}), ('apps/v1', 'deployments', {'spec': dict(dep('x')['spec'], strategy={'type': 'RollingUpdate', 'rollingUpdate': {'maxSurge': 'x%', 'maxUnavailable': '150%'}})}), ('apps/v1', 'deployments', {'spec': dict(dep('x')['spec'], strategy={'type': 'Recreate', 'rollingUpdate': {}})}), ('apps/v1', 'deployments', {'spec': dict(dep('x')['spec'], strategy={'type': 'Nope'})}), ('apps/v1', 'deployments', {'spec': dict(dep('x')['spec'], selector={'matchExpressions': [{'key': 'a', 'operator': 'In'}]})}),
        ('apps/v1', 'statefulsets', {'spec': dict(sts('x')['spec'], podManagementPolicy='Nope', updateStrategy={'type': 'Nope'})}), ('apps/v1', 'statefulsets', {'spec': dict(sts('x')['spec'], updateStrategy={'type': 'RollingUpdate', 'rollingUpdate': {'partition': -1}}, ordinals={'start': -1})}), ('apps/v1', 'daemonsets', {'spec': dict(ds('x')['spec'], updateStrategy={'type': 'RollingUpdate', 'rollingUpdate': {'maxUnavailable': 0}})}),
        ('batch/v1', 'jobs', {'spec': dict(job('x')['spec'], completions=-1, parallelism=-1, backoffLimit=-1, activeDeadlineSeconds=-1)}), ('batch/v1', 'jobs', {'spec': dict(job('x')['spec'], completionMode='Indexed')}), ('batch/v1', 'jobs', {'spec': dict(job('x')['spec'], manualSelector=True)}), ('batch/v1', 'jobs', {'spec': dict(job('x')['spec'], podFailurePolicy={'rules': [{'action': 'Nope', 'onExitCodes': {'operator': 'In', 'values': [0]}}]})}), ('batch/v1', 'cronjobs', {'spec': {'schedule': 'bad', 'concurrencyPolicy': 'Nope', 'jobTemplate': {'spec': job('x')['spec']}}}), ('batch/v1', 'cronjobs', {'spec': {'schedule': '* * * * *', 'timeZone': 'Nowhere/X', 'jobTemplate': {'spec': job('x')['spec']}}}), ('batch/v1', 'cronjobs', {'spec': {'schedule': 'TZ=UTC * * * * *', 'jobTemplate': {'spec': job('x')['spec']}}}),
        ('v1', 'services', {'spec': {}}), ('v1', 'services', {'spec': {'ports': [{'port': 0}, {'port': 70000}]}}), ('v1', 'services', {'spec': {'ports': [{'port': 80}, {'port': 80}]}}), ('v1', 'services', {'spec': {'type': 'ExternalName'}}), ('v1', 'services', {'spec': {'clusterIP': 'x', 'ports': [{'port': 80}]}}), ('v1', 'services', {'spec': {'ports': [{'port': 80, 'protocol': 'XXX', 'targetPort': 'Bad_Port'}]}}), ('v1', 'services', {'spec': {'ports': [{'port': 80, 'nodePort': 30000}]}}), ('v1', 'services', {'spec': {'ports': [{'port': 80}], 'externalTrafficPolicy': 'Local'}}), ('v1', 'services', {'spec': {'type': 'LoadBalancer', 'ports': [{'port': 80}], 'loadBalancerSourceRanges': ['x']}}),
        ('networking.k8s.io/v1', 'ingresses', {'spec': {}}), ('networking.k8s.io/v1', 'ingresses', {'spec': {'rules': [{'host': 'Bad_Host', 'http': {'paths': [{'path': 'x', 'backend': {}}]}}]}}), ('networking.k8s.io/v1', 'ingresses', {'spec': {'rules': [{'http': {'paths': [{'path': '/x', 'pathType': 'Nope', 'backend': {'service': {'name': 's', 'port': {}}}}]}}]}}), ('networking.k8s.io/v1', 'networkpolicies', {'spec': {'podSelector': {}, 'policyTypes': ['Nope'], 'ingress': [{'from': [{}], 'ports': [{'port': 70000}]}]}}),
        ('autoscaling/v2', 'horizontalpodautoscalers', {'spec': {'minReplicas': 5, 'maxReplicas': 1, 'scaleTargetRef': {}}}), ('autoscaling/v2', 'horizontalpodautoscalers', {'spec': {'maxReplicas': 1, 'scaleTargetRef': {'kind': 'D', 'name': 'd'}, 'metrics': [{'type': 'Resource'}]}}), ('policy/v1', 'poddisruptionbudgets', {'spec': {'minAvailable': 1, 'maxUnavailable': 1, 'selector': {}}}), ('policy/v1', 'poddisruptionbudgets', {'spec': {'minAvailable': '150%', 'selector': {}}}), ('policy/v1', 'poddisruptionbudgets', {'spec': {'minAvailable': -1}}),
        ('v1', 'persistentvolumeclaims', {'spec': {}}), ('v1', 'persistentvolumeclaims', {'spec': {'accessModes': ['Nope'], 'resources': {'requests': {'storage': '0'}}}}), ('v1', 'secrets', {'type': 'kubernetes.io/tls'}), ('v1', 'secrets', {'type': 'kubernetes.io/dockerconfigjson', 'data': {'.dockerconfigjson': 'eA=='}}), ('v1', 'secrets', {'data': {'bad key': ''}}), ('v1', 'secrets', {'type': 'kubernetes.io/service-account-token'}), ('v1', 'configmaps', {'data': {'a': ''}, 'binaryData': {'a': ''}}), ('v1', 'limitranges', {'spec': {'limits': [{'type': 'Container', 'min': {'cpu': '2'}, 'max': {'cpu': '1'}}]}}), ('v1', 'resourcequotas', {'spec': {'hard': {'nope': '1', 'pods': '-1', 'requests.cpu': '1.5x'}}}), ('v1', 'resourcequotas', {'spec': {'hard': {'pods': '1.5'}, 'scopes': ['Nope']}}),
        ('rbac.authorization.k8s.io/v1', 'roles', {'rules': [{}]}), ('rbac.authorization.k8s.io/v1', 'roles', {'rules': [{'nonResourceURLs': ['/x'], 'verbs': ['get']}]}), ('rbac.authorization.k8s.io/v1', 'rolebindings', {'roleRef': {'kind': 'Nope', 'name': ''}}), ('rbac.authorization.k8s.io/v1', 'rolebindings', {'roleRef': {'kind': 'Role', 'name': 'x'}, 'subjects': [{'kind': 'Nope', 'name': ''}, {'kind': 'ServiceAccount', 'name': 'x'}]}), ('coordination.k8s.io/v1', 'leases', {'spec': {'leaseDurationSeconds': 0, 'leaseTransitions': -1}}), ('discovery.k8s.io/v1', 'endpointslices', {'addressType': 'Nope', 'endpoints': [{'addresses': []}]}), ('v1', 'endpoints', {'subsets': [{'addresses': [{'ip': 'x'}]}]}), ('v1', 'replicationcontrollers', {'spec': {'replicas': 1}}), ('v1', 'podtemplates', {'template': {}}), ('apps/v1', 'controllerrevisions', {'revision': -1}),
    ]
    for i, (gv, res, o) in enumerate(bad):
        c.post(c.n(gv, res), dict({'apiVersion': gv, 'kind': KIND_OF[res], 'metadata': {'name': 'x'}}, **o), q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='%d %s %s' % (i, res, json.dumps(o)[:70]))


KIND_OF = {'deployments': 'Deployment', 'statefulsets': 'StatefulSet', 'daemonsets': 'DaemonSet', 'jobs': 'Job', 'cronjobs': 'CronJob', 'services': 'Service', 'ingresses': 'Ingress', 'networkpolicies': 'NetworkPolicy', 'horizontalpodautoscalers': 'HorizontalPodAutoscaler', 'poddisruptionbudgets': 'PodDisruptionBudget', 'persistentvolumeclaims': 'PersistentVolumeClaim', 'secrets': 'Secret', 'configmaps': 'ConfigMap', 'limitranges': 'LimitRange', 'resourcequotas': 'ResourceQuota', 'roles': 'Role', 'rolebindings': 'RoleBinding', 'leases': 'Lease', 'endpointslices': 'EndpointSlice', 'endpoints': 'Endpoints', 'replicationcontrollers': 'ReplicationController', 'podtemplates': 'PodTemplate', 'controllerrevisions': 'ControllerRevision'}


@sc('misc', 'pod-validation')
def _(c):
    ctr = lambda **k: {'containers': [dict({'name': 'c', 'image': 'i'}, **k)]}
    for i, s in enumerate([{}, {'containers': []}, ctr(name=''), ctr(name='Bad_'), ctr(image=''), ctr(image=' x'), ctr(imagePullPolicy='Nope'), ctr(ports=[{'containerPort': 0}]), ctr(ports=[{'containerPort': 80, 'protocol': 'X', 'name': 'Bad_Name_That_Is_Long'}]), ctr(env=[{'name': ''}]), ctr(env=[{'name': 'a=b', 'value': 'x', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}]), ctr(env=[{'name': 'A', 'valueFrom': {}}]), ctr(env=[{'name': 'A', 'valueFrom': {'fieldRef': {'fieldPath': 'nope'}}}]), ctr(envFrom=[{}]), ctr(volumeMounts=[{'name': 'nope', 'mountPath': ''}]), ctr(resources={'requests': {'cpu': '2'}, 'limits': {'cpu': '1'}}), ctr(resources={'requests': {'cpu': '-1'}}), ctr(resources={'requests': {'nope': '1'}}), ctr(livenessProbe={}), ctr(livenessProbe={'httpGet': {'port': 80}, 'tcpSocket': {'port': 80}}), ctr(livenessProbe={'httpGet': {'port': 80}, 'successThreshold': 2}), ctr(readinessProbe={'exec': {'command': []}, 'periodSeconds': -1}), ctr(securityContext={'runAsUser': -1, 'privileged': True, 'allowPrivilegeEscalation': False}), ctr(terminationMessagePolicy='x'), ctr(lifecycle={'preStop': {}}),
                           {'containers': [{'name': 'a', 'image': 'i'}, {'name': 'a', 'image': 'i'}]}, dict(pspec(), restartPolicy='Nope'), dict(pspec(), dnsPolicy='Nope'), dict(pspec(), terminationGracePeriodSeconds=-1), dict(pspec(), activeDeadlineSeconds=0), dict(pspec(), serviceAccountName='nope'), dict(pspec(), priorityClassName='nope'), dict(pspec(), nodeSelector={'a b': 'c'}), dict(pspec(), tolerations=[{'operator': 'Exists', 'value': 'x'}, {'operator': 'Equal', 'effect': 'Nope'}]), dict(pspec(), affinity={'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {'nodeSelectorTerms': []}}}), dict(pspec(), affinity={'podAntiAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': [{'topologyKey': ''}]}}), dict(pspec(), volumes=[{'name': 'v'}, {'name': 'v', 'emptyDir': {}, 'hostPath': {'path': '/x'}}]), dict(pspec(), volumes=[{'name': 'v', 'configMap': {}}]), dict(pspec(), hostname='Bad_', subdomain='x' * 64), dict(pspec(), hostAliases=[{'ip': 'x'}]), dict(pspec(), topologySpreadConstraints=[{'maxSkew': 0, 'topologyKey': '', 'whenUnsatisfiable': 'x'}]), dict(pspec(), overhead={'cpu': '1'}), dict(pspec(), initContainers=[{'name': 'c', 'image': 'i'}]), dict(pspec(), initContainers=[{'name': 'i', 'image': 'i', 'livenessProbe': {'exec': {'command': ['x']}}}]), dict(pspec(), ephemeralContainers=[{'name': 'e', 'image': 'i'}]), dict(pspec(), schedulingGates=[{'name': 'bad name'}]), dict(pspec(), securityContext={'sysctls': [{'name': 'Bad', 'value': ''}], 'fsGroup': -1}), dict(pspec(), imagePullSecrets=[{}]), dict(pspec(), runtimeClassName='nope'), dict(pspec(), os={'name': 'nope'}), dict(pspec(), preemptionPolicy='Nope'), dict(pspec(), dnsPolicy='None')]):
        c.post(c.pods(), {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'p'}, 'spec': s}, q={'dryRun': 'All'}, sel=lambda b: b['kind'], label='%d %s' % (i, json.dumps(s)[:90]))


# ================================================================================================ kubectl
@sc('kubectl', 'rollout-and-logs')
def _(c):
    c.kubectl('create', 'deployment', 'w', '--image=nginx:1', '--replicas=2')
    c.kubectl('rollout', 'status', 'deploy/w', '--timeout=60s', norm=lambda t: textnorm(t)[-1:])
    c.kubectl('set', 'image', 'deploy/w', 'nginx=nginx:2')
    c.kubectl('rollout', 'status', 'deploy/w', '--timeout=60s', norm=lambda t: textnorm(t)[-1:])
    c.kubectl('rollout', 'history', 'deploy/w')
    c.kubectl('rollout', 'undo', 'deploy/w')
    c.kubectl('rollout', 'status', 'deploy/w', '--timeout=60s', norm=lambda t: textnorm(t)[-1:])
    c.kubectl('rollout', 'history', 'deploy/w')
    c.kubectl('rollout', 'restart', 'deploy/w')
    c.kubectl('rollout', 'status', 'deploy/w', '--timeout=60s', norm=lambda t: textnorm(t)[-1:])
    c.kubectl('rollout', 'pause', 'deploy/w')
    c.kubectl('rollout', 'pause', 'deploy/w')
    c.kubectl('rollout', 'resume', 'deploy/w')
    c.kubectl('logs', 'deploy/nope')
    c.kubectl('autoscale', 'deploy/w', '--min=1', '--max=3')
    c.kubectl('expose', 'deploy/w', '--port=80')
    c.kubectl('get', 'svc,hpa,deploy', '-o', 'name')
    c.kubectl('delete', 'deploy,svc,hpa', '--all')


@sc('kubectl', 'describe-and-explain')
def _(c):
    c.kubectl('create', 'cm', 'x', '--from-literal=a=b')
    c.kubectl('describe', 'cm', 'x')
    c.kubectl('create', 'secret', 'generic', 's', '--from-literal=a=b')
    c.kubectl('describe', 'secret', 's')
    c.kubectl('create', 'role', 'r', '--verb=get', '--resource=pods')
    c.kubectl('create', 'rolebinding', 'rb', '--role=r', '--user=u')
    c.kubectl('describe', 'role,rolebinding')
    c.kubectl('create', 'quota', 'q', '--hard=pods=3')
    c.kubectl('create', 'service', 'nodeport', 'np', '--tcp=80:80')
    c.kubectl('describe', 'svc', 'np', norm=lambda t: [l for l in textnorm(t) if 'NodePort' not in l])
    c.kubectl('create', 'ingress', 'i', '--rule=a.b/x=s:80')
    c.kubectl('describe', 'ingress', 'i', norm=lambda t: [l for l in textnorm(t) if 'Address' not in l])
    c.kubectl('create', 'cronjob', 'cj', '--image=i', '--schedule=0 0 1 1 *')
    c.kubectl('describe', 'cronjob', 'cj')
    c.kubectl('create', 'job', 'j', '--from=cronjob/cj')
    c.kubectl('create', 'pdb', 'p', '--selector=a=b', '--min-available=1')
    c.kubectl('create', 'priorityclass', c.u, '--value=5')
    c.cleanup('/apis/scheduling.k8s.io/v1/priorityclasses/' + c.u)
    c.kubectl('create', 'clusterrole', c.u, '--verb=get', '--resource=nodes')
    c.cleanup('/apis/rbac.authorization.k8s.io/v1/clusterroles/' + c.u)
    # descriptions are left out, see docs/reference/sandbox-differences.md
    c.kubectl('explain', 'deploy.spec.strategy', norm=lambda t: [l for l in textnorm(t) if d.re.search(r'^(GROUP|KIND|VERSION|FIELD)|<(?!empty)\w+>|enum:', l)])
    c.kubectl('explain', 'pod.spec.containers.nope')
    c.wait('pods have finished', lambda: c.raw('GET', c.n('v1', 'resourcequotas', 'q')).body['status']['used']['pods'] == '0' and all(p['status']['phase'] == 'Succeeded' for p in c.raw('GET', c.pods()).body['items']))
    c.kubectl('get', 'cj,ing,quota,pdb', '--no-headers', norm=lambda t: textnorm(t))
    c.kubectl('get', 'nope')
    c.kubectl('get', 'cm/nope', 'cm/x')
    c.kubectl('auth', 'can-i', 'create', 'pods')
    c.kubectl('auth', 'can-i', 'create', 'pods', '--as=nobody')
    c.kubectl('auth', 'whoami', norm=lambda t: [l.split(' ')[0] for l in textnorm(t)])


@sc('kubectl', 'apply-prune-replace-edit')
def _(c):
    c.kubectl('apply', '-f', '-', stdin=ydump(cm('a', labels={'p': 'x'}), cm('b', labels={'p': 'x'})))
    c.kubectl('apply', '-f', '-', '--prune', '-l', 'p=x', '--prune-allowlist=core/v1/ConfigMap', stdin=ydump(cm('a', labels={'p': 'x'})))
    c.kubectl('get', 'cm', '-l', 'p=x', '-o', 'name')
    c.kubectl('replace', '--force', '-f', '-', stdin=ydump(cm('a', {'z': '1'})))
    c.kubectl('apply', 'view-last-applied', 'cm/a')
    c.kubectl('apply', '--server-side', '-f', '-', stdin=ydump(cm('a', {'z': '2'})))
    c.kubectl('apply', '--server-side', '--force-conflicts', '-f', '-', stdin=ydump(cm('a', {'z': '2'})))
    c.kubectl('edit', 'cm/a', env={'EDITOR': 'sed -i s/z:/y:/'})
    c.kubectl('get', 'cm', 'a', '-o', 'jsonpath={.data}')
    c.kubectl('patch', 'deploy', 'nope', '-p', '{}')
    c.kubectl('run', 'p', '--image=nginx', '--restart=Never')
    c.kubectl('wait', 'pod/p', '--for=condition=Ready', '--timeout=30s')
    c.kubectl('label', 'pod', 'p', 'x=y')
    c.kubectl('label', 'pod', 'p', 'x=z')
    c.kubectl('taint', 'node', 'nope', 'a=b:NoSchedule')
    c.kubectl('delete', 'pod', 'p', '--now')
    c.kubectl('delete', 'cm', '--all', '--dry-run=server')
    c.kubectl('get', 'events', '-o', 'name', norm=lambda t: [])
    c.kubectl('create', '-f', '-', stdin='apiVersion: v1\nkind: Nope\nmetadata: {name: x}\n')
    c.kubectl('create', '-f', '-', '--dry-run=server', '-o', 'name', stdin=ydump(dep('w')))


if __name__ == '__main__':
    sys.exit(d.main())

#!/usr/bin/env python3
"""compare: differential conformance suite for Kubernetes-compatible API servers.

  compare.py --a KUBECONFIG_A --b KUBECONFIG_B [--group g[,g]] [--only name[,name]] [-v] [--jobs N] [--retries N]

Every scenario is run against both servers in a fresh namespace (or with a unique token for cluster-scoped names);
every recorded step (status code, content type, Warning headers, body or a selected part of it) is normalised and compared.
stdlib + PyYAML only.  A is the reference.
"""
import argparse, base64, copy, http.client, json, os, random, re, shutil, ssl, subprocess, sys, tempfile, threading, time, traceback
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
import yaml

SCEN = []
JSON = 'application/json'
JP, MP, SMP, AP = ('application/json-patch+json', 'application/merge-patch+json',
                   'application/strategic-merge-patch+json', 'application/apply-patch+yaml')
TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'
POM = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json'
POML = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json'


def S(group, name, fn):
    SCEN.append((group, name, fn))


def sc(group, name):
    def deco(fn):
        SCEN.append((group, name, fn))
        return fn
    return deco


# ------------------------------------------------------------------------------------------------ client
class Server:
    def __init__(self, path, side, fault='sim/'):
        self.path, self.side, self.fault = os.path.abspath(path), side, fault
        with open(self.path) as f:
            kc = yaml.safe_load(f)
        base = os.path.dirname(self.path)
        pick = lambda l, n: next((x for x in kc.get(l) or [] if x.get('name') == n), None)
        ctx = pick('contexts', kc.get('current-context')) or (kc.get('contexts') or [None])[0]
        if not ctx:
            sys.exit('%s: no context' % path)
        cl = pick('clusters', ctx['context'].get('cluster'))['cluster']
        us = (pick('users', ctx['context'].get('user')) or {'user': {}}).get('user') or {}
        self.tmp = tempfile.mkdtemp(prefix='ds-%s-' % side)

        def fil(d, k):
            if d.get(k + '-data'):
                p = os.path.join(self.tmp, k)
                with open(p, 'wb') as f:
                    f.write(base64.b64decode(d[k + '-data']))
                return p
            return os.path.join(base, d[k]) if d.get(k) else None
        u = urllib.parse.urlsplit(cl['server'])
        self.scheme, self.host, self.port = u.scheme, u.hostname, u.port or (443 if u.scheme == 'https' else 80)
        self.prefix = u.path.rstrip('/')
        self.hdr = {'User-Agent': 'compare/1.0'}
        if us.get('token'):
            self.hdr['Authorization'] = 'Bearer ' + us['token']
        elif us.get('tokenFile'):
            self.hdr['Authorization'] = 'Bearer ' + open(os.path.join(base, us['tokenFile'])).read().strip()
        elif us.get('username'):
            self.hdr['Authorization'] = 'Basic ' + base64.b64encode(('%s:%s' % (us['username'], us.get('password', ''))).encode()).decode()
        self.ssl = None
        if self.scheme == 'https':
            ca = fil(cl, 'certificate-authority')
            self.ssl = ssl.create_default_context(cafile=ca) if ca else ssl.create_default_context()
            if cl.get('insecure-skip-tls-verify') or cl.get('tls-server-name'):
                self.ssl.check_hostname = False
            if cl.get('insecure-skip-tls-verify'):
                self.ssl.verify_mode = ssl.CERT_NONE
            cert, key = fil(us, 'client-certificate'), fil(us, 'client-key')
            if cert:
                self.ssl.load_cert_chain(cert, key)
        self.tl = threading.local()
        self.nodes, self.lacks, self.trash = [], set(), []

    def conn(self, timeout=40):
        return http.client.HTTPSConnection(self.host, self.port, context=self.ssl, timeout=timeout) if self.ssl \
            else http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def request(self, m, path, body=None, headers=None):
        h = dict(self.hdr)
        h.update(headers or {})
        for attempt in (0, 1, 2):
            c = getattr(self.tl, 'c', None)
            if c is None:
                c = self.tl.c = self.conn()
            try:
                c.request(m, self.prefix + path, body=body, headers=h)
                r = c.getresponse()
                data = r.read()
                if r.will_close:
                    c.close()
                    self.tl.c = None
                return r.status, r.headers, data
            except (OSError, http.client.HTTPException) as e:
                c.close()
                self.tl.c = None
                if attempt == 2 or isinstance(e, TimeoutError):
                    raise
                time.sleep(0.2 * (attempt + 1))


# ------------------------------------------------------------------------------------------------ normalisation
SAFE = 'bcdfghjklmnpqrstvwxz2456789'
RX = [
    (re.compile(r'eyJ[\w-]+\.[\w-]+\.[\w-]+'), '<jwt>'),
    (re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'), '<uid>'),
    (re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(Z|[+-]\d\d:\d\d)'), '<microtime>'),
    (re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)'), '<time>'),
    (re.compile(r'(?<![\d.])10\.\d+\.\d+\.\d+(?![\d./])'), '<ip>'),
    (re.compile(r'(?<![a-z0-9])[%s]{7,10}(?=-[%s]{5}(?![a-z0-9-]))' % (SAFE, SAFE)), '<hash>'),
    (re.compile(r'(?<=-)[%s]{7,10}(?![a-z0-9-])' % SAFE), '<hash>'),
    (re.compile(r'(?<=-)[%s]{5}(?![a-z0-9-])' % SAFE), '<rand>'),
    (re.compile(r'(Invalid value: \\*")\{.*\}(\\*": )', re.S), r'\1{<object>}\2'),
    (re.compile(r'too old resource version: \d+ \(\d+\)'), 'too old resource version: <n> (<n>)'),
    (re.compile(r'(resourceVersion\\*":\s*\\*")\d+'), r'\1<rv>'),
    (re.compile(r'\(\d+\) does not match the ResourceVersion in record \(\d+\)'), '(<n>) does not match the ResourceVersion in record (<n>)'),
    (re.compile(r'ResourceVersion: \d+'), 'ResourceVersion: <n>'),
    (re.compile(r'in precondition: \d+'), 'in precondition: <n>'),
    (re.compile(r'in object meta: \d+'), 'in object meta: <n>'),
    (re.compile(r'Too large resource version: \d+, current: \d+'), 'Too large resource version: <n>, current: <n>'),
]
HASHKEYS = {'pod-template-hash', 'controller-revision-hash', 'currentRevision', 'updateRevision', 'templateHash'}


class Norm:
    sort_causes = False

    def __init__(self, repl):
        self.repl = sorted(repl.items(), key=lambda kv: -len(kv[0]))

    def s(self, v):
        for a, b in self.repl:
            if a in v:
                v = v.replace(a, b)
        for rx, t in RX:
            v = rx.sub(t, v)
        return v

    def __call__(self, o, key=None):
        if isinstance(o, dict):
            if self.sort_causes and o.get('kind') == 'Status' and len(dig(o, 'details.causes', [])) > 1:
                # a CRD's validation errors come in random order
                o = copy.deepcopy(o)
                o['details']['causes'].sort(key=lambda x: json.dumps(x, sort_keys=True))
                o['message'] = sorted(re.split(r'[,\[\]] ?', o.get('message') or ''))
            return {self.s(k): self(v, k) for k, v in o.items()}
        if isinstance(o, list):
            return [self(x, key) for x in o]
        if isinstance(o, str):
            if key == 'resourceVersion':
                return o if o in ('', '0') else '<rv>'
            if key in HASHKEYS and o:
                return '<hash>'
            if key in ('nodeName', 'hostIP') and o:
                return '<%s>' % key
            if key == 'continue' and o:
                return '<continue>'
            return self.s(o)
        if key in ('nodePort', 'healthCheckNodePort') and o:
            return '<nodePort>'
        return o


def diff(a, b, path='', out=None, limit=40):
    out = [] if out is None else out
    if len(out) >= limit:
        return out
    if type(a) != type(b) and not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        out.append((path or '.', a, b))
    elif isinstance(a, dict):
        for k in sorted(set(a) | set(b)):
            p = '%s.%s' % (path, k)
            if k not in a:
                out.append((p, '<absent>', b[k]))
            elif k not in b:
                out.append((p, a[k], '<absent>'))
            else:
                diff(a[k], b[k], p, out, limit)
    elif isinstance(a, list):
        for i in range(max(len(a), len(b))):
            p = '%s[%d]' % (path, i)
            if i >= len(a):
                out.append((p, '<absent>', b[i]))
            elif i >= len(b):
                out.append((p, a[i], '<absent>'))
            else:
                diff(a[i], b[i], p, out, limit)
    elif a != b:
        out.append((path or '.', a, b))
    return out


# ------------------------------------------------------------------------------------------------ context
class Resp:
    def __init__(self, code, headers, raw):
        self.code, self.headers, self.raw = code, headers, raw
        try:
            self.body = json.loads(raw)
        except ValueError:
            self.body = raw.decode('utf-8', 'replace')

    def __getitem__(self, path):
        return dig(self.body, path)


def dig(o, path, d=None):
    for p in path.split('.'):
        if isinstance(o, dict):
            o = o.get(p)
        elif isinstance(o, list) and p.isdigit() and int(p) < len(o):
            o = o[int(p)]
        else:
            return d
    return d if o is None else o


def pick(*paths):
    return lambda b: {p: dig(b, p) for p in paths}


def names(b):
    return [dig(i, 'metadata.name') for i in (b.get('items') or [])] if isinstance(b, dict) else b


def status_only(b):
    return {k: b.get(k) for k in ('kind', 'status', 'reason', 'code')} if isinstance(b, dict) else b


def no_mf(b):
    b = copy.deepcopy(b)
    for o in [b] + (b.get('items', []) if isinstance(b, dict) and isinstance(b.get('items'), list) else []):
        if isinstance(o, dict) and isinstance(o.get('metadata'), dict):
            o['metadata'].pop('managedFields', None)
    return b


def mf(b):
    m = dig(b, 'metadata.managedFields', [])
    if isinstance(m, list):     # what controllers write through /status is left out: it races with the scenario
        m = [e for e in m if e.get('subresource') != 'status' or e.get('manager') in ('compare', 'st')]
    return sorted([{k: v for k, v in e.items() if k != 'time'} for e in m], key=lambda e: json.dumps([e.get('manager'), e.get('operation'), e.get('subresource'), e.get('apiVersion')])) if isinstance(m, list) else m


class Ctx:
    def __init__(self, srv, group, name):
        self.srv, self.group, self.name = srv, group, name
        self.u = 'u' + ''.join(random.choice('aeiou013') for _ in range(7)) + srv.side   # never looks like a generated suffix
        self._ns = None
        self.steps = []
        self._clean = []
        self.norm = Norm({**{n: '<node>' for n in srv.nodes}, 'ds-' + self.u: '<ns>', self.u: '<u>'})
        self.norm.sort_causes = group == 'crd'

    # -- namespaces
    @property
    def ns(self):
        if self._ns is None:
            self._ns = 'ds-' + self.u
            code, _, raw = self.srv.request('POST', '/api/v1/namespaces', json.dumps({'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': self._ns, 'labels': {'compare': 'yes'}}}), {'Content-Type': JSON})
            if code >= 300:
                self.rec('namespace-create', {'code': code, 'body': raw[:200].decode('utf-8', 'replace')})
            if self.group in ('workloads', 'kubectl', 'helm', 'defaults', 'delete', 'misc', 'list', 'crud', 'validation', 'update', 'patch', 'ssa', 'watch'):
                for r in ('serviceaccounts/default', 'configmaps/kube-root-ca.crt'):
                    if r not in self.srv.lacks and not self.until(lambda: self.raw('GET', '/api/v1/namespaces/%s/%s' % (self._ns, r)).code == 200, 8, 0.05):
                        self.srv.lacks.add(r)       # not awaited again
        return self._ns

    def close(self):
        for p in reversed(self._clean):
            try:
                self.raw('DELETE', p)
            except Exception:
                pass
        if self._ns:        # deleted at the end of the run: a queue of namespace deletions would slow the scenarios down
            self.srv.trash.append('/api/v1/namespaces/' + self._ns)

    def cleanup(self, path):
        self._clean.append(path)

    # -- paths
    def n(self, gv, res, name=None):
        return ('/api/v1' if gv == 'v1' else '/apis/' + gv) + '/namespaces/' + self.ns + '/' + res + ('/' + name if name else '')

    def cm(self, name=None):
        return self.n('v1', 'configmaps', name)

    def dep(self, name=None):
        return self.n('apps/v1', 'deployments', name)

    def pods(self, name=None):
        return self.n('v1', 'pods', name)

    # -- recording
    def rec(self, label, value):
        self.steps.append((label, self.norm(json.loads(json.dumps(value, default=str)))))

    def raw(self, m, path, body=None, q=None, ct=None, accept=None, headers=None):
        if q:
            path += ('&' if '?' in path else '?') + urllib.parse.urlencode(q)
        h = {'Accept': accept or JSON}
        if body is not None:
            h['Content-Type'] = ct or JSON
            if not isinstance(body, (str, bytes)):
                body = json.dumps(body)
            if isinstance(body, str):
                body = body.encode()
        h.update(headers or {})
        return Resp(*self.srv.request(m, path, body, h))

    def req(self, m, path, body=None, q=None, ct=None, accept=None, headers=None, sel=None, label=None):
        r = self.raw(m, path, body, q, ct, accept, headers)
        v = {'code': r.code, 'ct': r.headers.get('Content-Type'), 'body': r.body}
        w = r.headers.get_all('Warning')
        if w:
            v['warning'] = w
        if sel:
            try:
                v['body'] = sel(r.body) if r.code < 400 or sel is status_only else r.body
            except Exception as e:
                v['body'] = 'selector failed: %r on %s' % (e, str(r.body)[:200])
        self.rec(label or '%s %s' % (m, path.split('?')[0]), v)
        return r

    def get(self, path, **k):
        return self.req('GET', path, **k)

    def post(self, path, body, **k):
        return self.req('POST', path, body, **k)

    def put(self, path, body, **k):
        return self.req('PUT', path, body, **k)

    def patch(self, path, body, ct=MP, **k):
        return self.req('PATCH', path, body, ct=ct, **k)

    def delete(self, path, body=None, **k):
        return self.req('DELETE', path, body, **k)

    def apply(self, path, body, fm='mgr-a', force=None, q=None, **k):
        qq = {'fieldManager': fm} if fm else {}
        if force is not None:
            qq['force'] = 'true' if force else 'false'
        qq.update(q or {})
        return self.req('PATCH', path, body, ct=AP, q=qq, **k)

    def quiet_apply(self, path, body, fm='mgr-a', force=None):
        qq = {'fieldManager': fm}
        if force:
            qq['force'] = 'true'
        return self.raw('PATCH', path, body, ct=AP, q=qq)

    def mk(self, path, body):
        """create without recording; used for set-up"""
        r = self.raw('POST', path, body)
        if r.code >= 300:
            self.rec('setup ' + path, {'code': r.code, 'body': r.body})
        return r

    # -- waiting
    def until(self, fn, timeout=30, every=0.15):
        end = time.time() + timeout * SLOW
        while True:
            try:
                v = fn()
                if v:
                    return v
            except (KeyError, IndexError, TypeError, AttributeError):
                pass
            if time.time() > end:
                return False
            time.sleep(every)

    def wait(self, label, fn, timeout=30):
        v = bool(self.until(fn, timeout))
        self.rec('wait ' + label, v)
        return v

    def gone(self, path, timeout=20):
        return self.wait('gone ' + path, lambda: self.raw('GET', path).code == 404, timeout)

    # -- watch
    def watch(self, path, q=None, n=None, timeout=4, actions=None, accept=None, sel=None, stop=None, label='watch', keep=None):
        """opens a watch, runs actions() once it is open, collects n events (or until timeout), records them"""
        qq = {'watch': 'true', 'timeoutSeconds': str(int(timeout * SLOW) + 5)}
        qq.update(q or {})
        conn = self.srv.conn(timeout=timeout * SLOW)
        h = dict(self.srv.hdr, Accept=accept or JSON)
        ev = []
        t = None
        ended = False
        try:
            conn.request('GET', self.srv.prefix + path + '?' + urllib.parse.urlencode(qq), headers=h)
            r = None
            if actions:
                def act():
                    time.sleep(0.3)
                    try:
                        actions()
                    except Exception as e:
                        ev.append({'type': 'ACTION-FAILED', 'object': repr(e)})
                t = threading.Thread(target=act)
                t.start()
            r = conn.getresponse()
            code, ct = r.status, r.headers.get('Content-Type')
            if code != 200:
                self.rec(label, {'code': code, 'ct': ct, 'body': Resp(code, r.headers, r.read()).body})
                return []
            end = time.time() + timeout * SLOW
            while (n is None or len(ev) < n) and time.time() < end:
                try:
                    line = r.readline()
                except (TimeoutError, OSError):
                    break
                if not line:
                    ended = True
                    break
                try:
                    e = json.loads(line)
                except ValueError:
                    ev.append({'type': 'BADLINE', 'object': line[:100].decode('utf-8', 'replace')})
                    break
                ev.append(e)
                if stop and stop(e):
                    break
        except (TimeoutError, OSError) as e:
            self.rec(label, 'connection failed: %s' % type(e).__name__)
            return ev
        finally:
            if t:
                t.join()
            conn.close()
        self.rec(label, {'code': code, 'ct': ct, 'events': [sel(e) if sel else e for e in ev if not keep or keep(e)]})
        self.ended = ended
        return ev

    # -- binaries
    def run(self, argv, stdin=None, timeout=120, label=None, norm=None, env=None, rec=True):
        e = dict(os.environ, KUBECONFIG=self.srv.path, HOME=self.srv.tmp, HELM_CACHE_HOME=self.srv.tmp + '/hc', HELM_CONFIG_HOME=self.srv.tmp + '/hf', HELM_DATA_HOME=self.srv.tmp + '/hd', LC_ALL='C', KUBECTL_EXTERNAL_DIFF='')
        for k in ('HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy', 'ALL_PROXY', 'all_proxy'):
            e.pop(k, None)
        e.update(env or {})
        try:
            p = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout * SLOW, env=e)
            rc, out, err = p.returncode, p.stdout, p.stderr
        except subprocess.TimeoutExpired:
            rc, out, err = 'timeout', '', ''
        if rec:
            f = norm or textnorm
            self.rec(label or ' '.join(x for x in argv[1:] if not x.startswith('--kubeconfig')), {'rc': rc, 'out': f(self.norm.s(out)), 'err': f(self.norm.s(err))})
        return rc, out, err

    def kubectl(self, *a, stdin=None, **k):
        return self.run(['kubectl', '--kubeconfig', self.srv.path, '--cache-dir', self.srv.tmp + '/kc', '-n', self.ns] + list(a), stdin=stdin, label='kubectl ' + ' '.join(a), **k)

    def helm(self, *a, **k):
        return self.run([HELM, '--kubeconfig', self.srv.path, '-n', self.ns] + list(a), label='helm ' + ' '.join(a), **k)

    def ff(self, v):
        return {self.srv.fault + 'fail': v}


def textnorm(t):
    out = []
    for l in t.splitlines():
        l = re.sub(r'(?<![\w.:-])(\d+[dhms])+(?![\w.])', '<age>', l)
        l = re.sub(r'\w{3} \w{3} +\d+ \d\d:\d\d:\d\d( \d{4})?', '<date>', l)
        l = re.sub(r'\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}', '<date>', l)
        l = re.sub(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} UTC', '<date>', l)
        l = re.sub(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}', '<date>', l)
        l = re.sub(r'/tmp/\S+', '<tmp>', l)
        l = re.sub(r'^[EWIF]\d{4} \S+ +\d+ \S+\] ', '<klog> ', l)
        out.append(re.sub(r'\s+', ' ', l).strip())
    return out


SLOW = 1.0
HELM = shutil.which('helm') or 'helm'


# ------------------------------------------------------------------------------------------------ object builders
def cm(name, data=None, **meta):
    return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': dict(meta, name=name), 'data': {'a': '1'} if data is None else data}


def pspec(image='nginx:1', **k):
    return dict({'containers': [{'name': 'c', 'image': image}]}, **k)


def pod(name, spec=None, **meta):
    return {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': dict(meta, name=name), 'spec': spec or pspec()}


def dep(name, replicas=1, image='nginx:1', ann=None, **spec):
    return {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': name, 'labels': {'app': name}},
            'spec': dict({'replicas': replicas, 'selector': {'matchLabels': {'app': name}},
                          'template': {'metadata': dict({'labels': {'app': name}}, **({'annotations': ann} if ann else {})), 'spec': pspec(image)}}, **spec)}


def sts(name, replicas=1, ann=None, **spec):
    d = dep(name, replicas, ann=ann)
    d['kind'] = 'StatefulSet'
    d['spec'].update({'serviceName': name}, **spec)
    return d


def ds(name, **spec):
    d = dep(name)
    d['kind'] = 'DaemonSet'
    del d['spec']['replicas']
    d['spec'].update(spec)
    return d


def job(name, ann=None, **spec):
    return {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': name}, 'spec': dict({'template': {
        'metadata': {'annotations': ann or {}}, 'spec': {'restartPolicy': 'Never', 'containers': [{'name': 'c', 'image': 'busybox:1'}]}}}, **spec)}


def svc(name, **spec):
    return {'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': name}, 'spec': dict({'selector': {'app': name}, 'ports': [{'port': 80}]}, **spec)}


def obj(api, kind, name, spec=None, **top):
    o = {'apiVersion': api, 'kind': kind, 'metadata': {'name': name}}
    if spec is not None:
        o['spec'] = spec
    o.update(top)
    return o


def crd(c, schema, plural='widgets', kind='Widget', scope='Namespaced', subresources=None, columns=None, versions=None, preserve=None):
    g = c.u + '.example.com'
    v = {'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': schema}}
    if subresources:
        v['subresources'] = subresources
    if columns:
        v['additionalPrinterColumns'] = columns
    return {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition', 'metadata': {'name': plural + '.' + g},
            'spec': dict({'group': g, 'scope': scope, 'names': {'plural': plural, 'singular': kind.lower(), 'kind': kind, 'listKind': kind + 'List'}, 'versions': versions or [v]},
                         **({'preserveUnknownFields': preserve} if preserve is not None else {}))}


CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'


def mkcrd(c, o, **k):
    """creates the CRD unrecorded and waits until its resource is served"""
    c.cleanup(CRDS + '/' + o['metadata']['name'])
    c.mk(CRDS, o)
    g = o['spec']['group']
    v = o['spec']['versions'][0]['name']
    ok = c.until(lambda: any(x['type'] == 'Established' and x['status'] == 'True' for x in c.raw('GET', CRDS + '/' + o['metadata']['name']).body['status']['conditions']), 15)
    p = '/apis/%s/%s' % (g, v) + ('/namespaces/' + c.ns if o['spec']['scope'] == 'Namespaced' else '') + '/' + o['spec']['names']['plural']
    served = c.until(lambda: c.raw('GET', p).code == 200, 15, 0.1)
    time.sleep(0.3)
    if not ok or not served:
        c.rec('crd-ready', [bool(ok), bool(served)])
    return p


def cr(c, name, spec=None, v='v1', kind='Widget', **top):
    o = {'apiVersion': '%s.example.com/%s' % (c.u, v), 'kind': kind, 'metadata': {'name': name}}
    if spec is not None:
        o['spec'] = spec
    o.update(top)
    return o


OPEN = {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}


def osch(props, **k):
    return dict({'type': 'object', 'properties': props}, **k)


# ================================================================================================ discovery
def strip_hash(b):
    b = copy.deepcopy(b)
    for r in b.get('resources', []) if isinstance(b, dict) else []:
        r.pop('storageVersionHash', None)
    return b


def builtin(g):
    return '.' not in g or g.endswith('.k8s.io')


S('discovery', 'version-shape', lambda c: c.get('/version', sel=lambda b: {'keys': sorted(b), 'git': bool(re.match(r'v1\.\d+\.\d+', b['gitVersion'])), 'major': b['major'], 'minor_digits': b['minor'].strip('+').isdigit()}))
S('discovery', 'apis-groups', lambda c: c.get('/apis', sel=lambda b: {'kind': b['kind'], 'apiVersion': b['apiVersion'], 'groups': sorted([g for g in b['groups'] if builtin(g['name'])], key=lambda g: g['name'])}))
S('discovery', 'apis-groups-core-set', lambda c: c.get('/apis', sel=lambda b: sorted([g for g in b['groups'] if g['name'] in ('apps', 'batch', 'autoscaling', 'policy', 'networking.k8s.io', 'rbac.authorization.k8s.io', 'apiextensions.k8s.io', 'coordination.k8s.io', 'storage.k8s.io', 'scheduling.k8s.io', 'discovery.k8s.io', 'events.k8s.io', 'authorization.k8s.io', 'authentication.k8s.io')], key=lambda g: g['name'])))
S('discovery', 'resources-core-v1', lambda c: c.get('/api/v1', sel=strip_hash))
S('discovery', 'resources-batch-v1', lambda c: c.get('/apis/batch/v1', sel=strip_hash))
S('discovery', 'resources-rbac-v1', lambda c: c.get('/apis/rbac.authorization.k8s.io/v1', sel=strip_hash))
S('discovery', 'resources-policy-autoscaling', lambda c: [c.get('/apis/policy/v1', sel=strip_hash), c.get('/apis/autoscaling/v2', sel=strip_hash), c.get('/apis/autoscaling/v1', sel=strip_hash)])
S('discovery', 'resources-coordination-storage-scheduling', lambda c: [c.get('/apis/%s/v1' % g, sel=strip_hash) for g in ('coordination.k8s.io', 'storage.k8s.io', 'scheduling.k8s.io', 'discovery.k8s.io', 'events.k8s.io')])
S('discovery', 'group-doc-apps', lambda c: c.get('/apis/apps'))
S('discovery', 'health-endpoints', lambda c: [c.get(p) for p in ('/healthz', '/livez', '/readyz', '/healthz/ping')])
AGG = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json'


@sc('discovery', 'aggregated-apps')
def _(c):
    def f(b):
        it = [i for i in b['items'] if i['metadata'].get('name') == 'apps']
        return {'kind': b['kind'], 'apiVersion': b['apiVersion'], 'apps': it}
    c.get('/apis', accept=AGG, sel=f)


@sc('discovery', 'openapi-v3-index')
def _(c):
    c.get('/openapi/v3', sel=lambda b: {k: v['serverRelativeURL'].split('?')[0] for k, v in b['paths'].items() if k in ('api/v1', 'apis/apps/v1', 'apis/batch/v1', 'version', 'apis/apps')})


def nodesc(o):
    if isinstance(o, dict):
        return {k: nodesc(v) for k, v in o.items() if not (k == 'description' and isinstance(v, str))}
    return [nodesc(x) for x in o] if isinstance(o, list) else o


@sc('discovery', 'openapi-v2-definitions')
def _(c):
    c.get('/openapi/v2', sel=lambda b: nodesc({k: b['definitions'].get(k) for k in ('io.k8s.api.core.v1.ConfigMap', 'io.k8s.api.core.v1.ServiceSpec', 'io.k8s.api.apps.v1.DeploymentSpec')}))


# ================================================================================================ crud
@sc('crud', 'configmap-lifecycle')
def _(c):
    c.post(c.cm(), cm('x'))
    o = c.get(c.cm('x')).body
    o['data'] = {'a': '2', 'b': '3'}
    c.put(c.cm('x'), o)
    c.patch(c.cm('x'), {'data': {'b': None, 'c': '4'}})
    c.delete(c.cm('x'))
    c.get(c.cm('x'))


S('crud', 'get-missing', lambda c: [c.get(c.cm('nope')), c.get(c.dep('nope')), c.get('/api/v1/nodes/nope-xyz'), c.delete(c.cm('nope')), c.patch(c.cm('nope'), {'data': {}})])
S('crud', 'missing-namespace', lambda c: [c.post('/api/v1/namespaces/no-such-%s/configmaps' % c.u, cm('x')), c.get('/api/v1/namespaces/no-such-%s/configmaps' % c.u), c.get('/api/v1/namespaces/no-such-%s' % c.u)])
S('crud', 'create-with-resource-version', lambda c: c.post(c.cm(), cm('x', resourceVersion='12')))


@sc('crud', 'put-name-mismatch')
def _(c):
    c.mk(c.cm(), cm('x'))
    c.put(c.cm('x'), cm('y'))
    c.put(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {}, 'data': {}})


@sc('crud', 'secret-stringdata')
def _(c):
    c.post(c.n('v1', 'secrets'), obj('v1', 'Secret', 's', stringData={'a': 'hello', 'b': 'x'}, data={'b': base64.b64encode(b'orig').decode(), 'c': 'Yw=='}))
    c.patch(c.n('v1', 'secrets', 's'), {'stringData': {'a': 'bye'}})
    c.get(c.n('v1', 'secrets', 's'))


@sc('crud', 'yaml-in-yaml-out')
def _(c):
    c.req('POST', c.cm(), yaml.safe_dump(cm('x')), ct='application/yaml')
    r = c.raw('GET', c.cm('x'), accept='application/yaml')
    c.rec('yaml', {'ct': r.headers.get('Content-Type'), 'body': yaml.safe_load(r.raw)})


@sc('crud', 'status-ignored-on-create')
def _(c):
    d = dep('d', 0)
    d['status'] = {'replicas': 7, 'readyReplicas': 7}
    c.post(c.dep(), d, sel=pick('status', 'spec.replicas', 'metadata.generation'))


S('crud', 'wrong-kind', lambda c: [c.post(c.cm(), obj('v1', 'Secret', 'x')), c.post(c.cm(), obj('v2', 'ConfigMap', 'x')), c.post(c.dep(), cm('x'))])
S('crud', 'no-kind', lambda c: [c.post(c.cm(), {'metadata': {'name': 'x'}, 'data': {'k': 'v'}}), c.post(c.cm(), {'kind': 'ConfigMap', 'metadata': {'name': 'y'}})])


@sc('crud', 'status-subresource')
def _(c):
    c.mk(c.dep(), dep('d', 0))
    c.until(lambda: c.raw('GET', c.dep('d'))['status.observedGeneration'], 5)
    o = c.get(c.dep('d') + '/status', sel=pick('kind', 'metadata.name')).body
    o['spec']['replicas'] = 5
    c.put(c.dep('d') + '/status', o, sel=pick('spec.replicas'))


S('crud', 'null-and-empty-values', lambda c: c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x', 'labels': {}, 'annotations': None, 'finalizers': []}, 'data': {}, 'binaryData': None}))


# ================================================================================================ list
def lset(c):
    for i, l in enumerate([{'app': 'a', 'tier': 'x'}, {'app': 'a', 'tier': 'y'}, {'app': 'b'}, {}, {'app': 'c', 'tier': 'x'}]):
        c.mk(c.cm(), cm('m%d' % i, labels=l))


def lsel(*sels):
    def f(c):
        lset(c)
        for s in sels:
            c.get(c.cm(), q={'labelSelector': s}, sel=lambda b: [n for n in names(b) if n.startswith('m')], label='sel ' + s)
    return f


S('list', 'label-equality', lsel('app=a', 'app==a', 'app!=a', 'app=a,tier=x', 'app=zzz', 'app='))
S('list', 'label-bad', lsel('app in', 'a=b=c', '=x', 'app in (a', '-bad-=x', 'app=bad value', 'a>1', 'app>x'))


@sc('list', 'list-body')
def _(c):
    c.mk(c.cm(), cm('x'))
    c.mk(c.cm(), cm('a'))
    c.get(c.cm(), q={'fieldSelector': 'metadata.name!=kube-root-ca.crt'})


S('list', 'empty', lambda c: [c.get(c.n('v1', 'secrets')), c.get(c.dep()), c.get(c.n('networking.k8s.io/v1', 'ingresses'))])


@sc('list', 'field-selectors-typed')
def _(c):
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's1', type='x/y'))
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's2'))
    c.get(c.n('v1', 'secrets'), q={'fieldSelector': 'type=x/y'}, sel=names)
    c.get(c.n('v1', 'secrets'), q={'fieldSelector': 'type!=x/y'}, sel=names)
    c.mk(c.pods(), pod('p1', pspec(nodeName='nowhere')))
    c.mk(c.pods(), pod('p2', pspec(schedulingGates=[{'name': 'x/y'}])))
    for s in ('spec.nodeName=nowhere', 'spec.nodeName=', 'status.phase=Pending', 'status.phase=Running', 'spec.restartPolicy=Always', 'spec.foo=x', 'spec.serviceAccountName=default'):
        c.get(c.pods(), q={'fieldSelector': s}, sel=names, label='fs ' + s)


@sc('list', 'paging')
def _(c):
    lset(c)
    tok = None
    for i in range(4):
        q = {'limit': '2'}
        if tok:
            q['continue'] = tok
        r = c.get(c.cm(), q=q, sel=lambda b: {'meta': b['metadata'], 'names': names(b)}, label='page')
        tok = r['metadata.continue']
        if not tok:
            break


@sc('list', 'paging-with-selector')
def _(c):
    lset(c)
    r = c.get(c.cm(), q={'limit': '1', 'labelSelector': 'app=a'}, sel=lambda b: {'meta': b['metadata'], 'names': names(b)})
    c.get(c.cm(), q={'limit': '1', 'labelSelector': 'app=a', 'continue': r['metadata.continue'] or ''}, sel=lambda b: {'meta': b['metadata'], 'names': names(b)}, label='page2')


@sc('list', 'resource-version-match')
def _(c):
    lset(c)
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    for q in ({'resourceVersion': '0'}, {'resourceVersion': rv, 'resourceVersionMatch': 'Exact'}, {'resourceVersion': rv, 'resourceVersionMatch': 'NotOlderThan'}, {'resourceVersion': rv}):
        c.get(c.cm(), q=q, sel=lambda b: len([n for n in names(b) if n.startswith('m')]), label=str(sorted(q)))
    for q in ({'resourceVersionMatch': 'Exact'}, {'resourceVersion': '0', 'resourceVersionMatch': 'Exact'}, {'resourceVersion': rv, 'resourceVersionMatch': 'Foo'}, {'resourceVersion': 'abc'}):
        c.get(c.cm(), q=q, label=str(sorted(q)))


S('list', 'future-resource-version', lambda c: c.get(c.cm(), q={'resourceVersion': '999999999'}))


def tab(b):
    b = copy.deepcopy(b)
    ages = [i for i, d in enumerate(b.get('columnDefinitions') or []) if d['name'] in ('Age', 'Last Seen', 'First Seen', 'Created At', 'IP', 'Node', 'Cluster-IP', 'CLUSTER-IP', 'Duration')]
    for r in b.get('rows') or []:
        r['cells'] = ['<age>' if isinstance(x, str) and re.fullmatch(r'(\d+[dhms])+', x) else x for x in r['cells']]
        for i in ages:
            if i < len(r['cells']):
                r['cells'][i] = '<cell>' if r['cells'][i] not in ('None', '<none>', '') else r['cells'][i]
    return b


def tab_nodesc(b):
    b = tab(b)
    for d in b.get('columnDefinitions') or []:
        d.pop('description', None)
    return b


@sc('list', 'table-configmaps')
def _(c):
    c.mk(c.cm(), cm('x', {'a': '1', 'b': '2'}))
    c.get(c.cm(), q={'fieldSelector': 'metadata.name=x'}, accept=TABLE, sel=tab)
    c.get(c.cm('x'), accept=TABLE, sel=tab)
    c.get(c.cm(), q={'fieldSelector': 'metadata.name=zz'}, accept=TABLE, sel=tab)


@sc('list', 'table-deployment-pod')
def _(c):
    c.mk(c.dep(), dep('d', 0))
    c.mk(c.pods(), pod('p', pspec(schedulingGates=[{'name': 'x/y'}])))
    c.until(lambda: c.raw('GET', c.dep('d'))['status.observedGeneration'], 5)
    c.get(c.dep(), accept=TABLE, sel=lambda b: tab_nodesc({k: v if k != 'rows' else [{'cells': r['cells']} for r in v] for k, v in b.items()}))
    c.get(c.pods(), accept=TABLE, q={'fieldSelector': 'metadata.name=p'}, sel=lambda b: tab_nodesc({k: v if k != 'rows' else [{'cells': r['cells']} for r in v] for k, v in b.items()}))


@sc('list', 'partial-object-metadata')
def _(c):
    c.mk(c.dep(), dep('d', 0))
    c.get(c.dep('d'), accept=POM, sel=lambda b: {'k': b['kind'], 'v': b['apiVersion'], 'keys': sorted(b), 'name': b['metadata']['name'], 'labels': b['metadata']['labels']})
    c.get(c.dep(), accept=POML, sel=lambda b: {'k': b['kind'], 'v': b['apiVersion'], 'm': b['metadata'], 'items': [(sorted(i), i.get('kind'), i.get('apiVersion'), i['metadata']['name']) for i in b['items']]})
    c.get(c.dep('d'), accept='application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io,application/json', sel=lambda b: [b['kind'], b['apiVersion']])


@sc('list', 'all-namespaces')
def _(c):
    c.mk(c.cm(), cm('x', labels={'t': c.u}))
    c.get('/api/v1/configmaps', q={'labelSelector': 't=' + c.u}, sel=lambda b: {'kind': b['kind'], 'items': no_mf(b)['items']})
    c.get('/api/v1/configmaps', q={'fieldSelector': 'metadata.namespace=' + c.ns + ',metadata.name=x'}, sel=names)
    c.post('/api/v1/configmaps', cm('x'))


# ================================================================================================ watch
def evs(e):
    o = e.get('object')
    return {'type': e.get('type'), 'kind': dig(o, 'kind'), 'name': dig(o, 'metadata.name'), 'data': dig(o, 'data'), 'ann': dig(o, 'metadata.annotations'), 'code': dig(o, 'code'), 'reason': dig(o, 'reason')}


@sc('watch', 'add-modify-delete')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']

    def act():
        c.raw('POST', c.cm(), cm('x'))
        c.raw('PATCH', c.cm('x'), {'data': {'a': '2'}}, ct=MP)
        c.raw('DELETE', c.cm('x'))
    c.watch(c.cm(), {'resourceVersion': rv}, n=3, actions=act)


@sc('watch', 'history-replay')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.mk(c.cm(), cm('x'))
    c.raw('PATCH', c.cm('x'), {'data': {'a': '2'}}, ct=MP)
    c.mk(c.cm(), cm('y'))
    c.raw('DELETE', c.cm('x'))
    c.watch(c.cm(), {'resourceVersion': rv}, n=4, sel=evs)


@sc('watch', 'no-rv-synthetic-added')
def _(c):
    c.mk(c.cm(), cm('b', labels={'t': '1'}))
    c.mk(c.cm(), cm('a', labels={'t': '1'}))
    ev = c.watch(c.cm(), {'labelSelector': 't=1'}, n=3, actions=lambda: c.raw('PATCH', c.cm('a'), {'data': {'a': '2'}}, ct=MP), sel=lambda e: None, label='open')
    c.rec('events', sorted([[e['type'], e['object']['metadata']['name'], e['object']['data']] for e in ev[:2]]) + [[e['type'], e['object']['metadata']['name'], e['object']['data']] for e in ev[2:]])


@sc('watch', 'selector-transitions')
def _(c):
    rv = c.mk(c.cm(), cm('x', labels={'t': '0'}))['metadata.resourceVersion']

    def act():
        c.raw('PATCH', c.cm('x'), {'metadata': {'labels': {'t': '1'}}}, ct=MP)
        c.raw('PATCH', c.cm('x'), {'data': {'a': '2'}}, ct=MP)
        c.raw('PATCH', c.cm('x'), {'metadata': {'labels': {'t': '0'}}, 'data': {'a': '3'}}, ct=MP)
        c.raw('DELETE', c.cm('x'))
        c.raw('POST', c.cm(), cm('y', labels={'t': '1'}))
    c.watch(c.cm(), {'labelSelector': 't=1', 'resourceVersion': rv}, n=4, actions=act, sel=lambda e: dict(evs(e), labels=e['object']['metadata']['labels']))


@sc('watch', 'send-initial-events')
def _(c):
    c.mk(c.cm(), cm('b', labels={'t': '1'}))
    c.mk(c.cm(), cm('a', labels={'t': '1'}))
    ev = c.watch(c.cm(), {'labelSelector': 't=1', 'sendInitialEvents': 'true', 'resourceVersionMatch': 'NotOlderThan', 'allowWatchBookmarks': 'true'}, sel=lambda e: None, label='open', stop=lambda e: e['type'] == 'BOOKMARK', timeout=6)
    c.rec('initial', sorted([e['type'], e['object']['metadata'].get('name')] for e in ev if e['type'] != 'BOOKMARK'))
    c.rec('bookmark', [e for e in ev if e['type'] == 'BOOKMARK'])


S('watch', 'send-initial-events-errors', lambda c: [c.watch(c.cm(), q, n=1, timeout=2) for q in ({'sendInitialEvents': 'true'}, {'sendInitialEvents': 'true', 'resourceVersionMatch': 'Exact', 'allowWatchBookmarks': 'true'}, {'resourceVersionMatch': 'NotOlderThan', 'resourceVersion': '1'}, {'sendInitialEvents': 'false', 'allowWatchBookmarks': 'true'})])


@sc('watch', 'too-old')
def _(c):
    # a young server may still hold everything since 1: then the history is replayed
    ev = c.watch(c.cm(), {'resourceVersion': '1'}, n=1, timeout=4, sel=lambda e: None, label='open')
    e = ev[0] if ev else {}
    o = e.get('object') or {}
    c.rec('410 in an ERROR event, or a replay', e.get('type') == 'ADDED' or (e.get('type'), o.get('kind'), o.get('status'), o.get('reason'), o.get('code'), bool(re.match(r'too old resource version: \d+ \(\d+\)$', str(o.get('message'))))) == ('ERROR', 'Status', 'Failure', 'Expired', 410, True))


@sc('watch', 'timeout-seconds')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    t = time.time()
    c.watch(c.cm(), {'resourceVersion': rv, 'timeoutSeconds': '1'}, n=1, timeout=6)
    c.rec('ended by the server within 1..4 s', [c.ended, 0.8 < time.time() - t < 4 * SLOW])


@sc('watch', 'partial-metadata')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.watch(c.cm(), {'resourceVersion': rv}, n=1, actions=lambda: c.raw('POST', c.cm(), cm('x')), accept=POM)


@sc('watch', 'legacy-watch-path')
def _(c):
    rv = c.raw('GET', c.cm())['metadata.resourceVersion']
    c.mk(c.cm(), cm('x'))
    p = '/api/v1/watch/namespaces/%s/configmaps' % c.ns
    c.watch(p, {'resourceVersion': rv}, n=1, sel=evs)
    c.watch(p + '/x', {'resourceVersion': rv}, n=1, sel=evs)


# ================================================================================================ update
@sc('update', 'stale-conflict')
def _(c):
    o = c.mk(c.cm(), cm('x')).body
    c.raw('PATCH', c.cm('x'), {'data': {'a': '2'}}, ct=MP)
    o['data']['a'] = '3'
    c.put(c.cm('x'), o)
    c.patch(c.cm('x'), {'metadata': {'resourceVersion': o['metadata']['resourceVersion']}, 'data': {'a': '4'}})


S('update', 'unconditional', lambda c: [c.mk(c.cm(), cm('x')), c.put(c.cm('x'), cm('x', {'z': '1'}))])


@sc('update', 'uid-mismatch')
def _(c):
    c.mk(c.cm(), cm('x'))
    c.put(c.cm('x'), cm('x', uid='11111111-2222-3333-4444-555555555555'))


@sc('update', 'noop-keeps-rv')
def _(c):
    o = c.mk(c.cm(), cm('x')).body
    r = c.put(c.cm('x'), o)
    c.rec('same rv', r['metadata.resourceVersion'] == o['metadata']['resourceVersion'])
    r = c.patch(c.cm('x'), {'data': {'a': '1'}})
    c.rec('same rv', r['metadata.resourceVersion'] == o['metadata']['resourceVersion'])
    c.rec('same rv', c.patch(c.cm('x'), [], JP)['metadata.resourceVersion'] == o['metadata']['resourceVersion'])


@sc('update', 'generation-deployment')
def _(c):
    c.post(c.dep(), dep('d', 0, paused=True), sel=pick('metadata.generation'))
    c.patch(c.dep('d'), {'metadata': {'labels': {'x': 'y'}}}, sel=pick('metadata.generation'))
    c.patch(c.dep('d'), {'spec': {'minReadySeconds': 3}}, sel=pick('metadata.generation'))
    c.patch(c.dep('d'), {'spec': {'minReadySeconds': 3}}, sel=pick('metadata.generation'))
    c.patch(c.dep('d') + '/status', {'status': {'conditions': []}}, sel=pick('metadata.generation'))
    c.patch(c.dep('d'), {'metadata': {'generation': 77}}, sel=pick('metadata.generation'))


@sc('update', 'spec-status-separation')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.until(lambda: c.raw('GET', c.dep('d'))['status.observedGeneration'] == 1, 5)
    c.patch(c.dep('d'), {'status': {'readyReplicas': 5}}, sel=pick('status.readyReplicas'))
    c.patch(c.dep('d') + '/status', {'metadata': {'labels': {'fromstatus': 'x'}}, 'spec': {'replicas': 9}}, sel=pick('spec.replicas', 'metadata.labels', 'metadata.generation'))


@sc('update', 'managed-fields-by-update')
def _(c):
    c.post(c.cm(), cm('x', {'a': '1', 'b': '2'}, labels={'l': '1'}), q={'fieldManager': 'one'}, sel=mf)
    o = c.raw('GET', c.cm('x')).body
    o['data'] = {'a': '9', 'c': '3'}
    c.put(c.cm('x'), o, q={'fieldManager': 'two'}, sel=mf)
    c.patch(c.cm('x'), {'data': {'c': '4'}}, q={'fieldManager': 'three'}, sel=mf)
    c.patch(c.cm('x'), {'metadata': {'managedFields': [{}]}}, q={'fieldManager': 'three'}, sel=mf)


# ================================================================================================ patch
@sc('patch', 'json-ops')
def _(c):
    c.mk(c.cm(), cm('x', {'a': '1', 'b': '2', 'c/d': '3', 'e~f': '4'} if False else {'a': '1', 'b': '2'}))
    c.patch(c.cm('x'), [{'op': 'add', 'path': '/data/n', 'value': 'v'}, {'op': 'replace', 'path': '/data/a', 'value': '9'}, {'op': 'remove', 'path': '/data/b'}], JP)
    c.patch(c.cm('x'), [{'op': 'test', 'path': '/data/a', 'value': '9'}, {'op': 'copy', 'from': '/data/a', 'path': '/data/z'}, {'op': 'move', 'from': '/data/n', 'path': '/data/m'}], JP)
    c.patch(c.cm('x'), [{'op': 'add', 'path': '/metadata/labels', 'value': {'a~b': 'x'}}], JP)
    c.patch(c.cm('x'), [{'op': 'add', 'path': '/metadata/annotations', 'value': {'x.io/y': 'z'}}, {'op': 'replace', 'path': '/metadata/annotations/x.io~1y', 'value': 'w'}], JP)


@sc('patch', 'json-errors')
def _(c):
    c.mk(c.cm(), cm('x'))
    for p in ([{'op': 'test', 'path': '/data/a', 'value': 'no'}], [{'op': 'remove', 'path': '/data/zz'}], [{'op': 'replace', 'path': '/data/zz', 'value': '1'}], [{'op': 'add', 'path': '/spec/x/y', 'value': 1}], {'op': 'add'}, [{'op': 'frob', 'path': '/data/a'}], [{'op': 'add', 'path': '/data/a', 'value': 5}]):
        c.patch(c.cm('x'), p, JP, label=json.dumps(p))


@sc('patch', 'merge')
def _(c):
    c.mk(c.cm(), cm('x', {'a': '1', 'b': '2'}, labels={'l': '1'}))
    c.patch(c.cm('x'), {'data': {'a': None, 'n': 'v'}, 'metadata': {'labels': None}})
    c.patch(c.cm('x'), {'data': None})
    c.patch(c.cm('x'), {'data': {'a': 5}})
    c.patch(c.cm('x'), '[]')
    c.patch(c.cm('x'), '{')
    c.patch(c.cm('x'), {})


def dep3(c):
    d = dep('d', 0, paused=True)
    d['spec']['template']['spec'] = {'containers': [{'name': 'a', 'image': 'a:1', 'env': [{'name': 'X', 'value': '1'}, {'name': 'Y', 'value': '2'}], 'ports': [{'containerPort': 80}, {'containerPort': 81, 'protocol': 'UDP'}]}, {'name': 'b', 'image': 'b:1'}],
                                     'volumes': [{'name': 'v', 'emptyDir': {}}], 'tolerations': [{'key': 'k', 'operator': 'Exists'}], 'imagePullSecrets': [{'name': 's1'}]}
    c.mk(c.dep(), d)
    return d


def tsp(p):
    return {'spec': {'template': {'spec': p}}}


TS = pick('spec.template.spec')


@sc('patch', 'strategic-merge-keys')
def _(c):
    dep3(c)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'a', 'image': 'a:2'}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'n', 'image': 'n:1'}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'a', 'env': [{'name': 'Y', 'value': '9'}, {'name': 'Z', 'value': '3'}]}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'a', 'ports': [{'containerPort': 80, 'name': 'http'}, {'containerPort': 82}]}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'tolerations': [{'key': 'z', 'operator': 'Exists'}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'imagePullSecrets': [{'name': 's2'}]}), SMP, sel=TS)


@sc('patch', 'strategic-delete-directive')
def _(c):
    dep3(c)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'b', '$patch': 'delete'}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'a', 'env': [{'name': 'X', '$patch': 'delete'}]}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'volumes': [{'name': 'nope', '$patch': 'delete'}]}), SMP, sel=TS)


@sc('patch', 'strategic-merge-directive-and-bad')
def _(c):
    dep3(c)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'a', '$patch': 'merge', 'image': 'a:5'}]}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'containers': [{'name': 'a', '$patch': 'frob'}]}), SMP)
    c.patch(c.dep('d'), tsp({'containers': [{'image': 'noname'}]}), SMP)
    c.patch(c.dep('d'), tsp({'containers': {'x': 1}}), SMP)


@sc('patch', 'strategic-delete-from-primitive-list')
def _(c):
    c.mk(c.cm(), cm('x', finalizers=['a.io/1', 'a.io/2', 'a.io/3']))
    c.patch(c.cm('x'), {'metadata': {'finalizers': ['a.io/4']}}, SMP, sel=pick('metadata.finalizers'))
    c.patch(c.cm('x'), {'metadata': {'$deleteFromPrimitiveList/finalizers': ['a.io/1']}}, SMP, sel=pick('metadata.finalizers'))
    c.patch(c.cm('x'), {'metadata': {'$deleteFromPrimitiveList/finalizers': ['a.io/2'], '$setElementOrder/finalizers': ['a.io/5', 'a.io/4', 'a.io/3'], 'finalizers': ['a.io/5']}}, SMP, sel=pick('metadata.finalizers'))
    c.raw('PATCH', c.cm('x'), {'metadata': {'finalizers': None}}, ct=MP)


@sc('patch', 'strategic-service-ports')
def _(c):
    c.mk(c.n('v1', 'services'), svc('s', ports=[{'name': 'a', 'port': 80}, {'name': 'b', 'port': 81}]))
    p = c.n('v1', 'services', 's')
    c.patch(p, {'spec': {'ports': [{'port': 80, 'targetPort': 8080}]}}, SMP, sel=pick('spec.ports'))
    c.patch(p, {'spec': {'ports': [{'port': 82, 'name': 'c'}]}}, SMP, sel=pick('spec.ports'))
    c.patch(p, {'spec': {'ports': [{'port': 81, '$patch': 'delete'}]}}, SMP, sel=pick('spec.ports'))


@sc('patch', 'strategic-null-and-map')
def _(c):
    dep3(c)
    c.patch(c.dep('d'), tsp({'volumes': None}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'nodeSelector': {'a': 'b'}}), SMP, sel=TS)
    c.patch(c.dep('d'), tsp({'nodeSelector': {'a': None, 'c': 'd'}}), SMP, sel=TS)
    c.patch(c.dep('d'), {'spec': {'replicas': None, 'strategy': None}}, SMP, sel=pick('spec.replicas', 'spec.strategy'))


@sc('patch', 'invalid-result')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.patch(c.dep('d'), {'spec': {'replicas': -1}})
    c.patch(c.dep('d'), {'spec': {'replicas': 'x'}})
    c.patch(c.dep('d'), {'spec': {'template': {'spec': {'containers': []}}}})
    c.patch(c.dep('d'), {'kind': 'Foo'})
    c.patch(c.dep('d'), {'spec': {'bogus': 1}}, sel=pick('spec', 'metadata.generation'))


@sc('patch', 'scale-subresource-patch')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 0}}, sel=lambda b: dict(b, metadata={'name': b['metadata']['name']}))
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': -4}})


# ================================================================================================ ssa
@sc('ssa', 'create-update')
def _(c):
    c.apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}))
    c.apply(c.cm('x'), cm('x', {'a': '2', 'b': '2'}))
    r = c.get(c.cm('x'))
    r2 = c.apply(c.cm('x'), cm('x', {'a': '2', 'b': '2'}))
    c.rec('noop keeps rv', r['metadata.resourceVersion'] == r2['metadata.resourceVersion'])


@sc('ssa', 'remove-owned-field')
def _(c):
    c.quiet_apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}, labels={'l': '1'}))
    c.apply(c.cm('x'), cm('x', {'a': '1'}))


@sc('ssa', 'conflict-409')
def _(c):
    c.quiet_apply(c.cm('x'), cm('x', {'a': '1', 'b': '1'}), 'mgr-a')
    c.apply(c.cm('x'), cm('x', {'a': '2'}), 'mgr-b')
    c.apply(c.cm('x'), cm('x', {'a': '2', 'b': '3'}), 'mgr-b')


@sc('ssa', 'shared-ownership')
def _(c):
    c.quiet_apply(c.cm('x'), cm('x', {'a': '1', 'b': '1'}), 'mgr-a')
    c.apply(c.cm('x'), cm('x', {'a': '1'}), 'mgr-b')
    c.apply(c.cm('x'), cm('x', {'b': '1'}), 'mgr-a')
    c.apply(c.cm('x'), cm('x', {}), 'mgr-b')


S('ssa', 'errors', lambda c: [c.apply(c.cm('x'), cm('x'), None), c.apply(c.cm('x'), cm('y')), c.apply(c.cm('x'), {'metadata': {'name': 'x'}}), c.apply(c.cm('x'), '{'), c.apply(c.cm('x'), obj('v1', 'Secret', 'x')), c.apply(c.cm('x'), cm('x', managedFields=[{'manager': 'z'}]))])
S('ssa', 'no-name-in-body', lambda c: c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'data': {'a': '1'}}))


@sc('ssa', 'dry-run')
def _(c):
    c.apply(c.cm('x'), cm('x'), q={'dryRun': 'All'})
    c.get(c.cm('x'))
    c.quiet_apply(c.cm('x'), cm('x'))
    c.apply(c.cm('x'), cm('x', {'a': '7'}), q={'dryRun': 'All'})
    c.get(c.cm('x'), sel=pick('data'))


@sc('ssa', 'list-map-containers')
def _(c):
    d = dep('d', 0, paused=True)
    c.apply(c.dep('d'), d, 'mgr-a', sel=mf)
    d2 = {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'd'}, 'spec': {'template': {'spec': {'containers': [{'name': 'side', 'image': 's:1', 'ports': [{'containerPort': 80}], 'env': [{'name': 'A', 'value': 'b'}]}]}}}}
    c.apply(c.dep('d'), d2, 'mgr-b', sel=lambda b: [mf(b), b['spec']['template']['spec']['containers']])
    d2['spec']['template']['spec']['containers'][0].pop('env')
    c.apply(c.dep('d'), d2, 'mgr-b', sel=lambda b: [mf(b), b['spec']['template']['spec']['containers']])
    d2['spec']['template']['spec'] = {}
    c.apply(c.dep('d'), d2, 'mgr-b', sel=lambda b: [mf(b), b['spec']['template']['spec']['containers']])


@sc('ssa', 'service-ports-keys')
def _(c):
    p = c.n('v1', 'services', 's')
    c.apply(p, svc('s', ports=[{'port': 53, 'protocol': 'UDP', 'name': 'u'}, {'port': 53, 'protocol': 'TCP', 'name': 't'}]), sel=lambda b: [mf(b), b['spec']['ports']])
    c.apply(p, svc('s', ports=[{'port': 53, 'name': 't2', 'targetPort': 5353}]), sel=lambda b: [mf(b), b['spec']['ports']])
    c.apply(p, svc('s', ports=[{'port': 53, 'name': 't2', 'targetPort': 'x'}]), 'mgr-b')


S('ssa', 'unknown-field', lambda c: [c.apply(c.cm('x'), dict(cm('x'), bogus=1)), c.apply(c.dep('d'), dep('d', 0, bogus=1)), c.apply(c.cm('y'), dict(cm('y'), bogus=1), q={'fieldValidation': 'Ignore'}), c.apply(c.cm('z'), dict(cm('z'), bogus=1), q={'fieldValidation': 'Warn'})])
S('ssa', 'yaml-body', lambda c: c.apply(c.cm('x'), 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: "1"\n'))


@sc('ssa', 'update-then-apply-conflict')
def _(c):
    c.raw('POST', c.cm(), cm('x', {'a': '1'}), q={'fieldManager': 'creator'})
    c.apply(c.cm('x'), cm('x', {'a': '1', 'b': '2'}))
    c.apply(c.cm('x'), cm('x', {'a': '2', 'b': '2'}))
    c.apply(c.cm('x'), cm('x', {'a': '2', 'b': '2'}), force=True)


@sc('ssa', 'managed-fields-reset')
def _(c):
    c.quiet_apply(c.cm('x'), cm('x'))
    c.patch(c.cm('x'), [{'op': 'replace', 'path': '/metadata/managedFields', 'value': [{}]}], JP, sel=pick('metadata.managedFields', 'data'))
    c.apply(c.cm('x'), cm('x', {'b': '1'}), 'mgr-c', sel=lambda b: [mf(b), b['data']])


@sc('ssa', 'status-subresource')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.until(lambda: c.raw('GET', c.dep('d'))['status.observedGeneration'], 5)
    c.apply(c.dep('d') + '/status', {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'd'}, 'status': {'conditions': [{'type': 'Foo', 'status': 'True', 'reason': 'r', 'message': 'm', 'lastUpdateTime': '2020-01-01T00:00:00Z', 'lastTransitionTime': '2020-01-01T00:00:00Z'}]}}, 'st', sel=lambda b: [e for e in mf(b) if e['manager'] == 'st'])


@sc('ssa', 'set-list-finalizers')
def _(c):
    c.apply(c.cm('x'), cm('x', finalizers=['a.io/1', 'a.io/2']))
    c.apply(c.cm('x'), cm('x', finalizers=['a.io/3', 'a.io/1']), 'mgr-b')
    c.apply(c.cm('x'), cm('x'), sel=lambda b: [mf(b), b['metadata'].get('finalizers')])
    c.apply(c.cm('x'), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'x'}}, 'mgr-b', sel=lambda b: [mf(b), b['metadata'].get('finalizers')])
    c.raw('PATCH', c.cm('x'), {'metadata': {'finalizers': None}}, ct=MP)


@sc('ssa', 'atomic-fields')
def _(c):
    c.apply(c.dep('d'), dep('d', 0, paused=True), sel=lambda b: mf(b))
    o = {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': 'd'}, 'spec': {'selector': {'matchLabels': {'app': 'd'}}, 'template': {'spec': {'nodeSelector': {'a': 'b'}, 'tolerations': [{'key': 'x', 'operator': 'Exists'}]}}}}
    c.apply(c.dep('d'), o, 'mgr-b', sel=lambda b: [mf(b), b['spec']['template']['spec']])
    o['spec']['template']['spec'] = {'nodeSelector': {'c': 'd'}, 'tolerations': [{'key': 'y', 'operator': 'Exists'}]}
    c.apply(c.dep('d'), o, 'mgr-c')


S('ssa', 'kinds-managed-fields', lambda c: [c.apply(c.n('rbac.authorization.k8s.io/v1', 'roles', 'r'), obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['pods'], 'verbs': ['get']}])),
                                         c.apply(c.n('networking.k8s.io/v1', 'ingresses', 'i'), obj('networking.k8s.io/v1', 'Ingress', 'i', {'rules': [{'host': 'a.b', 'http': {'paths': [{'path': '/', 'pathType': 'Prefix', 'backend': {'service': {'name': 's', 'port': {'number': 80}}}}]}}]})),
                                         c.apply(c.n('v1', 'secrets', 's'), obj('v1', 'Secret', 's', stringData={'a': 'b'})),
                                         c.apply(c.n('v1', 'serviceaccounts', 's'), obj('v1', 'ServiceAccount', 's', imagePullSecrets=[{'name': 'x'}]))])


# ================================================================================================ delete
S('delete', 'simple-response', lambda c: [c.mk(c.cm(), cm('x')), c.delete(c.cm('x')), c.mk(c.n('v1', 'services'), svc('s')), c.delete(c.n('v1', 'services', 's')), c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's')), c.delete(c.n('v1', 'secrets', 's'))])


@sc('delete', 'finalizers')
def _(c):
    c.mk(c.cm(), cm('x', finalizers=['a.io/b']))
    c.delete(c.cm('x'))
    c.get(c.cm('x'))
    c.delete(c.cm('x'), sel=pick('metadata.finalizers'))
    c.patch(c.cm('x'), {'metadata': {'finalizers': ['a.io/b', 'a.io/c']}})
    c.patch(c.cm('x'), {'data': {'z': '1'}}, sel=pick('data'))
    c.patch(c.cm('x'), {'metadata': {'finalizers': None}}, sel=no_mf)
    c.get(c.cm('x'))


@sc('delete', 'orphan-propagation')
def _(c):
    u = c.mk(c.cm(), cm('own'))['metadata.uid']
    c.mk(c.cm(), cm('x', ownerReferences=[{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'own', 'uid': u}]))
    time.sleep(1)
    c.delete(c.cm('own'), q={'propagationPolicy': 'Orphan'}, sel=lambda b: [b['kind'], dig(b, 'metadata.finalizers'), 'deletionTimestamp' in b['metadata']])
    c.gone(c.cm('own'))
    c.wait('ref removed', lambda: not c.raw('GET', c.cm('x'))['metadata.ownerReferences'], 10)
    c.get(c.cm('x'), sel=pick('metadata.ownerReferences', 'data'))


@sc('delete', 'background-gc')
def _(c):
    u = c.mk(c.cm(), cm('own'))['metadata.uid']
    c.mk(c.cm(), cm('x', ownerReferences=[{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'own', 'uid': u}]))
    c.mk(c.n('v1', 'secrets'), obj('v1', 'Secret', 's', metadata={'name': 's', 'ownerReferences': [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'own', 'uid': u}]}))
    time.sleep(1)
    c.delete(c.cm('own'), {'propagationPolicy': 'Background'})
    c.gone(c.cm('x'))
    c.gone(c.n('v1', 'secrets', 's'))


@sc('delete', 'bad-options')
def _(c):
    c.mk(c.cm(), cm('x'))
    c.delete(c.cm('x'), {'propagationPolicy': 'Sideways'})
    c.delete(c.cm('x'), {'propagationPolicy': 'Orphan', 'orphanDependents': True})
    c.delete(c.cm('x'), {'kind': 'ConfigMap', 'apiVersion': 'v1'})
    c.delete(c.cm('x'), q={'propagationPolicy': 'nope'})


@sc('delete', 'collection')
def _(c):
    lset(c)
    c.delete(c.cm(), q={'labelSelector': 'app=a'}, sel=lambda b: {'kind': b['kind'], 'n': sorted(names(b)) if b.get('items') else b})
    c.get(c.cm(), sel=lambda b: [n for n in names(b) if n.startswith('m')])
    c.delete(c.cm(), q={'fieldSelector': 'metadata.name=m2'}, sel=lambda b: b['kind'])
    c.get(c.cm(), sel=lambda b: [n for n in names(b) if n.startswith('m')])
    c.delete(c.cm(), sel=lambda b: b['kind'])
    c.get(c.cm(), sel=lambda b: [n for n in names(b) if n.startswith('m')])
    c.delete('/api/v1/configmaps')


@sc('delete', 'namespace')
def _(c):
    n = 'nsd-' + c.u
    c.cleanup('/api/v1/namespaces/' + n)
    c.mk('/api/v1/namespaces', obj('v1', 'Namespace', n))
    p = '/api/v1/namespaces/' + n
    c.mk(p + '/configmaps', cm('x', finalizers=['a.io/b']))
    c.delete(p, sel=lambda b: [b['kind'], b['spec'], b['status'].get('phase'), 'deletionTimestamp' in b['metadata']])
    c.post(p + '/configmaps', cm('y'))
    c.wait('content deleted', lambda: c.raw('GET', p + '/configmaps/x')['metadata.deletionTimestamp'], 90)
    c.wait('conditions', lambda: any(x['type'] == 'NamespaceFinalizersRemaining' and x['status'] == 'True' for x in c.raw('GET', p).body['status']['conditions']), 60)
    c.get(p, sel=lambda b: sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']))
    c.delete(p)
    c.raw('PATCH', p + '/configmaps/x', {'metadata': {'finalizers': None}}, ct=MP)
    c.gone(p, 90)


S('delete', 'default-namespaces', lambda c: [c.delete('/api/v1/namespaces/default'), c.delete('/api/v1/namespaces/kube-system')])


@sc('delete', 'pod-graceful')
def _(c):
    c.mk(c.pods(), pod('p'))
    c.wait('running', lambda: c.raw('GET', c.pods('p'))['status.phase'] == 'Running')
    c.delete(c.pods('p'), sel=lambda b: [b['kind'], b['metadata'].get('deletionGracePeriodSeconds'), 'deletionTimestamp' in b['metadata'], b['metadata'].get('generation')])
    c.gone(c.pods('p'))


@sc('delete', 'pod-grace-zero-and-unscheduled')
def _(c):
    c.mk(c.pods(), pod('p', pspec(schedulingGates=[{'name': 'x/y'}])))
    c.delete(c.pods('p'), sel=lambda b: [b['kind'], b['metadata'].get('deletionGracePeriodSeconds')])
    c.get(c.pods('p'))
    c.mk(c.pods(), pod('q'))
    c.wait('running', lambda: c.raw('GET', c.pods('q'))['status.phase'] == 'Running')
    c.delete(c.pods('q'), {'gracePeriodSeconds': 0}, sel=lambda b: [b['kind'], b['metadata'].get('deletionGracePeriodSeconds')])
    c.get(c.pods('q'))


# ================================================================================================ defaults


def dflt(gv, res, o):
    return lambda c: c.post(c.n(gv, res), o)


S('defaults', 'deployment', dflt('apps/v1', 'deployments', {k: v for k, v in dep('d').items()}))
S('defaults', 'daemonset', dflt('apps/v1', 'daemonsets', ds('d')))
S('defaults', 'job', dflt('batch/v1', 'jobs', job('j')))
S('defaults', 'pod-minimal', dflt('v1', 'pods', pod('p')))
S('defaults', 'pod-rich', dflt('v1', 'pods', pod('p', {'initContainers': [{'name': 'i', 'image': 'x', 'restartPolicy': 'Always'}], 'containers': [
    {'name': 'a', 'image': 'nginx:latest', 'ports': [{'containerPort': 80}], 'livenessProbe': {'httpGet': {'port': 80}}, 'readinessProbe': {'tcpSocket': {'port': 80}}, 'startupProbe': {'exec': {'command': ['x']}},
     'resources': {'limits': {'cpu': '0.5', 'memory': '128Mi'}}, 'env': [{'name': 'A', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}], 'securityContext': {'runAsUser': 1}, 'lifecycle': {'preStop': {'httpGet': {'port': 1}}}},
    {'name': 'b', 'image': 'busybox', 'livenessProbe': {'grpc': {'port': 5}}}],
    'volumes': [{'name': 'a', 'configMap': {'name': 'x'}}, {'name': 'b', 'secret': {'secretName': 's'}}, {'name': 'c', 'emptyDir': {}}, {'name': 'd', 'hostPath': {'path': '/x'}}, {'name': 'e', 'projected': {'sources': [{'serviceAccountToken': {'path': 't'}}]}}, {'name': 'f', 'downwardAPI': {'items': [{'path': 'l', 'fieldRef': {'fieldPath': 'metadata.labels'}}]}}]})))
S('defaults', 'service-clusterip', dflt('v1', 'services', svc('s')))
S('defaults', 'service-headless', dflt('v1', 'services', svc('s', clusterIP='None')))
S('defaults', 'service-externalname', dflt('v1', 'services', obj('v1', 'Service', 's', {'type': 'ExternalName', 'externalName': 'a.b.c'})))
S('defaults', 'pvc', dflt('v1', 'persistentvolumeclaims', obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1024Mi'}}})))
S('defaults', 'ingress', dflt('networking.k8s.io/v1', 'ingresses', obj('networking.k8s.io/v1', 'Ingress', 'i', {'rules': [{'host': 'a.b', 'http': {'paths': [{'path': '/', 'pathType': 'Prefix', 'backend': {'service': {'name': 's', 'port': {'number': 80}}}}]}}]})))
S('defaults', 'hpa', lambda c: [c.post(c.n('autoscaling/v2', 'horizontalpodautoscalers'), obj('autoscaling/v2', 'HorizontalPodAutoscaler', 'h', {'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'd'}})), c.post(c.n('autoscaling/v2', 'horizontalpodautoscalers'), obj('autoscaling/v2', 'HorizontalPodAutoscaler', 'h2', {'maxReplicas': 3, 'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': 'd'}, 'behavior': {'scaleDown': {'stabilizationWindowSeconds': 5}}, 'metrics': [{'type': 'Resource', 'resource': {'name': 'memory', 'target': {'type': 'AverageValue', 'averageValue': '500Mi'}}}]}))])
S('defaults', 'pdb', dflt('policy/v1', 'poddisruptionbudgets', obj('policy/v1', 'PodDisruptionBudget', 'p', {'minAvailable': '50%', 'selector': {'matchLabels': {'a': 'b'}}})))
S('defaults', 'configmap', dflt('v1', 'configmaps', cm('x')))
S('defaults', 'rbac', lambda c: [c.post(c.n('rbac.authorization.k8s.io/v1', 'roles'), obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'apiGroups': [''], 'resources': ['pods'], 'verbs': ['*']}])),
                                c.post(c.n('rbac.authorization.k8s.io/v1', 'rolebindings'), obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'r', roleRef={'kind': 'Role', 'name': 'r'}, subjects=[{'kind': 'ServiceAccount', 'name': 'default'}, {'kind': 'User', 'name': 'u'}]))])
S('defaults', 'serviceaccount', dflt('v1', 'serviceaccounts', obj('v1', 'ServiceAccount', 's')))
S('defaults', 'storageclass', lambda c: [c.cleanup('/apis/storage.k8s.io/v1/storageclasses/sc-' + c.u), c.post('/apis/storage.k8s.io/v1/storageclasses', obj('storage.k8s.io/v1', 'StorageClass', 'sc-' + c.u, provisioner='x.io/y'))])
S('defaults', 'lease', dflt('coordination.k8s.io/v1', 'leases', obj('coordination.k8s.io/v1', 'Lease', 'l', {'holderIdentity': 'me', 'leaseDurationSeconds': 15, 'renewTime': '2024-01-01T00:00:00.123456Z'})))
S('defaults', 'namespace', lambda c: [c.cleanup('/api/v1/namespaces/nn-' + c.u), c.post('/api/v1/namespaces', obj('v1', 'Namespace', 'nn-' + c.u))])
S('defaults', 'pv', lambda c: [c.cleanup('/api/v1/persistentvolumes/pv-' + c.u), c.post('/api/v1/persistentvolumes', obj('v1', 'PersistentVolume', 'pv-' + c.u, {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteOnce'], 'hostPath': {'path': '/x'}}))])
S('defaults', 'endpoints-slice', lambda c: [c.post(c.n('v1', 'endpoints'), obj('v1', 'Endpoints', 'e', subsets=[{'addresses': [{'ip': '1.2.3.4'}], 'ports': [{'port': 80}]}])), c.post(c.n('discovery.k8s.io/v1', 'endpointslices'), obj('discovery.k8s.io/v1', 'EndpointSlice', 'e', addressType='IPv4', endpoints=[{'addresses': ['1.2.3.4']}], ports=[{'port': 80}]))])


# ================================================================================================ validation
def bad(gv, res, *objs, **k):
    return lambda c: [c.post(c.n(gv, res), o, **k) for o in objs]


S('validation', 'names', bad('v1', 'configmaps', cm('Bad_Name'), cm('x' * 254), cm('a..b'), cm('-a'), cm('a/b'), cm('..'), cm('')))
S('validation', 'labels', bad('v1', 'configmaps', cm('x', labels={'bad key': 'v'}), cm('x', labels={'k': 'bad value!'}), cm('x', labels={'a/b/c': 'v'}), cm('x', labels={'k': 'v' * 64}), cm('x', labels={'': 'v'})))
S('validation', 'owner-refs', bad('v1', 'configmaps', cm('x', ownerReferences=[{'apiVersion': 'v1', 'kind': 'Pod', 'name': 'p'}]), cm('x', ownerReferences=[{'kind': 'Pod'}]), cm('x', ownerReferences=[{'apiVersion': 'v1', 'kind': 'Pod', 'name': 'p', 'uid': 'u', 'controller': True}, {'apiVersion': 'v1', 'kind': 'Pod', 'name': 'q', 'uid': 'w', 'controller': True}])))
S('validation', 'configmap-wrong-types', bad('v1', 'configmaps', cm('x', {'a': 1}), cm('x', {'a': True}), cm('x', {'a': {'b': 'c'}}), cm('x', []), dict(cm('x'), binaryData={'a': '!!'})))
S('validation', 'deployment-required', bad('apps/v1', 'deployments', obj('apps/v1', 'Deployment', 'd', {}), obj('apps/v1', 'Deployment', 'd'), obj('apps/v1', 'Deployment', 'd', {'selector': {}, 'template': {}}), dep('d', 1, selector={'matchLabels': {'app': 'other'}})))


@sc('validation', 'deployment-selector-immutable')
def _(c):
    c.mk(c.dep(), dep('d', 0, paused=True))
    c.patch(c.dep('d'), {'spec': {'selector': {'matchLabels': {'app': 'z'}}, 'template': {'metadata': {'labels': {'app': 'z'}}}}})
    c.patch(c.dep('d'), {'spec': {'template': {'metadata': {'labels': {'app': 'z'}}}}})


S('validation', 'job-restart-policy', bad('batch/v1', 'jobs', dict(job('j'), spec={'template': {'spec': pspec()}}), job('j', manualSelector=True), job('j', completionMode='Foo')))


@sc('validation', 'statefulset-forbidden-update')
def _(c):
    p = c.n('apps/v1', 'statefulsets')
    c.mk(p, sts('s', 0))
    c.patch(p + '/s', {'spec': {'serviceName': 'other'}})
    c.patch(p + '/s', {'spec': {'volumeClaimTemplates': [{'metadata': {'name': 'v'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}]}})


@sc('validation', 'secret-type-immutable')
def _(c):
    p = c.n('v1', 'secrets')
    c.mk(p, obj('v1', 'Secret', 's', type='a/b'))
    c.patch(p + '/s', {'type': 'c/d'})
    c.patch(p + '/s', {'immutable': True}, sel=pick('immutable'))
    c.patch(p + '/s', {'data': {'a': 'YQ=='}})
    c.patch(p + '/s', {'immutable': False})


@sc('validation', 'service-clusterip-immutable')
def _(c):
    p = c.n('v1', 'services')
    c.mk(p, svc('s', clusterIP='None'))
    c.patch(p + '/s', {'spec': {'clusterIP': '10.96.77.77'}}, sel=status_only)
    c.mk(p, svc('t'))
    r = c.patch(p + '/t', {'spec': {'clusterIP': '10.96.77.78', 'clusterIPs': ['10.96.77.78']}}, sel=status_only)
    o = c.raw('GET', p + '/t').body
    o['spec'].pop('clusterIP', None)
    o['spec'].pop('clusterIPs', None)
    c.put(p + '/t', o, sel=lambda b: bool(b['spec'].get('clusterIP')))


S('validation', 'service-other', bad('v1', 'services', svc('s', type='Foo'), svc('s', type='ExternalName'), svc('s', clusterIP='1.2.3'), svc('s', sessionAffinity='X'), svc('s', ports=[{'port': 80, 'nodePort': 30001}]), svc('s', externalTrafficPolicy='Local'), svc('s', type='NodePort', ports=[{'port': 80, 'nodePort': 80}])))


@sc('validation', 'pvc-shrink')
def _(c):
    p = c.n('v1', 'persistentvolumeclaims')
    c.mk(p, obj('v1', 'PersistentVolumeClaim', 'p', {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '2Gi'}}}))
    c.patch(p + '/p', {'spec': {'resources': {'requests': {'storage': '1Gi'}}}}, sel=status_only)
    c.patch(p + '/p', {'spec': {'accessModes': ['ReadWriteMany']}}, sel=status_only)
    c.post(p, obj('v1', 'PersistentVolumeClaim', 'q', {'resources': {'requests': {'storage': '2Gi'}}}))
    c.post(p, obj('v1', 'PersistentVolumeClaim', 'q', {'accessModes': ['Foo'], 'resources': {}}))


@sc('validation', 'unknown-fields')
def _(c):
    for v in ('Strict', 'Warn', 'Ignore', 'Bogus'):
        c.post(c.cm(), dict(cm('x-' + v.lower()), bogus=1, metadata={'name': 'x-' + v.lower(), 'foo': 'bar'}), q={'fieldValidation': v})
    c.post(c.cm(), dict(cm('x'), bogus=1))
    c.post(c.dep(), dep('d', 0, template={'metadata': {'labels': {'app': 'd'}}, 'spec': {'containers': [{'name': 'c', 'image': 'i', 'imagee': 'j'}]}}), q={'fieldValidation': 'Strict'})


S('validation', 'case-insensitive-fields', lambda c: [c.post(c.cm(), '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"Data":{"a":"1"}}'), c.post(c.cm(), '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"Name":"y"}}')])
S('validation', 'pod-required', bad('v1', 'pods', pod('p', {'containers': []}), obj('v1', 'Pod', 'p'), pod('p', {'containers': [{'name': 'c'}]}), pod('p', {'containers': [{'image': 'x'}]}), pod('p', {'containers': [{'name': 'Bad', 'image': 'x'}]}), pod('p', {'containers': [{'name': 'a', 'image': 'x'}, {'name': 'a', 'image': 'y'}]})))


def ctr(**k):
    return pod('p', {'containers': [dict({'name': 'c', 'image': 'x'}, **k)]})


S('validation', 'pod-probes', bad('v1', 'pods', ctr(livenessProbe={}), ctr(livenessProbe={'httpGet': {'port': 80}, 'tcpSocket': {'port': 80}}), ctr(livenessProbe={'httpGet': {'path': '/'}}), ctr(livenessProbe={'httpGet': {'port': 0}}), ctr(livenessProbe={'tcpSocket': {'port': 80}, 'periodSeconds': -1}), ctr(livenessProbe={'tcpSocket': {'port': 80}, 'successThreshold': 2}), ctr(readinessProbe={'httpGet': {'port': 'noname!'}})))
S('validation', 'pod-ports-env', bad('v1', 'pods', ctr(ports=[{'containerPort': 0}]), ctr(ports=[{'containerPort': 80, 'name': 'TOOLONGNAMEFORAPORTX'}]), ctr(ports=[{'containerPort': 80, 'protocol': 'X'}]), ctr(ports=[{'name': 'a', 'containerPort': 80}, {'name': 'a', 'containerPort': 81}]), ctr(env=[{'name': ''}]), ctr(env=[{'name': 'A=B', 'value': 'x'}]), ctr(env=[{'name': 'A', 'value': 'x', 'valueFrom': {'fieldRef': {'fieldPath': 'metadata.name'}}}]), ctr(volumeMounts=[{'name': 'nope', 'mountPath': '/x'}])))


@sc('validation', 'pod-immutable')
def _(c):
    c.mk(c.pods(), pod('p', pspec(schedulingGates=[{'name': 'x/y'}])))
    c.patch(c.pods('p'), {'spec': {'restartPolicy': 'Never'}}, sel=status_only)
    c.patch(c.pods('p'), {'spec': {'containers': [{'name': 'c', 'env': [{'name': 'A', 'value': 'b'}]}]}}, SMP, sel=status_only)
    c.patch(c.pods('p'), {'spec': {'containers': [{'name': 'c', 'image': 'new'}]}}, SMP, sel=pick('spec.containers.0.image'))
    c.patch(c.pods('p'), {'spec': {'nodeName': 'x'}}, sel=status_only)


S('validation', 'cronjob', bad('batch/v1', 'cronjobs', *[obj('batch/v1', 'CronJob', 'c', dict({'schedule': '* * * * *', 'jobTemplate': {'spec': job('x')['spec']}}, **s)) for s in ({'schedule': 'bad'}, {'schedule': ''}, {'concurrencyPolicy': 'X'}, {'timeZone': 'Nowhere/X'}, {'startingDeadlineSeconds': -1}, {'schedule': 'TZ=UTC * * * * *'})]))


@sc('validation', 'rbac')
def _(c):
    p = c.n('rbac.authorization.k8s.io/v1', 'rolebindings')
    c.post(c.n('rbac.authorization.k8s.io/v1', 'roles'), obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'resources': ['pods']}]))
    c.post(c.n('rbac.authorization.k8s.io/v1', 'roles'), obj('rbac.authorization.k8s.io/v1', 'Role', 'r', rules=[{'verbs': ['get'], 'nonResourceURLs': ['/x']}]))
    c.post(p, obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'r', roleRef={'kind': 'Foo', 'name': 'r'}))
    c.post(p, obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'r', roleRef={'kind': 'Role', 'name': 'r'}, subjects=[{'kind': 'User'}]))
    c.mk(p, obj('rbac.authorization.k8s.io/v1', 'RoleBinding', 'ok', roleRef={'kind': 'Role', 'name': 'r'}))
    c.patch(p + '/ok', {'roleRef': {'name': 'other'}})


S('validation', 'netpol', bad('networking.k8s.io/v1', 'networkpolicies', *[obj('networking.k8s.io/v1', 'NetworkPolicy', 'n', s) for s in ({'podSelector': {}, 'policyTypes': ['X']}, {'podSelector': {}, 'ingress': [{'from': [{'ipBlock': {'cidr': 'bad'}}]}]}, {'podSelector': {'matchExpressions': [{'key': 'a', 'operator': 'In'}]}}, {'podSelector': {}, 'ingress': [{'from': [{}]}]})]))
S('validation', 'priorityclass-storageclass', lambda c: [c.post('/apis/scheduling.k8s.io/v1/priorityclasses', obj('scheduling.k8s.io/v1', 'PriorityClass', 'system-x' + c.u, value=5)), c.post('/apis/scheduling.k8s.io/v1/priorityclasses', obj('scheduling.k8s.io/v1', 'PriorityClass', 'x' + c.u, value=2000000000)), c.post('/apis/storage.k8s.io/v1/storageclasses', obj('storage.k8s.io/v1', 'StorageClass', 'x' + c.u)), c.post('/apis/storage.k8s.io/v1/storageclasses', obj('storage.k8s.io/v1', 'StorageClass', 'x' + c.u, provisioner='a/b', volumeBindingMode='X', reclaimPolicy='Y'))])


# ================================================================================================ crd
@sc('crd', 'create-established')
def _(c):
    o = crd(c, OPEN)
    c.cleanup(CRDS + '/' + o['metadata']['name'])
    c.post(CRDS, o, sel=lambda b: no_mf({k: v for k, v in b.items() if k != 'status'}))
    p = CRDS + '/' + o['metadata']['name']
    c.wait('established', lambda: any(x['type'] == 'Established' and x['status'] == 'True' for x in c.raw('GET', p).body['status']['conditions']))
    c.get(p, sel=lambda b: {'cond': sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']), 'names': b['status']['acceptedNames'], 'stored': b['status']['storedVersions'], 'gen': b['metadata']['generation']})


@sc('crd', 'discovery-of-cr')
def _(c):
    p = mkcrd(c, crd(c, OPEN, subresources={'status': {}, 'scale': {'specReplicasPath': '.spec.replicas', 'statusReplicasPath': '.status.replicas'}}))
    c.until(lambda: c.raw('GET', '/apis/%s.example.com/v1' % c.u).code == 200, 10)
    c.get('/apis/%s.example.com/v1' % c.u, sel=strip_hash)
    c.get('/apis/%s.example.com' % c.u)


@sc('crd', 'cr-crud')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': OPEN})))
    c.post(p, cr(c, 'w', {'a': 1, 'b': {'c': [1, 2]}, 'f': 1.5, 'big': 12345678901234}))
    o = c.get(p + '/w').body
    c.post(p, cr(c, 'w', {}))
    o['spec'] = {'a': 2}
    c.put(p + '/w', o)
    c.put(p + '/w', o)
    c.put(p + '/w', cr(c, 'w', {'a': 3}))
    c.patch(p + '/w', {'spec': {'z': True}}, sel=pick('spec', 'metadata.generation'))
    c.patch(p + '/w', {'metadata': {'labels': {'a': 'b'}}}, sel=pick('spec', 'metadata.generation'))
    c.patch(p + '/w', {'spec': {'z': True}}, SMP)
    c.patch(p + '/w', [{'op': 'add', 'path': '/spec/y', 'value': 'x'}], JP, sel=pick('spec'))
    c.get(p, sel=no_mf)
    c.delete(p + '/w')
    c.get(p + '/w')


SCH = osch({'spec': osch({'size': {'type': 'integer', 'minimum': 1, 'maximum': 10}, 'name': {'type': 'string', 'pattern': '^[a-z]+$', 'maxLength': 5}, 'mode': {'type': 'string', 'enum': ['A', 'B'], 'default': 'A'}, 'tags': {'type': 'array', 'items': {'type': 'string'}, 'maxItems': 2}, 'opt': osch({'x': {'type': 'string', 'default': 'dx'}}), 'flag': {'type': 'boolean'}, 'ratio': {'type': 'number'}, 'nul': {'type': 'string', 'nullable': True}}, required=['size'])})


@sc('crd', 'schema-validation')
def _(c):
    p = mkcrd(c, crd(c, SCH))
    for s in ({}, {'size': 0}, {'size': 11}, {'size': 'x'}, {'size': 1, 'name': 'ABC'}, {'size': 1, 'name': 'toolong'}, {'size': 1, 'mode': 'C'}, {'size': 1, 'tags': ['a', 'b', 'c']}, {'size': 1, 'tags': [1]}, {'size': 1.5}, {'size': 1, 'flag': 'yes'}, {'size': 1, 'nul': None, 'name': None}, {'size': 0, 'name': 'X9', 'mode': 'Z'}):
        c.post(p, cr(c, 'w', s), q={'dryRun': 'All'}, label=json.dumps(s))
    c.post(p, cr(c, 'w'), label='no spec')


@sc('crd', 'defaulting')
def _(c):
    p = mkcrd(c, crd(c, SCH))
    c.post(p, cr(c, 'w', {'size': 1, 'opt': {}}))
    c.patch(p + '/w', {'spec': {'mode': None}}, sel=pick('spec', 'metadata.generation'))


@sc('crd', 'status-subresource')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': OPEN, 'status': OPEN}), subresources={'status': {}}))
    c.post(p, cr(c, 'w', {'a': 1}, status={'s': 1}), sel=no_mf)
    c.patch(p + '/w', {'status': {'s': 2}, 'spec': {'a': 2}}, sel=no_mf)
    c.patch(p + '/w/status', {'status': {'s': 3}, 'spec': {'a': 9}, 'metadata': {'labels': {'x': 'y'}}}, sel=no_mf)
    c.get(p + '/w/status', sel=no_mf)
    o = c.raw('GET', p + '/w').body
    o['status'] = {'ok': True}
    c.put(p + '/w/status', o, sel=lambda b: [mf(b), b['status'], b['metadata']['generation']])


@sc('crd', 'printer-columns')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': OPEN}), columns=[{'name': 'Size', 'type': 'integer', 'jsonPath': '.spec.size'}, {'name': 'Mode', 'type': 'string', 'jsonPath': '.spec.mode', 'priority': 1, 'description': 'the mode'}, {'name': 'Age', 'type': 'date', 'jsonPath': '.metadata.creationTimestamp'}]))
    c.mk(p, cr(c, 'w', {'size': 3, 'mode': 'x'}))
    c.mk(p, cr(c, 'w2', {}))
    c.get(p, accept=TABLE, sel=tab)


@sc('crd', 'preserve-unknown')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': osch({'known': {'type': 'string'}, 'free': OPEN}), 'x': {'x-kubernetes-preserve-unknown-fields': True}})))
    c.post(p, cr(c, 'w', {'known': 'a', 'unk': 1, 'free': {'any': {'thing': [1, 'a', None, {'b': None}]}}}, x=[1, 'b'], y=2), sel=no_mf)
    c.post(p, cr(c, 'w2', {'known': 3, 'free': 'notobject'}))


LM = osch({'spec': osch({'items': {'type': 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['id'], 'items': osch({'id': {'type': 'string'}, 'v': {'type': 'integer'}}, required=['id'])}, 'set': {'type': 'array', 'x-kubernetes-list-type': 'set', 'items': {'type': 'string'}}, 'plain': {'type': 'array', 'items': {'type': 'string'}}, 'amap': {'type': 'object', 'x-kubernetes-map-type': 'atomic', 'additionalProperties': {'type': 'string'}}, 'gmap': {'type': 'object', 'additionalProperties': {'type': 'string'}}})})


@sc('crd', 'ssa-list-map')
def _(c):
    p = mkcrd(c, crd(c, LM))
    c.apply(p + '/w', cr(c, 'w', {'items': [{'id': 'a', 'v': 1}, {'id': 'b', 'v': 2}], 'set': ['x'], 'plain': ['p'], 'amap': {'k': 'v'}, 'gmap': {'k': 'v'}}))
    c.apply(p + '/w', cr(c, 'w', {'items': [{'id': 'c', 'v': 3}], 'set': ['y'], 'gmap': {'k2': 'v'}}), 'mgr-b')
    c.apply(p + '/w', cr(c, 'w', {'items': [{'id': 'a', 'v': 9}], 'plain': ['q']}), 'mgr-b')
    c.apply(p + '/w', cr(c, 'w', {'items': [{'id': 'b', 'v': 2}]}), sel=lambda b: [mf(b), b['spec']])


@sc('crd', 'delete-removes-crs')
def _(c):
    o = crd(c, osch({'spec': OPEN}))
    p = mkcrd(c, o)
    c.mk(p, cr(c, 'w', {}))
    c.mk(p, cr(c, 'fin', {}, metadata={'name': 'fin', 'finalizers': ['a.io/b']}))
    c.delete(CRDS + '/' + o['metadata']['name'], sel=lambda b: [b['kind'], b.get('status') if b['kind'] == 'Status' else [b['metadata']['finalizers'], 'deletionTimestamp' in b['metadata']]])
    c.wait('cr gone', lambda: c.raw('GET', p + '/w').code == 404, 15)
    c.wait('cr fin terminating', lambda: c.raw('GET', p + '/fin')['metadata.deletionTimestamp'], 15)
    c.raw('PATCH', p + '/fin', {'metadata': {'finalizers': None}}, ct=MP)
    c.gone(CRDS + '/' + o['metadata']['name'])
    c.wait('path 404', lambda: c.raw('GET', p).code == 404)
    c.get(p)


@sc('crd', 'two-versions')
def _(c):
    vs = [{'name': 'v1', 'served': True, 'storage': True, 'schema': {'openAPIV3Schema': OPEN}}, {'name': 'v1beta1', 'served': True, 'storage': False, 'deprecated': True, 'schema': {'openAPIV3Schema': OPEN}}, {'name': 'v1alpha1', 'served': False, 'storage': False, 'schema': {'openAPIV3Schema': OPEN}}]
    p = mkcrd(c, crd(c, OPEN, versions=vs))
    c.post(p, cr(c, 'w', {'a': 1}), sel=no_mf)
    pb = p.replace('/v1/', '/v1beta1/')
    c.get(pb + '/w', sel=no_mf)
    c.post(pb, cr(c, 'w2', {'a': 1}, v='v1beta1'), sel=no_mf)
    c.post(pb, cr(c, 'w3', {'a': 1}))
    c.get(p.replace('/v1/', '/v1alpha1/'))
    c.get(p, sel=lambda b: [[i['apiVersion'], i['metadata']['name']] for i in b['items']])
    c.get('/apis/%s.example.com' % c.u)


@sc('crd', 'cluster-scoped')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': OPEN}), scope='Cluster'))
    c.post(p, cr(c, 'w', {'a': 1}), sel=no_mf)
    c.post(p, dict(cr(c, 'w2', {}), metadata={'name': 'w2', 'namespace': 'x'}))
    c.get('/apis/%s.example.com/v1/namespaces/%s/widgets' % (c.u, c.ns))
    c.get(p, sel=names)


@sc('crd', 'watch-cr')
def _(c):
    p = mkcrd(c, crd(c, osch({'spec': OPEN})))
    rv = c.raw('GET', p)['metadata.resourceVersion']

    def act():
        c.raw('POST', p, cr(c, 'w', {'a': 1}))
        c.raw('PATCH', p + '/w', {'spec': {'a': 2}}, ct=MP)
        c.raw('DELETE', p + '/w')
    c.watch(p, {'resourceVersion': rv}, n=3, actions=act, sel=lambda e: [e['type'], dig(e, 'object.spec'), dig(e, 'object.kind')])


# ================================================================================================ workloads


def rolled(c, n='d'):
    def f():
        o = c.raw('GET', c.dep(n)).body
        s = o['status']
        r = o['spec']['replicas']
        return s.get('observedGeneration') == o['metadata']['generation'] and s.get('updatedReplicas', 0) == r and s.get('replicas', 0) == r and s.get('availableReplicas', 0) == r and s.get('readyReplicas', 0) == r and not s.get('terminatingReplicas') and any(x.get('reason') == 'NewReplicaSetAvailable' for x in s['conditions'])
    return f


def rss(c):
    r = c.raw('GET', c.n('apps/v1', 'replicasets')).body
    return sorted([[i['spec']['replicas'], i['status'].get('replicas'), i['status'].get('readyReplicas'), dig(i, 'metadata.annotations'), i['spec']['template']['spec']['containers'][0]['image']] for i in r['items']], key=lambda x: x[4])


@sc('workloads', 'deployment-available')
def _(c):
    c.mk(c.dep(), dep('d', 2))
    c.wait('rolled', rolled(c))
    c.get(c.dep('d'), sel=lambda b: {'ann': b['metadata'].get('annotations'), 'status': dict(b['status'], conditions=sorted([{k: v for k, v in x.items()} for x in b['status']['conditions']], key=lambda x: x['type']))})
    c.rec('rs', rss(c))


@sc('workloads', 'replicaset-object')
def _(c):
    c.mk(c.dep(), dep('d', 1))
    c.wait('rolled', rolled(c))
    c.get(c.n('apps/v1', 'replicasets'), sel=lambda b: [{k: v for k, v in i.items()} for i in no_mf(b)['items']])


@sc('workloads', 'rolling-update-and-rollback')
def _(c):
    c.mk(c.dep(), dep('d', 2))
    c.wait('rolled 1', rolled(c))
    c.raw('PATCH', c.dep('d'), {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:2'}]}}}}, ct=SMP)
    c.wait('rolled 2', rolled(c))
    c.rec('rs', rss(c))
    c.get(c.dep('d'), sel=pick('metadata.annotations', 'metadata.generation', 'status.observedGeneration'))
    c.raw('PATCH', c.dep('d'), {'spec': {'template': {'spec': {'containers': [{'name': 'c', 'image': 'nginx:1'}]}}}}, ct=SMP)
    c.wait('rolled 3', rolled(c))
    c.rec('rs', rss(c))
    c.get(c.dep('d'), sel=pick('metadata.annotations'))


@sc('workloads', 'failing-image')
def _(c):
    c.mk(c.dep(), dep('d', 1, ann=c.ff('imagepull'), progressDeadlineSeconds=2))
    c.wait('progress deadline', lambda: any(x['type'] == 'Progressing' and x['status'] == 'False' for x in c.raw('GET', c.dep('d')).body['status']['conditions']))
    c.get(c.dep('d'), sel=lambda b: dict(b['status'], conditions=sorted([[x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']])))
    c.get(c.pods(), sel=lambda b: [[i['status']['phase'], dig(i, 'status.containerStatuses.0.state.waiting.reason')] for i in b['items']])


@sc('workloads', 'deployment-scale-down-zero')
def _(c):
    c.mk(c.dep(), dep('d', 3))
    c.wait('rolled', rolled(c))
    c.patch(c.dep('d') + '/scale', {'spec': {'replicas': 0}}, sel=lambda b: [b['kind'], b['spec'], b['status'].get('selector')])
    c.wait('pods gone', lambda: not names(c.raw('GET', c.pods()).body))
    c.wait('status 0', lambda: not c.raw('GET', c.dep('d')).body['status'].get('replicas'))
    c.get(c.dep('d'), sel=lambda b: {k: v for k, v in b['status'].items() if k not in ('conditions', 'terminatingReplicas')})


@sc('workloads', 'statefulset-order')
def _(c):
    p = c.n('apps/v1', 'statefulsets')
    rv = c.raw('GET', c.pods())['metadata.resourceVersion']
    c.mk(p, sts('s', 3))
    c.wait('ready', lambda: c.raw('GET', p + '/s')['status.readyReplicas'] == 3)
    c.wait('status', lambda: c.raw('GET', p + '/s')['status.availableReplicas'] == 3)
    c.get(p + '/s', sel=lambda b: b['status'])
    ps = {i['metadata']['name']: i for i in c.raw('GET', c.pods()).body['items']}
    c.rec('pods', {k: [v['metadata']['labels'], dig(v, 'spec.hostname'), dig(v, 'spec.subdomain')] for k, v in ps.items()})
    c.watch(c.pods(), {'resourceVersion': rv}, n=40, timeout=2, label='skip', sel=lambda e: None) if False else None
    t = [ps[k]['metadata']['creationTimestamp'] for k in sorted(ps)]
    c.rec('created in order', t == sorted(t))
    c.raw('PATCH', p + '/s', {'spec': {'replicas': 1}}, ct=MP)
    c.wait('scaled down', lambda: names(c.raw('GET', c.pods()).body) == ['s-0'])


@sc('workloads', 'statefulset-parallel-and-pvc')
def _(c):
    p = c.n('apps/v1', 'statefulsets')
    c.mk(p, sts('s', 2, ann=c.ff('unready'), podManagementPolicy='Parallel', volumeClaimTemplates=[{'metadata': {'name': 'v'}, 'spec': {'accessModes': ['ReadWriteOnce'], 'storageClassName': 'none', 'resources': {'requests': {'storage': '1Gi'}}}}]))
    c.wait('both', lambda: names(c.raw('GET', c.pods()).body) == ['s-0', 's-1'])
    c.wait('pvcs', lambda: len(names(c.raw('GET', c.n('v1', 'persistentvolumeclaims')).body)) == 2)
    c.get(c.n('v1', 'persistentvolumeclaims'), sel=lambda b: [[i['metadata']['name'], i['metadata'].get('labels'), i['spec'].get('volumeName')] for i in b['items']])


@sc('workloads', 'job-complete')
def _(c):
    p = c.n('batch/v1', 'jobs')
    c.mk(p, job('j', completions=2, parallelism=2))
    c.wait('complete', lambda: any(x['type'] == 'Complete' and x['status'] == 'True' for x in c.raw('GET', p + '/j').body['status']['conditions']))
    c.get(p + '/j', sel=lambda b: {'labels': b['metadata'].get('labels'), 'tl': b['spec']['template']['metadata'].get('labels'), 'sel': b['spec']['selector'], 'status': {k: v for k, v in b['status'].items() if k != 'conditions'}, 'cond': sorted([x['type'], x['status'], x.get('reason')] for x in b['status']['conditions'])})


@sc('workloads', 'job-suspended-and-ttl')
def _(c):
    p = c.n('batch/v1', 'jobs')
    c.mk(p, job('j', suspend=True, ttlSecondsAfterFinished=0))
    c.wait('suspended', lambda: any(x['type'] == 'Suspended' for x in c.raw('GET', p + '/j').body['status']['conditions']))
    c.get(c.pods(), sel=names)
    c.raw('PATCH', p + '/j', {'spec': {'suspend': False}}, ct=MP)
    c.gone(p + '/j', 20)


@sc('workloads', 'daemonset')
def _(c):
    p = c.n('apps/v1', 'daemonsets')
    nn = len(c.raw('GET', '/api/v1/nodes').body.get('items') or [])
    c.mk(p, ds('d'))
    c.wait('ready', lambda: c.raw('GET', p + '/d')['status.numberReady'] == nn and c.raw('GET', p + '/d')['status.numberAvailable'] == nn)
    c.rec('all numbers equal the node count', [c.raw('GET', p + '/d')['status.' + k] == nn for k in ('currentNumberScheduled', 'desiredNumberScheduled', 'numberReady', 'updatedNumberScheduled')])
    c.get(c.pods(), sel=lambda b: [sorted(t['key'] for t in b['items'][0]['spec']['tolerations']), b['items'][0]['metadata']['ownerReferences'], b['items'][0]['metadata']['generateName']])
    c.get(c.n('apps/v1', 'controllerrevisions'), sel=lambda b: [[i['revision'], i['data']] for i in b['items']])


@sc('workloads', 'scale-subresource')
def _(c):
    c.mk(c.dep(), dep('d', 1))
    c.wait('rolled', rolled(c))
    o = c.get(c.dep('d') + '/scale').body
    o['spec']['replicas'] = 2
    c.put(c.dep('d') + '/scale', o, sel=lambda b: [b['spec'], b['status'].get('selector')])
    c.put(c.dep('d') + '/scale', o)
    c.wait('rolled', rolled(c))


@sc('workloads', 'endpoints-and-slices')
def _(c):
    c.mk(c.n('v1', 'services'), svc('d', ports=[{'name': 'http', 'port': 80, 'targetPort': 8080}]))
    c.mk(c.dep(), dep('d', 2))
    c.wait('rolled', rolled(c))
    c.wait('slice', lambda: len([e for e in c.raw('GET', c.n('discovery.k8s.io/v1', 'endpointslices')).body['items'][0]['endpoints'] if e['conditions']['ready']]) == 2)
    c.get(c.n('discovery.k8s.io/v1', 'endpointslices'), sel=lambda b: [[{k: v for k, v in i['metadata'].items() if k in ('generateName', 'labels', 'ownerReferences')}, i['addressType'], i['ports'], [sorted(e) + [e['conditions'], e['targetRef']['kind']] for e in i['endpoints']]] for i in b['items']])
    c.wait('ep', lambda: len(c.raw('GET', c.n('v1', 'endpoints', 'd')).body['subsets'][0]['addresses']) == 2)
    c.get(c.n('v1', 'endpoints', 'd'), sel=lambda b: [b['metadata'].get('labels'), b['subsets'][0]['ports'], [sorted(a) for a in b['subsets'][0]['addresses']]])


@sc('workloads', 'crashloop')
def _(c):
    c.mk(c.dep(), dep('d', 1, ann=c.ff('crashloop')))
    c.wait('crashing', lambda: dig(c.raw('GET', c.pods()).body, 'items.0.status.containerStatuses.0.state.waiting.reason') == 'CrashLoopBackOff')
    c.wait('unavailable', lambda: c.raw('GET', c.dep('d'))['status.unavailableReplicas'] == 1)
    c.get(c.dep('d'), sel=lambda b: sorted([x['type'], x['status'], x['reason'], x['message']] for x in b['status']['conditions']))


# ================================================================================================ misc
S('misc', 'dry-run', lambda c: [c.post(c.cm(), cm('x'), q={'dryRun': 'All'}), c.get(c.cm('x')), c.post(c.cm(), cm('x'), q={'dryRun': 'Some'}), c.mk(c.cm(), cm('y')), c.put(c.cm('y'), cm('y', {'n': '1'}), q={'dryRun': 'All'}), c.get(c.cm('y'), sel=pick('data')), c.post(c.n('v1', 'services'), svc('s'), q={'dryRun': 'All'}, sel=pick('spec'))])


@sc('misc', 'generate-name')
def _(c):
    r = c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'generateName': 'gen-'}})
    n = r['metadata.name'] or ''
    c.rec('shape', bool(re.match(r'^gen-[bcdfghjklmnpqrstvwxz2456789]{5}$', n)))
    for k in (58, 59, 100, 247, 248, 249, 253, 254, 300):
        r = c.raw('POST', c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'generateName': 'x' * k}})
        c.rec('len of a name generated from %d characters' % k, [r.code, len(r['metadata.name'] or '')])
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'generateName': 'Bad_'}}, sel=status_only)
    c.post(c.cm(), {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {}})


S('misc', 'self-subject-access-review', lambda c: [c.post('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SelfSubjectAccessReview', 'spec': {'resourceAttributes': {'verb': 'create', 'resource': 'pods', 'namespace': 'x'}}}, sel=lambda b: [b['kind'], b['spec'], b['status'].get('allowed')]), c.post('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SelfSubjectAccessReview', 'spec': {}})])
S('misc', 'self-subject-rules-review', lambda c: c.post('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', {'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SelfSubjectRulesReview', 'spec': {'namespace': 'default'}}, sel=lambda b: [b['kind'], sorted(b['status']), b['status']['incomplete']]))
S('misc', 'not-found-paths', lambda c: [c.get('/nope'), c.get('/api/v1/nope'), c.get('/api/v2'), c.get('/apis/apps/v1/namespaces/%s/nope' % c.ns), c.get(c.cm('x') + '/status'), c.get(c.n('v1', 'nope', 'x'))])
S('misc', 'unsupported-media-type', lambda c: [c.post(c.cm(), 'a=b', ct='application/x-www-form-urlencoded'), c.post(c.cm(), 'x', ct='text/plain'), c.post(c.cm(), cm('x'), ct='application/xml')])
S('misc', 'content-type-with-charset', lambda c: [c.post(c.cm(), cm('x'), ct='application/json; charset=utf-8', sel=pick('data')), c.post(c.cm(), json.dumps(cm('y')), headers={'Content-Type': ''}, sel=pick('data'))])


@sc('misc', 'pretty-and-gzip')
def _(c):
    c.mk(c.cm(), cm('x'))
    r = c.raw('GET', c.cm('x'), q={'pretty': 'true'})
    c.rec('pretty', [r.code, r.raw.startswith(b'{\n  "kind"'), r.raw[:1].decode()])
    r = c.raw('GET', c.cm('x'))
    c.rec('compact', [b'\n' in r.raw.rstrip(b'\n'), r.raw.endswith(b'\n'), r.raw.startswith(b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"')])
    c.rec('cache headers', [r.headers.get('Cache-Control'), bool(r.headers.get('Audit-Id'))])


S('misc', 'deprecated-warning', lambda c: [c.get(c.n('v1', 'endpoints'), sel=lambda b: b['kind']), c.get('/api/v1/componentstatuses', sel=lambda b: b['kind'])])


@sc('misc', 'events')
def _(c):
    e = {'apiVersion': 'v1', 'kind': 'Event', 'metadata': {'name': 'e1'}, 'involvedObject': {'kind': 'Pod', 'namespace': c.ns, 'name': 'p', 'apiVersion': 'v1'}, 'reason': 'R', 'message': 'm', 'type': 'Normal', 'count': 1, 'firstTimestamp': '2024-01-01T00:00:00Z', 'lastTimestamp': '2024-01-01T00:00:00Z', 'source': {'component': 'x'}}
    c.post(c.n('v1', 'events'), e)
    c.get(c.n('v1', 'events'), q={'fieldSelector': 'involvedObject.name=p,involvedObject.kind=Pod'}, sel=names)
    c.get(c.n('v1', 'events'), q={'fieldSelector': 'reason=Z'}, sel=names)
    c.get(c.n('events.k8s.io/v1', 'events', 'e1'), sel=no_mf)
    c.post(c.n('v1', 'events'), dict(e, metadata={'name': 'e2'}, involvedObject={'kind': 'Pod', 'namespace': 'other', 'name': 'p'}))
    c.post(c.n('events.k8s.io/v1', 'events'), {'apiVersion': 'events.k8s.io/v1', 'kind': 'Event', 'metadata': {'name': 'e3'}, 'reason': 'x'})


@sc('misc', 'token-request')
def _(c):
    c.mk(c.n('v1', 'serviceaccounts'), obj('v1', 'ServiceAccount', 's'))
    p = c.n('v1', 'serviceaccounts', 's') + '/token'
    c.post(p, {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {'expirationSeconds': 600, 'audiences': ['x']}}, sel=lambda b: [b['kind'], b['metadata'], b['spec'], sorted(b['status']), b['status']['token'].count('.')])
    c.post(p, {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {'expirationSeconds': 5}})
    c.post(c.n('v1', 'serviceaccounts', 'nope') + '/token', {'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {}})


S('misc', 'forbidden-impersonation', lambda c: [c.get(c.cm(), headers={'Impersonate-User': 'nobody-' + c.u}), c.post(c.cm(), cm('x'), headers={'Impersonate-User': 'nobody-' + c.u}), c.get('/api/v1/nodes', headers={'Impersonate-User': 'nobody-' + c.u}), c.get(c.dep('d'), headers={'Impersonate-User': 'system:serviceaccount:%s:default' % c.ns})])


@sc('misc', 'unauthorized')
def _(c):
    s = c.srv
    ctx = None
    if s.ssl:
        ctx = ssl.create_default_context()
        ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
    for h in ({'Authorization': 'Bearer nope'}, {}):
        k = http.client.HTTPSConnection(s.host, s.port, context=ctx, timeout=20) if ctx else http.client.HTTPConnection(s.host, s.port, timeout=20)
        k.request('GET', s.prefix + '/api/v1/namespaces', headers=h)
        r = k.getresponse()
        c.rec('unauth %s' % list(h), [r.status, r.headers.get('Content-Type'), json.loads(r.read())])
        k.close()


@sc('misc', 'pod-eviction-and-binding')
def _(c):
    c.mk(c.pods(), pod('p', pspec(schedulerName='nobody')))
    c.post(c.pods('p') + '/binding', {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'p'}, 'target': {'kind': 'Node', 'name': (c.srv.nodes or ['node-1'])[0]}})
    c.wait('running', lambda: c.raw('GET', c.pods('p'))['status.phase'] == 'Running')
    c.post(c.pods('p') + '/binding', {'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': 'p'}, 'target': {'kind': 'Node', 'name': 'x'}}, sel=status_only)
    c.post(c.pods('p') + '/eviction', {'apiVersion': 'policy/v1', 'kind': 'Eviction', 'metadata': {'name': 'p'}})
    c.gone(c.pods('p'))


S('misc', 'huge-object', lambda c: c.post(c.cm(), cm('x', {'a': 'v' * 3200000}), sel=status_only))


# ================================================================================================ kubectl
def ydump(*o):
    return yaml.safe_dump_all(o)


@sc('kubectl', 'apply-cycle')
def _(c):
    c.kubectl('apply', '-f', '-', stdin=ydump(cm('x'), dep('d', 0)))
    c.kubectl('apply', '-f', '-', stdin=ydump(cm('x'), dep('d', 0)))
    c.kubectl('apply', '-f', '-', stdin=ydump(cm('x', {'b': '2'}), dep('d', 0, 'nginx:2')))
    c.kubectl('get', 'cm', 'x', '-o', 'jsonpath={.data}')
    c.kubectl('get', 'deploy', 'd', '-o', 'jsonpath={.spec.template.spec.containers[0].image}')
    c.kubectl('delete', '-f', '-', '--wait=true', stdin=ydump(cm('x'), dep('d', 0)))


@sc('kubectl', 'apply-server-side')
def _(c):
    c.kubectl('apply', '--server-side', '-f', '-', stdin=ydump(cm('x'), dep('d', 0)))
    c.kubectl('apply', '--server-side', '--field-manager=other', '-f', '-', stdin=ydump(cm('x', {'a': '2'})))
    c.kubectl('apply', '--server-side', '--field-manager=other', '--force-conflicts', '-f', '-', stdin=ydump(cm('x', {'a': '2'})))
    c.kubectl('get', 'cm', 'x', '-o', 'jsonpath={.metadata.managedFields[*].manager}')


@sc('kubectl', 'diff')
def _(c):
    c.kubectl('apply', '-f', '-', stdin=ydump(cm('x')))
    c.kubectl('diff', '-f', '-', stdin=ydump(cm('x')))
    c.kubectl('diff', '-f', '-', stdin=ydump(cm('x', {'a': '2'})))
    c.kubectl('diff', '--server-side', '-f', '-', stdin=ydump(cm('y', {'a': '2'})))


@sc('kubectl', 'wait')
def _(c):
    c.kubectl('apply', '-f', '-', stdin=ydump(dep('d', 1)))
    c.kubectl('wait', '--for=condition=Available', 'deploy/d', '--timeout=60s')
    c.kubectl('wait', '--for=jsonpath={.status.readyReplicas}=1', 'deploy/d', '--timeout=30s')
    c.kubectl('wait', '--for=condition=Nope', 'deploy/d', '--timeout=1s')
    c.kubectl('delete', 'deploy', 'd', '--wait=false')
    c.kubectl('wait', '--for=delete', 'deploy/d', '--timeout=30s', norm=lambda t: [])


@sc('kubectl', 'scale-label-annotate')
def _(c):
    c.kubectl('apply', '-f', '-', stdin=ydump(dep('d', 0), cm('x')))
    c.kubectl('scale', 'deploy/d', '--replicas=1')
    c.kubectl('scale', 'deploy/d', '--current-replicas=5', '--replicas=2')
    c.kubectl('label', 'cm', 'x', 'a=b')
    c.kubectl('label', 'cm', 'x', 'a=c')
    c.kubectl('label', 'cm', 'x', 'a=c', '--overwrite')
    c.kubectl('label', 'cm', 'x', 'a-')
    c.kubectl('annotate', 'cm', 'x', 'x/y=z')
    c.kubectl('get', 'cm', 'x', '-o', 'jsonpath={.metadata.labels}{.metadata.annotations.x/y}')


S('kubectl', 'api-resources', lambda c: [c.kubectl('api-resources', '--api-group=apps'), c.kubectl('api-resources', '--api-group=batch', '-o', 'wide'), c.kubectl('api-resources', '--api-group=', '--namespaced=true')])


@sc('kubectl', 'get-wide')
def _(c):
    c.kubectl('apply', '-f', '-', stdin=ydump(dep('d', 1), svc('s', clusterIP='None'), cm('x')))
    c.kubectl('wait', '--for=condition=Available', 'deploy/d', '--timeout=60s')
    c.until(rolled(c), 10)
    c.kubectl('get', 'deploy,svc', '-o', 'wide')
    c.kubectl('get', 'pods', '-o', 'wide')
    c.kubectl('get', 'rs')
    c.kubectl('get', 'cm', 'x', '--show-labels')
    c.kubectl('get', 'cm', 'nope')
    c.kubectl('get', 'nope')
    c.kubectl('get', 'all')
    c.kubectl('get', 'cm', '-l', 'zz=1')


@sc('kubectl', 'create-and-dry-run')
def _(c):
    c.kubectl('create', 'cm', 'x', '--from-literal=a=b')
    c.kubectl('create', 'cm', 'x', '--from-literal=a=b')
    c.kubectl('create', 'cm', 'y', '--from-literal=a=b', '--dry-run=server', '-o', 'yaml')
    c.kubectl('create', 'secret', 'generic', 's', '--from-literal=a=b')
    c.kubectl('create', 'job', 'j', '--image=busybox')
    c.kubectl('create', '-f', '-', '--validate=strict', stdin=ydump(dict(cm('z'), bogus=1)))
    c.kubectl('apply', '-f', '-', stdin=ydump(dict(cm('z'), bogus=1)))
    c.kubectl('create', 'sa', 'sa')
    c.kubectl('create', 'token', 'sa')


@sc('kubectl', 'patch-replace-delete')
def _(c):
    c.kubectl('create', 'cm', 'x', '--from-literal=a=b')
    c.kubectl('patch', 'cm', 'x', '-p', '{"data":{"c":"d"}}')
    c.kubectl('patch', 'cm', 'x', '--type=json', '-p', '[{"op":"remove","path":"/data/a"}]')
    c.kubectl('patch', 'cm', 'x', '--type=merge', '-p', '{"data":{"c":null}}')
    c.kubectl('replace', '-f', '-', stdin=ydump(cm('x', {'z': '1'})))
    c.kubectl('replace', '-f', '-', stdin=ydump(cm('nope', {'z': '1'})))
    c.kubectl('get', 'cm', 'x', '-o', 'jsonpath={.data}')
    c.kubectl('delete', 'cm', 'x')
    c.kubectl('delete', 'cm', 'x')
    c.kubectl('delete', 'cm', 'x', '--ignore-not-found')


@sc('kubectl', 'crd-flow')
def _(c):
    o = crd(c, osch({'spec': SCH['properties']['spec']}), columns=[{'name': 'Size', 'type': 'integer', 'jsonPath': '.spec.size'}], plural=c.u + 's', kind='K' + c.u)
    c.cleanup(CRDS + '/' + o['metadata']['name'])
    c.kubectl('apply', '-f', '-', stdin=ydump(o))
    c.kubectl('wait', '--for=condition=Established', 'crd/' + o['metadata']['name'], '--timeout=30s')
    c.until(lambda: c.raw('GET', c.n('%s.example.com/v1' % c.u, 'widgets')).code == 200, 10)
    c.until(lambda: '%s.example.com' % c.u in json.dumps(c.raw('GET', '/apis', accept=AGG).body), 10)
    c.until(lambda: 'apis/%s.example.com/v1' % c.u in c.raw('GET', '/openapi/v3').body['paths'], 15)
    time.sleep(1)
    c.kubectl('apply', '-f', '-', stdin=ydump(cr(c, 'w', {'size': 3}, kind='K' + c.u)))
    c.kubectl('get', c.u + 's')
    c.kubectl('apply', '-f', '-', stdin=ydump(cr(c, 'w', {'size': 30}, kind='K' + c.u)))
    c.kubectl('explain', c.u + 's.spec')


S('kubectl', 'kustomize-list-sort', lambda c: [c.kubectl('apply', '-f', '-', stdin=ydump({'apiVersion': 'v1', 'kind': 'List', 'items': [cm('b'), cm('a')]})), c.kubectl('get', 'cm', 'a', 'b', '-o', 'name'), c.kubectl('get', 'cm', '--sort-by=.metadata.name', '-o', 'name'), c.kubectl('get', 'cm', '--field-selector=metadata.name=b', '--no-headers')])

# ================================================================================================ helm
CHART = []
clock = threading.Lock()


def chart():
    with clock:
        if not CHART:
            d = tempfile.mkdtemp(prefix='ds-chart-')
            subprocess.run([HELM, 'create', d + '/demo'], check=True, capture_output=True)
            CHART.append(d + '/demo')
    return CHART[0]


def hn(t):
    return [l for l in textnorm(t) if not l.startswith(('export ', 'echo ', 'kubectl ', 'LAST DEPLOYED'))]


@sc('helm', 'install-wait-uninstall')
def _(c):
    c.helm('install', 'rel', chart(), '--wait', '--timeout', '90s', norm=hn)
    c.kubectl('get', 'deploy,svc,sa', '-o', 'name')
    c.helm('list', norm=hn)
    c.kubectl('get', 'secret', '-l', 'owner=helm', '-o', 'jsonpath={range .items[*]}{.metadata.name} {.type} {.metadata.labels.status}{"\\n"}{end}')
    c.helm('uninstall', 'rel', '--wait', '--timeout', '60s', norm=hn)
    c.helm('list', norm=hn)
    c.kubectl('get', 'deploy,svc', '-o', 'name')


@sc('helm', 'upgrade-atomic-failure')
def _(c):
    c.helm('install', 'rel', chart(), '--wait', '--timeout', '90s', norm=hn)
    c.helm('upgrade', 'rel', chart(), '--atomic', '--timeout', '8s', '--set', 'podAnnotations.%s=imagepull' % (c.srv.fault + 'fail').replace('.', '\\.'), '--set', 'image.tag=bad', norm=lambda t: [re.sub(r'.*: (context deadline exceeded|timed out.*)', r'\1', l) for l in hn(t)])
    c.helm('history', 'rel', '-o', 'json', norm=lambda t: [[x['revision'], x['status']] for x in json.loads(t)] if t.strip().startswith('[') else t)
    c.kubectl('get', 'deploy', 'rel-demo', '-o', 'jsonpath={.spec.template.spec.containers[0].image}')


S('helm', 'install-existing-resource', lambda c: [c.mk(c.n('v1', 'services'), svc('rel-demo')), c.helm('install', 'rel', chart(), norm=hn), c.helm('list', '-a', norm=hn)])


@sc('helm', 'lookup-capabilities')
def _(c):
    d = tempfile.mkdtemp(prefix='ds-chart-')
    os.makedirs(d + '/c/templates')
    open(d + '/c/Chart.yaml', 'w').write('apiVersion: v2\nname: c\nversion: 0.1.0\n')
    open(d + '/c/templates/x.yaml', 'w').write('''apiVersion: v1
kind: ConfigMap
metadata: {name: out}
data:
  ns: {{ (lookup "v1" "Namespace" "" .Release.Namespace).metadata.name | quote }}
  missing: {{ lookup "v1" "ConfigMap" .Release.Namespace "nope" | toJson | quote }}
  apps: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}
  nope: {{ .Capabilities.APIVersions.Has "nope/v1" | quote }}
''')
    c.helm('install', 'rel', d + '/c', norm=hn)
    c.kubectl('get', 'cm', 'out', '-o', 'jsonpath={.data}')
    shutil.rmtree(d)


# ================================================================================================ runner
def run_side(srv, group, name, fn):
    c = Ctx(srv, group, name)
    try:
        fn(c)
    except Exception as e:
        c.rec('exception', '%s: %s' % (type(e).__name__, str(e)[:200]))
        if ARGS.verbose > 1:
            traceback.print_exc()
    finally:
        try:
            c.close()
        except Exception:
            pass
    return c.steps


def compare(sa, sb):
    out = []
    for i in range(max(len(sa), len(sb))):
        if i >= len(sa) or i >= len(sb):
            x = (sa if i < len(sa) else sb)[i]
            out.append((i, x[0], [('.', 'step' if i < len(sa) else '<no step>', 'step' if i < len(sb) else '<no step>')]))
            break
        (la, va), (lb, vb) = sa[i], sb[i]
        d = diff(va, vb)
        if d:
            out.append((i, la, d))
    return out


def short(v, n=160):
    s = json.dumps(v, sort_keys=True, ensure_ascii=False)
    return s if len(s) <= n else s[:n] + '…'


def run_one(sc_, A, B, pool):
    group, name, fn = sc_[:3]
    t = time.time()
    tries = 0
    while True:
        fa, fb = pool.submit(run_side, A, group, name, fn), pool.submit(run_side, B, group, name, fn)
        sa, sb = fa.result(), fb.result()
        d = compare(sa, sb)
        exc = [s for s in sa if s[0] == 'exception']
        if not d or tries >= ARGS.retries:
            return sc_, d, len(sa), time.time() - t, tries, exc, sa, sb
        tries += 1


def main():
    global ARGS, SLOW, HELM
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--a', help='kubeconfig of the reference')
    ap.add_argument('--b', help='kubeconfig of the candidate')
    ap.add_argument('--group', help='comma-separated groups')
    ap.add_argument('--only', help='comma-separated scenario names (or group/name)')
    ap.add_argument('--list', action='store_true')
    ap.add_argument('--jobs', type=int, default=4)
    ap.add_argument('--retries', type=int, default=0, help='re-run a differing scenario this often (reported as ok*)')
    ap.add_argument('--slow', type=float, default=1.0, help='multiply every bounded wait')
    ap.add_argument('--fault-a', default='sim/', help='annotation prefix of the fault injection of A')
    ap.add_argument('--fault-b', default='sim/')
    ap.add_argument('--helm', default=HELM)
    ap.add_argument('--json', help='write the results here')
    ap.add_argument('--max-diffs', type=int, default=4, help='diff lines shown per scenario without -v')
    ap.add_argument('-v', '--verbose', action='count', default=0)
    ARGS = ap.parse_args()
    SLOW, HELM = ARGS.slow, ARGS.helm
    todo = list(SCEN)
    dup = {(s[0], s[1]) for s in todo if [(x[0], x[1]) for x in todo].count((s[0], s[1])) > 1}
    if dup:
        sys.exit('duplicate scenario names: %s' % dup)
    if ARGS.group:
        todo = [s for s in todo if s[0] in ARGS.group.split(',')]
    if ARGS.only:
        w = ARGS.only.split(',')
        todo = [s for s in todo if s[1] in w or s[0] + '/' + s[1] in w]
    if ARGS.list:
        g = {}
        for s in todo:
            print('%-12s %s' % (s[0], s[1]))
            g[s[0]] = g.get(s[0], 0) + 1
        print(len(todo), g)
        return 0
    if not ARGS.a or not ARGS.b:
        ap.error('--a and --b are required')
    A, B = Server(ARGS.a, 'a', ARGS.fault_a), Server(ARGS.b, 'b', ARGS.fault_b)
    for s in (A, B):
        try:
            s.nodes = [n['metadata']['name'] for n in json.loads(s.request('GET', '/api/v1/nodes', None, {'Accept': JSON})[2]).get('items') or []]
        except (ValueError, KeyError, TypeError):
            pass
    if [s for s in todo if s[0] == 'helm']:
        chart()
    tot, res = {}, []
    t0 = time.time()
    with ThreadPoolExecutor(ARGS.jobs * 2 + 2) as pool, ThreadPoolExecutor(ARGS.jobs) as outer:
        for s, d, n, dt, tries, exc, sa, sb in outer.map(lambda s: run_one(s, A, B, pool), todo):
            g = tot.setdefault(s[0], [0, 0, 0])
            g[0] += 1
            g[1] += not d
            g[2] += bool(exc)
            res.append({'group': s[0], 'name': s[1], 'ok': not d, 'steps': n, 'seconds': round(dt, 2), 'diffs': [{'step': i, 'label': l, 'diff': x} for i, l, x in d]})
            print('%-5s %s/%s (%d steps, %.1fs)%s' % ('DIFF' if d else ('ok*' if tries else 'ok'), s[0], s[1], n, dt, ' [exception in A: %s]' % exc[0][1] if exc else ''), flush=True)
            k = 0
            for i, l, x in d:
                for p, a, b in x:
                    k += 1
                    if k <= ARGS.max_diffs or ARGS.verbose:
                        print('      step %d %s\n        %s: A=%s B=%s' % (i, l[:110], p, short(a, 2000 if ARGS.verbose else 160), short(b, 2000 if ARGS.verbose else 160)))
            if k > ARGS.max_diffs and not ARGS.verbose:
                print('      … %d more' % (k - ARGS.max_diffs))
            if ARGS.verbose > 1:
                for l, v in sa:
                    print('      A', l, short(v, 4000))
                if d:
                    for l, v in sb:
                        print('      B', l, short(v, 4000))
    print('--- totals (%.0fs)' % (time.time() - t0))
    for g, (n, ok, ex) in tot.items():
        print('%-12s %3d/%3d ok%s' % (g, ok, n, '  (%d with an exception in A)' % ex if ex else ''))
    n, ok = sum(v[0] for v in tot.values()), sum(v[1] for v in tot.values())
    print('%-12s %3d/%3d ok' % ('all', ok, n))
    if ARGS.json:
        with open(ARGS.json, 'w') as f:
            json.dump(res, f, indent=1, default=str)
    for s in (A, B):
        for p in s.trash:
            try:
                s.request('DELETE', p, None, {'Accept': JSON})
            except Exception:
                pass
    for d in CHART:
        shutil.rmtree(os.path.dirname(d), ignore_errors=True)
    for s in (A, B):
        shutil.rmtree(s.tmp, ignore_errors=True)
    return 0 if ok == n else 1


if __name__ == '__main__':
    sys.exit(main())

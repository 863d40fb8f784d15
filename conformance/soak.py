#!/usr/bin/env python3
"""soak: many clients, all verbs, restarts by kill -9; nothing acknowledged may be lost.

  soak.py SLIPWAY WORKDIR MINUTES [--seed N]

Checks that every acknowledged write is there after each restart, that every watch delivers each revision once and in
order across restarts, that all watches agree, and that memory stops growing in the half without restarts. Stdlib only.
"""
import http.client, json, os, random, re, shutil, signal, socket, ssl, subprocess, sys, threading, time, urllib.parse

SLIPWAY, WORK, MINUTES = sys.argv[1], os.path.abspath(sys.argv[2]), float(sys.argv[3])
SEED = int(sys.argv[sys.argv.index('--seed') + 1]) if '--seed' in sys.argv else int(time.time())
WRITERS, WATCHERS, KEYS = 8, 3, 25
NS = '/api/v1/namespaces/soak/configmaps'
FAILURES = []
STOP = threading.Event()


def fail(text):
    if len(FAILURES) < 20:
        print('FAIL', text, flush=True)
    FAILURES.append(text)


class Server:
    """The process under test."""

    def __init__(self):
        shutil.rmtree(WORK, ignore_errors=True)
        os.makedirs(WORK)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]
        self.kubeconfig = WORK + '/kubeconfig'
        self.restarts = 0
        self.start()

    def start(self):
        env = dict(os.environ, HOME=WORK)
        env.pop('XDG_STATE_HOME', None)
        if os.path.exists(self.kubeconfig):
            os.remove(self.kubeconfig)
        self.process = subprocess.Popen([SLIPWAY, 'sandbox', 'up', '--port', str(self.port), '--data-dir', WORK + '/data', '--speed', 'max', '--write-kubeconfig', self.kubeconfig], env=env, stderr=open(WORK + '/log', 'a'))
        end = time.time() + 60
        while time.time() < end:
            try:
                with open(self.kubeconfig) as f:
                    self.token = re.search(r'token: (\S+)', f.read()).group(1)
                if Client(self).call('GET', '/readyz')[0] == 200:
                    return
            except (OSError, AttributeError, http.client.HTTPException):
                time.sleep(0.02)
        sys.exit('the sandbox does not start; see %s/log' % WORK)

    def crash(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.restarts += 1
        self.start()

    def rss(self):
        with open('/proc/%d/status' % self.process.pid) as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read()).group(1))


class Client:
    def __init__(self, server):
        self.server = server
        self.conn = http.client.HTTPSConnection('127.0.0.1', server.port, context=ssl._create_unverified_context(), timeout=30)

    def call(self, method, path, body=None, kind='application/json', query=None):
        if query:
            path += '?' + urllib.parse.urlencode(query)
        self.conn.request(method, path, json.dumps(body) if body is not None else None, {'Authorization': 'Bearer ' + self.server.token, 'Content-Type': kind, 'User-Agent': 'soak/1'})
        r = self.conn.getresponse()
        data = r.read()
        return r.status, json.loads(data) if data[:1] in (b'{', b'[') else data


class Writer(threading.Thread):
    """Owns its keys: nobody else writes them, so it knows what must be there."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.server, self.number, self.random = server, number, random.Random(SEED + number)
        self.known = {}         # name -> value, absent when deleted
        self.unsure = {}        # name -> what an unanswered write may have left
        self.revisions = []     # of acknowledged writes
        self.writes = self.reads = 0

    def run(self):
        client = Client(self.server)
        while not STOP.is_set():
            name = 'w%d-%d' % (self.number, self.random.randrange(KEYS))
            try:
                if name in self.unsure:
                    self.settle(client, name)
                chance = self.random.random()
                if chance < 0.04:
                    self.list(client)
                elif chance < 0.045:
                    self.delete_all(client)
                else:
                    self.write(client, name)
            except (OSError, http.client.HTTPException, ssl.SSLError):
                client = Client(self.server)
                time.sleep(0.05)

    def settle(self, client, name):
        """After a restart: what is there must be what was known or what was asked for last."""
        status, found = client.call('GET', NS + '/' + name)
        value = found['data']['v'] if status == 200 else None
        if value not in self.unsure[name]:
            fail('%s holds %r, expected one of %r' % (name, value, self.unsure[name]))
        del self.unsure[name]
        if value is None:
            self.known.pop(name, None)
        else:
            self.known[name] = value

    def list(self, client):
        """Page by page: exactly what is known, but for what is not certain."""
        found, token = {}, None
        while True:
            query = {'labelSelector': 'w=%d' % self.number, 'limit': '7'}
            if token:
                query['continue'] = token
            status, page = client.call('GET', NS, query=query)
            if status != 200:
                return fail('a page of writer %d answers %s %s' % (self.number, status, str(page)[:200]))
            for item in page['items']:
                if item['metadata']['name'] in found:
                    fail('%s is listed twice' % item['metadata']['name'])
                found[item['metadata']['name']] = item['data']['v']
            token = page['metadata'].get('continue')
            if not token:
                break
        self.reads += 1
        for name in set(found) | set(self.known):
            if name not in self.unsure and found.get(name) != self.known.get(name):
                fail('%s is listed as %r, expected %r' % (name, found.get(name), self.known.get(name)))

    def delete_all(self, client):
        """Everything of this writer's in one request."""
        names = ['w%d-%d' % (self.number, i) for i in range(KEYS)]
        before = dict(self.unsure)
        for name in names:
            self.unsure[name] = before.get(name, [self.known.get(name)]) + [None]
        status, answer = client.call('DELETE', NS, query={'labelSelector': 'w=%d' % self.number})
        if status != 200:
            self.unsure = before
            return fail('deletion of a collection answers %s %s' % (status, str(answer)[:200]))
        self.unsure.clear()
        self.known.clear()
        self.writes += 1

    def write(self, client, name):
        before, value = self.known.get(name), '%x' % self.random.getrandbits(48)
        whole = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name, 'labels': {'w': str(self.number)}}, 'data': {'v': value}}
        choice = self.random.random()
        if before is None:
            if choice < 0.7:
                call = ('POST', NS, whole, 'application/json', None)
            else:
                call = ('PATCH', NS + '/' + name, whole, 'application/apply-patch+yaml', {'fieldManager': 'soak', 'force': 'true'})
        elif choice < 0.2:
            call = ('DELETE', NS + '/' + name, None, 'application/json', None)
            value = None
        elif choice < 0.4:
            call = ('PUT', NS + '/' + name, whole, 'application/json', None)
        elif choice < 0.5:
            call = ('PATCH', NS + '/' + name, {'data': {'v': value}}, 'application/merge-patch+json', None)
        elif choice < 0.6:
            call = ('PATCH', NS + '/' + name, {'data': {'v': value}}, 'application/strategic-merge-patch+json', None)
        elif choice < 0.75:
            call = ('PATCH', NS + '/' + name, [{'op': 'replace', 'path': '/data/v', 'value': value}], 'application/json-patch+json', None)
        elif choice < 0.9:
            call = ('PATCH', NS + '/' + name, whole, 'application/apply-patch+yaml', {'fieldManager': 'soak', 'force': 'true'})
        else:
            status, found = client.call('GET', NS + '/' + name)
            if status != 200 or found['data']['v'] != before:
                fail('%s reads %s %r, expected %r' % (name, status, found.get('data'), before))
            return
        self.unsure[name] = [before, value]
        status, answer = client.call(*call[:3], kind=call[3], query=call[4])
        del self.unsure[name]
        if status >= 300:
            return fail('%s %s answers %s %s' % (call[0], call[1], status, str(answer)[:200]))
        self.writes += 1
        if value is None:
            self.known.pop(name, None)
        else:
            self.known[name] = value
            self.revisions.append(int(answer['metadata']['resourceVersion']))


class Churner(threading.Thread):
    """Deployments come, grow, and go with all they own; nothing may be left behind."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.server, self.number, self.rounds = server, number, 0

    def run(self):
        path = '/apis/apps/v1/namespaces/soak/deployments'
        name = 'churn-%d' % self.number
        client = Client(self.server)
        labels = {'app': name}
        whole = {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'metadata': {'name': name}, 'spec': {'replicas': 2, 'selector': {'matchLabels': labels}, 'template': {'metadata': {'labels': labels}, 'spec': {'containers': [{'name': 'c', 'image': 'nginx'}]}}}}
        while not STOP.is_set():
            try:
                client.call('POST', path, whole)
                # it may be there from before a restart, grown already
                client.call('PATCH', path + '/' + name + '/scale', {'spec': {'replicas': 2}}, 'application/merge-patch+json')
                self.until(client, lambda: client.call('GET', path + '/' + name)[1].get('status', {}).get('availableReplicas') == 2, 'two replicas of ' + name)
                client.call('PATCH', path + '/' + name + '/scale', {'spec': {'replicas': 4}}, 'application/merge-patch+json')
                self.until(client, lambda: client.call('GET', path + '/' + name)[1].get('status', {}).get('availableReplicas') == 4, 'four replicas of ' + name)
                client.call('DELETE', path + '/' + name, {'propagationPolicy': 'Background'})
                self.until(client, lambda: not client.call('GET', '/api/v1/namespaces/soak/pods', query={'labelSelector': 'app=' + name})[1]['items'], 'the end of the pods of ' + name)
                self.rounds += 1
            except (OSError, http.client.HTTPException, ssl.SSLError, KeyError, AttributeError):
                client = Client(self.server)
                time.sleep(0.05)

    def until(self, client, done, what):
        end = time.time() + 60
        while not done():
            if STOP.is_set():
                return
            if time.time() > end:
                return fail('waited a minute for ' + what)
            time.sleep(0.02)


class Watcher(threading.Thread):
    def __init__(self, server, rev):
        super().__init__(daemon=True)
        self.server, self.rev, self.seen, self.live = server, rev, [], {}

    def run(self):
        while not STOP.is_set():
            try:
                self.follow()
            except (OSError, http.client.HTTPException, ValueError, AttributeError):
                time.sleep(0.05)

    def follow(self):
        client = Client(self.server)
        client.conn.request('GET', '%s?watch=true&resourceVersion=%d&timeoutSeconds=20&allowWatchBookmarks=true' % (NS, self.rev), headers={'Authorization': 'Bearer ' + self.server.token})
        r = client.conn.getresponse()
        while not STOP.is_set():
            line = r.readline()
            if not line.endswith(b'\n'):
                return
            event = json.loads(line)
            if 'metadata' not in event['object'] or event['type'] == 'ERROR':
                return fail('a watch from %d is refused: %s' % (self.rev, event['object'].get('message')))
            meta = event['object']['metadata']
            rev = int(meta['resourceVersion'])
            if event['type'] == 'BOOKMARK':
                self.rev = max(self.rev, rev)
                continue
            if rev <= self.rev:
                fail('revision %d comes after %d' % (rev, self.rev))
            there = meta['name'] in self.live
            if there == (event['type'] == 'ADDED'):
                fail('%s of %s at %d, which is%s there' % (event['type'], meta['name'], rev, '' if there else ' not'))
            if event['type'] == 'DELETED':
                self.live.pop(meta['name'], None)
            else:
                self.live[meta['name']] = event['object']['data']['v']
            self.rev = rev
            self.seen.append((rev, event['type'], meta['name']))


def main():
    print('seed %d' % SEED, flush=True)
    server = Server()
    client = Client(server)
    client.call('POST', '/api/v1/namespaces', {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'soak'}})
    rev = int(client.call('GET', NS)[1]['metadata']['resourceVersion'])
    writers = [Writer(server, i) for i in range(WRITERS)]
    watchers = [Watcher(server, rev) for _ in range(WATCHERS)]
    churners = [Churner(server, i) for i in range(2)]
    for t in watchers + writers + churners:
        t.start()
    chance = random.Random(SEED)
    start, end = time.time(), time.time() + MINUTES * 60
    sizes = []
    while time.time() < end:
        time.sleep(min(chance.uniform(2, 6), max(0, end - time.time())))
        if time.time() < start + MINUTES * 30 or server.restarts < 2:
            server.crash()
        else:
            sizes.append(server.rss())
    STOP.set()
    for t in writers + churners:
        t.join(40)
    server.crash()
    client = Client(server)
    for w in writers:
        for name in list(w.unsure):
            w.settle(client, name)
    expected = {k: v for w in writers for k, v in w.known.items()}
    found = {i['metadata']['name']: i['data']['v'] for i in client.call('GET', NS, query={'labelSelector': 'w'})[1]['items']}
    for name in sorted(set(expected) | set(found)):
        if expected.get(name) != found.get(name):
            fail('%s holds %r, expected %r' % (name, found.get(name), expected.get(name)))
    # the rest of the history, once more from where each watch stopped
    STOP.clear()
    tails = []
    for w in watchers:
        w.join(1)
        t = Watcher(server, w.rev)
        t.seen, t.live = list(w.seen), dict(w.live)
        t.start()
        tails.append(t)
    last = int(client.call('GET', NS)[1]['metadata']['resourceVersion'])
    top = max([r for w in writers for r in w.revisions] or [0])
    deadline = time.time() + 20
    while time.time() < deadline and any(t.rev < top for t in tails):
        time.sleep(0.1)
    time.sleep(0.5)
    STOP.set()
    acknowledged = [r for w in writers for r in w.revisions]
    for number, t in enumerate(tails):
        revs = [r for r, _, _ in t.seen]
        if len(revs) != len(set(revs)):
            fail('watch %d saw a revision twice' % number)
        missing = set(acknowledged) - set(revs)
        if missing:
            fail('watch %d missed %d revisions, such as %s' % (number, len(missing), sorted(missing)[:5]))
        if t.seen != tails[0].seen:
            fail('watch %d disagrees with the first' % number)
        if t.live != found:
            fail('watch %d ends with other content' % number)
    if len(sizes) >= 20:
        early, late = max(sizes[len(sizes) // 2 - 3:len(sizes) // 2]), max(sizes[-3:])
        if late > early * 1.25 + 8192:
            fail('memory grew from %d kB to %d kB' % (early, late))
    server.process.terminate()
    server.process.wait()
    print('%d writes acknowledged, %d paged lists, %d deployments, %d restarts, %d events a watch, revision %d, memory %s kB, %d failures' % (sum(w.writes for w in writers), sum(w.reads for w in writers), sum(c.rounds for c in churners), server.restarts, len(tails[0].seen), last, sizes[-1] if sizes else '?', len(FAILURES)), flush=True)
    shutil.rmtree(WORK, ignore_errors=True)
    return 1 if FAILURES else 0


if __name__ == '__main__':
    sys.exit(main())

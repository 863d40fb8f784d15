"""Helm's storage driver `sql`: releases that real Helm and we carry on for each other in one PostgreSQL database.

    sql.py SLIPWAY HELM POSTGRES DIRECTORY

POSTGRES is the directory of the server's programs. Writes `verdicts.json`.
"""
import base64
import gzip
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import yaml

SLIPWAY, HELM, POSTGRES, DIRECTORY = sys.argv[1:]
LIMIT = 120
PASSWORD = 's3cret-of-the-database'
CHART = {
    'Chart.yaml': 'apiVersion: v2\nname: demo\nversion: 0.1.0\nappVersion: "1"\n',
    'values.yaml': 'text: default\n',
    'templates/NOTES.txt': 'Text is {{ .Values.text }}.\n',
    'templates/map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n'
                          '  text: {{ .Values.text | quote }}\n',
    'templates/hook.yaml': 'apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-hook\n'
                           '  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}\nspec:\n  template:\n    spec:\n'
                           '      restartPolicy: Never\n      containers:\n      - name: hook\n        image: busybox:1\n',
}
# Its pods never start: there is no such node.
STUCK = ('apiVersion: v1\nkind: Pod\nmetadata: {name: stuck}\nspec:\n  nodeSelector: {none: such}\n'
         '  containers:\n  - name: a\n    image: busybox:1\n')

verdicts = {}
said = []


def documents(text):
    found = [document for document in yaml.load_all(text, Loader=yaml.CBaseLoader) if document]
    return sorted(found, key=lambda document: json.dumps(document, sort_keys=True))


def judge(name, expected, found):
    verdicts[name] = {'expected': expected, 'found': found}


class Server:
    """A PostgreSQL server in a temporary directory, which belongs to nobody: the server refuses to be root."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix='slipway-sql-')
        self.data = self.directory + '/data'
        self.log = open(DIRECTORY + '/postgres.log', 'w')
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        self.owner = pwd.getpwnam('nobody') if os.getuid() == 0 else None
        self.certificates()
        if self.owner:
            for place, _, names in os.walk(self.directory):
                for path in [place] + [place + '/' + name for name in names]:
                    os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
        self.program('initdb', '-D', self.data, '-U', 'admin', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync')
        with open(self.data + '/pg_hba.conf', 'w') as file:
            file.write('local all admin trust\nhostnossl all tlsonly all reject\nhost all all all scram-sha-256\n')
        with open(self.data + '/postgresql.conf', 'a') as file:
            file.write("\nlisten_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = '%s'\nfsync = off\nssl = on\n"
                       "ssl_cert_file = '%s/server.pem'\nssl_key_file = '%s/server.key'\n"
                       % (self.port, self.directory, self.directory, self.directory))
        self.start()
        for user in ['helm', 'tlsonly']:
            self.sql('postgres', "CREATE ROLE %s LOGIN PASSWORD '%s'" % (user, PASSWORD))

    def certificates(self):
        def openssl(*words):
            subprocess.run(['openssl', *words], cwd=self.directory, check=True, capture_output=True, timeout=LIMIT)
        for authority in ['ca', 'other']:
            openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
                    '-subj', '/CN=' + authority, '-keyout', authority + '.key', '-out', authority + '.pem')
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=localhost',
                '-keyout', 'server.key', '-out', 'server.csr')
        with open(self.directory + '/names', 'w') as file:
            file.write('subjectAltName=DNS:localhost\n')
        openssl('x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2',
                '-extfile', 'names', '-out', 'server.pem')
        os.chmod(self.directory + '/server.key', 0o600)
        os.chmod(self.directory, 0o755)

    def program(self, name, *words):
        words = [POSTGRES + '/' + name, *words]
        if self.owner:
            words = ['setpriv', '--reuid', str(self.owner.pw_uid), '--regid', str(self.owner.pw_gid), '--clear-groups'] + words
        subprocess.run(words, check=True, cwd=self.directory, stdout=self.log, stderr=self.log, timeout=LIMIT)

    def start(self):
        self.program('pg_ctl', '-D', self.data, '-w', '-s', '-l', self.data + '/log', 'start')

    def stop(self):
        self.program('pg_ctl', '-D', self.data, '-w', '-s', '-m', 'immediate', 'stop')

    def psql(self, program, database, *words):
        words = [POSTGRES + '/' + program, '-h', self.directory, '-p', str(self.port), '-U', 'admin', '-d', database, *words]
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT).stdout

    def sql(self, database, text):
        return self.psql('psql', database, '-AtX', '-v', 'ON_ERROR_STOP=1', '-c', text).strip()

    def create(self, database):
        self.sql('postgres', 'CREATE DATABASE %s OWNER helm' % database)

    def schema(self, database):
        text = self.psql('pg_dump', database, '--schema-only')
        text = [line for line in text.splitlines() if line and not line.startswith(('--', '\\'))]
        ids = self.sql(database, 'SELECT id FROM gorp_migrations ORDER BY id').split()
        return text, ids

    def rows(self, database, name):
        text = self.sql(database, "SELECT json_agg(r ORDER BY version) FROM releases_v1 r WHERE name = '%s'" % name)
        return json.loads(text or 'null') or []

    def url(self, database, user='helm', host='localhost', more='sslmode=disable'):
        return 'postgres://%s:%s@%s:%d/%s?%s' % (user, PASSWORD, host, self.port, database, more)

    def end(self):
        try:
            self.stop()
        except subprocess.CalledProcessError:
            pass
        shutil.rmtree(self.directory, ignore_errors=True)


def environment(**more):
    return dict(os.environ, HOME=DIRECTORY, HELM_CACHE_HOME=DIRECTORY + '/cache', HELM_CONFIG_HOME=DIRECTORY + '/config',
                HELM_DATA_HOME=DIRECTORY + '/data', XDG_RUNTIME_DIR=DIRECTORY, **more)


class Programs:
    """Helm and we, with one database."""

    def __init__(self, kubeconfig, connection):
        self.kubeconfig = kubeconfig
        self.env = environment(HELM_DRIVER='sql', HELM_DRIVER_SQL_CONNECTION_STRING=connection)

    def helm(self, *words):
        return subprocess.run([HELM, *words, '--kubeconfig', self.kubeconfig], capture_output=True, text=True,
                              timeout=LIMIT, env=self.env)

    def slipway(self, *words):
        answer = subprocess.run([SLIPWAY, *words, '--kubeconfig', self.kubeconfig], capture_output=True, text=True,
                                timeout=LIMIT, env=self.env)
        said.append(answer.stdout + answer.stderr)
        return answer

    def statuses(self, ask, name, space):
        answer = ask('history', name, '-n', space, '-o', 'json')
        return [row['status'] for row in json.loads(answer.stdout)] if answer.returncode == 0 else answer.stderr

    def after(self, name, step, space, answer, expected):
        judge('%s: %s' % (name, step), 0, answer.returncode)
        if answer.returncode:
            print('%s: %s: %s%s' % (name, step, answer.stdout, answer.stderr), file=sys.stderr)
        for who, ask in [('Helm', self.helm), ('us', self.slipway)]:
            judge('%s: history by %s after %s' % (name, who, step), expected, self.statuses(ask, name, space))

    def same(self, name, space):
        """What both say of one release."""
        for words in [['get', 'manifest'], ['get', 'values', '-o', 'json'], ['get', 'hooks']]:
            words = words[:2] + [name] + words[2:] + ['-n', space]
            theirs, ours = self.helm(*words).stdout, self.slipway(*words).stdout
            if 'json' in words:
                theirs, ours = json.loads(theirs or '0'), json.loads(ours or '0')
            else:
                theirs, ours = documents(theirs), documents(ours)
            judge('%s: %s' % (name, ' '.join(words[:2])), theirs, ours)


def carry_on(server, programs, chart):
    helm, slipway = programs.helm, programs.slipway
    name, space = 'theirs', 'first'
    made = helm('install', name, chart, '-n', space, '--create-namespace', '--set', 'text=given', '--labels', 'team=a,tier=b')
    programs.after(name, 'install by Helm', space, made, ['deployed'])
    programs.same(name, space)
    listed = json.loads(slipway('list', '-n', space, '-o', 'json', '--selector', 'team=a').stdout or '[]')
    judge('theirs: our list by a label of Helm', [name], [row['name'] for row in listed])
    judge('theirs: our list by another label', '[]', slipway('list', '-n', space, '-o', 'json', '--selector', 'team=z').stdout.strip())
    again = slipway('apply', name, chart, '-n', space, '--set', 'text=again')
    programs.after(name, 'our upgrade', space, again, ['superseded', 'deployed'])
    back = slipway('rollback', name, '1', '-n', space)
    programs.after(name, 'our rollback', space, back, ['superseded', 'superseded', 'deployed'])
    programs.same(name, space)
    judge('theirs: our delete', 0, slipway('delete', name, '-n', space).returncode)
    judge('theirs: Helm lists nothing', '[]', helm('list', '-n', space, '-o', 'json').stdout.strip())
    judge('theirs: no row is left', [], server.rows('shared', name))
    left = server.sql('shared', "SELECT count(*) FROM custom_labels_v1 WHERE releaseKey LIKE '%.theirs.%'")
    judge('theirs: no label is left', '0', left)

    name, space = 'ours', 'second'
    made = slipway('apply', name, chart, '-n', space, '--set', 'text=given', '--release-labels', 'team=a')
    programs.after(name, 'our install', space, made, ['deployed'])
    programs.same(name, space)
    listed = json.loads(helm('list', '-n', space, '-o', 'json', '--selector', 'team=a').stdout or '[]')
    judge('ours: list of Helm by our label', [name], [row['name'] for row in listed])
    again = helm('upgrade', name, chart, '-n', space, '--set', 'text=again')
    programs.after(name, 'upgrade by Helm', space, again, ['superseded', 'deployed'])
    back = helm('rollback', name, '1', '-n', space)
    programs.after(name, 'rollback by Helm', space, back, ['superseded', 'superseded', 'deployed'])
    for count in range(3):
        slipway('apply', name, chart, '-n', space, '--set', 'text=%d' % count, '--release-history-limit', '3')
    judge('ours: three revisions are kept', [4, 5, 6], [row['version'] for row in server.rows('shared', name)])
    judge('ours: a rehearsal', 0, slipway('apply', name, chart, '-n', space, '--set', 'text=r', '--rehearse').returncode)
    kept = helm('uninstall', name, '-n', space, '--keep-history')
    programs.after(name, 'uninstall by Helm that keeps the history', space, kept,
                   ['superseded'] * (len(server.rows('shared', name)) - 1) + ['uninstalled'])
    secrets = subprocess.run([SLIPWAY, 'list', '-A', '-o', 'json', '--kubeconfig', programs.kubeconfig], capture_output=True,
                             text=True, timeout=LIMIT, env=environment())
    judge('no release is kept in Secrets', '[]', secrets.stdout.strip())


def decoded(row):
    body = json.loads(gzip.decompress(base64.b64decode(row['body'])))
    for field in ['first_deployed', 'last_deployed']:
        body['info'][field] = bool(body['info'][field])
    for hook in body.get('hooks', []):
        hook['last_run'] = {field: bool(value) for field, value in hook['last_run'].items()}
    return body


def compare_rows(server, kubeconfig, chart):
    """The tables and rows each program makes alone, column by column."""
    made = {}
    for database in ['byhelm', 'byus']:
        server.create(database)
        programs = Programs(kubeconfig, server.url(database))
        if database == 'byhelm':
            programs.helm('install', 'rows', chart, '-n', 'rows', '--create-namespace', '--labels', 'team=a')
            programs.helm('upgrade', 'rows', chart, '-n', 'rows', '--set', 'text=b')
            programs.helm('uninstall', 'rows', '-n', 'rows', '--keep-history')
        else:
            programs.slipway('plan', 'rows', chart, '-n', 'rows')
            judge('a plan makes no tables', '0', server.sql(database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"))
            programs.slipway('apply', 'rows', chart, '-n', 'rows', '--release-labels', 'team=a')
            programs.slipway('apply', 'rows', chart, '-n', 'rows', '--set', 'text=b')
            programs.slipway('delete', 'rows', '-n', 'rows', '--keep-history')
        made[database] = server.rows(database, 'rows')
    theirs, ours = (server.schema(database) for database in made)
    judge('tables, indexes, rights and row level security', theirs[0], ours[0])
    judge('ids of migrations', theirs[1], ours[1])
    judge('rows', 2, len(made['byus']))
    for theirs, ours in zip(made['byhelm'], made['byus']):
        version = theirs['version']
        for column in ['key', 'type', 'name', 'namespace', 'version', 'status', 'owner']:
            judge('row %d: %s' % (version, column), theirs[column], ours[column])
        for column in ['createdat', 'modifiedat']:
            judge('row %d: %s' % (version, column), True, abs(theirs[column] - ours[column]) < 300)
        theirs, ours = decoded(theirs), decoded(ours)
        judge('row %d: fields of the body' % version, sorted(set(theirs) - set(ours)), [])
        judge('row %d: manifest of the body' % version, documents(theirs['manifest']), documents(ours['manifest']))
        for field in ['name', 'namespace', 'version', 'config']:
            judge('row %d: %s of the body' % (version, field), theirs.get(field), ours.get(field))
        judge('row %d: chart of the body' % version, theirs['chart']['metadata'], ours['chart']['metadata'])
        judge('row %d: status of the body' % version, theirs['info']['status'], ours['info']['status'])
    labels = [server.sql(database, 'SELECT releaseKey, releaseNamespace, key, value FROM custom_labels_v1 ORDER BY 1, 3')
              for database in made]
    judge('rows of labels', labels[0].splitlines()[0], labels[1].splitlines()[0])


def engines(server, kubeconfig, chart):
    """Stacks and runbooks keep their releases there, too."""
    programs = Programs(kubeconfig, server.url('shared'))
    runbook = DIRECTORY + '/boot.yaml'
    with open(runbook, 'w') as file:
        file.write('apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: boot}\nsteps:\n'
                   '- name: step\n  helm: {chart: ./demo, release: booted, namespace: default}\n')
    for count in [1, 2]:
        judge('a runbook, run %d' % count, 0, programs.slipway('run', 'apply', '-f', runbook, '--no-resume').returncode)
    judge('a runbook: history by Helm', ['superseded', 'deployed'], programs.statuses(programs.helm, 'booted', 'default'))
    judge('a runbook, rehearsed', 0, programs.slipway('run', 'apply', '-f', runbook, '--no-resume', '--rehearse').returncode)
    judge('a runbook, destroyed', 0, programs.slipway('run', 'destroy', '-f', runbook, '--yes').returncode)
    judge('a runbook: no row is left', [], server.rows('shared', 'booted'))
    root = DIRECTORY + '/stack'
    os.makedirs(root)
    with open(root + '/stack.yaml', 'w') as file:
        file.write('apiVersion: ktl.dev/v1\nkind: Stack\nname: shop\n'
                   'defaults: {cluster: {name: local}, namespace: default}\nreleases:\n- {name: stacked, chart: ./demo}\n')
    shutil.copytree(chart, root + '/demo')
    made = programs.slipway('stack', 'apply', '--root', root, '--yes')
    judge('a stack', 0, made.returncode)
    if made.returncode:
        print(made.stdout + made.stderr, file=sys.stderr)
    judge('a stack: history by Helm', ['deployed'], programs.statuses(programs.helm, 'stacked', 'default'))
    judge('a stack, deleted', 0, programs.slipway('stack', 'delete', '--root', root, '--yes').returncode)
    judge('a stack: no row is left', [], server.rows('shared', 'stacked'))


def trouble(server, kubeconfig, chart):
    programs = Programs(kubeconfig, server.url('shared'))
    # Somebody else takes the number between plan and record.
    server.sql('shared', """CREATE FUNCTION race() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.name = 'raced' AND pg_trigger_depth() = 1 THEN INSERT INTO releases_v1 SELECT NEW.*; END IF; RETURN NEW; END $$;
        CREATE TRIGGER race BEFORE INSERT ON releases_v1 FOR EACH ROW EXECUTE FUNCTION race()""")
    lost = programs.slipway('apply', 'raced', chart, '-n', 'third')
    judge('a number that was taken: exit code', 1, lost.returncode)
    judge('a number that was taken: told', True, 'revision 1 exists already' in lost.stderr)
    server.sql('shared', 'DROP TRIGGER race ON releases_v1')

    both = [subprocess.Popen([program, *words, '--kubeconfig', kubeconfig], env=programs.env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
            for _ in range(3)
            for program, words in [(HELM, ['upgrade', '--install', 'busy', chart, '-n', 'default']),
                                   (SLIPWAY, ['apply', 'busy', chart, '-n', 'default', '--new-revision', '--timeout', '30s'])]]
    codes = [process.wait(timeout=LIMIT) for process in both]
    judge('six writers at once: at least one succeeds', True, 0 in codes)
    versions = [row['version'] for row in server.rows('shared', 'busy')]
    judge('six writers at once: no number twice', sorted(set(versions)), versions)
    programs.slipway('apply', 'busy', chart, '-n', 'default', '--set', 'text=end')
    judge('six writers at once: it can be carried on', 'deployed', programs.statuses(programs.slipway, 'busy', 'default')[-1])

    wrong = Programs(kubeconfig, server.url('shared').replace(PASSWORD, 'wrong-' + PASSWORD))
    refused = wrong.slipway('list', '-n', 'second')
    judge('a wrong password: exit code', 1, refused.returncode)
    judge('a wrong password: told', True, 'password authentication failed' in refused.stderr and 'hint' in refused.stderr)
    nowhere = Programs(kubeconfig, server.url('none'))
    judge('a database that is not there', True, 'does not exist' in nowhere.slipway('list', '-n', 'second').stderr)
    server.sql('postgres', "CREATE ROLE guest LOGIN PASSWORD '%s'" % PASSWORD)
    guest = Programs(kubeconfig, server.url('shared', user='guest'))
    denied = guest.slipway('apply', 'guest', chart, '-n', 'third')
    judge('rows of somebody else: told', True, 'row-level security' in denied.stderr and 'policy' in denied.stderr)
    unnamed = subprocess.run([SLIPWAY, 'list', '--kubeconfig', kubeconfig], capture_output=True, text=True, timeout=LIMIT,
                             env=environment(HELM_DRIVER='sql'))
    judge('no database is named', True, unnamed.returncode == 1 and 'HELM_DRIVER_SQL_CONNECTION_STRING' in unnamed.stderr)
    broken = Programs(kubeconfig, 'host=localhost password=' + PASSWORD + ' sslmode=maybe')
    judge('a wrong connection string', 64, broken.slipway('list').returncode)
    shown = programs.slipway('config')
    judge('the setting is shown without its value', True, 'release.database.connection' in shown.stdout)


def encryption(server, kubeconfig):
    authority, other = ('sslrootcert=%s/%s.pem' % (server.directory, name) for name in ['ca', 'other'])
    for host, more, good in [
        ('localhost', 'sslmode=verify-full&' + authority, True),
        ('127.0.0.1', 'sslmode=verify-full&' + authority, False),
        ('127.0.0.1', 'sslmode=verify-ca&' + authority, True),
        ('localhost', 'sslmode=verify-ca&' + other, False),
        ('localhost', 'sslmode=require', True),
        ('localhost', 'sslmode=require&' + other, False),
        ('localhost', '', True),
        ('localhost', 'sslmode=disable', False),
    ]:
        programs = Programs(kubeconfig, server.url('secured', 'tlsonly', host, more))
        case = 'encryption with %s of %s' % (more.replace(server.directory + '/', ''), host)
        theirs, ours = programs.helm('list'), programs.slipway('list')
        judge(case + ': Helm', good, theirs.returncode == 0)
        judge(case + ': we', good, ours.returncode == 0)
        if good != (ours.returncode == 0):
            print(case, ours.stderr, file=sys.stderr)
    words = 'host=localhost port=%d user=tlsonly password=%s dbname=secured sslmode=prefer' % (server.port, PASSWORD)
    judge('encryption that is preferred', 0, Programs(kubeconfig, words).slipway('list').returncode)
    words = 'host=%s port=%d user=admin dbname=secured' % (server.directory, server.port)
    judge('a socket of this machine', 0, Programs(kubeconfig, words).slipway('list').returncode)


def stopped(server, kubeconfig, chart):
    """The database goes away while a run waits for its objects."""
    with open(chart + '/templates/stuck.yaml', 'w') as file:
        file.write(STUCK)
    programs = Programs(kubeconfig, server.url('shared'))
    words = [SLIPWAY, 'apply', 'cut', chart, '-n', 'default', '--kubeconfig', kubeconfig, '--timeout', '25s',
             '--resource-readiness-timeout', '8s']
    run = subprocess.Popen(words, env=programs.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(LIMIT * 10):
        if server.rows('shared', 'cut') or run.poll() is not None:
            break
        time.sleep(0.1)
    server.stop()
    out, err = run.communicate(timeout=LIMIT)
    said.append(out + err)
    judge('a database that stops: exit code', 1, run.returncode)
    judge('a database that stops: told', True, 'not reachable' in err)
    gone = programs.slipway('list', '-n', 'default')
    judge('a database that is down: exit code', 1, gone.returncode)
    judge('a database that is down: told', True, 'not reachable' in gone.stderr and 'hint' in gone.stderr)
    server.start()
    os.remove(chart + '/templates/stuck.yaml')
    again = programs.slipway('apply', 'cut', chart, '-n', 'default')
    programs.after('cut', 'the next run', 'default', again, ['failed', 'deployed'])


def main():
    chart = DIRECTORY + '/demo'
    for name, text in CHART.items():
        os.makedirs(os.path.dirname(chart + '/' + name), exist_ok=True)
        with open(chart + '/' + name, 'w') as file:
            file.write(text)
    kubeconfig = DIRECTORY + '/kubeconfig'
    # Its own file: a pipe would stay open as long as the sandbox runs.
    with open(DIRECTORY + '/sandbox.log', 'w') as log:
        subprocess.run([SLIPWAY, 'sandbox', 'up', '--detach', '--speed', 'max', '--write-kubeconfig', kubeconfig],
                       stdout=log, stderr=log, timeout=LIMIT, env=environment(), check=True)
    server = None
    try:
        server = Server()
        server.create('shared')
        server.sql('postgres', 'CREATE DATABASE secured OWNER tlsonly')
        carry_on(server, Programs(kubeconfig, server.url('shared')), chart)
        compare_rows(server, kubeconfig, chart)
        engines(server, kubeconfig, chart)
        trouble(server, kubeconfig, chart)
        encryption(server, kubeconfig)
        stopped(server, kubeconfig, chart)
    finally:
        subprocess.run([SLIPWAY, 'sandbox', 'down'], env=environment(), capture_output=True, timeout=LIMIT)
        if server:
            server.end()
    judge('the password is in nothing we say', False, any(PASSWORD in text for text in said))


main()
with open(DIRECTORY + '/verdicts.json', 'w') as file:
    json.dump(verdicts, file)

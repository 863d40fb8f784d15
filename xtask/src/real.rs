//! A real control plane on loopback: etcd, kube-apiserver, its controllers and scheduler, simulated nodes.
//!
//! Every port is one the system gave, everything is kept under one directory, and dropping the value
//! stops what it started.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{peers, shell};

const API: &str = "kube-apiserver";
/// How long a component may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Who may do what: everyone here but `alice`, whose rights are left to the tests.
const IDENTITIES: &[(&str, &str)] = &[
    ("admin", "system:masters"),
    ("kubelet", "system:masters"),
    ("system:kube-controller-manager", ""),
    ("system:kube-scheduler", ""),
    ("alice", "dev"),
];

/// Runs a control plane for trying things by hand, until standard input ends.
pub fn run() -> Result<()> {
    let real = Real::start(&shell::target().join("real"), Parts::All)?;
    println!("export KUBECONFIG={}", real.kubeconfig().display());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// What is started.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// etcd and the API server, which then does nothing but serve.
    Api,
    /// Controllers, scheduler and nodes as well, and an audit log.
    All,
}

/// A running control plane.
pub struct Real {
    directory: PathBuf,
    bin: PathBuf,
    server: String,
    /// How the API server was started.
    api: Vec<String>,
    /// In the order they started.
    running: Mutex<Vec<(&'static str, Child)>>,
}

impl Real {
    /// Starts the parts and waits until they are ready.
    pub fn start(directory: &Path, parts: Parts) -> Result<Self> {
        let bin = peers::kubernetes()?;
        let etcd = peers::etcd()?;
        let requests = peers::python_package("requests")?;
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let [client, peer, api, controllers, scheduler, kubelet] = free_ports()?;
        let server = format!("https://127.0.0.1:{api}");
        let (directory, running) = (directory.to_owned(), Mutex::default());
        let mut real = Self { directory, bin, server, api: Vec::new(), running };
        real.write_identities(parts)?;

        let (clients, peers) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let data = real.file("etcd");
        real.spawn(
            "etcd",
            Command::new(etcd).arg("--data-dir").arg(data).args([
                &format!("--listen-client-urls={clients}"),
                &format!("--advertise-client-urls={clients}"),
                &format!("--listen-peer-urls={peers}"),
                &format!("--initial-advertise-peer-urls={peers}"),
                &format!("--initial-cluster=default={peers}"),
                "--log-level=warn",
            ]),
        )?;
        let file = |name: &str| real.file(name).display().to_string();
        let (certificate, key) = (file("server.crt"), file("server.key"));
        let api = [
            format!("--etcd-servers={clients}"),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            format!("--secure-port={api}"),
            "--endpoint-reconciler-type=none".into(),
            format!("--tls-cert-file={certificate}"),
            format!("--tls-private-key-file={key}"),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
            format!("--service-account-key-file={}", file("accounts.pub")),
            format!("--service-account-signing-key-file={}", file("accounts.key")),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--authorization-mode=RBAC".into(),
            "--allow-privileged=true".into(),
            "--kubelet-preferred-address-types=InternalIP".into(),
            format!("--audit-policy-file={}", file("audit.yaml")),
            format!("--audit-log-path={}", file("audit.log")),
            "--enable-priority-and-fairness=false".into(),
        ];
        let controllers = [
            format!("--kubeconfig={}", file("system:kube-controller-manager.kubeconfig")),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={controllers}"),
            "--leader-elect=false".into(),
            format!("--root-ca-file={}", file("authority.crt")),
            format!("--service-account-private-key-file={}", file("accounts.key")),
            "--use-service-account-credentials=true".into(),
            "--kube-api-qps=200".into(),
            "--kube-api-burst=400".into(),
        ];
        let scheduler = [
            format!("--kubeconfig={}", file("system:kube-scheduler.kubeconfig")),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={scheduler}"),
            "--leader-elect=false".into(),
            "--kube-api-qps=200".into(),
            "--kube-api-burst=400".into(),
        ];
        let kubelet = [
            format!("--server={}", real.server),
            format!("--ca={}", file("authority.crt")),
            format!("--cert={certificate}"),
            format!("--key={key}"),
            "--token=kubelet".into(),
            "--nodes=2".into(),
            format!("--port={kubelet}"),
            "--delay=0.5".into(),
        ];
        real.api = api.to_vec();
        real.start_api()?;
        if parts == Parts::Api {
            return Ok(real);
        }
        real.spawn("controllers", Command::new(real.bin.join("kube-controller-manager")).args(&controllers))?;
        real.spawn("scheduler", Command::new(real.bin.join("kube-scheduler")).args(&scheduler))?;
        let script = shell::root().join("conformance/realcluster/fake_kubelet.py");
        let mut python = Command::new("python3");
        real.spawn("kubelet", python.arg(script).args(&kubelet).env("PYTHONPATH", requests))?;
        real.wait("the nodes", |real| {
            let nodes = real.kubectl(&["get", "nodes", "--no-headers"])?;
            real.kubectl(&["get", "serviceaccount", "default", "--namespace=default"])?;
            Ok(nodes.lines().filter(|line| line.contains(" Ready ")).count() == 2)
        })?;
        Ok(real)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.file("admin.kubeconfig")
    }

    /// What the administrator and `alice` asked for, one JSON object a line.
    pub fn audit(&self) -> PathBuf {
        self.file("audit.log")
    }

    /// The authority's certificate, and a certificate of its with its key for a server on loopback.
    pub fn certificates(&self) -> [PathBuf; 3] {
        ["authority.crt", "server.crt", "server.key"].map(|name| self.file(name))
    }

    /// Where the API server listens.
    pub fn port(&self) -> u16 {
        self.server.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// `PATH` with kubectl and Helm in front.
    pub fn path(&self) -> Result<OsString> {
        let helm = peers::helm()?;
        let mut path = vec![self.bin.clone()];
        path.extend(helm.parent().map(Path::to_owned));
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        Ok(std::env::join_paths(path)?)
    }

    /// What kubectl says.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let mut kubectl = Command::new(self.bin.join("kubectl"));
        shell::output(kubectl.arg("--kubeconfig").arg(self.kubeconfig()).args(args))
    }

    fn start_api(&self) -> Result<()> {
        self.spawn(API, Command::new(self.bin.join(API)).args(&self.api))?;
        self.wait("the API server", |real| Ok(real.kubectl(&["get", "--raw", "/readyz"])? == "ok"))
    }

    /// Kills the API server, leaves it away for a while, and waits until it is back.
    pub fn restart_api(&self, away: Duration) -> Result<()> {
        let child = {
            let mut running = self.running();
            let position = running.iter().position(|(name, _)| *name == API).context("no API server runs")?;
            running.remove(position).1
        };
        end(child);
        thread::sleep(away);
        self.start_api()
    }

    fn running(&self) -> MutexGuard<'_, Vec<(&'static str, Child)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Keys, a certificate for loopback, a token and a kubeconfig for each identity, the audit policy.
    fn write_identities(&self, parts: Parts) -> Result<()> {
        let openssl = peers::openssl()?;
        let run = |args: &[&str]| {
            let mut command = Command::new(&openssl);
            shell::output(command.current_dir(&self.directory).args(args)).map(drop)
        };
        // A certificate of its own for the server: clients rightly refuse an authority's.
        let names = "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc\n";
        fs::write(self.file("server.ext"), format!("{names}extendedKeyUsage=serverAuth,clientAuth\n"))?;
        let new_key = ["req", "-newkey", "rsa:2048", "-nodes", "-subj"];
        let with = |more: &[&'static str]| [&new_key, more].concat();
        run(&with(&[
            "/CN=real",
            "-x509",
            "-days",
            "3650",
            "-keyout",
            "authority.key",
            "-out",
            "authority.crt",
        ]))?;
        run(&with(&["/CN=kube-apiserver", "-keyout", "server.key", "-out", "server.csr"]))?;
        run(&[
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "authority.crt",
            "-CAkey",
            "authority.key",
            "-CAcreateserial",
            "-days",
            "3650",
            "-extfile",
            "server.ext",
            "-out",
            "server.crt",
        ])?;
        run(&["genrsa", "-out", "accounts.key", "2048"])?;
        run(&["rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"])?;
        let mut tokens = String::new();
        for (name, group) in IDENTITIES {
            tokens.push_str(&format!("{name},{name},{name}-uid,\"{group}\"\n"));
            let kubeconfig = serde_json::json!({
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{ "name": "real", "cluster": {
                    "server": self.server, "certificate-authority": self.file("authority.crt"),
                }}],
                "users": [{ "name": name, "user": { "token": name } }],
                "contexts": [{ "name": "real", "context": { "cluster": "real", "user": name } }],
                "current-context": "real",
            });
            fs::write(self.file(&format!("{name}.kubeconfig")), serde_json::to_vec_pretty(&kubeconfig)?)?;
        }
        fs::write(self.file("tokens.csv"), tokens)?;
        let audit = serde_json::json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": match parts {
                Parts::All => serde_json::json!([{ "level": "Metadata", "users": ["admin", "alice"] }, { "level": "None" }]),
                Parts::Api => serde_json::json!([{ "level": "None" }]),
            },
        });
        Ok(fs::write(self.file("audit.yaml"), serde_json::to_vec(&audit)?)?)
    }

    fn spawn(&self, name: &'static str, command: &mut Command) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.file(&format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).env("NO_PROXY", "127.0.0.1");
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        self.running().push((name, child));
        Ok(())
    }

    /// Asks until the answer is yes; fails when a component ends or patience does.
    fn wait(&self, what: &str, ready: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        loop {
            for (name, child) in self.running().iter_mut() {
                if let Some(status) = child.try_wait()? {
                    let log = fs::read_to_string(self.directory.join(format!("{name}.log")))?;
                    let tail: Vec<&str> = log.lines().rev().take(20).collect();
                    let tail: Vec<&str> = tail.into_iter().rev().collect();
                    bail!("{name} ended while starting: {status}\n{}", tail.join("\n"));
                }
            }
            let answer = ready(self);
            match answer {
                Ok(true) => return Ok(()),
                _ if began.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(100)),
                Ok(false) => bail!("{what} did not become ready in {} s", PATIENCE.as_secs()),
                Err(error) => return Err(error).with_context(|| format!("wait for {what}")),
            }
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for (_, child) in self.running().drain(..).rev() {
            end(child);
        }
    }
}

fn end(mut child: Child) {
    // Nothing here is worth a graceful end: the directory is wiped on the next start.
    let _ = child.kill();
    let _ = child.wait();
}

/// Ports nobody listens on at the moment.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let listeners: Vec<TcpListener> =
        (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let ports: Vec<u16> = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect::<Result<_, std::io::Error>>()?;
    ports.try_into().map_err(|_| anyhow::anyhow!("as many ports as listeners"))
}

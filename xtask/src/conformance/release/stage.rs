//! What a scenario is played on: a namespace of a real cluster, a directory for its chart, our binary and Helm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::real::Real;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The programs and the cluster all scenarios share.
pub struct Stage {
    pub slipway: PathBuf,
    pub helm: PathBuf,
    pub real: Real,
    pub work: PathBuf,
}

/// One scenario's own corner.
pub struct Scene<'s> {
    pub stage: &'s Stage,
    pub namespace: String,
    pub directory: PathBuf,
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// What it printed, if it ended well.
    pub fn ok(self) -> Result<String> {
        ensure!(self.code == 0, "exit {}\n{}{}", self.code, self.out, self.err);
        Ok(self.out)
    }

    /// What it complained about, if it ended with `code`.
    pub fn fails(self, code: i32) -> Result<String> {
        ensure!(self.code == code, "exit {} instead of {code}\n{}{}", self.code, self.out, self.err);
        Ok(self.out + &self.err)
    }
}

impl Scene<'_> {
    /// Writes the chart `demo`; templates of an earlier call are gone.
    pub fn chart(&self, templates: &[(&str, &str)]) -> Result<()> {
        let chart = self.directory.join("demo");
        if chart.exists() {
            fs::remove_dir_all(&chart)?;
        }
        fs::create_dir_all(chart.join("templates"))?;
        fs::write(
            chart.join("Chart.yaml"),
            "apiVersion: v2\nname: demo\nversion: 0.1.0\nappVersion: \"1\"\n",
        )?;
        for (name, text) in templates {
            let path = if name.contains('/') { chart.join(name) } else { chart.join("templates").join(name) };
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, text)?;
        }
        Ok(())
    }

    /// A chart of one template.
    pub fn one(&self, text: &str) -> Result<()> {
        self.chart(&[("all.yaml", text)])
    }

    /// Our binary in this namespace.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_with(words, &self.stage.real.kubeconfig())
    }

    /// Our binary in this namespace, connecting as a kubeconfig says.
    pub fn command_with(&self, words: &[&str], kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.stage.slipway);
        command.args(words).args(["-n", &self.namespace, "--kubeconfig"]).arg(kubeconfig);
        command.current_dir(&self.directory).env("HOME", &self.directory).env_remove("KUBECONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn slipway(&self, words: &[&str]) -> Result<Ran> {
        wait(self.command(words).spawn()?)
    }

    /// `slipway apply demo ./demo` with more words.
    pub fn apply(&self, words: &[&str]) -> Result<Ran> {
        self.slipway(&[&["apply", "demo", "demo"], words].concat())
    }

    pub fn plan(&self, words: &[&str]) -> Result<Ran> {
        self.slipway(&[&["plan", "demo", "demo"], words].concat())
    }

    pub fn helm(&self, words: &[&str]) -> Result<Ran> {
        let mut command = Command::new(&self.stage.helm);
        command.args(words).args(["-n", &self.namespace, "--kubeconfig"]).arg(self.stage.real.kubeconfig());
        command.current_dir(&self.directory).env("HOME", &self.directory).env_remove("KUBECONFIG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        wait(command.spawn()?)
    }

    pub fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.stage.real.kubectl(&[words, &["-n", &self.namespace]].concat())
    }

    /// Sends a document through kubectl.
    pub fn send(&self, verb: &[&str], document: &str) -> Result<String> {
        let file = self.directory.join("sent.yaml");
        fs::write(&file, document)?;
        self.kubectl(&[verb, &["-f", path(&file)?]].concat())
    }

    /// One object with the managers of its fields, if it is there.
    pub fn get(&self, what: &str) -> Result<Option<Value>> {
        let (kind, name) = what.split_once('/').context("kind/name")?;
        let ask = ["get", kind, name, "-o", "json", "--ignore-not-found", "--show-managed-fields"];
        let text = self.kubectl(&ask)?;
        Ok(if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text)?) })
    }

    pub fn must(&self, what: &str) -> Result<Value> {
        self.get(what)?.with_context(|| format!("{what} is not there"))
    }

    pub fn must_not(&self, what: &str) -> Result<()> {
        ensure!(self.get(what)?.is_none(), "{what} is there");
        Ok(())
    }

    pub fn version(&self, what: &str) -> Result<String> {
        Ok(text(&self.must(what)?, "/metadata/resourceVersion"))
    }

    pub fn uid(&self, what: &str) -> Result<String> {
        Ok(text(&self.must(what)?, "/metadata/uid"))
    }

    /// The statuses of the revisions, oldest first: `superseded,deployed`.
    pub fn statuses(&self) -> Result<String> {
        let listed = self.kubectl(&["get", "secret", "-l", "owner=helm,name=demo", "-o", "json"])?;
        let listed: Value = serde_json::from_str(&listed)?;
        let mut all: Vec<(u32, String)> = listed["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|secret| {
                let version = text(secret, "/metadata/labels/version").parse().unwrap_or_default();
                (version, text(secret, "/metadata/labels/status"))
            })
            .collect();
        all.sort();
        Ok(all.into_iter().map(|(_, status)| status).collect::<Vec<_>>().join(","))
    }

    pub fn expect_statuses(&self, expected: &str) -> Result<()> {
        let found = self.statuses()?;
        ensure!(found == expected, "revisions are {found}, expected {expected}");
        Ok(())
    }

    /// The writes of this namespace since a mark, `verb resource/name`, dry runs left out, records and locks too.
    pub fn writes(&self, since: u64) -> Result<Vec<String>> {
        let audit = self.audit(since)?;
        Self::write_names(&audit)
    }

    /// As [`writes`](Self::writes), with those to objects of the whole cluster that are named after the namespace.
    pub fn all_writes(&self, since: u64) -> Result<Vec<String>> {
        let audit = self.audit_of(since, |entry| {
            text(entry, "/objectRef/namespace") == self.namespace
                || text(entry, "/objectRef/name").starts_with(&self.namespace)
        })?;
        Self::write_names(&audit)
    }

    /// The writes of our binary and its lock's since a mark, wherever they went.
    pub fn cluster_writes(&self, since: u64) -> Result<Vec<String>> {
        let audit = self.audit_of(since, |entry| text(entry, "/userAgent").starts_with("slipway"))?;
        Self::write_names(&audit)
    }

    fn write_names(audit: &[Value]) -> Result<Vec<String>> {
        let own = audit.iter().filter(|entry| {
            let uri = text(entry, "/requestURI");
            !["get", "list", "watch"].contains(&text(entry, "/verb").as_str()) && !uri.contains("dryRun=All")
        });
        Ok(own
            .map(|entry| {
                let (verb, resource) = (text(entry, "/verb"), text(entry, "/objectRef/resource"));
                format!("{verb} {resource}/{}", text(entry, "/objectRef/name"))
            })
            .collect())
    }

    /// The names of objects of a resource in the order they were first written.
    pub fn order(&self, since: u64, resource: &str) -> Result<Vec<String>> {
        let prefix = format!("{resource}/");
        let mut seen = Vec::new();
        for write in self.writes(since)? {
            let Some((_, rest)) = write.split_once(' ') else { continue };
            if let Some(name) = rest.strip_prefix(&prefix)
                && !seen.iter().any(|known| known == name)
                && !name.starts_with("sh.helm")
            {
                seen.push(name.to_owned());
            }
        }
        Ok(seen)
    }

    /// Everything the API server answered about this namespace since a mark.
    pub fn audit(&self, since: u64) -> Result<Vec<Value>> {
        self.audit_of(since, |entry| text(entry, "/objectRef/namespace") == self.namespace)
    }

    fn audit_of(&self, since: u64, is_own: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
        let bytes = fs::read(self.stage.real.audit())?;
        let from = usize::try_from(since)?.min(bytes.len());
        let mut found = Vec::new();
        for line in String::from_utf8_lossy(&bytes[from..]).lines() {
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            if is_own(&entry) {
                found.push(entry);
            }
        }
        Ok(found)
    }

    /// Where the audit log stands.
    pub fn mark(&self) -> Result<u64> {
        Ok(fs::metadata(self.stage.real.audit())?.len())
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        loop {
            if holds()? {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                bail!("{what}: not in {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Replaces text in a stored revision, as if another program had written it.
    pub fn rewrite_record(&self, revision: u32, from: &str, to: &str) -> Result<()> {
        let name = format!("secret/sh.helm.release.v1.demo.v{revision}");
        let stored = text(&self.must(&name)?, "/data/release");
        let program = "import sys,base64,gzip,json\n\
             d=base64.b64decode\n\
             r=gzip.decompress(d(d(sys.argv[1]))).decode()\n\
             assert sys.argv[2] in r, r\n\
             r=r.replace(sys.argv[2],sys.argv[3])\n\
             e=base64.b64encode(base64.b64encode(gzip.compress(r.encode()))).decode()\n\
             print(json.dumps({'data':{'release':e}}))";
        let mut python = Command::new("python3");
        let patch = crate::shell::output(python.args(["-c", program, &stored, from, to]))?;
        self.kubectl(&[
            "patch",
            &name.replace('/', " ").replacen(' ', "/", 1),
            "--type=merge",
            "-p",
            patch.trim(),
        ])?;
        Ok(())
    }
}

/// Waits for a program, not for ever.
pub fn wait(mut child: Child) -> Result<Ran> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(out.map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>));
    let err = read(err.map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            let said = err.join().unwrap_or_default();
            bail!("still running after {} s\n{said}", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = |handle: std::thread::JoinHandle<String>| handle.join().unwrap_or_default();
    Ok(Ran { code: status.code().unwrap_or(-1), out: text(out), err: text(err) })
}

/// The text at a pointer; empty if there is none.
pub fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

/// A ConfigMap; `notes` are annotations in flow style.
pub fn config_map(name: &str, content: &str, notes: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{notes}}}\ndata:\n  text: \"{content}\"\n"
    )
}

/// A Deployment of one replica; `notes` are its annotations, `pod` its pods'.
pub fn deployment(name: &str, image: &str, notes: &str, pod: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  annotations: {{{notes}}}\nspec:\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n      \
         annotations: {{{pod}}}\n    spec:\n      terminationGracePeriodSeconds: 1\n      containers:\n      - {{name: c, image: \"{image}\"}}\n"
    )
}

/// A Job of one pod.
pub fn job(name: &str, notes: &str, pod: &str) -> String {
    format!(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}\n  annotations: {{{notes}}}\nspec:\n  backoffLimit: 0\n  \
         template:\n    metadata:\n      annotations: {{sim/duration: \"0.2\"{}{pod}}}\n    spec:\n      restartPolicy: Never\n      \
         containers:\n      - {{name: c, image: busybox}}\n",
        if pod.is_empty() { "" } else { ", " }
    )
}

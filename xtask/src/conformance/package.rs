//! Every layout of the example packages, built by the real kustomize: it takes each phase as it is, and
//! the phases together are the stream.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{Tally, built};
use crate::{peers, shell};

/// What is built: flags, and the directories of the output that are kustomizations beside the phases.
const FORMATS: &[(&str, &[&str], &[&str])] = &[
    ("phases", &[], &[]),
    ("flux", &["--flux-source", "GitRepository/flux-system"], &["flux"]),
    ("argo", &["--argocd-app", "https://example.com/shop.git,deploy"], &[]),
];

const PHASES: [&str; 3] = ["pre-install", "main", "post-install"];

pub fn run() -> Result<()> {
    let kustomize = peers::kustomize()?;
    let slipway = built()?;
    let mut tally = Tally::new("package");
    for package in packages(&shell::root().join("examples/packages"))? {
        for (format, flags, more) in FORMATS {
            for phases in ["--no-local", "--auto-phase"] {
                let name = format!("{} {format} {phases}", package.file_name().unwrap_or_default().display());
                let out = shell::target().join("conformance/package").join(name.replace(' ', "-"));
                if out.exists() {
                    fs::remove_dir_all(&out)?;
                }
                let build = |args: &[&str]| {
                    let mut command = Command::new(&slipway);
                    command.args(["package", "build"]).arg(&package).args(args).arg(phases);
                    shell::output(&mut command)
                };
                let format = format!("--format={format}");
                let target = out.display().to_string();
                build(&[&[format.as_str(), "--output-dir", &target][..], flags].concat())?;
                let stream = if format.ends_with("argo") { build(&[&format])? } else { build(&[])? };
                let whole = out.join("stream");
                fs::create_dir(&whole)?;
                fs::write(whole.join("stream.yaml"), stream)?;
                fs::write(whole.join("kustomization.yaml"), "resources: [stream.yaml]\n")?;
                let accept = |directory: &str| -> Result<Option<BTreeSet<String>>> {
                    let answer = Command::new(&kustomize).arg("build").arg(out.join(directory)).output()?;
                    let text = String::from_utf8_lossy(&answer.stdout);
                    let documents = || text.split("---\n").map(str::to_owned).collect();
                    Ok(answer.status.success().then(documents))
                };
                let mut objects = Some(BTreeSet::new());
                for phase in PHASES.into_iter().filter(|name| out.join(name).is_dir()) {
                    let more = accept(phase)?;
                    objects = objects.zip(more).map(|(all, more)| all.into_iter().chain(more).collect());
                }
                let beside = more.iter().map(|name| accept(name)).collect::<Result<Vec<_>>>()?;
                let same = objects.is_some() && objects == accept("stream")?;
                tally.count(&name, same && beside.iter().all(Option::is_some));
            }
        }
    }
    tally.finish()
}

/// The packages in a directory, in order.
fn packages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "kurel") && path.join("parameters.yaml").is_file() {
            found.push(path);
        }
    }
    if found.is_empty() {
        bail!("{} holds no packages", root.display());
    }
    found.sort();
    Ok(found)
}

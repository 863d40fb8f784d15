//! The image of `cargo xtask image` in a real registry: a real client pushes it, checks it and takes the binary out of it.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Tally, built};
use crate::image::{ImageRequest, write_image};
use crate::{peers, shell};

const PATIENCE: Duration = Duration::from_secs(60);

/// Writes an image on a base, pushes it and looks at what the registry has.
pub fn run() -> Result<()> {
    let (binary, crane) = (built()?, peers::crane()?);
    let directory = peers::cache()?.join("image");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let registry = Registry::start(&directory)?;
    let image = write_on_base(&binary, &directory)?;
    let reference = format!("{}/slipway/slipway:latest", registry.host);
    let ask =
        |words: &[&str]| shell::output(Command::new(&crane).arg("--insecure").args(words).arg(&reference));
    let mut tally = Tally::new("image");
    let layout = directory.join("layout").display().to_string();
    shell::output(Command::new(&crane).args(["push", "--insecure", &layout, &reference]))?;
    tally.count("the registry has the image under its digest", ask(&["digest"])?.trim() == image);
    tally.count("every layer is what the manifest says", ask(&["validate", "--remote"]).is_ok());
    let config: Value = serde_json::from_str(&ask(&["config"])?)?;
    let config = &config["config"];
    tally.count("it runs as nobody", config["User"] == "65534:65534");
    let command = [&config["Entrypoint"], &config["Cmd"]].map(ToString::to_string);
    let wanted = [r#"["/usr/local/bin/slipway"]"#, r#"["controller","run"]"#];
    tally.count(&format!("it runs the controller: {command:?}"), command == wanted);
    let manifest: Value = serde_json::from_str(&ask(&["manifest"])?)?;
    tally.count("it stands on its base", manifest["layers"].as_array().map(Vec::len) == Some(2));
    let unpacked = unpack(&crane, &reference, &directory)?;
    let pulled = unpacked.join("usr/local/bin/slipway");
    tally.count("the binary is the one that was built", fs::read(&pulled)? == fs::read(&binary)?);
    let version = |program: &Path| shell::output(Command::new(program).arg("--version"));
    tally.count("it starts", version(&pulled)? == version(&binary)?);
    tally.finish()
}

/// An image of the binary on an image of something else, in `layout`; gives its digest.
fn write_on_base(binary: &Path, directory: &Path) -> Result<String> {
    let (other, base) = (directory.join("other"), directory.join("base"));
    fs::write(&other, "#!/bin/sh\n")?;
    write_image(&ImageRequest::of(other, base.clone()))?;
    let request = ImageRequest::of(binary.to_owned(), directory.join("layout"));
    write_image(&ImageRequest { base: Some(base), ..request })
}

/// The files of an image in the registry, as a container would see them.
fn unpack(crane: &Path, reference: &str, directory: &Path) -> Result<PathBuf> {
    let (archive, files) = (directory.join("files.tar"), directory.join("files"));
    let mut export = Command::new(crane);
    shell::output(export.args(["export", "--insecure", reference]).arg(&archive))?;
    tar::Archive::new(File::open(&archive)?).unpack(&files)?;
    Ok(files)
}

/// A real registry on a free port; it ends when dropped.
struct Registry {
    child: Child,
    host: String,
}

impl Registry {
    fn start(directory: &Path) -> Result<Self> {
        let program = peers::docker_registry()?;
        let host = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let (settings, storage) = (directory.join("registry.yaml"), directory.join("storage"));
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{host}'}}\n",
            storage.display()
        );
        fs::write(&settings, text)?;
        let log = File::create(directory.join("registry.log"))?;
        let mut serve = Command::new(program);
        serve.arg("serve").arg(&settings).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut started = Self { child: serve.spawn().context("start the registry")?, host };
        started.wait()?;
        Ok(started)
    }

    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(&self.host).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the registry ended while starting: {status}");
            }
            if began.elapsed() > PATIENCE {
                bail!("the registry did not become ready in {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Running other programs, loudly.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The workspace's root directory.
pub fn root() -> &'static Path {
    // Proven by where this crate lies.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command in the workspace, the same cargo that runs us.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// How a program is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Debug,
    Release,
}

/// Builds our binary and says where it lies. For debugging the whole workspace is named, so that dependencies have the
/// features they have in tests and are not built once more.
pub fn slipway(profile: Profile) -> Result<PathBuf> {
    let (flags, directory): (&[&str], _) = match profile {
        Profile::Debug => (&["--workspace", "--bin", "slipway"], "debug"),
        Profile::Release => (&["--package", "slipway", "--release"], "release"),
    };
    run(cargo(&["build", "--locked"]).args(flags))?;
    Ok(target().join(directory).join("slipway"))
}

/// Builds an example of any crate and says where it lies. The whole workspace is named, so that dependencies have the
/// features they have in tests and are not built once more.
pub fn example(name: &str) -> Result<PathBuf> {
    run(&mut cargo(&["build", "--locked", "--workspace", "--example", name]))?;
    Ok(target().join("debug/examples").join(name))
}

/// Runs a command, showing it and what it prints; fails when it does.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let started = Instant::now();
    let status = command.status().with_context(|| format!("start `{shown}`"))?;
    eprintln!("  ({:.1} s)", started.elapsed().as_secs_f64());
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs a command and gives its standard output; fails with its standard error when it does.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.output().with_context(|| format!("start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The words of a command.
pub fn show(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
    words.into_iter().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

//! `cargo xtask dist`: archives to install from: a static binary with its completions and manual pages, and checksums.
//!
//! Binaries are linked with musl, so that they run on any Linux. A target whose standard library or C compiler is missing is
//! named with what installs it; archives of the others are made. The same inputs give the same bytes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

use crate::shell;

const USAGE: &str = "usage: cargo xtask dist [--target TRIPLE].. [--binary FILE] [--out DIR]";

/// A target and the C compiler that musl's packages bring for it.
struct StaticTarget {
    triple: &'static str,
    compiler: &'static str,
}

const TARGETS: [StaticTarget; 2] = [
    StaticTarget { triple: "x86_64-unknown-linux-musl", compiler: "musl-gcc" },
    StaticTarget { triple: "aarch64-unknown-linux-musl", compiler: "aarch64-linux-musl-gcc" },
];

/// What is asked for.
struct DistRequest {
    targets: Vec<String>,
    /// A binary that is packed as it is, instead of one that is built.
    binary: Option<PathBuf>,
    out: PathBuf,
}

/// A file of an archive.
#[derive(Clone)]
struct PackedFile {
    path: String,
    mode: u32,
    content: Vec<u8>,
}

pub fn run(args: &[&str]) -> Result<()> {
    let request = read_request(args)?;
    fs::create_dir_all(&request.out).with_context(|| format!("create {}", request.out.display()))?;
    let companions = companions()?;
    let mut missing = Vec::new();
    for triple in &request.targets {
        let built = match &request.binary {
            Some(binary) => Ok(binary.clone()),
            None => match find_obstacle(triple)? {
                Some(obstacle) => Err(obstacle),
                None => Ok(build(triple)?),
            },
        };
        match built {
            Ok(binary) => {
                let content = fs::read(&binary).with_context(|| format!("read {}", binary.display()))?;
                let path = write_archive(&request.out, triple, content, &companions)?;
                eprintln!("wrote {}", path.display());
            }
            Err(obstacle) => missing.push(format!("{triple}: {obstacle}")),
        }
    }
    write_checksums(&request.out)?;
    if !missing.is_empty() {
        bail!("no archive was made for\n  {}", missing.join("\n  "));
    }
    Ok(())
}

fn read_request(args: &[&str]) -> Result<DistRequest> {
    let mut request = DistRequest { targets: Vec::new(), binary: None, out: shell::target().join("dist") };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else { bail!("{USAGE}") };
        match *word {
            "--target" => request.targets.push((*value).to_owned()),
            "--binary" => request.binary = Some(value.into()),
            "--out" => request.out = value.into(),
            _ => bail!("{USAGE}"),
        }
    }
    if request.binary.is_some() && request.targets.len() != 1 {
        bail!("--binary needs the one --target it was built for\n{USAGE}");
    }
    if request.targets.is_empty() {
        request.targets = TARGETS.iter().map(|target| target.triple.to_owned()).collect();
    }
    Ok(request)
}

/// The variable by which build scripts find the C compiler of a target.
fn compiler_variable(triple: &str) -> String {
    format!("CC_{}", triple.replace('-', "_"))
}

/// The C compiler of a target: what the environment names, or what musl's packages bring.
fn compiler(triple: &str) -> Option<OsString> {
    let known = TARGETS.iter().find(|target| target.triple == triple).map(|target| target.compiler.into());
    std::env::var_os(compiler_variable(triple)).or(known)
}

/// Says what keeps a target from being built, and what to do about it.
fn find_obstacle(triple: &str) -> Result<Option<String>> {
    let mut ask = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    ask.current_dir(shell::root()).args(["--print", "target-libdir", "--target", triple]);
    let library = shell::output(&mut ask)?;
    if !Path::new(library.trim()).is_dir() {
        return Ok(Some(format!(
            "its standard library is not installed\n    hint: `rustup target add {triple}`"
        )));
    }
    let Some(compiler) = compiler(triple) else { return Ok(None) };
    if Command::new(&compiler).arg("--version").output().is_err() {
        return Ok(Some(format!(
            "there is no C compiler `{}`, which TLS, SQLite and zstd need\n    hint: install one (Debian's `musl-tools` for \
             x86_64) or name it in {}",
            compiler.to_string_lossy(),
            compiler_variable(triple)
        )));
    }
    Ok(None)
}

fn build(triple: &str) -> Result<PathBuf> {
    let mut cargo =
        shell::cargo(&["build", "--locked", "--release", "--package", "slipway", "--target", triple]);
    if let Some(compiler) = compiler(triple) {
        let linker = format!("CARGO_TARGET_{}_LINKER", triple.replace('-', "_").to_uppercase());
        cargo.env(compiler_variable(triple), &compiler).env(linker, &compiler);
    }
    shell::run(&mut cargo)?;
    Ok(shell::target().join(triple).join("release/slipway"))
}

/// What goes with a binary, whatever its target: made by a binary for this machine.
fn companions() -> Result<Vec<PackedFile>> {
    let slipway = shell::slipway(shell::Profile::Debug)?;
    let mut files = Vec::new();
    for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
        let content = fs::read(shell::root().join(name)).with_context(|| format!("read {name}"))?;
        files.push(PackedFile { path: name.to_owned(), mode: 0o644, content });
    }
    for (shell, name) in [("bash", "slipway.bash"), ("zsh", "_slipway"), ("fish", "slipway.fish")] {
        let script = shell::output(Command::new(&slipway).args(["completions", shell]))?;
        let (path, content) = (format!("completions/{name}"), script.into_bytes());
        files.push(PackedFile { path, mode: 0o644, content });
    }
    let pages = shell::target().join("dist-man");
    let _ = fs::remove_dir_all(&pages);
    shell::output(Command::new(&slipway).arg("man").arg(&pages))?;
    for page in fs::read_dir(&pages).with_context(|| format!("read {}", pages.display()))? {
        let page = page?;
        let path = format!("man/man1/{}", page.file_name().to_string_lossy());
        files.push(PackedFile { path, mode: 0o644, content: fs::read(page.path())? });
    }
    Ok(files)
}

/// Writes `slipway-VERSION-TRIPLE.tar.gz`, whose files lie in one directory.
fn write_archive(out: &Path, triple: &str, binary: Vec<u8>, companions: &[PackedFile]) -> Result<PathBuf> {
    let name = format!("slipway-{}-{triple}", env!("CARGO_PKG_VERSION"));
    let mut files = companions.to_vec();
    files.push(PackedFile { path: "slipway".to_owned(), mode: 0o755, content: binary });
    files.sort_by(|one, two| one.path.cmp(&two.path));
    let encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(encoder);
    for file in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(file.mode);
        header.set_size(file.content.len() as u64);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{name}/{}", file.path), file.content.as_slice())?;
    }
    let path = out.join(format!("{name}.tar.gz"));
    let packed = archive.into_inner()?.finish()?;
    fs::write(&path, packed).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Writes the checksums of all archives, as `sha256sum -c` reads them.
fn write_checksums(out: &Path) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(out)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(Some(name).filter(|name| name.ends_with(".tar.gz")));
    }
    names.sort();
    let mut sums = String::new();
    for name in names {
        let digest = Sha256::digest(fs::read(out.join(&name))?);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push_str(&format!("{digest}  {name}\n"));
    }
    fs::write(out.join("SHA256SUMS"), sums)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn an_archive_has_everything_in_one_directory_and_is_the_same_every_time() {
        let place = std::env::temp_dir().join(format!("slipway-dist-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory");
        let page = PackedFile { path: "man/man1/slipway.1".into(), mode: 0o644, content: b".TH".to_vec() };
        let make = || write_archive(&place, "x86_64-test", b"binary".to_vec(), std::slice::from_ref(&page));
        let path = make().expect("is written");
        let first = fs::read(&path).expect("is read");
        assert_eq!(first, fs::read(make().expect("is written")).expect("is read"));

        let mut archive = tar::Archive::new(GzDecoder::new(first.as_slice()));
        let mut found = Vec::new();
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).expect("is read");
            found.push((path, entry.header().mode().expect("a mode"), content));
        }
        let name = format!("slipway-{}-x86_64-test", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            found,
            [
                (format!("{name}/man/man1/slipway.1"), 0o644, ".TH".to_owned()),
                (format!("{name}/slipway"), 0o755, "binary".to_owned()),
            ]
        );
        write_checksums(&place).expect("are written");
        let sums = fs::read_to_string(place.join("SHA256SUMS")).expect("is read");
        let digest: String = Sha256::digest(&first).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sums, format!("{digest}  {name}.tar.gz\n"));
        fs::remove_dir_all(&place).expect("is removed");
    }

    #[test]
    fn both_static_targets_are_meant_unless_one_is_named() {
        let request = read_request(&[]).expect("is read");
        assert_eq!(request.targets, ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"]);
        assert!(read_request(&["--binary", "slipway"]).is_err(), "nobody knows what it was built for");
        assert!(read_request(&["--out"]).is_err());
    }

    #[test]
    fn a_target_that_cannot_be_built_says_what_it_needs() {
        // No toolchain brings the standard library of this one.
        let obstacle = find_obstacle("m68k-unknown-linux-gnu").expect("rustc knows it").expect("is missing");
        assert!(obstacle.contains("rustup target add m68k-unknown-linux-gnu"), "{obstacle}");
        assert_eq!(compiler_variable("x86_64-unknown-linux-musl"), "CC_x86_64_unknown_linux_musl");
    }
}

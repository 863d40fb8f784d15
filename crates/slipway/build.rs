//! Links the program so that it starts soon and is small.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_static =
        std::env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|features| features.contains("crt-static"));
    let is_gnu_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // At a fixed address, as kubectl and Helm are linked: the table of some hundred thousand addresses that the loader
    // otherwise corrects before `main` takes longer than rendering a small chart. A static program is linked by other
    // rules, with a start of its own.
    if is_gnu_linux && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    if is("PROFILE", "release") && is_gnu_linux && !is_static {
        link_unwinder_statically();
    }
    // Generic functions that compile to the same instructions are kept once. Only LLVM's linker can do it.
    if is("PROFILE", "release") && is_gnu_linux && is("CARGO_CFG_TARGET_ARCH", "x86_64") && links_with_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Takes the functions that unwind a panic from the compiler's archive. As a shared library they cost every start the mapping
/// of another file and instructions that ask the processor what it is, which are slow on virtual machines.
fn link_unwinder_statically() {
    let Some(directory) = std::env::var_os("OUT_DIR") else { return };
    // The standard library asks for `gcc_s`; this directory is searched first, and linkers read scripts in place of libraries.
    let script = Path::new(&directory).join("libgcc_s.so");
    if std::fs::write(script, "INPUT(-lgcc_eh -lgcc)\n").is_ok() {
        println!("cargo::rustc-link-search=native={}", Path::new(&directory).display());
    }
}

/// Returns true if the toolchain brings LLVM's linker, which it then uses for this target.
fn links_with_lld() -> bool {
    let Some(rustc) = std::env::var_os("RUSTC") else { return false };
    let Ok(answer) = Command::new(rustc).args(["--print", "sysroot"]).output() else { return false };
    let Ok(sysroot) = String::from_utf8(answer.stdout) else { return false };
    Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/ld.lld").exists()
}

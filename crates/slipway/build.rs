//! Links the binary for a fixed place in memory.
//!
//! A binary that can lie anywhere has its tables of addresses written anew, page by page, each time it
//! starts; that is a good part of what rendering a small chart takes.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| std::env::var(name).is_ok_and(|value| value == wanted);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

//! Builds the kustomization in a directory and prints it: `cargo run --example build DIR`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use slipway_kustomize::{BuildOptions, build};

fn main() -> ExitCode {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    match build(Path::new(&directory), &BuildOptions::default()) {
        Ok(built) => {
            for warning in &built.warnings {
                eprintln!("{warning}");
            }
            print!("{}", built.to_yaml());
            ExitCode::SUCCESS
        }
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::FAILURE
        }
    }
}

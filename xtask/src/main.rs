//! The project's only build tool: `cargo xtask test|docs|bench|conformance|soak|ci`.

mod bench;
mod book;
mod charts;
mod ci;
mod conformance;
mod dist;
mod docs;
mod fuzz;
mod gitea;
mod image;
mod layers;
mod lint;
mod oracle;
mod parity;
mod peers;
mod real;
mod shell;
mod soak;
mod stack;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  test                     every test that needs only Rust and git, and the stale-docs check;
                           SLIPWAY_KILL_POINTS=all kills promotions after every change, not after chosen ones
  lint                     formatting, clippy, rustdoc
  docs [--check]           write the generated pages under docs/reference, or fail when they are stale, a page is
                           not in docs/SUMMARY.md or a link leads nowhere
  site                     the documentation as a site in target/site, by mdBook
  pictures                 draw the pictures in docs/images anew, from real runs on a terminal
  dist [--target TRIPLE].. [--binary FILE] [--out DIR]
                           archives of static binaries with completions, manual pages and checksums
  bench [NAME..] [--short] measure; prints a table and writes target/bench/NAME.json
  bench [NAME..] --gate    the same, and fail when a ratio is a tenth below the median of the last five runs on this kind of
                           machine, which are kept beside the peers; SLIPWAY_BENCH_HISTORY moves them
  bench release --real     a release on a real API server beside Helm: install, upgrade, no change
  bench stack --real       300 releases on a real API server beside a loop of `helm upgrade --install`
  bench compare OLD NEW    two builds of slipway in instructions (needs valgrind): render, install, stacks, sandbox
  bench sandbox --objects N
                           N objects created, watched and listed in pages, none lost
  conformance [SUITE..] [--charts DIR]
                           compare with the real programs, which it installs by package name; suite
                           `kubectl` installs the charts of DIR as well
  image [--binary FILE] [--base DIR] [--out DIR]
                           an OCI image of the binary as a layout, on a base with git, without a container engine
  real                     run a real control plane on loopback until standard input ends
  oracle                   record anew what real Helm says to our own charts
  parity                   list the flags of real Helm 3 and 4 anew, for docs/reference/helm-and-nelm.md
  fuzz [TARGET..] [--seconds N]
                           feed every parser mutated inputs; 60 seconds each unless told
  soak sandbox [--minutes N]
                           many clients and restarts by kill -9; no write lost, every event once
  soak runbook [--kills N] kill -9 a runbook's run again and again; it always ends as if undisturbed
  soak output [--runs N]   commands with closed, full and blocked streams; exit codes and records stay right
  soak stack [--kills N]   a stack of 30 releases under kill -9; nothing applied twice, nothing skipped
  soak release [--kills N] [--seed N] [--real] [--release-build]
                           apply killed at random points and run again; the end is that of a calm run
  ci                       what CI runs after `test`: lint, short benchmarks, conformance
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test::run(),
        ["lint"] => lint::run(),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["site"] => book::build(),
        ["pictures"] => docs::draw_pictures(),
        ["dist", rest @ ..] => dist::run(rest),
        ["bench", rest @ ..] => bench::run(rest),
        ["conformance", suites @ ..] => conformance::run(suites),
        ["image", rest @ ..] => image::run(rest),
        ["real"] => real::run(),
        ["oracle"] => oracle::run(),
        ["parity"] => parity::write_lists(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["ci"] => ci::run(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `slipway-fuzz [TARGET..] [--seconds N] [--seed N]`: feeds targets until the time is up.

use std::process::ExitCode;
use std::time::Duration;

use slipway_fuzz::{TARGETS, run};

/// Inputs that take longer are shown.
const SLOW: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let mut seconds = 60;
    let mut seed = 1;
    let mut names = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok());
        match arg.as_str() {
            "--seconds" => seconds = number().unwrap_or(seconds),
            "--seed" => seed = number().unwrap_or(seed),
            _ => names.push(arg),
        }
    }
    if let Some(unknown) = names.iter().find(|name| !TARGETS.iter().any(|target| target.name == **name)) {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("error: there is no target `{unknown}`; there are: {}", known.join(", "));
        return ExitCode::from(64);
    }
    for target in
        TARGETS.iter().filter(|target| names.is_empty() || names.iter().any(|name| name == target.name))
    {
        let fed = run(target, seed, Duration::from_secs(seconds), u64::MAX);
        println!("{}: {} inputs in {seconds} s, slowest {:?}", target.name, fed.inputs, fed.slowest);
        if fed.slowest > SLOW {
            let text = String::from_utf8_lossy(&fed.slow);
            println!("{}: the slowest has {} bytes: {text:?}", target.name, fed.slow.len());
        }
    }
    ExitCode::SUCCESS
}

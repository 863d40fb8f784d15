//! A release of fifteen workloads watched for a minute on terminals of two sizes: how much is written, and whether the
//! timers keep up. The test that watches it checks the table, Ctrl-C and a change of size as well.

use anyhow::{Result, bail};
use serde_json::Value;

use super::Effort;
use crate::shell;

const TEST: &str = "watching::a_release_of_fifteen_workloads_is_followed_on_a_terminal";
/// Output of a minute, in kB.
const MOST: f64 = 30.0;
/// Seconds a timer may be behind the clock of the whole run: the objects have to be written first.
const LATEST: f64 = 15.0;

pub fn run(effort: Effort) -> Result<Vec<Value>> {
    let seconds = if effort == Effort::Short { "5" } else { "60" };
    let mut test =
        shell::cargo(&["test", "--quiet", "--package", "slipway", "--locked", "--test", "it", "--"]);
    test.args(["--exact", TEST, "--nocapture"]).env("SLIPWAY_WATCH_SECONDS", seconds);
    let printed = shell::output(&mut test)?;
    // The test's own lines stand between those of the program that runs it.
    let rows: Vec<Value> = printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let rows: Vec<Value> = rows.into_iter().filter(Value::is_object).collect();
    if rows.len() != 2 {
        bail!("the test measured {} terminals, not 2:\n{printed}", rows.len());
    }
    for row in rows.iter().filter(|_| effort == Effort::Full) {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::MAX);
        if number("kB a minute") > MOST {
            bail!("{} kB a minute on {}, {MOST} are allowed", row["kB a minute"], row["terminal"]);
        }
        if number("seconds") - number("timer") > LATEST {
            bail!("a timer shows {} s after {} s on {}", row["timer"], row["seconds"], row["terminal"]);
        }
    }
    Ok(rows)
}

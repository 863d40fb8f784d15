//! Prints how long discovering, merging, selecting and planning take, one JSON object a line.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use slipway_problem::Problems;
use slipway_stack::{Git, Profile, Request, Selector, compile, load};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let short = std::env::args().any(|arg| arg == "--short");
    let (sizes, rounds): (&[usize], usize) =
        if short { (&[100, 200], 1) } else { (&[500, 1000, 2000, 4000], 7) };
    for &releases in sizes {
        let place = tempfile::tempdir()?;
        write(place.path(), releases)?;
        commit(place.path())?;
        let request =
            |selector: Selector| Request { root: place.path().to_owned(), selector, ..Request::default() };
        let tagged = Selector { tags: vec!["t3".into()], include_deps: true, ..Selector::default() };
        let git = Selector { git_range: Some("HEAD~1...HEAD".into()), ..Selector::default() };
        let measure = |name: &str, work: &dyn Fn() -> usize| {
            let mut times: Vec<f64> = Vec::new();
            let mut nodes = 0;
            for _ in 0..rounds {
                let began = Instant::now();
                nodes = work();
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            times.sort_by(f64::total_cmp);
            let ms = times[times.len() / 2];
            println!("{}", json!({"phase": name, "releases": releases, "selected": nodes, "ms": ms}));
        };
        measure("discover and merge", &|| {
            load(place.path(), &Profile::Default, &mut Problems::new()).releases.len()
        });
        let plan = |selector: &Selector| {
            compile(&request(selector.clone()), &Git::default())
                .map_or(0, |compiled| compiled.plan.nodes.len())
        };
        measure("plan all", &|| plan(&Selector::default()));
        measure("plan a tag and its needs", &|| plan(&tagged));
        measure("plan a git range", &|| plan(&git));
    }
    Ok(())
}

/// About three releases a directory, in two levels, a chart for every ten releases.
fn write(root: &Path, releases: usize) -> std::io::Result<()> {
    fs::write(
        root.join("stack.yaml"),
        "name: bench\ndefaults: {namespace: bench, values: [common.yaml], set: {a.b: 1}, tags: [all]}\n",
    )?;
    fs::write(root.join("common.yaml"), "x: 1\n")?;
    for chart in 0..releases.div_ceil(10) {
        let dir = root.join(format!("charts/c{chart}"));
        fs::create_dir_all(dir.join("templates"))?;
        fs::write(dir.join("Chart.yaml"), format!("apiVersion: v2\nname: c{chart}\nversion: 0.1.0\n"))?;
        fs::write(dir.join("values.yaml"), "replicas: 1\n")?;
        fs::write(dir.join("templates/deployment.yaml"), "kind: Deployment\n".repeat(40))?;
    }
    let directories = (releases * 3).div_ceil(10).max(1);
    for directory in 0..directories {
        let dir = root.join(format!("team{}/app{directory}", directory % 10));
        fs::create_dir_all(&dir)?;
        let mut text = String::from("defaults:\n  tags: [team]\nreleases:\n");
        for number in (directory..releases).step_by(directories) {
            let needs = if number % 4 == 0 { String::new() } else { format!("r{}", number - 1) };
            text += &format!(
                "- name: r{number}\n  chart: ../../charts/c{}\n  values: [r{number}.yaml]\n  tags: [t{}]\n  needs: [{needs}]\n",
                number / 10,
                number % 20
            );
            fs::write(dir.join(format!("r{number}.yaml")), format!("n: {number}\n"))?;
        }
        fs::write(dir.join("stack.yaml"), text)?;
    }
    Ok(())
}

/// Two commits, the second of which changes one values file.
fn commit(root: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "commit.gpgsign=false"];
        Command::new("git").arg("-C").arg(root).args(identity).args(args).output()
    };
    git(&["init", "-q"])?;
    git(&["add", "-A"])?;
    git(&["commit", "-q", "-m", "one"])?;
    let first = root.join("team0/app0/r0.yaml");
    fs::write(first, "n: changed\n")?;
    git(&["commit", "-q", "-a", "-m", "two"])?;
    Ok(())
}

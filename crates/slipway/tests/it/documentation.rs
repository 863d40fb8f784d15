//! The commands of the documentation, run as a reader would run them.
//!
//! Every page under `docs/` and the README is read. What a fence opens with says what is done with it:
//!
//! | fence | meaning |
//! | --- | --- |
//! | `sh` | must succeed |
//! | `sh fails` | must fail |
//! | `sh example` | is not run, since it needs what a test does not have (a cluster, a registry, a long build); its lines must be such that we take |
//! | `text` right after a command | lines that the command prints, in this order; `…` stands for anything |
//! | `yaml` that begins with `# NAME.yaml` | a file that later commands read |
//!
//! The blocks of a page share a session, as in one terminal: directory, exported variables and an embedded cluster. A session begins
//! in a directory that holds a copy of `examples`, as a checkout does. `SLIPWAY_PAGES=stacks` runs only pages with this in their path.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::support::{Place, wait_for_end};

/// How many pages are tried at once. Most of the time of a command is waiting.
const WORKERS: usize = 8;

/// One part of a page that a reader acts on.
#[derive(Debug, PartialEq, Eq)]
enum Block {
    /// Commands to run.
    Commands { line: usize, script: String, expected: Expected, shown: Vec<String> },
    /// A file to write.
    Document { path: String, text: String },
}

/// The end a block of commands must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Success,
    Failure,
}

/// The blocks of a page in their order.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().zip(1..);
    // Whether only blank lines came since the end of a block of commands.
    let mut after_commands = false;
    while let Some((opening, line)) = lines.next() {
        let Some(language) = opening.strip_prefix("```") else {
            after_commands &= opening.is_empty();
            continue;
        };
        let body: Vec<&str> =
            lines.by_ref().map(|(text, _)| text).take_while(|text| *text != "```").collect();
        let expected = match language {
            "sh" => Some(Expected::Success),
            "sh fails" => Some(Expected::Failure),
            _ => None,
        };
        if let Some(expected) = expected {
            found.push(Block::Commands { line, script: body.join("\n"), expected, shown: Vec::new() });
        } else if let ("text", true, Some(Block::Commands { shown, .. })) =
            (language, after_commands, found.last_mut())
        {
            *shown = body.iter().map(ToString::to_string).collect();
        } else if let ("yaml", Some(path)) = (language, body.first().and_then(|line| file_name(line))) {
            found.push(Block::Document { path: path.to_owned(), text: body.join("\n") + "\n" });
        }
        after_commands = expected.is_some();
    }
    found
}

/// The file that a comment such as `# values.yaml` names.
fn file_name(comment: &str) -> Option<&str> {
    let name = comment.strip_prefix("# ")?;
    (!name.contains(' ') && (name.ends_with(".yaml") || name.ends_with(".yml"))).then_some(name)
}

/// Whether a printed line is the shown one, in which `…` stands for anything. The number of spaces does not matter.
fn is_shown(shown: &str, printed: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed = words(printed);
    let mut parts = shown.split('…').map(words);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first.as_str()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part.as_str());
        }
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// The first shown line that the output does not have in its place.
fn missing_line<'s>(shown: &'s [String], output: &str) -> Option<&'s str> {
    let mut printed = output.lines();
    let told = shown.iter().map(String::as_str).filter(|line| !matches!(line.trim(), "" | "…"));
    told.into_iter().find(|line| !printed.any(|printed| is_shown(line, printed)))
}

/// A reader's terminal.
struct Session<'p> {
    place: &'p Place,
    directory: PathBuf,
    path: std::ffi::OsString,
}

impl<'p> Session<'p> {
    fn new(place: &'p Place) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_slipway")).parent().expect("is in a directory");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(program.to_owned()).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path).expect("directories without separators");
        place.copy_as("slipway/examples", &repository().join("examples"));
        place.write(".session/variables", "");
        Self { place, directory: place.path().join("slipway"), path }
    }

    /// Writes a file that the page shows.
    fn write(&self, path: &str, text: &str) {
        let path = match path.strip_prefix("~/") {
            Some(path) => self.place.path().join(path),
            None => self.directory.join(path),
        };
        fs::create_dir_all(path.parent().expect("a file is in a directory")).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs commands; returns whether they succeeded and what they printed.
    fn run(&mut self, what: &str, script: &str) -> (bool, String) {
        let session = self.place.path().join(".session");
        let output = File::create(session.join("output")).unwrap();
        let script = format!(
            ". \"$HOME/.session/variables\"\n{script}\n\
             export -p > \"$HOME/.session/variables\"\npwd > \"$HOME/.session/directory\"\n"
        );
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).current_dir(&self.directory).env_clear();
        shell.env("HOME", self.place.path()).env("PATH", &self.path);
        for person in ["AUTHOR", "COMMITTER"] {
            shell
                .env(format!("GIT_{person}_NAME"), "reader")
                .env(format!("GIT_{person}_EMAIL"), "reader@example.com");
        }
        shell.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut shell = shell.spawn().expect("a shell runs");
        let status = wait_for_end(&mut shell, what);
        if let Ok(directory) = fs::read_to_string(session.join("directory")) {
            self.directory = directory.trim_end().into();
        }
        let printed = fs::read(session.join("output")).unwrap();
        (status.success(), String::from_utf8_lossy(&printed).into_owned())
    }
}

/// Runs a page; returns what is wrong with it.
fn try_page(name: &str, blocks: Vec<Block>) -> Result<(), String> {
    let place = Place::new();
    let mut session = Session::new(&place);
    for block in blocks {
        match block {
            Block::Document { path, text } => session.write(&path, &text),
            Block::Commands { line, script, expected, shown } => {
                let what = format!("{name}:{line}");
                let (succeeded, output) = session.run(&what, &script);
                if succeeded != (expected == Expected::Success) {
                    return Err(format!("{what}: expected {expected:?}\n{script}\n{output}"));
                }
                if let Some(missing) = missing_line(&shown, &output) {
                    return Err(format!("{what}: does not print `{missing}`\n{script}\n{output}"));
                }
            }
        }
    }
    Ok(())
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and every page under `docs/`, by their paths.
fn pages() -> Vec<(String, String)> {
    let repository = repository();
    let mut found = vec![repository.join("README.md")];
    let mut pending = vec![repository.join("docs")];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).expect("is a directory") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    let named = found.into_iter().map(|path| {
        let name = path.strip_prefix(&repository).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    });
    named.collect()
}

#[test]
fn every_command_of_the_documentation_does_what_its_page_says() {
    let wanted = std::env::var("SLIPWAY_PAGES").unwrap_or_default();
    let read = pages().into_iter().filter(|(name, _)| name.contains(&wanted));
    let read = read.map(|(name, text)| (name, blocks(&text)));
    let queue: Vec<_> = read
        .filter(|(_, blocks)| blocks.iter().any(|block| matches!(block, Block::Commands { .. })))
        .collect();
    assert!(!queue.is_empty(), "no page has commands");
    let (queue, wrong) = (Mutex::new(queue), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    // The longest pages are among the last, so they are the first to begin.
                    let next = queue.lock().unwrap().pop();
                    let Some((name, blocks)) = next else { return };
                    if let Err(problem) = try_page(&name, blocks) {
                        wrong.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The scripts of a page that are not run, with the line each begins at.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((opening, line)) = lines.next() {
        if !opening.starts_with("```") {
            continue;
        }
        let body: Vec<&str> =
            lines.by_ref().map(|(text, _)| text).take_while(|text| *text != "```").collect();
        if opening == "```sh example" {
            found.push((line, body.join("\n")));
        }
    }
    found
}

/// Blocks that are not run are read by a shell in which our program only looks at its words, and no other program is found.
#[test]
fn examples_of_the_documentation_are_lines_we_take() {
    let place = Place::new();
    let look = "#!/bin/sh\n\"$SLIPWAY\" \"$@\" --help > /dev/null 2>> \"$HOME/wrong\" || echo \"in: slipway $*\" >> \"$HOME/wrong\"\n\
                echo . >> \"$HOME/seen\"\n";
    place.write("bin/slipway", look);
    let program = place.path().join("bin/slipway");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut wrong = Vec::new();
    for (name, text) in pages() {
        for (line, script) in examples(&text) {
            place.write("wrong", "");
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &script]).current_dir(place.path()).env_clear();
            // A reader's variables have a value.
            for rest in script.split('$').skip(1) {
                let is_other = |letter: char| !letter.is_ascii_uppercase() && letter != '_';
                let name = rest.split(is_other).next().unwrap_or_default();
                if !name.is_empty() {
                    shell.env(name, "word");
                }
            }
            shell.env("HOME", place.path()).env("PATH", place.path().join("bin"));
            shell.env("SLIPWAY", env!("CARGO_BIN_EXE_slipway"));
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut shell = shell.spawn().expect("a shell runs");
            wait_for_end(&mut shell, &format!("{name}:{line}"));
            let said = fs::read_to_string(place.path().join("wrong")).unwrap();
            if !said.is_empty() {
                wrong.push(format!("{name}:{line}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let seen = fs::read_to_string(place.path().join("seen")).unwrap().lines().count();
    assert!(seen >= 40, "{seen} commands");
}

#[test]
fn newcomers_find_sixty_tasks() {
    let pages = pages();
    let (_, tasks) =
        pages.iter().find(|(name, _)| name == "docs/reference/tasks.md").expect("the page exists");
    let mut missing = Vec::new();
    let mut sections = tasks.split("\n### ").skip(1).peekable();
    assert!(sections.peek().is_some());
    let mut count = 0;
    for task in sections {
        count += 1;
        if !blocks(task).iter().any(|block| matches!(block, Block::Commands { .. })) {
            missing.push(task.lines().next().unwrap_or_default());
        }
    }
    assert!(count >= 60, "{count} tasks");
    assert!(missing.is_empty(), "tasks without a command that is run: {missing:?}");
}

#[test]
fn fences_say_what_a_reader_does() {
    let page = "\
```sh
slipway list
```

```text
NAME …
```

```yaml
# values.yaml
a: 1
```

```sh example
helm list
```

```text
not checked
```

```sh fails
slipway lists
```
";
    let commands = |line, script: &str, expected, shown: &[&str]| Block::Commands {
        line,
        script: script.to_owned(),
        expected,
        shown: shown.iter().map(ToString::to_string).collect(),
    };
    let expected = [
        commands(1, "slipway list", Expected::Success, &["NAME …"]),
        Block::Document { path: "values.yaml".to_owned(), text: "# values.yaml\na: 1\n".to_owned() },
        commands(22, "slipway lists", Expected::Failure, &[]),
    ];
    assert_eq!(blocks(page), expected);
}

#[test]
fn shown_lines_leave_out_what_changes() {
    for (shown, printed, expected) in [
        ("done in …", "done in 3 s", true),
        ("  a  b", "a b", true),
        ("a", "ab", false),
        ("a … c … e", "a b c d e", true),
        ("a … c … e", "a b d e", false),
        ("… e", "a b e", true),
        ("error: … failed", "error: x failed later", false),
    ] {
        assert_eq!(is_shown(shown, printed), expected, "{shown:?} {printed:?}");
    }
}

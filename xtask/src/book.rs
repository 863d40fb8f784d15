//! The documentation as a book: its table of contents, its links and the site made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{peers, shell};

/// The table of contents.
const CONTENTS: &str = "docs/SUMMARY.md";
/// Pages outside of the book whose links are checked with it.
const OUTSIDE: [&str; 3] = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"];

/// Builds the site in `target/site`.
pub fn build() -> Result<()> {
    check()?;
    let site = shell::target().join("site");
    let mdbook = peers::mdbook()?;
    shell::run(
        Command::new(mdbook).arg("build").arg(shell::root().join("docs")).arg("--dest-dir").arg(&site),
    )?;
    eprintln!("wrote {}", site.join("index.html").display());
    Ok(())
}

/// Fails when a page is not in the table of contents, or a relative link leads nowhere.
pub fn check() -> Result<()> {
    let problems = problems(&read_pages()?, |path| shell::root().join(path).exists());
    if !problems.is_empty() {
        bail!("the documentation is not whole:\n  {}", problems.join("\n  "));
    }
    eprintln!("every page can be found, and every link leads somewhere");
    Ok(())
}

/// The text of every page by its path below the root.
fn read_pages() -> Result<BTreeMap<PathBuf, String>> {
    let mut paths: Vec<PathBuf> = OUTSIDE.iter().map(PathBuf::from).collect();
    let mut pending = vec![PathBuf::from("docs")];
    while let Some(directory) = pending.pop() {
        let entries = fs::read_dir(shell::root().join(&directory));
        for entry in entries.with_context(|| format!("read {}", directory.display()))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    let read = paths.into_iter().map(|path| {
        let text = fs::read_to_string(shell::root().join(&path));
        let text = text.with_context(|| format!("read {}", path.display()))?;
        Ok((path, text))
    });
    read.collect()
}

/// Everything that is wrong with the pages; `exists` knows the files that are not pages.
fn problems(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let contents = Path::new(CONTENTS);
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for (page, text) in pages {
        for Link { line, target } in links(text) {
            let at = format!("{}:{line}", page.display());
            let (path, anchor) =
                target.split_once('#').map_or((target, None), |(path, name)| (path, Some(name)));
            let path = if path.is_empty() { Some(page.clone()) } else { resolve(page, path) };
            let Some(path) = path else {
                problems.push(format!("{at}: `{target}` leads out of the repository"));
                continue;
            };
            if page.starts_with("docs") && !path.starts_with("docs") {
                problems.push(format!("{at}: `{target}` leads out of docs/, which a site does not have"));
            }
            if page == contents && !listed.insert(path.clone()) {
                problems.push(format!("{at}: `{target}` is listed twice"));
            }
            match (pages.get(&path), anchor) {
                (Some(text), Some(anchor)) if !anchors(text).contains(anchor) => {
                    problems.push(format!("{at}: {} has no heading `#{anchor}`", path.display()));
                }
                (None, _) if !exists(&path) => problems.push(format!("{at}: `{target}` is not there")),
                _ => {}
            }
        }
    }
    let unlisted = pages.keys().filter(|page| page.starts_with("docs") && *page != contents);
    let unlisted = unlisted.filter(|page| !listed.contains(*page));
    problems.extend(unlisted.map(|page| format!("{CONTENTS}: {} is missing", page.display())));
    problems
}

/// A link to another place of the repository.
#[derive(Debug, PartialEq, Eq)]
struct Link<'t> {
    line: usize,
    target: &'t str,
}

/// The relative links of a page.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        let mut rest = text;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            rest = after;
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(Link { line, target });
            }
        }
    }
    found
}

/// The names by which the headings of a page can be linked to, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let headings =
        prose(text).filter_map(|(_, line)| Some(line.trim_start_matches('#')).filter(|rest| *rest != line));
    for heading in headings {
        let words = heading.trim().to_lowercase();
        let kept = words.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
        let name: String = kept.map(|char| if char == ' ' { '-' } else { char }).collect();
        let repeated = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(repeated).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// The numbered lines of a page outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The path below the root that a link of a page leads to, unless that is outside of the root.
fn resolve(page: &Path, target: &str) -> Option<PathBuf> {
    let mut path = page.parent()?.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::{anchors, problems};

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: BTreeMap<_, _> =
            pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        problems(&pages, |path| path.ends_with("a.schema.json"))
    }

    #[test]
    fn whole_books_have_no_problems() {
        let contents = "# Summary\n\n- [A](a.md)\n- [B](guides/b.md)\n";
        let a =
            "# A\n[b](guides/b.md#the-end) [schema](a.schema.json) [out](https://example.com) [here](#a)\n";
        let b = "# B\n## The end\n```sh\n[not](a-link.md)\n```\n[a](../a.md)\n";
        let readme = "[a](docs/a.md)\n";
        let pages =
            [("docs/SUMMARY.md", contents), ("docs/a.md", a), ("docs/guides/b.md", b), ("README.md", readme)];
        assert_eq!(found(&pages), Vec::<String>::new());
    }

    #[test]
    fn every_problem_is_told_with_its_place() {
        let pages = [
            ("docs/SUMMARY.md", "- [A](a.md)\n- [A](a.md)\n"),
            ("docs/a.md", "[x](b.md#nothing)\n[y](c.md)\n[z](../README.md)\n[w](../../x)\n"),
            ("docs/b.md", "# B\n"),
            ("README.md", ""),
        ];
        let expected = [
            "docs/SUMMARY.md:2: `a.md` is listed twice",
            "docs/a.md:1: docs/b.md has no heading `#nothing`",
            "docs/a.md:2: `c.md` is not there",
            "docs/a.md:3: `../README.md` leads out of docs/, which a site does not have",
            "docs/a.md:4: `../../x` leads out of the repository",
            "docs/SUMMARY.md: docs/b.md is missing",
        ];
        assert_eq!(found(&pages), expected);
    }

    #[test]
    fn headings_are_linked_to_as_on_a_site() {
        let page = "# `slipway stack plan`\n## What, when & why?\n## A\n## A\n```text\n# not one\n```\n";
        let expected = ["a", "a-1", "slipway-stack-plan", "what-when--why"];
        assert_eq!(anchors(page), expected.map(str::to_owned).into());
    }
}

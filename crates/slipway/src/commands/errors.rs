//! The catalogue of codes: what a problem with a code means, and what to do about it.

use std::fmt::Write as _;

/// One line a code, parts begun by `=`.
const CATALOGUE: &str = include_str!("errors.txt");

/// A part of the catalogue: the codes of one kind of file.
struct CodePart {
    title: &'static str,
    about: &'static str,
    codes: Vec<CodeEntry>,
}

/// What is said of a code.
struct CodeEntry {
    code: &'static str,
    meaning: &'static str,
    remedy: &'static str,
}

fn parts() -> Vec<CodePart> {
    let mut parts: Vec<CodePart> = Vec::new();
    for line in CATALOGUE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.splitn(3, " | ").map(str::trim);
        let mut field = || fields.next().unwrap_or_default();
        match (line.strip_prefix("= "), parts.last_mut()) {
            (Some(_), _) => {
                let (title, about) = (field().trim_start_matches("= "), field());
                parts.push(CodePart { title, about, codes: Vec::new() });
            }
            (None, Some(part)) => {
                part.codes.push(CodeEntry { code: field(), meaning: field(), remedy: field() });
            }
            (None, None) => {}
        }
    }
    parts
}

/// The catalogue as Markdown.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Codes of problems\n\n<!-- Made by `cargo xtask docs` from the catalogue in the program; do not edit. -->\n\n\
         Problems with files have a code, which stands in brackets at the end of the message. With `-o json` it is the `id` of the failure,\n\
         and scripts can decide on it. Each message also names the file, the line and the column, and mostly says what to do:\n\n\
         ```text\n\
         error: need \"api\" does not exist in this stack [ST020]\n \
         --> shop/web/release.yaml:6:5\n  \
         hint: did you mean `apis`?\n\
         ```\n\n\
         Failures that are not about a file have the name of their [exit code](exit-codes.md) instead. What can be wrong with a cluster,\n\
         credentials or a release is described under [troubleshooting](../troubleshooting.md).\n",
    );
    for part in parts() {
        let _ = write!(page, "\n## {}\n\n{}.\n\n", part.title, capitalized(part.about));
        page.push_str("| code | what is wrong | what to do |\n| --- | --- | --- |\n");
        for CodeEntry { code, meaning, remedy } in part.codes {
            let cell = |text: &str| text.replace('|', "\\|");
            let _ = writeln!(page, "| `{code}` | {} | {} |", cell(meaning), cell(remedy));
        }
    }
    page
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The Rust files below a directory.
    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// The codes the crates give problems, as their sources write them outside of tests.
    fn codes_in_sources() -> BTreeSet<String> {
        let pattern = regex::Regex::new(r#""((?:K[A-Z]|ST)\d{3}|[EW]\d{3})""#).unwrap();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for one in fs::read_dir(crates).unwrap().flatten() {
            sources(&one.path().join("src"), &mut files);
        }
        let mut codes = BTreeSet::new();
        for file in files {
            let text = fs::read_to_string(file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            codes.extend(pattern.captures_iter(code).map(|found| found[1].to_owned()));
        }
        codes
    }

    #[test]
    fn every_code_is_in_the_catalogue_once_with_a_remedy() {
        let parts = parts();
        let entries: Vec<&CodeEntry> = parts.iter().flat_map(|part| &part.codes).collect();
        for CodeEntry { code, meaning, remedy } in &entries {
            assert!(!meaning.is_empty() && !remedy.is_empty(), "{code}");
        }
        let known: Vec<String> = entries.iter().map(|entry| entry.code.to_owned()).collect();
        let unique: BTreeSet<String> = known.iter().cloned().collect();
        assert_eq!(known.len(), unique.len(), "a code stands twice");
        assert_eq!(unique, codes_in_sources());
    }
}

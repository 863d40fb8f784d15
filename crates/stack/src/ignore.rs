//! Ignore files, in Git's syntax.

use globset::{GlobBuilder, GlobMatcher};
use slipway_problem::{Location, Problem, Problems};

/// Names an ignore file may have.
pub(crate) const NAMES: [&str; 2] = [".slipwayignore", ".ktlignore"];

/// The rules of one ignore file; they hold for its directory and all below.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The directory, relative to the root; empty for the root.
    dir: String,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    glob: GlobMatcher,
    keep: bool,
    directories_only: bool,
}

impl Rules {
    /// Reads an ignore file; `shown` names it in messages.
    pub(crate) fn parse(dir: &str, text: &str, shown: &str, problems: &mut Problems) -> Self {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (keep, pattern) = match line.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (
                    false,
                    line.strip_prefix("\\").filter(|rest| rest.starts_with(['#', '!'])).unwrap_or(line),
                ),
            };
            let (directories_only, pattern) = match pattern.strip_suffix('/') {
                Some(rest) => (true, rest),
                None => (false, pattern),
            };
            // A slash anywhere but at the end ties the pattern to this directory.
            let anchored = pattern.contains('/');
            let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
            let glob = if anchored { pattern.to_owned() } else { format!("**/{pattern}") };
            match GlobBuilder::new(&glob).literal_separator(true).backslash_escape(true).build() {
                Ok(glob) => rules.push(Rule { glob: glob.compile_matcher(), keep, directories_only }),
                Err(error) => problems.push(
                    Problem::error(format!("`{line}` is not a pattern: {}", error.kind()))
                        .in_text(Location::new(shown, index as u32 + 1, 1), text),
                ),
            }
        }
        Self { dir: dir.to_owned(), rules }
    }

    /// Looks a path relative to the root up in the rules: ignored, kept, or nothing.
    pub(crate) fn verdict(&self, path: &str, is_directory: bool) -> Option<bool> {
        let below = match self.dir.as_str() {
            "" => path,
            dir => path.strip_prefix(dir)?.strip_prefix('/')?,
        };
        let matching = |rule: &&Rule| (!rule.directories_only || is_directory) && rule.glob.is_match(below);
        self.rules.iter().rev().find(matching).map(|rule| !rule.keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_gits_rules() {
        let mut problems = Problems::new();
        let text = "# comment\nbuild/\n/only-here\n*.bak\n!keep.bak\na/**/z\n\\#odd\n";
        let rules = Rules::parse("apps", text, "x", &mut problems);
        assert!(problems.is_empty(), "{problems}");
        for (path, directory, expected) in [
            ("apps/build", true, Some(true)),
            ("apps/x/build", true, Some(true)),
            ("apps/build", false, None),
            ("apps/only-here", true, Some(true)),
            ("apps/x/only-here", true, None),
            ("apps/old.bak", false, Some(true)),
            ("apps/keep.bak", false, Some(false)),
            ("apps/a/b/c/z", true, Some(true)),
            ("apps/#odd", false, Some(true)),
            ("other/build", true, None),
        ] {
            assert_eq!(rules.verdict(path, directory), expected, "{path}");
        }
    }
}

//! `.helmignore`: Helm's own rules, which are not Git's.

use slipway_go::filepath::{self, BadPattern};

/// The rules of one chart directory.
#[derive(Clone, Debug, Default)]
pub struct IgnoreRules {
    rules: Vec<IgnoreRule>,
}

#[derive(Clone, Debug)]
struct IgnoreRule {
    pattern: String,
    negated: bool,
    directories_only: bool,
    /// Matched against the whole relative path rather than its last element.
    whole_path: bool,
    shape: PatternShape,
}

/// What most rules are, so that hundreds of files need not be matched the long way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternShape {
    /// Nothing in it is special.
    Literal,
    /// A star, then nothing special.
    Ending,
    Other,
}

impl PatternShape {
    fn of(pattern: &str) -> Self {
        let special = |text: &str| text.contains(['*', '?', '[', '\\']);
        match pattern.strip_prefix('*') {
            Some(rest) if !special(rest) => Self::Ending,
            None if !special(pattern) => Self::Literal,
            _ => Self::Other,
        }
    }
}

impl IgnoreRules {
    /// Reads the rules, and adds the one every chart has: no dot files in `templates/`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines() {
            if let Some(rule) = IgnoreRule::parse(line.trim())? {
                rules.push(rule);
            }
        }
        rules.extend(IgnoreRule::parse("templates/.?*")?);
        Ok(Self { rules })
    }

    /// Whether the file or directory at `path` (relative, slashes) is left out. The first rule that
    /// decides wins; a negated rule leaves out everything it does not match.
    pub fn ignores(&self, path: &str, is_directory: bool) -> bool {
        if matches!(path, "" | "." | "./") {
            return false;
        }
        for rule in &self.rules {
            if rule.negated {
                if (rule.directories_only && !is_directory) || !rule.matches(path) {
                    return true;
                }
            } else if (!rule.directories_only || is_directory) && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl IgnoreRule {
    fn parse(line: &str) -> Result<Option<Self>, String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err("double-star (**) syntax is not supported".into());
        }
        filepath::matches(line, "abc").map_err(|error: BadPattern| error.to_string())?;
        let (negated, rest) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (directories_only, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
        let (anchored, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let whole_path = anchored || rest.contains('/');
        let shape = PatternShape::of(rest);
        Ok(Some(Self { pattern: rest.to_owned(), negated, directories_only, whole_path, shape }))
    }

    fn matches(&self, path: &str) -> bool {
        let name = if self.whole_path { path } else { filepath::base(path) };
        match self.shape {
            PatternShape::Literal => self.pattern == name,
            PatternShape::Ending if !self.whole_path => name.ends_with(&self.pattern[1..]),
            _ => filepath::matches(&self.pattern, name).unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_decide_as_in_helm() {
        let cases: &[(&str, &str, bool, bool)] = &[
            ("*.txt", "a.txt", false, true),
            ("*.txt", "d/a.txt", false, true),
            ("a*/", "ab", true, true),
            ("a*/", "ab.txt", false, false),
            ("foo/bar", "foo/bar", false, true),
            ("foo/bar", "x/foo/bar", false, false),
            ("/foo", "foo", false, true),
            ("/foo", "x/foo", false, false),
            ("/*.txt", "a.txt", false, true),
            ("/*.txt", "d/a.txt", false, false),
            ("*.txt", ".txt", false, true),
            ("*", "a", false, true),
            ("a\\*", "a*", false, true),
            ("*.t?t", "a.txt", false, true),
            ("\\#a", "#a", false, true),
            ("# note", "# note", false, false),
            ("!x", "Chart.yaml", false, true),
            ("!x", "x", false, false),
            ("", "templates/.dot.yaml", false, true),
            ("", "templates/a.yaml", false, false),
            ("", ".hidden", false, false),
        ];
        for (rules, path, is_directory, expected) in cases {
            let ignore = IgnoreRules::parse(rules).unwrap();
            assert_eq!(ignore.ignores(path, *is_directory), *expected, "{rules:?} on {path}");
        }
        assert_eq!(IgnoreRules::parse("a\n**/x\n").unwrap_err(), "double-star (**) syntax is not supported");
        assert_eq!(IgnoreRules::parse("[").unwrap_err(), "syntax error in pattern");
    }
}

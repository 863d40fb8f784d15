//! Constraints on versions: `1.2 - 1.4 || ^2, !=2.3`.

use std::cmp::Ordering;

use super::{SemverError, Shape, Version, compare_prerelease, version_shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

#[derive(Clone, Debug)]
struct Comparator {
    operator: Operator,
    version: Version,
    /// Some part is missing or a wildcard.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

/// A set of alternatives, each a list of comparators that must all hold.
#[derive(Clone, Debug)]
pub struct Constraints {
    groups: Vec<Vec<Comparator>>,
}

fn is_constraint_part(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'x' | b'X' | b'*' | b'|')
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

fn skip_space(text: &str, at: usize) -> usize {
    at + text.as_bytes()[at..].iter().take_while(|&&byte| is_space(byte)).count()
}

fn parse_operator(text: &str) -> (Operator, usize) {
    const OPERATORS: [(&str, Operator); 11] = [
        ("!=", Operator::NotEqual),
        (">=", Operator::GreaterEqual),
        ("=>", Operator::GreaterEqual),
        ("<=", Operator::LessEqual),
        ("=<", Operator::LessEqual),
        ("~>", Operator::Tilde),
        ("=", Operator::Equal),
        (">", Operator::Greater),
        ("<", Operator::Less),
        ("~", Operator::Tilde),
        ("^", Operator::Caret),
    ];
    OPERATORS
        .iter()
        .find(|(sign, _)| text.starts_with(sign))
        .map_or((Operator::Equal, 0), |(sign, operator)| (*operator, sign.len()))
}

/// Rewrites every `A - B` to `>= A, <= B`.
fn rewrite_ranges(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < text.len() {
        let start = skip_space(text, at);
        if let Some(low) = text.get(start..).and_then(|rest| version_shape(rest, is_constraint_part)) {
            let low_end = start + low.len;
            let dash = skip_space(text, low_end);
            if dash > low_end && text.as_bytes().get(dash) == Some(&b'-') {
                let high_start = skip_space(text, dash + 1);
                if high_start > dash + 1
                    && let Some(high) = version_shape(&text[high_start..], is_constraint_part)
                {
                    let high_end = high_start + high.len;
                    let (low, high) = (&text[start..low_end], &text[high_start..high_end]);
                    out.push_str(&format!(">= {low}, <= {high} "));
                    at = skip_space(text, high_end);
                    continue;
                }
            }
            out.push_str(&text[at..low_end]);
            at = low_end;
            continue;
        }
        let next = text[at..].chars().next().map_or(1, char::len_utf8);
        out.push_str(&text[at..at + next]);
        at += next;
    }
    out
}

impl Comparator {
    fn new(operator: Operator, shape: &Shape<'_>) -> Result<Self, SemverError> {
        let wild = |part: Option<&str>| part.is_none_or(|part| matches!(part, "x" | "X" | "*"));
        let (mut dirty, mut minor_dirty, mut patch_dirty) = (true, false, false);
        let [major, minor, patch] = shape.numbers;
        let (major, minor, patch) = (major.unwrap_or_default(), minor, patch);
        let mut text = if wild(Some(major)) {
            "0.0.0".to_owned()
        } else if wild(minor) {
            minor_dirty = true;
            format!("{major}.0.0")
        } else if wild(patch) {
            patch_dirty = true;
            format!("{major}.{}.0", minor.unwrap_or_default())
        } else {
            dirty = false;
            format!("{major}.{}.{}", minor.unwrap_or_default(), patch.unwrap_or_default())
        };
        if let Some(prerelease) = shape.prerelease {
            text.push('-');
            text.push_str(prerelease);
        }
        if let (false, Some(metadata)) = (dirty, shape.metadata) {
            text.push('+');
            text.push_str(metadata);
        }
        let version = Version::parse(&text).map_err(|_| SemverError::ConstraintVersion)?;
        Ok(Self { operator, version, dirty, minor_dirty, patch_dirty })
    }

    fn accepts_version(&self, version: &Version) -> bool {
        let wanted = &self.version;
        let prerelease_unwanted = !version.prerelease.is_empty() && wanted.prerelease.is_empty();
        if prerelease_unwanted && (self.operator != Operator::NotEqual || self.dirty) {
            return false;
        }
        let order = version.compare(wanted);
        match self.operator {
            Operator::Equal if self.dirty => self.accepts_tilde(version),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual if !self.dirty => order.is_ne(),
            Operator::NotEqual => {
                if version.major != wanted.major {
                    return true;
                }
                if self.minor_dirty {
                    return false;
                }
                if version.minor != wanted.minor {
                    return true;
                }
                if self.patch_dirty {
                    return compare_prerelease(&version.prerelease, &wanted.prerelease).is_ne()
                        && !(version.prerelease.is_empty() && wanted.prerelease.is_empty());
                }
                version.patch != wanted.patch || order.is_ne()
            }
            Operator::Greater if !self.dirty => order.is_gt(),
            Operator::Greater => match version.major.cmp(&wanted.major) {
                Ordering::Greater => true,
                Ordering::Less => false,
                Ordering::Equal if self.minor_dirty => false,
                Ordering::Equal if self.patch_dirty => version.minor > wanted.minor,
                Ordering::Equal => order.is_gt(),
            },
            Operator::Less => order.is_lt(),
            Operator::GreaterEqual => order.is_ge(),
            Operator::LessEqual if !self.dirty => order.is_le(),
            Operator::LessEqual => {
                version.major <= wanted.major
                    && !(version.major == wanted.major && version.minor > wanted.minor && !self.minor_dirty)
            }
            Operator::Tilde => self.accepts_tilde(version),
            Operator::Caret => {
                if order.is_lt() {
                    return false;
                }
                if wanted.major > 0 || self.minor_dirty {
                    return version.major == wanted.major;
                }
                if version.major > 0 {
                    return false;
                }
                if wanted.minor > 0 || self.patch_dirty {
                    return version.minor == wanted.minor;
                }
                version.minor == 0 && version.patch == wanted.patch
            }
        }
    }

    fn accepts_tilde(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted).is_lt() {
            return false;
        }
        let any =
            (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty;
        any || (version.major == wanted.major && (version.minor == wanted.minor || self.minor_dirty))
    }
}

impl Constraints {
    /// Parses a constraint.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        let text = rewrite_ranges(text);
        let groups = text.split("||").map(parse_group).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    /// Returns true if the version satisfies some alternative.
    pub fn check(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| group.iter().all(|comparator| comparator.accepts_version(version)))
    }
}

fn parse_group(text: &str) -> Result<Vec<Comparator>, SemverError> {
    let improper = || SemverError::ImproperConstraint(text.to_owned());
    let mut out = Vec::new();
    let mut at = skip_space(text, 0);
    loop {
        let (operator, len) = parse_operator(&text[at..]);
        at = skip_space(text, at + len);
        let found = version_shape(&text[at..], is_constraint_part).ok_or_else(improper)?;
        out.push((operator, at));
        at += found.len;
        let gap = skip_space(text, at);
        if gap == text.len() {
            break;
        }
        if text.as_bytes()[gap] == b',' {
            at = skip_space(text, gap + 1);
        } else if gap > at {
            at = gap;
        } else {
            return Err(improper());
        }
    }
    out.into_iter()
        .map(|(operator, at)| {
            let shape = version_shape(&text[at..], is_constraint_part).ok_or_else(improper)?;
            Comparator::new(operator, &shape)
        })
        .collect()
}

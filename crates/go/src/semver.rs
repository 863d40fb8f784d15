//! Versions and version constraints by the rules chart authors rely on (Masterminds semver 3).
//!
//! Looser than the semver specification: `v1.2` is a version, and `1.2 - 1.4 || ^2, !=2.3` a constraint.

mod constraints;

use std::cmp::Ordering;
use std::fmt;

pub use constraints::Constraints;

/// The reason a version or constraint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SemverError {
    /// The text does not have the shape of a version.
    #[error("Invalid Semantic Version")]
    Invalid,
    /// Strict parsing of nothing.
    #[error("Version string empty")]
    Empty,
    /// Strict parsing met a character that versions do not have.
    #[error("Invalid characters in version")]
    InvalidCharacters,
    /// A numeric segment has a leading zero where that is not allowed.
    #[error("Version segment starts with 0")]
    LeadingZero,
    /// A prerelease identifier is malformed.
    #[error("Invalid Prerelease string")]
    InvalidPrerelease,
    /// Build metadata is malformed.
    #[error("Invalid Metadata string")]
    InvalidMetadata,
    /// A number does not fit 64 bits.
    #[error("Error parsing version segment: strconv.ParseUint: parsing \"{0}\": value out of range")]
    OutOfRange(String),
    /// The constraint does not follow the grammar.
    #[error("improper constraint: {0}")]
    ImproperConstraint(String),
    /// A constraint's version cannot be parsed.
    #[error("constraint Parser Error")]
    ConstraintVersion,
}

/// One version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number, zero when left out.
    pub minor: u64,
    /// Third number, zero when left out.
    pub patch: u64,
    /// The text after `-`.
    pub prerelease: String,
    /// The text after `+`.
    pub metadata: String,
    /// The text as given.
    pub original: String,
}

struct Shape<'a> {
    numbers: [Option<&'a str>; 3],
    prerelease: Option<&'a str>,
    metadata: Option<&'a str>,
    /// Bytes used.
    len: usize,
}

/// Reads `v?N(.N)?(.N)?(-pre)?(+meta)?` from the start, with `N` made of bytes that satisfy `part`.
fn version_shape(text: &str, part: impl Fn(u8) -> bool) -> Option<Shape<'_>> {
    let bytes = text.as_bytes();
    let mut at = usize::from(bytes.first() == Some(&b'v'));
    let mut numbers = [None; 3];
    for (index, slot) in numbers.iter_mut().enumerate() {
        let start = if index == 0 {
            at
        } else if bytes.get(at) == Some(&b'.') {
            at + 1
        } else {
            break;
        };
        let end = start + bytes[start..].iter().take_while(|&&byte| part(byte)).count();
        if end == start {
            if index == 0 {
                return None;
            }
            break;
        }
        *slot = Some(&text[start..end]);
        at = end;
    }
    let mut tail = |mark: u8| {
        if bytes.get(at) != Some(&mark) {
            return None;
        }
        let start = at + 1;
        let mut end = start;
        loop {
            let run =
                bytes[end..].iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'-').count();
            if run == 0 {
                // A dot must be followed by an identifier: give it back.
                end = end.saturating_sub(1).max(start);
                break;
            }
            end += run;
            if bytes.get(end) != Some(&b'.') {
                break;
            }
            end += 1;
        }
        if end == start {
            return None;
        }
        at = end;
        Some(&text[start..end])
    };
    let prerelease = tail(b'-');
    let metadata = tail(b'+');
    Some(Shape { numbers, prerelease, metadata, len: at })
}

fn parse_number(text: Option<&str>) -> Result<u64, SemverError> {
    text.map_or(Ok(0), |text| text.parse().map_err(|_| SemverError::OutOfRange(text.to_owned())))
}

fn check_prerelease(text: &str) -> Result<(), SemverError> {
    for part in text.split('.') {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            if part.len() > 1 && part.starts_with('0') {
                return Err(SemverError::LeadingZero);
            }
        } else if !part.bytes().all(is_identifier) {
            return Err(SemverError::InvalidPrerelease);
        }
    }
    Ok(())
}

fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

impl Version {
    /// Parses a version, filling in what is left out.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        let shape = version_shape(text, |byte| byte.is_ascii_digit()).ok_or(SemverError::Invalid)?;
        if shape.len != text.len() {
            return Err(SemverError::Invalid);
        }
        let version = Self {
            major: parse_number(shape.numbers[0])?,
            minor: parse_number(shape.numbers[1])?,
            patch: parse_number(shape.numbers[2])?,
            prerelease: shape.prerelease.unwrap_or_default().to_owned(),
            metadata: shape.metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        };
        if !version.prerelease.is_empty() {
            check_prerelease(&version.prerelease)?;
        }
        Ok(version)
    }

    /// Parses a version that must follow the semver specification to the letter.
    pub fn parse_strict(text: &str) -> Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::Empty);
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(SemverError::Invalid);
        };
        let (rest, metadata) = match rest.split_once('+') {
            Some((rest, metadata)) => (rest, Some(metadata)),
            None => (rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        for part in [major, minor, patch] {
            if !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(SemverError::InvalidCharacters);
            }
            if part.len() > 1 && part.starts_with('0') {
                return Err(SemverError::LeadingZero);
            }
        }
        let number = |text: &str| -> Result<u64, SemverError> {
            if text.is_empty() {
                return Err(SemverError::Invalid);
            }
            text.parse().map_err(|_| SemverError::OutOfRange(text.to_owned()))
        };
        if let Some(prerelease) = prerelease {
            if prerelease.split('.').any(str::is_empty) {
                return Err(SemverError::InvalidPrerelease);
            }
            check_prerelease(prerelease)?;
        }
        if let Some(metadata) = metadata
            && !metadata.split('.').all(|part| !part.is_empty() && part.bytes().all(is_identifier))
        {
            return Err(SemverError::InvalidMetadata);
        }
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
            patch: number(patch)?,
            prerelease: prerelease.unwrap_or_default().to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
            original: text.to_owned(),
        })
    }

    fn next(&self, major: u64, minor: u64, patch: u64) -> Self {
        let mut next = Self {
            major,
            minor,
            patch,
            prerelease: String::new(),
            metadata: String::new(),
            original: String::new(),
        };
        next.original = self.with_prefix(&next);
        next
    }

    fn with_prefix(&self, next: &Self) -> String {
        if self.original.starts_with('v') { format!("v{next}") } else { next.to_string() }
    }

    /// The next major version.
    pub fn inc_major(&self) -> Self {
        self.next(self.major.wrapping_add(1), 0, 0)
    }

    /// The next minor version.
    pub fn inc_minor(&self) -> Self {
        self.next(self.major, self.minor.wrapping_add(1), 0)
    }

    /// The next patch version; of a prerelease, its release.
    pub fn inc_patch(&self) -> Self {
        let patch = if self.prerelease.is_empty() { self.patch.wrapping_add(1) } else { self.patch };
        self.next(self.major, self.minor, patch)
    }

    /// The same version with another prerelease.
    pub fn set_prerelease(&self, prerelease: &str) -> Result<Self, SemverError> {
        if !prerelease.is_empty() {
            check_prerelease(prerelease)?;
        }
        let mut next = Self { prerelease: prerelease.to_owned(), ..self.clone() };
        next.original = self.with_prefix(&next);
        Ok(next)
    }

    /// The same version with other build metadata.
    pub fn set_metadata(&self, metadata: &str) -> Result<Self, SemverError> {
        if !metadata.is_empty() && !metadata.bytes().all(|byte| is_identifier(byte) || byte == b'.') {
            return Err(SemverError::InvalidMetadata);
        }
        let mut next = Self { metadata: metadata.to_owned(), ..self.clone() };
        next.original = self.with_prefix(&next);
        Ok(next)
    }

    /// Precedence by the semver specification; build metadata does not count.
    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_prerelease(&self.prerelease, &other.prerelease))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(out, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(out, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn compare_prerelease(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => {
                let order = match (left.parse::<u64>(), right.parse::<u64>()) {
                    (Ok(left), Ok(right)) => left.cmp(&right),
                    (Ok(_), Err(_)) => Ordering::Less,
                    (Err(_), Ok(_)) => Ordering::Greater,
                    (Err(_), Err(_)) => left.cmp(right),
                };
                if order != Ordering::Equal {
                    return order;
                }
            }
        }
    }
}

//! The newest of many tags.

use slipway_go::regexp::compile_text_pattern;
use slipway_go::semver::{Constraints, Version};

use crate::kinds::{ImageSource, TagStrategy};

/// The most memory a compiled filter may take.
const LARGEST_FILTER: usize = 1 << 20;

/// Why nothing can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("`{text}` is no range of versions such as `>=1.2.0 <2.0.0`")]
    Range { text: String },
    #[error("`{text}` is no regular expression")]
    Filter { text: String },
}

/// Keeps the tags a source asks for.
pub(super) fn wanted_tags(tags: &[String], source: &ImageSource) -> Result<Vec<String>, SelectError> {
    let filter = match &source.tag_filter {
        None => None,
        Some(text) => {
            let wrong = || SelectError::Filter { text: text.clone() };
            Some(compile_text_pattern(&format!("^(?:{text})$"), LARGEST_FILTER).map_err(|_| wrong())?)
        }
    };
    let fits = |tag: &&String| {
        !source.ignore_tags.contains(tag) && filter.as_ref().is_none_or(|filter| filter.is_match(tag))
    };
    Ok(tags.iter().filter(fits).cloned().collect())
}

/// The newest tag by a strategy that needs nothing but names.
pub fn newest_tag(tags: &[String], source: &ImageSource) -> Result<Option<String>, SelectError> {
    let wanted = wanted_tags(tags, source)?;
    match source.strategy {
        TagStrategy::Semver => newest_version(&wanted, source.semver.as_deref()),
        TagStrategy::Lexical => Ok(wanted.into_iter().max()),
        TagStrategy::Digest => Ok(wanted.into_iter().min()),
        TagStrategy::NewestBuild => Ok(None),
    }
}

/// The highest version of a range; versions before a release count only where the range names one.
pub(super) fn newest_version(tags: &[String], range: Option<&str>) -> Result<Option<String>, SelectError> {
    let text = range.unwrap_or("*");
    let range = Constraints::parse(text).map_err(|_| SelectError::Range { text: text.to_owned() })?;
    let parsed = tags.iter().filter_map(|tag| Some((Version::parse(tag).ok()?, tag)));
    let fitting = parsed.filter(|(version, _)| range.check(version));
    Ok(fitting.max_by(|(one, _), (other, _)| one.compare(other)).map(|(_, tag)| tag.clone()))
}

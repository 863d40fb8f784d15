//! Finding charts by words in the repositories the user knows.

use regex::RegexBuilder;
use slipway_go::semver::{Constraints, Version};

use super::index::{IndexEntry, RepositoryIndex};
use crate::error::ChartError;

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Words to look for; nothing finds everything.
    pub keyword: String,
    /// The keyword is a regular expression.
    pub regexp: bool,
    /// Every version instead of the newest.
    pub versions: bool,
    /// A version or constraint.
    pub version: String,
    /// Versions not yet released as well.
    pub devel: bool,
}

/// A chart that was found.
#[derive(Clone, Debug)]
pub struct SearchHit<'i> {
    /// `REPOSITORY/CHART`.
    pub name: String,
    pub entry: &'i IndexEntry,
}

/// Looks through the indexes of named repositories; best matches first, as Helm orders them.
pub fn search<'i>(
    indexes: &'i [(String, RepositoryIndex)],
    options: &SearchOptions,
) -> Result<Vec<SearchHit<'i>>, ChartError> {
    let constraint = match (options.version.as_str(), options.devel) {
        ("", true) => ">0.0.0-0",
        ("", false) => ">0.0.0",
        (version, _) => version,
    };
    let constraint = Constraints::parse(constraint).map_err(|_| {
        ChartError::Publish("an invalid version/constraint format: improper constraint".into())
    })?;
    let pattern = if options.regexp { options.keyword.clone() } else { regex::escape(&options.keyword) };
    let pattern = RegexBuilder::new(&pattern.to_lowercase())
        .size_limit(1 << 22)
        .build()
        .map_err(|error| ChartError::Publish(error.to_string()))?;

    let mut hits: Vec<(usize, SearchHit<'i>)> = Vec::new();
    for (repository, index) in indexes {
        for (chart, versions) in &index.entries {
            let name = format!("{repository}/{chart}");
            let fits = |entry: &&IndexEntry| {
                Version::parse(&entry.metadata.version).is_ok_and(|version| constraint.check(&version))
            };
            let most = if options.versions { usize::MAX } else { 1 };
            for entry in versions.iter().filter(fits).take(most) {
                let about = &entry.metadata;
                let parts = [chart.as_str(), &name, &about.description, &about.keywords.join(" ")];
                let text = parts.join("\u{0b}").to_lowercase();
                if options.keyword.is_empty() {
                    hits.push((0, SearchHit { name: name.clone(), entry }));
                } else if let Some(found) = pattern.find(&text) {
                    let line = text[..found.start()].matches('\u{0b}').count();
                    // Helm ranks what is not in the chart's own name first.
                    let score = if line == 0 { parts.len() } else { 0 };
                    hits.push((score, SearchHit { name: name.clone(), entry }));
                }
            }
        }
    }
    // Versions of one chart stand newest first already.
    hits.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.name.cmp(&y.name)));
    Ok(hits.into_iter().map(|(_, hit)| hit).collect())
}

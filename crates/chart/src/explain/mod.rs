//! Where a rendered field came from: the template line that wrote it and the values it was made of.

mod origin;
mod query;

use slipway_gotmpl::{NestedText, TemplateHost, TextSegment};
use slipway_problem::Location;
use slipway_yaml::YamlReader;

pub use origin::{OriginSource, ValueOrigin};
pub use query::FieldQuery;

use crate::error::{ChartError, Notices};
use crate::render::{ChartProgram, RenderOptions, TraceMode, split};
use crate::values::UserValues;

/// How one field of one object came to be.
#[derive(Clone, Debug)]
pub struct FieldExplanation {
    /// `Deployment/web`.
    pub object: String,
    /// The field asked for.
    pub field: String,
    /// The field as it was rendered, cut if long.
    pub value: String,
    /// The template file that was executed.
    pub template: String,
    /// The lines that wrote it, outermost first: the file's own, then those of what it included.
    pub lines: Vec<TemplateLine>,
}

/// A line of a template that wrote a part of a field.
#[derive(Clone, Debug)]
pub struct TemplateLine {
    pub at: Location,
    /// The name of the template the line is in, where it is not the file.
    pub template: String,
    /// Text of the template rather than a value.
    pub literal: bool,
    /// The values it was made of.
    pub values: Vec<ValueOrigin>,
    /// The values that decided that it was written at all.
    pub guards: Vec<ValueOrigin>,
}

/// The longest value shown.
const LONGEST_SHOWN: usize = 200;
/// Includes inside one another that are followed.
const DEEPEST: usize = 32;

/// Explains every field that fits the query.
pub fn explain(
    program: &ChartProgram,
    user: &UserValues,
    options: &RenderOptions,
    host: &dyn TemplateHost,
    query: &FieldQuery,
) -> Result<Vec<FieldExplanation>, ChartError> {
    let mut notices = Notices::new();
    let prepared = program.prepare(&user.build()?, options, &mut notices)?;
    let output = program.execute(&prepared, options, host, TraceMode::Yes)?;
    let mut found = Vec::new();
    for ((path, text), (_, segments)) in output.files.iter().zip(&output.segments) {
        if path.ends_with("NOTES.txt") {
            continue;
        }
        let (text, segments) = without_no_value(text, segments);
        for piece in split(&text) {
            // Pieces are slices of the text.
            let start = piece.as_ptr() as usize - text.as_ptr() as usize;
            let Ok(piece) = std::str::from_utf8(piece) else { continue };
            let Ok(document) = YamlReader::helm().read_one(piece, path) else { continue };
            if !query.wants(&document, path) {
                continue;
            }
            let Some(node) = document.at(query.field.iter().map(String::as_str)) else { continue };
            let (from, to) = (start + node.span.start, start + node.span.end);
            let value: String = node.raw().chars().take(LONGEST_SHOWN).collect();
            let origins = origin::OriginLookup::new(&prepared.tree, user, path);
            let mut lines = Vec::new();
            collect(&segments, from..to, value.trim(), &origins, 0, &mut lines);
            found.push(FieldExplanation {
                object: FieldQuery::object_name(&document),
                field: query.field_text(),
                value,
                template: path.clone(),
                lines,
            });
        }
    }
    Ok(found)
}

fn collect(
    segments: &[TextSegment],
    range: std::ops::Range<usize>,
    value: &str,
    origins: &origin::OriginLookup<'_, '_>,
    depth: usize,
    lines: &mut Vec<TemplateLine>,
) {
    let overlapping: Vec<&TextSegment> = segments
        .iter()
        .filter(|segment| segment.range.start < range.end && segment.range.end > range.start)
        .collect();
    // Text around a value (its quotes, the key of a block) says nothing where a value was written.
    let any_value = overlapping.iter().any(|segment| !segment.literal);
    for segment in overlapping {
        if segment.literal && any_value {
            continue;
        }
        lines.push(TemplateLine {
            at: Location::new(segment.file.as_str(), segment.line as u32, segment.column as u32 + 1),
            template: segment.template.clone(),
            literal: segment.literal,
            values: segment.reads.iter().map(|read| origins.of(read)).collect(),
            guards: segment.guards.iter().map(|read| origins.of(read)).collect(),
        });
        if depth < DEEPEST {
            for nested in &segment.nested {
                if let Some(range) = inside(nested, value) {
                    collect(&nested.segments, range, value, origins, depth + 1, lines);
                }
            }
        }
    }
}

/// Where in an included text the value stands; the whole of it when the value was made from it.
fn inside(nested: &NestedText, value: &str) -> Option<std::ops::Range<usize>> {
    let text = String::from_utf8_lossy(&nested.text);
    let plain = value.trim_matches(['"', '\'']);
    let first = plain.lines().next().unwrap_or_default().trim();
    if !first.is_empty()
        && let Some(at) = text.find(first)
    {
        return Some(at..at + first.len());
    }
    (!text.is_empty() && plain.contains(text.trim())).then_some(0..nested.text.len())
}

/// Drops `<no value>` as Helm does, and moves the segments along.
fn without_no_value(text: &[u8], segments: &[TextSegment]) -> (Vec<u8>, Vec<TextSegment>) {
    const NO_VALUE: &[u8] = b"<no value>";
    let mut cleaned = Vec::with_capacity(text.len());
    // Where each byte of the text ends up, as (from here on, dropped so far).
    let mut drops: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(NO_VALUE) {
            at += NO_VALUE.len();
            drops.push((at, drops.last().map_or(0, |(_, dropped)| *dropped) + NO_VALUE.len()));
        } else {
            cleaned.push(text[at]);
            at += 1;
        }
    }
    if drops.is_empty() {
        return (cleaned, segments.to_vec());
    }
    let moved = |offset: usize| {
        let before = drops.partition_point(|(from, _)| *from <= offset);
        offset.saturating_sub(before.checked_sub(1).map_or(0, |index| drops[index].1))
    };
    let segments = segments
        .iter()
        .map(|segment| {
            let mut segment = segment.clone();
            segment.range = moved(segment.range.start)..moved(segment.range.end);
            segment
        })
        .collect();
    (cleaned, segments)
}

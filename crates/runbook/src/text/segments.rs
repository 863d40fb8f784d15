//! The piece of the source every piece of the output came from.

use std::ops::Range;

/// A run of output.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) out: Range<usize>,
    pub(super) source: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Copied,
    /// Put in for the reference of this number.
    Value(usize),
    /// Put in for the reference of this number, whose variable is secret.
    Secret(usize),
    /// Stands for the reference of this number, which has no value.
    Placeholder(usize),
}

impl Kind {
    /// The reference a value was put in for.
    fn value_of(self) -> Option<usize> {
        match self {
            Self::Value(number) | Self::Secret(number) => Some(number),
            Self::Copied | Self::Placeholder(_) => None,
        }
    }
}

/// The origin of a piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The place in the source: of the text itself, or of the reference that brought it.
    pub offset: usize,
    /// The reference, if the piece is a variable's value.
    pub reference: Option<usize>,
}

/// All runs, in order and without gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Segments(Vec<Segment>);

impl Segments {
    pub(super) fn push(&mut self, segment: Segment) {
        self.0.push(segment);
    }

    /// The spans where values were put in, and their references.
    pub(super) fn values(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.0.iter().filter_map(|segment| Some((segment.out.clone(), segment.kind.value_of()?)))
    }

    /// The values a span of the output touches, and their references.
    pub(super) fn values_in(&self, span: &Range<usize>) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.inside(span).filter_map(|segment| Some((segment.out.clone(), segment.kind.value_of()?)))
    }

    /// The values of secret variables a span of the output touches.
    pub(super) fn secrets_in(&self, span: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let secret = |segment: &&Segment| matches!(segment.kind, Kind::Secret(_)) && !segment.out.is_empty();
        self.inside(span).filter(secret).map(|segment| segment.out.clone())
    }

    fn inside(&self, span: &Range<usize>) -> impl Iterator<Item = &Segment> {
        let first = self.0.partition_point(|segment| segment.out.end <= span.start);
        let end = span.end.max(span.start + 1);
        self.0[first..].iter().take_while(move |segment| segment.out.start < end)
    }

    pub(super) fn origin(&self, offset: usize) -> Origin {
        let index = self.0.partition_point(|segment| segment.out.end <= offset);
        match self.0.get(index) {
            Some(segment) => match segment.kind {
                Kind::Copied => {
                    let into = offset.saturating_sub(segment.out.start);
                    Origin { offset: segment.source.start + into.min(segment.source.len()), reference: None }
                }
                Kind::Value(reference) | Kind::Secret(reference) | Kind::Placeholder(reference) => {
                    Origin { offset: segment.source.start, reference: Some(reference) }
                }
            },
            // The end of the text.
            None => Origin { offset: self.0.last().map_or(0, |last| last.source.end), reference: None },
        }
    }

    /// The end of the source of the output before this place.
    pub(super) fn end_of(&self, end: usize) -> usize {
        let index = self.0.partition_point(|segment| segment.out.end < end);
        match self.0.get(index) {
            Some(segment) if segment.kind == Kind::Copied => {
                let into = end.saturating_sub(segment.out.start);
                segment.source.start + into.min(segment.source.len())
            }
            Some(segment) => segment.source.end,
            None => self.0.last().map_or(0, |last| last.source.end),
        }
    }

    /// Tells that a span of the output holds something that has no value.
    pub(super) fn touches_placeholder(&self, span: &Range<usize>) -> bool {
        self.inside(span).any(|segment| matches!(segment.kind, Kind::Placeholder(_)))
    }
}

//! Conditions on a measurement: `>= 0.99`.

use std::fmt;
use std::str::FromStr;

/// A comparison of a measurement with a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricCondition {
    operator: MetricOperator,
    number: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricOperator {
    AtLeast,
    Above,
    AtMost,
    Below,
    Equal,
    NotEqual,
}

/// The longest first, so that a prefix does not win.
const OPERATORS: [(&str, MetricOperator); 6] = [
    (">=", MetricOperator::AtLeast),
    ("<=", MetricOperator::AtMost),
    ("==", MetricOperator::Equal),
    ("!=", MetricOperator::NotEqual),
    (">", MetricOperator::Above),
    ("<", MetricOperator::Below),
];

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no condition such as `>= 0.99`")]
pub struct ConditionError(pub String);

impl FromStr for MetricCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let trimmed = text.trim();
        let found =
            OPERATORS.iter().find_map(|(word, operator)| Some((operator, trimmed.strip_prefix(word)?)));
        let parsed = found.and_then(|(operator, rest)| {
            let number: f64 = rest.trim().parse().ok()?;
            number.is_finite().then_some(Self { operator: *operator, number })
        });
        parsed.ok_or_else(|| ConditionError(text.to_owned()))
    }
}

impl MetricCondition {
    /// Returns true if a measurement meets the condition.
    pub fn holds(&self, value: f64) -> bool {
        match self.operator {
            MetricOperator::AtLeast => value >= self.number,
            MetricOperator::Above => value > self.number,
            MetricOperator::AtMost => value <= self.number,
            MetricOperator::Below => value < self.number,
            MetricOperator::Equal => value == self.number,
            MetricOperator::NotEqual => value != self.number,
        }
    }

    /// The number nearest to the threshold that meets the condition.
    pub(super) fn nearest(&self) -> f64 {
        match self.operator {
            MetricOperator::AtLeast | MetricOperator::AtMost | MetricOperator::Equal => self.number,
            MetricOperator::Above | MetricOperator::NotEqual => self.number.next_up(),
            MetricOperator::Below => self.number.next_down(),
        }
    }
}

impl fmt::Display for MetricCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word =
            OPERATORS.iter().find(|(_, operator)| *operator == self.operator).map_or("", |(word, _)| word);
        write!(f, "{word} {}", self.number)
    }
}

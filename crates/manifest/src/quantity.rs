//! Kubernetes quantities (`100m`, `1.5Gi`, `12e6`): read, compare, print in canonical form.

use std::cmp::Ordering;
use std::fmt;

/// The notation of a quantity as written, which decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// An amount in billionths, the finest grain Kubernetes keeps.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: QuantityFormat,
}

/// The reason a text is no quantity; the texts are Kubernetes'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANOS: i128 = 1_000_000_000;
/// The largest amount Kubernetes keeps: the largest 64-bit integer.
const LARGEST: i128 = i64::MAX as i128 * NANOS;

impl Quantity {
    /// Reads a quantity. More than nine decimals are rounded up; what is too large becomes the largest.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let digits_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(digits_end);
        if unsigned.is_empty() && !text.is_empty() {
            // A sign alone is read as nothing.
            return Ok(Self::from_int(0));
        }
        if number.is_empty() {
            return Err(QuantityError::Format);
        }
        let letters_end = suffix.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
        let exponent = &suffix[letters_end..];
        let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent_digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Numeric);
        }
        let (base, power, format) = read_suffix(suffix).ok_or(QuantityError::Suffix)?;
        let mut nanos = amount_in_nanos(whole, fraction, base, power);
        if text.starts_with('-') {
            nanos = -nanos;
        }
        Ok(Self { nanos, format })
    }

    /// Makes a quantity of a whole number.
    pub fn from_int(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANOS, format: QuantityFormat::DecimalSi }
    }

    /// The amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    pub fn format(self) -> QuantityFormat {
        self.format
    }

    /// The amount in thousandths, rounded up.
    pub fn milli_value(self) -> i64 {
        clamp_to_i64(round_up(self.nanos, NANOS / 1000))
    }

    /// The amount in whole units, rounded up.
    pub fn value(self) -> i64 {
        clamp_to_i64(round_up(self.nanos, NANOS))
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Adds, keeping this quantity's format unless it is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: (self.nanos + other.nanos).clamp(-LARGEST, LARGEST), format }
    }

    /// Subtracts, keeping this quantity's format unless it is zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, ..other })
    }
}

fn clamp_to_i64(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Divides, rounding away from zero.
fn round_up(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    if value % by == 0 { quotient } else { quotient + value.signum() }
}

/// Reads a suffix: base, power and the format it belongs to.
pub fn read_suffix(suffix: &str) -> Option<(i128, i32, QuantityFormat)> {
    let decimal = |power| Some((10, power, QuantityFormat::DecimalSi));
    let binary = |power| Some((1024, power, QuantityFormat::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
            if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            Some((10, power.trim_start_matches('+').parse().ok()?, QuantityFormat::DecimalExponent))
        }
    }
}

/// The amount in billionths of `whole.fraction × base^power`, rounded up, at most the largest.
fn amount_in_nanos(whole: &str, fraction: &str, base: i128, power: i32) -> i128 {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() && fraction.bytes().all(|b| b == b'0') {
        return 0;
    }
    // Beyond these everything is the largest amount or the smallest.
    let decimal_power = if base == 10 { power } else { 0 };
    if whole.len() as i64 + i64::from(decimal_power) > 30 {
        return LARGEST;
    }
    let leading = fraction.len() - fraction.trim_start_matches('0').len();
    if whole.is_empty() && i64::from(decimal_power) - (leading as i64) < -20 {
        return 1;
    }
    // Digits past the thirtieth can only decide whether to round up.
    let digits: String = whole.chars().chain(fraction.chars()).collect();
    let kept = digits.len().min(30);
    let inexact = digits[kept..].bytes().any(|b| b != b'0');
    let Ok(mantissa) = digits[..kept].parse::<i128>() else { return LARGEST };
    let scale = (whole.len() as i64 - kept as i64) + i64::from(decimal_power) + 9;
    let factor = if base == 1024 { 1024i128.checked_pow(power.unsigned_abs()).unwrap_or(LARGEST) } else { 1 };
    let Some(scaled) = mantissa.checked_mul(factor) else { return LARGEST };
    let mut nanos = match u32::try_from(scale) {
        Ok(up) => match 10i128.checked_pow(up).and_then(|ten| scaled.checked_mul(ten)) {
            Some(nanos) => nanos,
            None => return LARGEST,
        },
        Err(_) => match 10i128.checked_pow(scale.unsigned_abs().min(60) as u32) {
            Some(ten) => round_up(scaled, ten),
            None => 1,
        },
    };
    if inexact && nanos % NANOS == 0 && scale < 0 {
        nanos += 1;
    }
    nanos.min(LARGEST)
}

impl fmt::Display for Quantity {
    /// Prints the canonical form: the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // A quantity with a fraction of a byte is printed in decimal form, so that nothing is lost.
        if self.format == QuantityFormat::BinarySi
            && self.nanos.abs() >= 1024 * NANOS
            && self.nanos % NANOS == 0
        {
            let mut value = self.nanos / NANOS;
            let mut power = 0;
            while value % 1024 == 0 && power < 6 {
                value /= 1024;
                power += 1;
            }
            return write!(f, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        let mut value = self.nanos;
        let mut power = -9;
        while value % 1000 == 0 && power < 18 {
            value /= 1000;
            power += 3;
        }
        if self.format == QuantityFormat::DecimalExponent {
            return if power == 0 { write!(f, "{value}") } else { write!(f, "{value}e{power}") };
        }
        let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        write!(f, "{value}{}", suffixes[((power + 9) / 3) as usize])
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("5000", "5k"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1e2", "100"),
            ("1E", "1E"),
            ("0.1Ki", "102400m"),
            ("0.1Gi", "107374182400m"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("-1.5", "-1500m"),
            ("+1", "1"),
            (".5", "500m"),
            ("1.", "1"),
            ("0.0000000001", "1n"),
            ("1.0000000001", "1000000001n"),
            ("9223372036854775807", "9223372036854775807"),
            ("1e40", "9223372036854775807"),
            ("1E40", "9223372036854775807"),
            ("1e-40", "1e-9"),
            ("000001", "1"),
            ("100000000000000000000000000000000000000000", "9223372036854775807"),
        ] {
            let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(quantity.to_string(), canonical, "{text}");
            let again = Quantity::parse(canonical).expect("parses");
            assert_eq!(again, quantity, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity() {
        use QuantityError::*;
        for (text, error) in [
            ("", Format),
            ("x", Format),
            ("1x", Format),
            ("1mm", Suffix),
            ("1 ", Format),
            ("1.2.3", Format),
            (".", Numeric),
            ("1e", Suffix),
            ("1Ki1", Suffix),
            ("1e99999999999", Suffix),
            ("é", Format),
        ] {
            assert_eq!(Quantity::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn amounts_compare_and_add() {
        let q = |text| Quantity::parse(text).expect("parses");
        assert!(q("1Gi") > q("1G") && q("1000m") == q("1"));
        assert_eq!(q("1Gi").plus(q("1Gi")).to_string(), "2Gi");
        assert_eq!(q("1").minus(q("250m")).to_string(), "750m");
        assert_eq!((q("1500m").value(), q("1500m").milli_value()), (2, 1500));
    }
}

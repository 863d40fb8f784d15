//! Quantities: how much of a resource, compared and printed canonically.

use serde_json::Value;

/// The amount in thousandths, rounded up; `None` when it is no quantity.
pub(crate) fn milli(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Quantity::parse(&text).map(|q| q.milli())
}

/// The canonical form, as a server prints it back.
pub(crate) fn canonical(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Quantity::parse(&text).map(|q| q.print())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Binary,
    Decimal,
    Exponent,
}

/// `digits × 10^-scale`, times a power of 2 for the binary forms (already multiplied in).
struct Quantity {
    nano: i128,
    form: Form,
}

const NANO: i128 = 1_000_000_000;

impl Quantity {
    fn parse(text: &str) -> Option<Quantity> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(split);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 25 {
            return None;
        }
        let mut nano: i128 =
            if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()?.checked_mul(NANO)? };
        let digits: String = fraction.chars().take(9).collect();
        if !digits.is_empty() {
            let scale = 10_i128.pow(9 - u32::try_from(digits.len()).ok()?);
            nano += digits.parse::<i128>().ok()? * scale;
        }
        let (factor, divisor, form) = match suffix {
            "" => (1, 1, Form::Decimal),
            "n" => (1, NANO, Form::Decimal),
            "u" => (1, 1_000_000, Form::Decimal),
            "m" => (1, 1000, Form::Decimal),
            "k" => (1000, 1, Form::Decimal),
            "M" => (1_000_000, 1, Form::Decimal),
            "G" => (NANO, 1, Form::Decimal),
            "T" => (10_i128.pow(12), 1, Form::Decimal),
            "P" => (10_i128.pow(15), 1, Form::Decimal),
            "E" => (10_i128.pow(18), 1, Form::Decimal),
            "Ki" => (1 << 10, 1, Form::Binary),
            "Mi" => (1 << 20, 1, Form::Binary),
            "Gi" => (1 << 30, 1, Form::Binary),
            "Ti" => (1 << 40, 1, Form::Binary),
            "Pi" => (1 << 50, 1, Form::Binary),
            "Ei" => (1 << 60, 1, Form::Binary),
            _ => {
                let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                if !(-9..=18).contains(&exponent) {
                    return None;
                }
                let power = 10_i128.pow(exponent.unsigned_abs());
                if exponent >= 0 { (power, 1, Form::Exponent) } else { (1, power, Form::Exponent) }
            }
        };
        nano = nano.checked_mul(factor)?;
        // Smaller parts than a billionth are rounded up, never lost.
        nano = nano / divisor + i128::from(nano % divisor != 0);
        Some(Quantity { nano: if negative { -nano } else { nano }, form })
    }

    fn milli(&self) -> i128 {
        let unit = NANO / 1000;
        self.nano.div_euclid(unit) + i128::from(self.nano.rem_euclid(unit) != 0)
    }

    fn print(&self) -> String {
        if self.nano == 0 {
            return "0".into();
        }
        let (sign, size) = if self.nano < 0 { ("-", -self.nano) } else { ("", self.nano) };
        if self.form == Form::Binary && size % NANO == 0 && size / NANO >= 1024 {
            let mut whole = size / NANO;
            let mut power = 0;
            while whole % 1024 == 0 && power < 6 {
                whole /= 1024;
                power += 1;
            }
            return format!("{sign}{whole}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        // The largest unit that leaves a whole number.
        let mut size = size;
        let mut power: i32 = -9;
        while size % 1000 == 0 && power < 18 {
            size /= 1000;
            power += 3;
        }
        if self.form == Form::Exponent {
            return if power == 0 { format!("{sign}{size}") } else { format!("{sign}{size}e{power}") };
        }
        let unit = match power {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            0 => "",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            _ => "E",
        };
        format!("{sign}{size}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn canonical_forms() {
        for (given, printed) in [
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1000m", "1"),
            ("5000", "5k"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("0", "0"),
            ("-1", "-1"),
            ("1e3", "1e3"),
            ("100Ki", "100Ki"),
            (".5", "500m"),
        ] {
            assert_eq!(canonical(&json!(given)).as_deref(), Some(printed), "{given}");
        }
        for bad in ["", "x", "1Q", "1..2", "1 Gi", "99999999999999999999999999999999"] {
            assert_eq!(canonical(&json!(bad)), None, "{bad}");
        }
    }
}

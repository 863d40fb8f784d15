//! Numbers as Go writes them.

use std::fmt::Write as _;

/// The digits of a number in `d.ddde±x` form, and the power of ten of the first one.
fn digits_of(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    (digits, exponent.parse().unwrap_or(0))
}

/// The shortest digits that read back as `value`; of two equally near ones Go takes the even one, which
/// only rounding to that many digits gives here.
fn shortest_digits(value: f64) -> (String, i32) {
    const TIES_FROM: usize = 15;
    let (digits, exponent) = digits_of(&format!("{value:e}"));
    if digits.len() >= TIES_FROM {
        let precision = digits.len() - 1;
        let rounded = format!("{value:.precision$e}");
        if rounded.parse() == Ok(value) {
            return digits_of(&rounded);
        }
    }
    (digits, exponent)
}

fn special_text(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// Writes a number in `d.ddde±xx` form; Go pads the exponent to two digits.
fn exponent_form(digits: &str, exponent: i32, pad: usize) -> String {
    let mut text = String::with_capacity(digits.len() + 6);
    text.push_str(&digits[..1]);
    if digits.len() > 1 {
        text.push('.');
        text.push_str(&digits[1..]);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(text, "e{sign}{:0pad$}", exponent.unsigned_abs());
    text
}

fn decimal_form(digits: &str, exponent: i32) -> String {
    let mut text = String::with_capacity(digits.len() + 8);
    if exponent < 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        text.push_str(digits);
        return text;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        text.push_str(digits);
        text.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        text.push_str(&digits[..whole]);
        text.push('.');
        text.push_str(&digits[whole..]);
    }
    text
}

fn with_sign(negative: bool, text: String) -> String {
    if negative { format!("-{text}") } else { text }
}

/// `strconv.FormatFloat(value, 'g', -1, 64)`.
pub fn go_float(value: f64) -> String {
    if let Some(word) = special_text(value) {
        return word.to_owned();
    }
    general_form(value.is_sign_negative(), shortest_digits(value.abs()))
}

/// `strconv.FormatFloat(value, 'g', -1, 32)`, which is how Go turns a float into a key.
pub(crate) fn go_float32(value: f64) -> String {
    let narrow = value as f32;
    if let Some(word) = special_text(f64::from(narrow)) {
        return word.to_owned();
    }
    general_form(narrow.is_sign_negative(), digits_of(&format!("{:e}", narrow.abs())))
}

fn general_form(negative: bool, (digits, exponent): (String, i32)) -> String {
    // Go decides by precision 6 whenever it prints the shortest form.
    let text = if !(-4..6).contains(&exponent) {
        exponent_form(&digits, exponent, 2)
    } else {
        decimal_form(&digits, exponent)
    };
    with_sign(negative, text)
}

/// Writes a finite number as Go's JSON encoder does.
pub fn go_json_float(value: f64) -> String {
    let (digits, exponent) = shortest_digits(value.abs());
    let magnitude = value.abs();
    let text = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        exponent_form(&digits, exponent, 1)
    } else {
        decimal_form(&digits, exponent)
    };
    with_sign(value.is_sign_negative(), text)
}

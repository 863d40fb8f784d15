//! FormatFloat.

/// Decimal digits of a finite number: 0.d₁d₂d₃… × 10^point, no trailing zeros.
struct Digits {
    digits: Vec<u8>,
    point: i32,
}

/// Go's `strconv.FormatFloat(n, verb, precision, 64)`; precision −1 is the shortest that reads back.
pub fn format_float(n: f64, verb: u8, precision: i32) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let negative = n.is_sign_negative();
    let abs = n.abs();
    match verb {
        b'b' => return mantissa_exponent(n),
        b'x' | b'X' => return format_hex(n, verb, precision),
        _ => {}
    }
    let shortest = precision < 0;
    let mut precision = precision;
    let digits = if shortest {
        let d = split_digits(&format!("{abs:e}"));
        precision = match verb {
            b'e' | b'E' => d.digits.len() as i32 - 1,
            b'f' | b'F' => (d.digits.len() as i32 - d.point).max(0),
            _ => d.digits.len() as i32,
        };
        d
    } else {
        match verb {
            b'e' | b'E' => split_digits(&format!("{abs:.*e}", clamp_precision(precision))),
            b'f' | b'F' => {
                let mut text =
                    format!("{}{abs:.*}", if negative { "-" } else { "" }, clamp_precision(precision));
                text.extend(std::iter::repeat_n('0', precision as usize - clamp_precision(precision)));
                return text;
            }
            _ => {
                precision = precision.max(1);
                split_digits(&format!("{abs:.*e}", clamp_precision(precision - 1)))
            }
        }
    };
    let mut out = String::new();
    if negative {
        out.push('-');
    }
    let count = digits.digits.len() as i32;
    match verb {
        b'e' | b'E' => exponent_form(&mut out, &digits, precision, verb),
        b'f' | b'F' => point_form(&mut out, &digits, precision),
        _ => {
            let mut limit = precision;
            if limit > count && count >= digits.point {
                limit = count;
            }
            if shortest {
                limit = 6;
            }
            let exp = digits.point - 1;
            if exp < -4 || exp >= limit {
                exponent_form(
                    &mut out,
                    &digits,
                    precision.min(count) - 1,
                    if verb == b'G' { b'E' } else { b'e' },
                );
            } else {
                point_form(&mut out, &digits, (count - digits.point).max(0));
            }
        }
    }
    out
}

/// No double has more decimal digits than this; the standard library takes no more than 65535.
fn clamp_precision(precision: i32) -> usize {
    precision.min(1100) as usize
}

/// Reads Rust's `d.ddde±x`.
fn split_digits(text: &str) -> Digits {
    let (mantissa, exp) = text.split_once('e').unwrap_or((text, "0"));
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    let point = if digits.is_empty() { 0 } else { exp.parse::<i32>().unwrap_or_default() + 1 };
    Digits { digits, point }
}

fn exponent_form(out: &mut String, d: &Digits, precision: i32, e: u8) {
    out.push(char::from(*d.digits.first().unwrap_or(&b'0')));
    if precision > 0 {
        out.push('.');
        for i in 1..=precision as usize {
            out.push(char::from(*d.digits.get(i).unwrap_or(&b'0')));
        }
    }
    let exp = if d.digits.is_empty() { 0 } else { d.point - 1 };
    out.push(char::from(e));
    out.push(if exp < 0 { '-' } else { '+' });
    out.push_str(&format!("{:02}", exp.abs()));
}

fn point_form(out: &mut String, d: &Digits, precision: i32) {
    if d.point > 0 {
        for i in 0..d.point as usize {
            out.push(char::from(*d.digits.get(i).unwrap_or(&b'0')));
        }
    } else {
        out.push('0');
    }
    if precision > 0 {
        out.push('.');
        for i in 0..precision {
            let at = d.point + i;
            let digit = usize::try_from(at).ok().and_then(|at| d.digits.get(at));
            out.push(char::from(*digit.unwrap_or(&b'0')));
        }
    }
}

/// The bits of a finite number as `mantissa × 2^exponent`, mantissa with its implicit bit.
fn float_parts(n: f64) -> (u64, i32) {
    let bits = n.to_bits();
    let exp = ((bits >> 52) & 0x7ff) as i32;
    let mantissa = bits & ((1 << 52) - 1);
    if exp == 0 { (mantissa, -1074) } else { (mantissa | 1 << 52, exp - 1075) }
}

fn mantissa_exponent(n: f64) -> String {
    let (mantissa, exp) = float_parts(n);
    let sign = if n.is_sign_negative() { "-" } else { "" };
    let plus = if exp >= 0 { "+" } else { "" };
    format!("{sign}{mantissa}p{plus}{exp}")
}

fn format_hex(n: f64, verb: u8, precision: i32) -> String {
    let (mut mantissa, mut exp) = float_parts(n);
    if mantissa == 0 {
        exp = 0;
    } else {
        exp += 52;
    }
    // One hex digit before the point: shift until the leading bit is bit 60.
    mantissa <<= 8;
    while mantissa != 0 && mantissa & (1 << 60) == 0 {
        mantissa <<= 1;
        exp -= 1;
    }
    if (0..15).contains(&precision) {
        // Round to even at that many digits.
        let shift = precision as u32 * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exp += 1;
        }
    }
    let upper = verb == b'X';
    let digit = |d: u64| {
        let c = char::from_digit((d & 15) as u32, 16).unwrap_or('0');
        if upper { c.to_ascii_uppercase() } else { c }
    };
    let mut out = String::new();
    if n.is_sign_negative() {
        out.push('-');
    }
    out.push('0');
    out.push(char::from(verb));
    out.push(digit(mantissa >> 60));
    mantissa <<= 4;
    if precision < 0 && mantissa != 0 {
        out.push('.');
        while mantissa != 0 {
            out.push(digit(mantissa >> 60));
            mantissa <<= 4;
        }
    } else if precision > 0 {
        out.push('.');
        for _ in 0..precision {
            out.push(digit(mantissa >> 60));
            mantissa <<= 4;
        }
    }
    out.push(if upper { 'P' } else { 'p' });
    out.push(if exp < 0 { '-' } else { '+' });
    out.push_str(&format!("{:02}", exp.abs()));
    out
}

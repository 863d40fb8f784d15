//! ParseInt, ParseUint and ParseFloat.

/// The reason a number could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NumError {
    #[error("invalid syntax")]
    Syntax,
    #[error("value out of range")]
    Range,
}

/// Go's `strconv.ParseUint(s, base, 64)`; base 0 reads prefixes and underscores.
pub fn parse_uint(s: &str, base: u32) -> Result<u64, NumError> {
    if s.is_empty() {
        return Err(NumError::Syntax);
    }
    let auto = base == 0;
    let lower = s.as_bytes().get(1).map(u8::to_ascii_lowercase);
    let (base, digits) = if !auto {
        (base, s)
    } else if let Some(octal) = s.strip_prefix('0') {
        match lower {
            Some(b'b') if s.len() >= 3 => (2, &s[2..]),
            Some(b'o') if s.len() >= 3 => (8, &s[2..]),
            Some(b'x') if s.len() >= 3 => (16, &s[2..]),
            _ => (8, octal),
        }
    } else {
        (10, s)
    };
    let mut n: u64 = 0;
    let mut overflow = false;
    let mut underscores = false;
    for c in digits.chars() {
        if c == '_' && auto {
            underscores = true;
            continue;
        }
        let d = c.to_digit(36).filter(|d| *d < base && c.is_ascii()).ok_or(NumError::Syntax)?;
        match n.checked_mul(u64::from(base)).and_then(|n| n.checked_add(u64::from(d))) {
            Some(m) => n = m,
            None => overflow = true,
        }
    }
    // Go reports the overflow as soon as it happens, before a later bad digit; both are failures.
    if overflow {
        return Err(NumError::Range);
    }
    if underscores && !underscores_fit(s) {
        return Err(NumError::Syntax);
    }
    Ok(n)
}

/// Go's `strconv.ParseInt(s, base, 64)`.
pub fn parse_int(s: &str, base: u32) -> Result<i64, NumError> {
    let (negative, digits) = match s.as_bytes().first() {
        Some(b'-') => (true, &s[1..]),
        Some(b'+') => (false, &s[1..]),
        _ => (false, s),
    };
    let n = parse_uint(digits, base)?;
    if negative {
        if n > 1 << 63 { Err(NumError::Range) } else { Ok((n as i64).wrapping_neg()) }
    } else {
        i64::try_from(n).map_err(|_| NumError::Range)
    }
}

/// Underscores only between digits, or between a base prefix and a digit.
fn underscores_fit(s: &str) -> bool {
    let s = s.strip_prefix(['-', '+']).unwrap_or(s);
    let mut last = '^';
    let mut rest = s;
    let mut hex = false;
    let bytes = s.as_bytes();
    if bytes.len() >= 2 && bytes[0] == b'0' {
        let p = bytes[1].to_ascii_lowercase();
        if matches!(p, b'b' | b'o' | b'x') {
            last = '0';
            hex = p == b'x';
            rest = &s[2..];
        }
    }
    for c in rest.chars() {
        if c.is_ascii_digit() || hex && c.is_ascii_hexdigit() {
            last = '0';
        } else if c == '_' {
            if last != '0' {
                return false;
            }
            last = '_';
        } else {
            if last == '_' {
                return false;
            }
            last = '!';
        }
    }
    last != '_'
}

/// Go's `strconv.ParseFloat(s, 64)`: decimal, hexadecimal with a `p` exponent, inf, nan, underscores
/// between digits.
pub fn parse_float(s: &str) -> Result<f64, NumError> {
    let unsigned = s.strip_prefix(['+', '-']).unwrap_or(s);
    let negative = s.starts_with('-');
    let sign = |n: f64| if negative { -n } else { n };
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Ok(sign(f64::INFINITY)),
        "nan" if unsigned.len() == s.len() => return Ok(f64::NAN),
        _ => {}
    }
    if unsigned.as_bytes().get(..2).is_some_and(|p| p.eq_ignore_ascii_case(b"0x")) {
        return hex_float(unsigned).map(sign).and_then(check_finite);
    }
    if unsigned.contains('_') && !underscores_fit(unsigned) {
        return Err(NumError::Syntax);
    }
    let unsigned = unsigned.replace('_', "");
    if !decimal_syntax(&unsigned) {
        return Err(NumError::Syntax);
    }
    unsigned.parse::<f64>().map(sign).map_err(|_| NumError::Syntax).and_then(check_finite)
}

fn check_finite(n: f64) -> Result<f64, NumError> {
    if n.is_infinite() { Err(NumError::Range) } else { Ok(n) }
}

fn decimal_syntax(s: &str) -> bool {
    let (mantissa, exp) = match s.find(['e', 'E']) {
        Some(i) => (&s[..i], Some(&s[i + 1..])),
        None => (s, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exp.is_none_or(|e| {
            let e = e.strip_prefix(['+', '-']).unwrap_or(e);
            !e.is_empty() && digits(e)
        })
}

fn hex_float(s: &str) -> Result<f64, NumError> {
    if s.contains('_') && !underscores_fit(s) {
        return Err(NumError::Syntax);
    }
    let text: String = s[2..].chars().filter(|c| *c != '_').collect();
    let (mantissa, exp) = text.split_once(['p', 'P']).ok_or(NumError::Syntax)?;
    let digits = exp.strip_prefix(['+', '-']).unwrap_or(exp);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumError::Syntax);
    }
    let mut exp = exp.parse::<i64>().unwrap_or(if exp.starts_with('-') { -100_000 } else { 100_000 });
    exp = exp.clamp(-100_000, 100_000);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(NumError::Syntax);
    }
    let mut bits: u128 = 0;
    let mut sticky = false;
    let mut point: i64 = 0;
    for (i, c) in whole.chars().chain(fraction.chars()).enumerate() {
        let d = c.to_digit(16).ok_or(NumError::Syntax)?;
        let fractional = i >= whole.len();
        if bits >> 120 == 0 {
            bits = bits << 4 | u128::from(d);
            if fractional {
                point -= 4;
            }
        } else {
            sticky |= d != 0;
            if !fractional {
                point += 4;
            }
        }
    }
    Ok(scale_bits(bits, sticky, exp + point))
}

/// `bits × 2^exp`, rounded to nearest even.
fn scale_bits(mut bits: u128, mut sticky: bool, mut exp: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    // Bring to 53 bits plus two for rounding, no lower than the smallest subnormal allows.
    let shift_right = |bits: &mut u128, exp: &mut i64, sticky: &mut bool| {
        *sticky |= *bits & 1 == 1;
        *bits >>= 1;
        *exp += 1;
    };
    while bits < 1 << 54 {
        bits <<= 1;
        exp -= 1;
    }
    while bits >= 1 << 55 || exp < -1076 && bits != 0 {
        shift_right(&mut bits, &mut exp, &mut sticky);
    }
    let round = (bits & 3) as u8;
    let mut mantissa = (bits >> 2) as u64;
    exp += 2;
    let up = round & 2 != 0 && (round & 1 != 0 || sticky || mantissa & 1 == 1);
    if up {
        mantissa += 1;
    }
    let mut n = mantissa as f64;
    while exp > 0 && n.is_finite() {
        let step = exp.min(1000) as i32;
        n *= 2f64.powi(step);
        exp -= i64::from(step);
    }
    // The mantissa is exact and the exponent no lower than −1074, so these steps do not round.
    while exp < 0 && n != 0.0 {
        let step = (-exp).min(1000) as i32;
        n /= 2f64.powi(step);
        exp += i64::from(step);
    }
    n
}

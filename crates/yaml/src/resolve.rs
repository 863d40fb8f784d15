//! What a plain scalar means: the three sets of rules in use.

/// Which rules give plain scalars their types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScalarRules {
    /// As Helm and kubectl read (go-yaml v2): YAML 1.1 booleans (`yes`, `on`, `y`), `0777`, `1_000`.
    Yaml11,
    /// As kustomize reads (go-yaml v3): `yes` is text, `0777` and `1_000` are numbers, dates are dates.
    GoYaml3,
    /// For files of our own: YAML 1.2 and octal file modes (`0644`); `yes`, `1_000` and dates are text.
    #[default]
    Core,
}

/// The type a scalar's text stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResolvedScalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Uint(u64),
    Float(f64),
    Timestamp,
    Str,
}

impl ResolvedScalar {
    /// The short tag Go names in messages.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) => "int",
            Self::Float(_) => "float",
            Self::Timestamp => "timestamp",
            Self::Str => "str",
        }
    }
}

/// Finds the type of a plain scalar.
pub(crate) fn resolve(schema: ScalarRules, text: &str) -> ResolvedScalar {
    let Some(first) = text.bytes().next() else { return ResolvedScalar::Null };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            if text.len() > 5 {
                ResolvedScalar::Str
            } else {
                word(schema, text)
            }
        }
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => ResolvedScalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => ResolvedScalar::Float(f64::INFINITY),
            _ => dotted(schema, text),
        },
        b'+' | b'-' | b'0'..=b'9' => match text {
            "+.inf" | "+.Inf" | "+.INF" => ResolvedScalar::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => ResolvedScalar::Float(f64::NEG_INFINITY),
            _ => number(schema, text),
        },
        _ => ResolvedScalar::Str,
    }
}

fn word(schema: ScalarRules, text: &str) -> ResolvedScalar {
    match text {
        "true" | "True" | "TRUE" => ResolvedScalar::Bool(true),
        "false" | "False" | "FALSE" => ResolvedScalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => ResolvedScalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" if schema == ScalarRules::Yaml11 => {
            ResolvedScalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" if schema == ScalarRules::Yaml11 => {
            ResolvedScalar::Bool(false)
        }
        _ => ResolvedScalar::Str,
    }
}

/// Whether `text`, unquoted, is a boolean for Helm and kubectl but text for YAML 1.2 (`yes`, `off`, `y`).
pub fn is_yaml11_bool(text: &str) -> bool {
    text.len() <= 3 && matches!(resolve(ScalarRules::Yaml11, text), ResolvedScalar::Bool(_))
}

/// A number that starts with its point: underscores may stand between digits.
fn dotted(schema: ScalarRules, text: &str) -> ResolvedScalar {
    let bytes = text.as_bytes();
    if bytes.contains(&b'_') {
        let between_digits = bytes.iter().enumerate().all(|(at, byte)| {
            *byte != b'_'
                || (at > 0
                    && bytes[at - 1].is_ascii_digit()
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
        });
        if schema == ScalarRules::Core || !between_digits {
            return ResolvedScalar::Str;
        }
        return decimal(&text.replace('_', ""));
    }
    decimal(text)
}

fn number(schema: ScalarRules, text: &str) -> ResolvedScalar {
    if schema != ScalarRules::Core && timestamp(text).is_some() {
        return ResolvedScalar::Timestamp;
    }
    if !text.contains('_') {
        return undecorated(text);
    }
    if schema == ScalarRules::Core { ResolvedScalar::Str } else { undecorated(&text.replace('_', "")) }
}

fn undecorated(text: &str) -> ResolvedScalar {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let is_signed = digits.len() < text.len();
    if digits.is_empty() {
        return ResolvedScalar::Str;
    }
    let (radix, body) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !body.is_empty()
        && body.bytes().all(|byte| (byte as char).is_digit(radix))
        && let Ok(magnitude) = u64::from_str_radix(body, radix)
    {
        if negative && magnitude <= i64::MIN.unsigned_abs() {
            return ResolvedScalar::Int((magnitude as i64).wrapping_neg());
        }
        if !negative && magnitude <= i64::MAX as u64 {
            return ResolvedScalar::Int(magnitude as i64);
        }
        if !is_signed {
            return ResolvedScalar::Uint(magnitude);
        }
    }
    match decimal(text) {
        ResolvedScalar::Str => binary(text),
        float => float,
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?` within range.
fn decimal(text: &str) -> ResolvedScalar {
    let bytes = text.as_bytes();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(at);
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if whole + fraction == 0 {
            return ResolvedScalar::Str;
        }
        at += 1 + fraction;
    } else if whole == 0 {
        return ResolvedScalar::Str;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at.min(bytes.len()));
        if exponent == 0 {
            return ResolvedScalar::Str;
        }
        at += exponent;
    }
    if at != bytes.len() {
        return ResolvedScalar::Str;
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => ResolvedScalar::Float(value),
        _ => ResolvedScalar::Str,
    }
}

/// Go tries `0b` once more with what follows, which lets a sign stand behind the prefix.
fn binary(text: &str) -> ResolvedScalar {
    let parsed = if let Some(rest) = text.strip_prefix("0b") {
        i64::from_str_radix(rest, 2)
    } else if let Some(rest) = text.strip_prefix("-0b") {
        i64::from_str_radix(&format!("-{rest}"), 2)
    } else {
        return ResolvedScalar::Str;
    };
    parsed.map_or(ResolvedScalar::Str, ResolvedScalar::Int)
}

/// Whether `text` is a YAML 1.1 base-60 number (`1:30`), which writers quote and readers ignore.
pub(crate) fn is_base60(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    if !bytes.get(at).is_some_and(u8::is_ascii_digit) || !bytes.contains(&b':') {
        return false;
    }
    while bytes.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'_') {
        at += 1;
    }
    let mut groups = 0;
    while bytes.get(at) == Some(&b':') {
        let digits = bytes[at + 1..].iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || (digits == 2 && bytes[at + 1] > b'5') {
            return false;
        }
        at += 1 + digits;
        groups += 1;
    }
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        while bytes.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'_') {
            at += 1;
        }
    }
    groups > 0 && at == bytes.len()
}

/// A date or a time as YAML 1.1 writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp<'a> {
    year: u32,
    month: u32,
    day: u32,
    clock: (u32, u32, u32),
    fraction: &'a str,
    /// Minutes east of UTC.
    zone: i32,
}

impl Timestamp<'_> {
    /// As Go's JSON encoder writes a time.
    pub(crate) fn rfc3339(&self) -> String {
        let (hour, minute, second) = self.clock;
        let mut text =
            format!("{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}", self.year, self.month, self.day);
        let fraction = &self.fraction[..self.fraction.len().min(9)];
        let fraction = fraction.trim_end_matches('0');
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(fraction);
        }
        if self.zone == 0 {
            text.push('Z');
        } else {
            let sign = if self.zone < 0 { '-' } else { '+' };
            let zone = self.zone.unsigned_abs();
            text.push_str(&format!("{sign}{:02}:{:02}", zone / 60, zone % 60));
        }
        text
    }
}

/// Reads a timestamp.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp<'_>> {
    let bytes = text.as_bytes();
    let year_digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if year_digits != 4 || bytes.get(4) != Some(&b'-') {
        return None;
    }
    let year: u32 = text[..4].parse().ok()?;
    let mut rest = &text[5..];
    let month = one_or_two(&mut rest)?;
    rest = rest.strip_prefix('-')?;
    let day = one_or_two(&mut rest)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > days {
        return None;
    }
    let date = Timestamp { year, month, day, clock: (0, 0, 0), fraction: "", zone: 0 };
    if rest.is_empty() {
        return Some(date);
    }
    let spaced = rest.starts_with(' ');
    rest = if spaced { rest.trim_start_matches(' ') } else { rest.strip_prefix(['T', 't'])? };
    let hour = one_or_two(&mut rest)?;
    rest = rest.strip_prefix(':')?;
    let minute = one_or_two(&mut rest)?;
    rest = rest.strip_prefix(':')?;
    let second = one_or_two(&mut rest)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut fraction = "";
    if let Some(behind) = rest.strip_prefix(['.', ',']) {
        let length = behind.bytes().take_while(u8::is_ascii_digit).count();
        if length > 0 {
            (fraction, rest) = behind.split_at(length);
        }
    }
    let zone = if spaced {
        rest.is_empty().then_some(0)?
    } else if rest == "Z" {
        0
    } else {
        let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = rest.as_bytes() else { return None };
        if ![h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let hours = i32::from(h1 - b'0') * 10 + i32::from(h2 - b'0');
        let minutes = i32::from(m1 - b'0') * 10 + i32::from(m2 - b'0');
        if hours > 24 || minutes > 60 {
            return None;
        }
        (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
    };
    Some(Timestamp { clock: (hour, minute, second), fraction, zone, ..date })
}

fn one_or_two(rest: &mut &str) -> Option<u32> {
    let length = rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let value = rest[..length].parse().ok()?;
    *rest = &rest[length..];
    Some(value)
}

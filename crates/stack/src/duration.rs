//! Durations as Go writes them: `300ms`, `90s`, `1h30m`.

use std::time::Duration;

/// Reads a duration; a number without a unit is none, nor is a negative one.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: f64 = number.parse().ok()?;
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        total += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = after;
    }
    // Go's durations end a little short of 293 years.
    (total < 9.2e9).then(|| Duration::from_secs_f64(total))
}

/// Writes a duration for people: `41.2s`, `10m0s`, `1h2m3s`, `850ms`.
pub fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_millis() as f64 / 1000.0),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, milliseconds) in [
            ("300ms", Some(300)),
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5h", Some(5_400_000)),
            ("0", Some(0)),
            ("10", None),
            ("", None),
            ("s", None),
            (".s", None),
            ("-5s", None),
            ("5 m", None),
            ("5x", None),
            ("999999999999h", None),
        ] {
            assert_eq!(parse(text), milliseconds.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn shows_what_people_read() {
        for (milliseconds, text) in
            [(850, "850ms"), (41_200, "41.2s"), (600_000, "10m0s"), (3_723_000, "1h2m3s")]
        {
            assert_eq!(show(Duration::from_millis(milliseconds)), text);
        }
    }
}

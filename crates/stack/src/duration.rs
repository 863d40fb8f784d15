//! Durations as people read them: `850ms`, `41.2s`, `1h2m3s`.

use std::time::Duration;

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
    fn shows_what_people_read() {
        for (milliseconds, text) in
            [(850, "850ms"), (41_200, "41.2s"), (600_000, "10m0s"), (3_723_000, "1h2m3s")]
        {
            assert_eq!(show(Duration::from_millis(milliseconds)), text);
        }
    }
}

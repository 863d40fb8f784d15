//! The small languages annotations are written in: Go's booleans, property lists.

/// Reads a boolean as Go does.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A value of a property list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    Text(String),
    Flag(bool),
}

/// Reads `k=v,k='a,b',nok`: keys in lower case, values trimmed unless quoted, a bare key is a flag.
pub fn properties(text: &str) -> Vec<(String, Property)> {
    let mut properties = Vec::new();
    for part in split_outside_quotes(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        match part.split_once('=') {
            Some((key, value)) => {
                let value = value.trim();
                let quoted = ['\'', '"'].into_iter().find_map(|quote| {
                    value.strip_prefix(quote)?.strip_suffix(quote).filter(|_| value.len() >= 2)
                });
                let value = quoted.unwrap_or(value).to_owned();
                properties.push((key.trim().to_lowercase(), Property::Text(value)));
            }
            None => {
                let key = part.to_lowercase();
                match key.strip_prefix("no") {
                    Some(rest) if !rest.is_empty() => {
                        properties.push((rest.to_owned(), Property::Flag(false)));
                    }
                    _ => properties.push((key, Property::Flag(true))),
                }
            }
        }
    }
    properties
}

fn split_outside_quotes(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut quote, mut escaped) = (0, None, false);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (',', None) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_lists_know_quotes_and_flags() {
        let text = |text: &str| Property::Text(text.to_owned());
        let found = properties(" State=ready , name='a,b',kind=\"X\",nowait,force,");
        let expected = [
            ("state", text("ready")),
            ("name", text("a,b")),
            ("kind", text("X")),
            ("wait", Property::Flag(false)),
            ("force", Property::Flag(true)),
        ];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
    }
}

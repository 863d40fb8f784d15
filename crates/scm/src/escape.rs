//! Texts of others, made harmless in Markdown.

/// Makes a text safe for a cell of a Markdown table: no markup, no HTML, no mention, one line.
pub fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // A mention would call somebody, a reference link something.
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            '!' => escaped.push_str("&#33;"),
            '|' => escaped.push_str("&#124;"),
            '`' => escaped.push_str("&#96;"),
            '[' => escaped.push_str("&#91;"),
            ']' => escaped.push_str("&#93;"),
            '*' => escaped.push_str("&#42;"),
            '_' => escaped.push_str("&#95;"),
            '~' => escaped.push_str("&#126;"),
            '\\' => escaped.push_str("&#92;"),
            // Characters that turn the direction of text around.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() || c == '\u{2028}' || c == '\u{2029}' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// An address fit for a link, or none.
pub(crate) fn link_target(url: &str) -> Option<String> {
    let parsed = url::Url::parse(url).ok()?;
    let is_plain = matches!(parsed.scheme(), "http" | "https") && parsed.password().is_none();
    let escape = |c: char| match c {
        '(' => "%28".to_owned(),
        ')' => "%29".to_owned(),
        '<' => "%3C".to_owned(),
        '>' => "%3E".to_owned(),
        '|' => "%7C".to_owned(),
        '`' => "%60".to_owned(),
        '@' => "%40".to_owned(),
        c => c.to_string(),
    };
    is_plain.then(|| parsed.as_str().chars().map(escape).collect())
}

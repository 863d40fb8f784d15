//! Finds credentials written into the text of a document: in addresses and as passwords.

/// A user's name this long before an address is a token.
const TOKEN: usize = 12;

/// The passwords and tokens of addresses. Needs no document that can be parsed, so that the excerpt of a
/// mistake does not show one.
pub(crate) fn in_addresses(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices("://") {
        let rest = &text[at + 3..];
        let end = rest.find(|c: char| "/?#\"'`,".contains(c) || c.is_whitespace()).unwrap_or(rest.len());
        let Some((user, _)) = rest[..end].rsplit_once('@') else { continue };
        match user.split_once(':') {
            Some((_, password)) => found.push(password),
            None if user.len() >= TOKEN => found.push(user),
            None => {}
        }
    }
    known(found)
}

/// Finds what stands after the word `password`. Not surely a secret, so it is masked in excerpts only.
pub(crate) fn passwords(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (at, key) in text.match_indices("password:") {
        let rest = text[at + key.len()..].lines().next().unwrap_or_default().trim();
        let value = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].split(quote).next().unwrap_or_default(),
            _ => rest.split([',', '}', '#']).next().unwrap_or_default().trim_end(),
        };
        found.push(value);
    }
    known(found)
}

/// A reference is no credential; its value is masked if it is one.
fn known(mut found: Vec<&str>) -> Vec<&str> {
    found.retain(|text| !text.is_empty() && !text.contains("${"));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_credentials_in_text_that_is_no_yaml() {
        for (text, expected) in [
            ("repo: https://me:hunter2@host/x", vec!["hunter2"]),
            ("{chart: 'oci://me:p%40ss@host/x', repo: http://host}", vec!["p%40ss"]),
            ("url: https://ghp_0123456789abc@host", vec!["ghp_0123456789abc"]),
            ("url: https://git@host/a@b:c", vec![]),
            ("auth: {username: u, password: s3cret}", vec!["s3cret"]),
            ("  password: \"a, b\" # why", vec!["a, b"]),
            ("password: ${PW}\nrepo: https://u:${PW}@host", vec![]),
            ("https://", vec![]),
            ("password:", vec![]),
        ] {
            assert_eq!([in_addresses(text), passwords(text)].concat(), expected, "{text}");
        }
    }
}

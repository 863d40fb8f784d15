//! Hiding of credentials inside addresses: logins before the host and secret values of the query.
//!
//! These are not registered secrets: they are recognised by their place, so an address is safe to show
//! before anybody has looked at what it holds.

use std::borrow::Cow;

use super::MASK;

/// Masks the credentials of every address in a text; the text may be a single address.
///
/// `https://user:password@host/x?sig=abc` becomes `https://***@host/x?sig=***`. What is no credential
/// stays as it is, and so does a text without addresses.
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    // Everything before this offset has been copied.
    let mut copied = 0;
    let mut from = 0;
    while let Some(found) = text[from..].find("://") {
        let start = from + found + 3;
        let address = &text[start..start + length(&text[start..])];
        let login = login_length(address);
        if login > 0 && &address[..login] != MASK {
            masked.push_str(&text[copied..start]);
            masked.push_str(MASK);
            copied = start + login;
        }
        // A value may be an address itself, so only up to where the next one begins.
        let own = address[login..].find("://").map_or(address.len(), |next| login + next);
        for (begin, end) in secret_values(&address[..own], login) {
            if &address[begin..end] != MASK {
                masked.push_str(&text[copied..start + begin]);
                masked.push_str(MASK);
                copied = start + end;
            }
        }
        from = start + login;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// The length of the address a text begins with.
fn length(text: &str) -> usize {
    let end = text.find(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '`' | '<' | '>'));
    let address = &text[..end.unwrap_or(text.len())];
    // Punctuation of the sentence around it.
    address.trim_end_matches(['\'', ')', ']', '}', ',', '.', ';', ':', '\\']).len()
}

/// The length of `user:password` before an `@`.
fn login_length(address: &str) -> usize {
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let authority = &address[..end];
    if let Some(at) = authority.rfind('@') {
        return at;
    }
    // A password with a slash in it that nobody escaped: what stands after the colon is no port.
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) || authority.ends_with(']');
    // An address within the address has a login of its own.
    let own = address.find("://").unwrap_or(address.len());
    if is_port { 0 } else { address[..own].rfind('@').unwrap_or(0) }
}

/// The places of values whose name says that they are secret.
fn secret_values(address: &str, from: usize) -> impl Iterator<Item = (usize, usize)> {
    let query = address[from..].find(['?', '#']).map_or(address.len(), |at| from + at);
    let mut places = Vec::new();
    let mut at = query;
    while at < address.len() {
        let begin = at + separator(&address[at..]).unwrap_or(1);
        let mut end = begin;
        while end < address.len() && separator(&address[end..]).is_none() {
            end += address[end..].chars().next().map_or(1, char::len_utf8);
        }
        if let Some((name, value)) = address[begin..end].split_once('=')
            && !value.is_empty()
            && is_secret_name(name)
        {
            places.push((end - value.len(), end));
        }
        at = end;
    }
    places.into_iter()
}

/// The length of the separator a text begins with; the last one is `&` as Go writes it into JSON.
fn separator(text: &str) -> Option<usize> {
    if text.starts_with(['?', '#', '&', ';']) {
        return Some(1);
    }
    text.starts_with("\\u0026").then_some(6)
}

fn is_secret_name(name: &str) -> bool {
    const WHOLE: [&str; 13] = [
        "sig",
        "key",
        "auth",
        "pass",
        "pwd",
        "jwt",
        "sas",
        "code",
        "session",
        "sessionid",
        "sid",
        "hmac",
        "policy",
    ];
    const PART: [&str; 12] = [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "signature",
        "credential",
        "apikey",
        "accesskey",
        "privatekey",
        "oauth",
        "authorization",
    ];
    let name = name.to_ascii_lowercase().replace("%2d", "").replace("%5f", "").replace(['-', '_', '.'], "");
    WHOLE.contains(&name.as_str()) || PART.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_logins_and_secret_values_of_addresses() {
        for (text, expected) in [
            ("https://host/path?x=1#top", "https://host/path?x=1#top"),
            ("https://user:pw@host:8443/path", "https://***@host:8443/path"),
            ("https://token@host", "https://***@host"),
            ("oci://a:b@[::1]:5000/c:1.0", "oci://***@[::1]:5000/c:1.0"),
            ("https://us@er:p@w@host/", "https://***@host/"),
            ("https://user:pa/ss@host/x", "https://***@host/x"),
            ("https://user:pa?s#s@host/x", "https://***@host/x"),
            ("oci://host:5000/a@sha256:00", "oci://host:5000/a@sha256:00"),
            ("https://host/@scope/pkg", "https://host/@scope/pkg"),
            ("https://[::1]/@scope", "https://[::1]/@scope"),
            ("https://h/x?sv=1&sig=a%2Fb%3D&se=2", "https://h/x?sv=1&sig=***&se=2"),
            (
                "https://h/x?X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Signature=e",
                "https://h/x?X-Amz-Credential=***&X-Amz-Date=d&X-Amz-Signature=***",
            ),
            ("https://h/x?private%5Ftoken=e", "https://h/x?private%5Ftoken=***"),
            ("https://h/#access_token=e&state=1", "https://h/#access_token=***&state=1"),
            (r#"{"url":"https://h/?a=1\u0026token=b"}"#, r#"{"url":"https://h/?a=1\u0026token=***"}"#),
            ("https://h/?a=1&amp;token=b", "https://h/?a=1&amp;token=***"),
            ("https://h/?to=https://u:p@g/?sig=1&token=2", "https://h/?to=https://***@g/?sig=***&token=***"),
            (
                "failed to fetch 'https://u:p@h/x', then (https://h/?token=abc): no",
                "failed to fetch 'https://***@h/x', then (https://h/?token=***): no",
            ),
            ("get \"https://u:p@h/\" from <https://v:q@h>", "get \"https://***@h/\" from <https://***@h>"),
            ("https://h/?token=", "https://h/?token="),
            ("https://u:\u{fc}@h/?token=\u{fc}&x=\u{fc}", "https://***@h/?token=***&x=\u{fc}"),
            ("no address: a@b, c://", "no address: a@b, c://"),
        ] {
            assert_eq!(without_credentials(text), expected);
            assert_eq!(without_credentials(expected), expected, "once is enough");
        }
    }

    #[test]
    fn leaves_clean_texts_borrowed() {
        assert!(matches!(without_credentials("https://host/x?y=1"), Cow::Borrowed(_)));
    }
}

//! The rules for names, label keys and label values, with Kubernetes' texts.

const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The rules a name breaks, in Kubernetes' words.
pub type NameProblems = Vec<String>;

fn into_result(problems: NameProblems) -> Result<(), NameProblems> {
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn longer_than(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn is_label_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_lower_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

/// Checks the key of a label or annotation, `prefix/name`.
pub fn check_label_key(key: &str) -> Result<(), NameProblems> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else if let Err(more) = check_subdomain(prefix) {
                problems.extend(more.into_iter().map(|problem| format!("prefix part {problem}")));
            }
            name
        }
        _ => {
            return Err(vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                LABEL_KEY.trim_start_matches("name part ")
            )]);
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_label_word(name) {
        problems.push(LABEL_KEY.to_owned());
    }
    into_result(problems)
}

/// Checks the value of a label.
pub fn check_label_value(value: &str) -> Result<(), NameProblems> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_label_word(value) {
        problems.push(LABEL_VALUE.to_owned());
    }
    into_result(problems)
}

/// Checks a DNS subdomain: what most objects may be named.
pub fn check_subdomain(name: &str) -> Result<(), NameProblems> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(longer_than(253));
    }
    if !name.split('.').all(is_lower_label) {
        problems.push(SUBDOMAIN.to_owned());
    }
    into_result(problems)
}

/// Checks a DNS label: what a namespace may be named.
pub fn check_label_1123(name: &str) -> Result<(), NameProblems> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(longer_than(63));
    }
    if !is_lower_label(name) {
        problems.push(if name.split('.').all(is_lower_label) {
            "must not contain dots".to_owned()
        } else {
            LABEL_1123.to_owned()
        });
    }
    into_result(problems)
}

/// Checks an RFC 1035 label: what custom resource names and kinds in lower case must be.
pub fn check_label_1035(name: &str) -> Result<(), NameProblems> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(longer_than(63));
    }
    if !is_lower_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(LABEL_1035.to_owned());
    }
    into_result(problems)
}

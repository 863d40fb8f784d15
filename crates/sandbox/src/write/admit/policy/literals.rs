//! Object literals of mutating policies, `Object.spec{replicas: 3}` and `JSONPatch{op: "add", …}`, written
//! as the maps they stand for.
//!
//! A literal keeps its type's name under a key no field can have, so that what was nested where it does not
//! belong is found when the value is known.

use serde_json::Value;
use slipway_go::GoError;

/// The member that holds the name of a literal's type.
const TYPE: &str = "\u{1}type";

/// The same expression with maps in place of object literals. What cannot be read is left to the compiler,
/// which says why.
pub(crate) fn as_maps(expression: &str) -> String {
    let mut reader = LiteralReader { text: expression, at: 0 };
    let mut out = String::with_capacity(expression.len() * 2);
    reader.copy_until(&mut out, &[]);
    out
}

struct LiteralReader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> LiteralReader<'t> {
    fn remaining_text(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn take_text(&mut self, length: usize) -> &'t str {
        let taken = &self.text[self.at..self.at + length];
        self.at += length;
        taken
    }

    /// Copies up to one of `ends` outside of brackets, or to the end.
    fn copy_until(&mut self, out: &mut String, ends: &[char]) {
        let mut depth = 0usize;
        while let Some(next) = self.remaining_text().chars().next() {
            if depth == 0 && ends.contains(&next) {
                return;
            }
            if let Some(length) = quoted_length(self.remaining_text()) {
                out.push_str(self.take_text(length));
                continue;
            }
            match next {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                c if c.is_ascii_alphabetic() || c == '_' => {
                    self.copy_word(out);
                    continue;
                }
                _ => {}
            }
            out.push_str(self.take_text(next.len_utf8()));
        }
    }

    /// Copies a dotted name, or the literal it begins.
    fn copy_word(&mut self, out: &mut String) {
        let length = self
            .remaining_text()
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')))
            .unwrap_or(self.remaining_text().len());
        let name = self.take_text(length);
        let known = name == "JSONPatch" || name == "Object" || name.starts_with("Object.");
        let gap = self.remaining_text().len() - self.remaining_text().trim_start().len();
        if !known || !self.remaining_text()[gap..].starts_with('{') || out.ends_with('.') {
            out.push_str(name);
            return;
        }
        self.at += gap + 1;
        out.push_str("{\"\\u0001type\": dyn(\"");
        out.push_str(name);
        out.push_str("\")");
        loop {
            let key = self.remaining_text().trim_start();
            self.at = self.text.len() - key.len();
            if key.is_empty() || key.starts_with('}') {
                break;
            }
            out.push_str(", ");
            if key.starts_with('?') {
                out.push_str(self.take_text(1));
            }
            let end = self.remaining_text().find(':').unwrap_or(self.remaining_text().len());
            let field = self.take_text(end).trim().trim_matches('`');
            out.push_str(&Value::from(field).to_string());
            if !self.remaining_text().starts_with(':') {
                break;
            }
            out.push_str(self.take_text(1));
            // An optional field's value stays what it is; all others may be of any type.
            let optional = key.starts_with('?');
            out.push_str(if optional { " (" } else { " dyn(" });
            self.copy_until(out, &[',', '}']);
            out.push(')');
            if self.remaining_text().starts_with(',') {
                self.at += 1;
            }
        }
        if self.remaining_text().starts_with('}') {
            out.push_str(self.take_text(1));
        }
    }
}

/// The length of the text literal or comment something begins with.
fn quoted_length(text: &str) -> Option<usize> {
    if let Some(comment) = text.strip_prefix("//") {
        return Some(2 + comment.find('\n').unwrap_or(comment.len()));
    }
    let prefix = text.find(|c: char| !matches!(c, 'r' | 'R' | 'b' | 'B')).unwrap_or(0);
    let body = text.get(prefix..)?;
    let raw = text[..prefix].contains(['r', 'R']);
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote))?;
    let mut at = prefix + quote.len();
    while let Some(next) = text[at..].chars().next() {
        if text[at..].starts_with(quote) {
            return Some(at + quote.len());
        }
        at += next.len_utf8();
        if next == '\\' && !raw {
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some(text.len())
}

/// Takes the names of types out of a value, and says where one stands in a place that is not its own.
pub(super) fn take_types(value: &mut Value, expected: &str) -> Result<(), GoError> {
    let mut wrong = Vec::new();
    strip_types(value, expected, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n")).into()) }
}

fn strip_types(value: &mut Value, expected: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let named = members.shift_remove(TYPE);
            let name = named.as_ref().and_then(Value::as_str);
            if let Some(name) = name
                && name != expected
                && name != "JSONPatch"
            {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root Object type"
                ));
            }
            for (key, member) in members {
                if name.is_some() {
                    strip_types(member, &format!("{expected}.{key}"), wrong);
                } else {
                    strip_types(member, expected, wrong);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip_types(item, expected, wrong)),
        _ => {}
    }
}

/// The name of a literal's type.
pub(super) fn type_of(value: &Value) -> Option<&str> {
    value.get(TYPE)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::as_maps;

    #[test]
    fn literals_become_maps_and_everything_else_stays() {
        for (expression, expected) in [
            ("object.spec.replicas > 1", "object.spec.replicas > 1"),
            ("Object{}", "{\"\\u0001type\": dyn(\"Object\")}"),
            (
                "Object{spec: Object.spec{n: [1, 2].map(x, x + 1), s: 'a}b,' }}",
                "{\"\\u0001type\": dyn(\"Object\"), \"spec\": dyn( {\"\\u0001type\": dyn(\"Object.spec\"), \"n\": dyn( [1, 2].map(x, x + 1)), \"s\": dyn( 'a}b,' )})}",
            ),
            ("'Object{a: 1}' // Object{", "'Object{a: 1}' // Object{"),
            (
                "[JSONPatch{op: \"test\", path: \"/a\"}]",
                "[{\"\\u0001type\": dyn(\"JSONPatch\"), \"op\": dyn( \"test\"), \"path\": dyn( \"/a\")}]",
            ),
            ("x.Object{a: 1}", "x.Object{a: 1}"),
            ("Object{?a: object.?b}", "{\"\\u0001type\": dyn(\"Object\"), ?\"a\": ( object.?b)}"),
        ] {
            assert_eq!(as_maps(expression), expected);
        }
    }
}

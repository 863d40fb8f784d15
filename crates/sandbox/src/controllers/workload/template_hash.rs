//! The hash of a pod template, equal to the real controllers': FNV of the template as Go's spew library
//! prints the struct, with the names of types and fields, zero values and all.
//!
//! `data/pod_types.txt` holds those names: a struct a line, `Name:json name:type` for each field, made by
//! reflection over `k8s.io/api/core/v1`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::Value;
use slipway_manifest::quantity::{QuantityFormat, read_suffix};

use crate::ids::{fnv32a, safe_encode};

/// The hash of a template, with the collisions its owner has counted.
pub(super) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let mut text = String::with_capacity(8 << 10);
    text.push_str("(v1.PodTemplateSpec)");
    print(&mut text, "v1.PodTemplateSpec", template);
    let mut bytes = text.into_bytes();
    if let Some(count) = collisions {
        bytes.extend_from_slice(&(count as u64 & u64::from(u32::MAX)).to_le_bytes());
    }
    safe_encode(fnv32a(&bytes))
}

/// The hash of what a revision holds, as stateful sets have it.
pub(super) fn revision_hash(data: &Value, collisions: i64) -> String {
    let mut sorted = data.clone();
    sorted.sort_all_objects();
    let mut text = sorted.to_string();
    // Go's JSON keeps markup out of texts.
    for (character, escaped) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        text = text.replace(character, escaped);
    }
    let _ = write!(text, "{collisions}");
    safe_encode(text.bytes().fold(0x811c_9dc5, |hash: u32, b| hash.wrapping_mul(0x0100_0193) ^ u32::from(b)))
}

/// A field of a Go struct.
struct GoField {
    name: &'static str,
    /// Empty for an embedded struct, whose fields stand among its parent's.
    json: &'static str,
    ty: &'static str,
}

fn structs() -> &'static HashMap<&'static str, Vec<GoField>> {
    static STRUCTS: OnceLock<HashMap<&'static str, Vec<GoField>>> = OnceLock::new();
    STRUCTS.get_or_init(|| {
        let field = |text: &'static str| {
            let mut parts = text.splitn(3, ':');
            Some(GoField { name: parts.next()?, json: parts.next()?, ty: parts.next()? })
        };
        include_str!("../../../data/pod_types.txt")
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ');
                Some((words.next()?, words.filter_map(field).collect()))
            })
            .collect()
    })
}

/// Prints a value of a Go type; what is not there is the type's zero value.
fn print(out: &mut String, ty: &str, value: &Value) {
    if let Some(inner) = ty.strip_prefix('*') {
        return if value.is_null() { out.push_str("<nil>") } else { print(out, inner, value) };
    }
    if let Some(item) = ty.strip_prefix("[]") {
        let items = value.as_array().map_or(&[][..], Vec::as_slice);
        return sequence(out, "[", items.iter(), |out, value| print(out, item, value));
    }
    let entry = match ty {
        "map[string]string" => Some("string"),
        "v1.ResourceList" => Some("resource.Quantity"),
        _ => None,
    };
    if let Some(ty) = entry {
        let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
        entries.sort_by(|a, b| a.0.cmp(b.0));
        return sequence(out, "map[", entries.into_iter(), |out, (key, value)| {
            let _ = write!(out, "{key}:");
            print(out, ty, value);
        });
    }
    match ty {
        "bool" => out.push_str(if value == &Value::Bool(true) { "true" } else { "false" }),
        "int32" | "int64" => {
            let _ = write!(out, "{}", value.as_i64().unwrap_or(0));
        }
        // The server gives templates no times.
        "v1.Time" => {
            out.push_str("{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}");
        }
        "resource.Quantity" => quantity(out, value.as_str()),
        "intstr.IntOrString" => {
            let (kind, text) = (i32::from(value.is_string()), value.as_str().unwrap_or(""));
            let number = value.as_i64().unwrap_or(0);
            let _ = write!(out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}");
        }
        _ => match structs().get(ty) {
            Some(fields) => {
                out.push('{');
                for (index, field) in fields.iter().enumerate() {
                    let space = if index > 0 { " " } else { "" };
                    let _ = write!(out, "{space}{}:({})", field.name, field.ty);
                    let inner = if field.json.is_empty() { value } else { &value[field.json] };
                    print(out, field.ty, inner);
                }
                out.push('}');
            }
            // Every other type is a text with a name.
            None => out.push_str(value.as_str().unwrap_or("")),
        },
    }
}

fn sequence<T>(
    out: &mut String,
    open: &str,
    items: impl ExactSizeIterator<Item = T>,
    mut item: impl FnMut(&mut String, T),
) {
    if items.len() == 0 {
        return out.push_str("<nil>");
    }
    out.push_str(open);
    for (index, value) in items.enumerate() {
        if index > 0 {
            out.push(' ');
        }
        item(out, value);
    }
    out.push(']');
}

/// Prints a quantity as it is in memory after its canonical text was read.
fn quantity(out: &mut String, text: Option<&str>) {
    let parsed = text.and_then(Amount::parse);
    let (format, small) = match &parsed {
        Some(amount) => (amount.format, amount.small()),
        None => ("", Some((0, 0))),
    };
    let (value, scale) = small.unwrap_or((0, 0));
    let _ = write!(out, "{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}} ");
    out.push_str("d:(resource.infDecAmount){Dec:(*inf.Dec)");
    match (&parsed, small) {
        (Some(amount), None) => {
            let nanos = amount.nanos();
            let words: Vec<String> = [nanos as u64, (nanos >> 64) as u64]
                .iter()
                .take(if nanos >> 64 == 0 { 1 } else { 2 })
                .map(u64::to_string)
                .collect();
            let _ = write!(
                out,
                "{{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)[{}]}} scale:(inf.Scale)9}}",
                amount.negative,
                words.join(" ")
            );
        }
        _ => out.push_str("<nil>"),
    }
    let kept =
        text.filter(|text| parsed.as_ref().is_some_and(|amount| amount.keeps_text(text))).unwrap_or("");
    let _ = write!(out, "}} s:(string){kept} Format:(resource.Format){format}}}");
}

/// A canonical quantity taken apart.
struct Amount {
    negative: bool,
    digits: u64,
    length: i32,
    /// Power of two or of ten.
    exponent: i32,
    format: &'static str,
}

impl Amount {
    fn parse(text: &str) -> Option<Amount> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
        let (digits, suffix) = unsigned.split_at(end);
        let (_, power, format) = read_suffix(suffix)?;
        let (exponent, format) = match format {
            // Each step of the base is ten steps of two.
            QuantityFormat::BinarySi => (power * 10, "BinarySI"),
            QuantityFormat::DecimalSi => (power, "DecimalSI"),
            QuantityFormat::DecimalExponent => (power, "DecimalExponent"),
        };
        Some(Amount {
            negative: text.starts_with('-'),
            digits: digits.parse().ok()?,
            length: i32::try_from(digits.len()).ok()?,
            exponent,
            format,
        })
    }

    /// Value and scale where Go keeps them in a machine word: it guesses by the number of digits.
    fn small(&self) -> Option<(i64, i32)> {
        let sign = if self.negative { -1 } else { 1 };
        if self.format != "BinarySI" {
            let value = i64::try_from(self.digits).ok().filter(|_| self.length <= 18)?;
            return Some((sign * value, self.exponent));
        }
        let precision = 15 - self.length - self.exponent * 3 / 10 - 1;
        let value =
            i64::try_from(u128::from(self.digits) << self.exponent).ok().filter(|_| precision >= 0)?;
        Some((sign * value, 0))
    }

    /// Whether Go keeps the text because it is surely canonical.
    fn keeps_text(&self, text: &str) -> bool {
        self.small().is_some()
            && match self.format {
                "BinarySI" => self.digits & 7 != 0,
                _ => text == "0" || (self.exponent % 3 == 0 && !self.digits.is_multiple_of(1000)),
            }
    }

    fn nanos(&self) -> u128 {
        let digits = u128::from(self.digits);
        let ten = |power: i32| 10u128.saturating_pow(u32::try_from(power).unwrap_or(0));
        if self.format == "BinarySI" {
            (digits << self.exponent).saturating_mul(ten(9))
        } else {
            digits.saturating_mul(ten(self.exponent + 9))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::template_hash;

    /// Templates as a server stores them, and what the real function makes of them.
    static RECORDED: &str = include_str!("../../../tests/it/recorded/template_hashes.json");

    #[test]
    fn hashes_are_those_of_the_real_controllers() {
        let cases: Value = serde_json::from_str(RECORDED).unwrap();
        for case in cases.as_array().unwrap() {
            let (template, hash) = (&case["template"], case["hash"].as_str().unwrap());
            assert_eq!(template_hash(template, None), hash, "{template}");
            assert_ne!(template_hash(template, Some(0)), hash, "{template}");
        }
        let first = &cases[0];
        assert_eq!(template_hash(&first["template"], Some(1)), first["once"].as_str().unwrap());
    }
}

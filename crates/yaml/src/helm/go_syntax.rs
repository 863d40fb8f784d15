//! Values as Go's `%#v` prints them, which messages about keys contain.

use std::fmt::Write as _;

use super::{Context, Decoded, MAX_DEPTH, decode, fail};
use crate::error::YamlError;
use crate::number;
use crate::tape::ItemContent;

/// Writes a value as Go's `%#v` does, for messages about keys.
pub(super) fn go_syntax(
    context: &Context<'_, '_>,
    index: u32,
    depth: usize,
    out: &mut String,
) -> Result<(), YamlError> {
    if depth > MAX_DEPTH {
        return Err(fail(format!("exceeded max depth of {MAX_DEPTH}")));
    }
    context.count()?;
    let (index, is_alias) = context.target(index)?;
    if is_alias {
        context.alias_depth.set(context.alias_depth.get() + 1);
    }
    let item = context.item(index);
    match &item.content {
        ItemContent::Scalar { value, style } => match decode(item, value, *style)? {
            Decoded::Null => out.push_str(if depth == 0 { "<nil>" } else { "interface {}(nil)" }),
            Decoded::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Decoded::Int(value) => {
                let _ = write!(out, "{value}");
            }
            Decoded::Uint(value) => {
                let _ = write!(out, "{value:#x}");
            }
            Decoded::Float(value) => out.push_str(&number::go_float(value)),
            Decoded::Str(text) => go_quote(&text, out),
        },
        ItemContent::Seq => {
            out.push_str("[]interface {}{");
            let mut at = index + 1;
            while at < item.next {
                if at > index + 1 {
                    out.push_str(", ");
                }
                go_syntax(context, at, depth + 1, out)?;
                at = context.item(at).next;
            }
            out.push('}');
        }
        ItemContent::Map => {
            out.push_str("map[interface {}]interface {}{");
            let mut entries = Vec::new();
            let mut at = index + 1;
            while at < item.next {
                let value_at = context.item(at).next;
                let mut entry = String::new();
                go_syntax(context, at, depth + 1, &mut entry)?;
                entry.push(':');
                go_syntax(context, value_at, depth + 1, &mut entry)?;
                entries.push(entry);
                at = context.item(value_at).next;
            }
            entries.sort();
            out.push_str(&entries.join(", "));
            out.push('}');
        }
        ItemContent::Alias { .. } => {}
    }
    if is_alias {
        context.alias_depth.set(context.alias_depth.get() - 1);
    }
    Ok(())
}

fn go_quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c == '\x7f' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

//! A tree to text again, with no more brackets than it needs.

use std::fmt::Write as _;

use super::{Expr, Kind, Logic, Unary};
use crate::deep::deeper;

/// Prints an expression so that parsing it gives the same tree.
pub fn print(expr: &Expr) -> String {
    let mut out = String::new();
    write(&mut out, expr);
    out
}

/// Returns how tightly the outermost operator binds; 9 for an expression that needs no brackets anywhere.
fn level(expr: &Expr) -> u8 {
    match &expr.kind {
        Kind::Ternary(..) => 0,
        Kind::Logic(Logic::Or, _) => 1,
        Kind::Logic(Logic::And, _) => 2,
        Kind::Binary(operator, ..) => operator.level() + 2,
        Kind::Unary(..) => 6,
        // A negative number reads as a sign where a sign may stand.
        Kind::Int(number) if *number < 0 => 6,
        Kind::Double(number) if number.is_sign_negative() => 6,
        _ => 9,
    }
}

fn within(out: &mut String, expr: &Expr, least: u8) {
    if level(expr) >= least {
        write(out, expr);
    } else {
        out.push('(');
        write(out, expr);
        out.push(')');
    }
}

fn list<'a>(out: &mut String, args: impl Iterator<Item = &'a Expr>) {
    for (at, arg) in args.enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write(out, arg);
    }
}

fn name(out: &mut String, field: &str) {
    let mut bytes = field.bytes();
    let plain = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !["in", "true", "false", "null"].contains(&field);
    if plain {
        out.push_str(field);
    } else {
        let _ = write!(out, "`{field}`");
    }
}

fn write(out: &mut String, expr: &Expr) {
    deeper(|| write_here(out, expr));
}

fn write_here(out: &mut String, expr: &Expr) {
    // Writing to a string cannot fail.
    let _ = match &expr.kind {
        Kind::Null => write!(out, "null"),
        Kind::Bool(truth) => write!(out, "{truth}"),
        Kind::Int(number) => write!(out, "{number}"),
        Kind::Uint(number) => write!(out, "{number}u"),
        Kind::Double(number) => write!(out, "{number:?}"),
        Kind::String(text) => write!(out, "{}", quote(text)),
        Kind::Bytes(bytes) => {
            out.push_str("b\"");
            for byte in bytes.iter() {
                match byte {
                    b' '..=b'~' if *byte != b'"' && *byte != b'\\' => out.push(*byte as char),
                    _ => {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                }
            }
            out.push('"');
            Ok(())
        }
        Kind::Ident(text) => write!(out, "{text}"),
        Kind::Select { operand, field, optional } => {
            within(out, operand, 9);
            out.push_str(if *optional { ".?" } else { "." });
            name(out, field);
            Ok(())
        }
        Kind::Index { operand, index, optional } => {
            within(out, operand, 9);
            out.push_str(if *optional { "[?" } else { "[" });
            write(out, index);
            out.push(']');
            Ok(())
        }
        Kind::Call { target, name: function, args } => {
            if let Some(target) = target {
                within(out, target, 9);
                out.push('.');
                if **function == *"in" { out.push_str(function) } else { name(out, function) }
            } else {
                out.push_str(function);
            }
            out.push('(');
            list(out, args.iter());
            out.push(')');
            Ok(())
        }
        Kind::Unary(operator, operand) => {
            out.push(if *operator == Unary::Not { '!' } else { '-' });
            // `-` before a number would become part of it.
            let number = matches!(operand.kind, Kind::Int(_) | Kind::Double(_));
            let twice = matches!(operand.kind, Kind::Unary(..));
            within(out, operand, if number || twice { 10 } else { 6 });
            Ok(())
        }
        Kind::Binary(operator, left, right) => {
            within(out, left, operator.level() + 2);
            let _ = write!(out, " {} ", operator.text());
            within(out, right, operator.level() + 3);
            Ok(())
        }
        Kind::Logic(kind, terms) => {
            for (at, term) in terms.iter().enumerate() {
                if at > 0 {
                    out.push_str(if *kind == Logic::And { " && " } else { " || " });
                }
                within(out, term, if *kind == Logic::And { 3 } else { 2 });
            }
            Ok(())
        }
        Kind::Ternary(condition, yes, no) => {
            within(out, condition, 1);
            out.push_str(" ? ");
            within(out, yes, 1);
            out.push_str(" : ");
            write(out, no);
            Ok(())
        }
        Kind::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(if item.optional { "?" } else { "" });
                write(out, &item.value);
            }
            out.push(']');
            Ok(())
        }
        Kind::Map(entries) => {
            out.push('{');
            for (at, entry) in entries.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(if entry.optional { "?" } else { "" });
                write(out, &entry.key);
                out.push_str(": ");
                write(out, &entry.value);
            }
            out.push('}');
            Ok(())
        }
    };
}

/// A text as a literal.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

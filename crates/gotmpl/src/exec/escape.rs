//! print, html, js, urlquery.

use super::TemplateRenderer;
use crate::builtin::Builtin;
use crate::func::{FuncError, FuncResult};
use crate::value::GoValue;
use slipway_go::strconv;

impl TemplateRenderer<'_> {
    /// The built-in functions that make text.
    pub(super) fn printing(&mut self, b: Builtin, args: &[GoValue]) -> FuncResult {
        let max = self.ctx.limits().value_bytes;
        let out = match b {
            Builtin::Print => self.ctx.sprint(args)?,
            Builtin::Println => crate::fmt::sprintln(args, max)?,
            Builtin::Printf => match args.split_first() {
                Some((GoValue::Str(format), args)) => self.ctx.sprintf(format, args)?,
                _ => Vec::new(),
            },
            Builtin::Html => html(&self.joined(args)?),
            Builtin::Js => js(&self.joined(args)?),
            Builtin::UrlQuery => url_query(&self.joined(args)?),
            Builtin::Include => return self.include(args),
            Builtin::Tpl => return self.tpl(args),
            _ => Vec::new(),
        };
        self.ctx.charge(out.len())?;
        Ok(out.into())
    }

    /// Operands as `{{ }}` would print them, joined as Sprint joins.
    fn joined(&mut self, args: &[GoValue]) -> Result<Vec<u8>, FuncError> {
        let args: Vec<GoValue> = args
            .iter()
            .map(|v| match v {
                GoValue::Nil => GoValue::str("<no value>"),
                GoValue::Ptr(o) => match o.text(true) {
                    Some(text) => GoValue::Str(text),
                    None => GoValue::Object(std::rc::Rc::clone(o)),
                },
                v => v.clone(),
            })
            .collect();
        self.ctx.sprint(&args)
    }
}

fn html(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    for b in s {
        match b {
            0 => out.extend("\u{fffd}".bytes()),
            b'"' => out.extend(b"&#34;"),
            b'\'' => out.extend(b"&#39;"),
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            b => out.push(*b),
        }
    }
    out
}

fn js(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s;
    while let Some(b) = rest.first() {
        let mut len = 1;
        match b {
            b'\\' => out.extend(b"\\\\"),
            b'\'' => out.extend(b"\\'"),
            b'"' => out.extend(b"\\\""),
            b'<' | b'>' | b'&' | b'=' | 0..=0x1f => out.extend(format!("\\u{b:04X}").bytes()),
            0x20..=0x7f => out.push(*b),
            _ => {
                let (c, n) = strconv::decode(rest);
                len = n;
                if strconv::is_print(c) {
                    out.extend(&rest[..n]);
                } else {
                    out.extend(format!("\\u{:04X}", u32::from(c)).bytes());
                }
            }
        }
        rest = &rest[len..];
    }
    out
}

fn url_query(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    for b in s {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*b),
            b' ' => out.push(b'+'),
            b => out.extend(format!("%{b:02X}").bytes()),
        }
    }
    out
}

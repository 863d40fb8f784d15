//! Go's fmt: Sprintf, Sprint and what `{{ value }}` prints.

use std::rc::Rc;

use crate::func::{FuncContext, FuncError};
use crate::object::GoObject;
use crate::value::{GoKind, GoList, GoMap, GoValue, ListKind, MAX_VALUE_DEPTH, RED_ZONE, SEGMENT};
use slipway_go::strconv::{self, format_float};

/// `fmt.Sprintf(format, args...)`, no longer than `max` bytes.
pub fn sprintf(format: &[u8], args: &[GoValue], max: usize) -> Result<Vec<u8>, FuncError> {
    let mut p = Printer::new(max);
    p.printf(format, args);
    p.finish()
}

/// `fmt.Sprint(args...)`: spaces between operands when neither is a string.
pub fn sprint(args: &[GoValue], max: usize) -> Result<Vec<u8>, FuncError> {
    let mut p = Printer::new(max);
    let mut after_string = false;
    for (i, v) in args.iter().enumerate() {
        let string = v.kind() == GoKind::String;
        if i > 0 && !string && !after_string {
            p.buf.push(b' ');
        }
        p.arg(v, 'v');
        after_string = string;
    }
    p.finish()
}

/// `fmt.Sprintln(args...)`.
pub fn sprintln(args: &[GoValue], max: usize) -> Result<Vec<u8>, FuncError> {
    let mut p = Printer::new(max);
    for (i, v) in args.iter().enumerate() {
        if i > 0 {
            p.buf.push(b' ');
        }
        p.arg(v, 'v');
    }
    p.buf.push(b'\n');
    p.finish()
}

/// `%v` of one value.
pub fn sprint_value(v: &GoValue, max: usize) -> Result<Vec<u8>, FuncError> {
    sprint(std::slice::from_ref(v), max)
}

impl FuncContext<'_> {
    /// `fmt.Sprintf`, within the limits.
    pub fn sprintf(&mut self, format: &[u8], args: &[GoValue]) -> Result<Vec<u8>, FuncError> {
        let out = sprintf(format, args, self.limits().value_bytes)?;
        self.charge(out.len())?;
        Ok(out)
    }

    /// `fmt.Sprint`, within the limits.
    pub fn sprint(&mut self, args: &[GoValue]) -> Result<Vec<u8>, FuncError> {
        let out = sprint(args, self.limits().value_bytes)?;
        self.charge(out.len())?;
        Ok(out)
    }

    /// `%v` of one value, within the limits.
    pub fn sprint_value(&mut self, v: &GoValue) -> Result<Vec<u8>, FuncError> {
        if let GoValue::Str(s) = v {
            return Ok(s.to_vec());
        }
        self.sprint(std::slice::from_ref(v))
    }
}

#[derive(Clone, Copy, Default)]
struct Flags {
    width: Option<usize>,
    precision: Option<usize>,
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`
    plus_v: bool,
    /// `%#v`
    sharp_v: bool,
}

/// What stands for the address of a pointer, which nothing can depend on.
const ADDRESS: u64 = 0xc0_0000_0000;

struct Printer {
    buf: Vec<u8>,
    f: Flags,
    max: usize,
    failed: Option<&'static str>,
    /// Inside `%!verb(…)`: methods are not consulted again.
    erroring: bool,
    reordered: bool,
    good_index: bool,
}

impl Printer {
    fn new(max: usize) -> Self {
        Printer {
            buf: Vec::new(),
            f: Flags::default(),
            max,
            failed: None,
            erroring: false,
            reordered: false,
            good_index: true,
        }
    }

    fn finish(self) -> Result<Vec<u8>, FuncError> {
        match self.failed {
            Some(text) => Err(FuncError::limit(text)),
            None if self.buf.len() > self.max => {
                Err(FuncError::limit(format!("the text is longer than the limit of {} bytes", self.max)))
            }
            None => Ok(self.buf),
        }
    }

    fn printf(&mut self, format: &[u8], args: &[GoValue]) {
        let end = format.len();
        let mut next = 0;
        let mut i = 0;
        self.reordered = false;
        while i < end {
            self.good_index = true;
            let start = i;
            while i < end && format[i] != b'%' {
                i += 1;
            }
            self.buf.extend(&format[start..i]);
            if i >= end || self.stop() {
                break;
            }
            i += 1;
            self.f = Flags::default();
            while i < end {
                match format[i] {
                    b'#' => self.f.sharp = true,
                    b'0' => self.f.zero = true,
                    b'+' => self.f.plus = true,
                    b'-' => self.f.minus = true,
                    b' ' => self.f.space = true,
                    _ => break,
                }
                i += 1;
            }
            let mut after_index = self.index(&mut next, format, &mut i, args.len());
            if i < end && format[i] == b'*' {
                i += 1;
                match int_arg(args, &mut next) {
                    Some(n) => {
                        self.f.width = Some(n.unsigned_abs() as usize);
                        if n < 0 {
                            self.f.minus = true;
                            self.f.zero = false;
                        }
                    }
                    None => self.buf.extend(b"%!(BADWIDTH)"),
                }
                after_index = false;
            } else {
                self.f.width = number(format, &mut i, end);
                if after_index && self.f.width.is_some() {
                    self.good_index = false;
                }
            }
            // A point that ends the format is its verb.
            if i + 1 < end && format[i] == b'.' {
                i += 1;
                if after_index {
                    self.good_index = false;
                }
                after_index = self.index(&mut next, format, &mut i, args.len());
                if i < end && format[i] == b'*' {
                    i += 1;
                    self.f.precision = int_arg(args, &mut next).and_then(|n| usize::try_from(n).ok());
                    if self.f.precision.is_none() {
                        self.buf.extend(b"%!(BADPREC)");
                    }
                    after_index = false;
                } else {
                    self.f.precision = Some(number(format, &mut i, end).unwrap_or(0));
                }
            }
            if !after_index {
                self.index(&mut next, format, &mut i, args.len());
            }
            if i >= end {
                self.buf.extend(b"%!(NOVERB)");
                break;
            }
            let (verb, len) = strconv::decode(&format[i..]);
            i += len;
            match verb {
                '%' => self.buf.push(b'%'),
                _ if !self.good_index => self.bad(verb, "BADINDEX"),
                _ if next >= args.len() => self.bad(verb, "MISSING"),
                _ => {
                    if matches!(verb, 'v' | 'w') {
                        self.f.sharp_v = std::mem::take(&mut self.f.sharp);
                        self.f.plus_v = std::mem::take(&mut self.f.plus);
                    }
                    self.arg(&args[next], verb);
                    next += 1;
                }
            }
        }
        if !self.reordered && next < args.len() {
            self.f = Flags::default();
            self.buf.extend(b"%!(EXTRA ");
            for (i, v) in args[next..].iter().enumerate() {
                if i > 0 {
                    self.buf.extend(b", ");
                }
                if v.is_nil() {
                    self.buf.extend(b"<nil>");
                } else {
                    self.buf.extend(v.type_name().bytes());
                    self.buf.push(b'=');
                    self.arg(v, 'v');
                }
            }
            self.buf.push(b')');
        }
    }

    fn bad(&mut self, verb: char, what: &str) {
        self.buf.extend(format!("%!{verb}({what})").bytes());
    }

    /// An explicit argument index `[n]`.
    fn index(&mut self, next: &mut usize, format: &[u8], i: &mut usize, count: usize) -> bool {
        if format.get(*i) != Some(&b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &format[*i..];
        let close = if rest.len() < 3 { None } else { rest.iter().position(|b| *b == b']') };
        let Some(close) = close else {
            *i += 1;
            self.good_index = false;
            return false;
        };
        let mut at = 1;
        let n = number(rest, &mut at, close);
        *i += close + 1;
        match n {
            Some(n) if at == close => {
                if (1..=count).contains(&n) {
                    *next = n - 1;
                } else {
                    self.good_index = false;
                }
                true
            }
            _ => {
                self.good_index = false;
                false
            }
        }
    }

    /// Has printing gone beyond what is allowed?
    fn stop(&mut self) -> bool {
        self.failed.is_some() || self.buf.len() > self.max
    }

    fn bad_verb(&mut self, v: &GoValue, verb: char) {
        self.erroring = true;
        self.buf.extend(format!("%!{verb}(").bytes());
        if v.is_nil() {
            self.buf.extend(b"<nil>");
        } else {
            self.buf.extend(v.type_name().bytes());
            self.buf.push(b'=');
            self.arg(v, 'v');
        }
        self.buf.push(b')');
        self.erroring = false;
    }

    /// One operand.
    fn arg(&mut self, v: &GoValue, verb: char) {
        match (v, verb) {
            (GoValue::Nil, 'T' | 'v') => self.pad(b"<nil>"),
            (GoValue::Nil, _) => self.bad_verb(v, verb),
            (_, 'T') => {
                let name = v.type_name();
                self.text(name.as_bytes());
            }
            (GoValue::List(_) | GoValue::Map(_) | GoValue::Bytes(_) | GoValue::Ptr(_), 'p') => {
                self.hex64(ADDRESS, !self.f.sharp);
            }
            (_, 'p') => self.bad_verb(v, verb),
            _ => self.value(v, verb, 0),
        }
    }

    /// A value at some depth inside an operand.
    fn value(&mut self, v: &GoValue, verb: char, depth: usize) {
        if self.stop() {
            return;
        }
        if depth > MAX_VALUE_DEPTH {
            self.failed = Some("the value nests too deeply to print, or contains itself");
            return;
        }
        match v {
            GoValue::Nil if self.f.sharp_v => self.buf.extend(b"interface {}(nil)"),
            GoValue::Nil => self.buf.extend(b"<nil>"),
            GoValue::Bool(b) => match verb {
                't' | 'v' => self.pad(if *b { b"true" } else { b"false" }),
                _ => self.bad_verb(v, verb),
            },
            GoValue::Float64(n) => {
                if !self.float(*n, verb) {
                    self.bad_verb(v, verb);
                }
            }
            GoValue::Complex128(re, im) => {
                if matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
                    let plus = self.f.plus;
                    self.buf.push(b'(');
                    self.float(*re, verb);
                    self.f.plus = true;
                    self.float(*im, verb);
                    self.buf.extend(b"i)");
                    self.f.plus = plus;
                } else {
                    self.bad_verb(v, verb);
                }
            }
            GoValue::Str(s) => {
                if !self.string(s, verb) {
                    self.bad_verb(v, verb);
                }
            }
            GoValue::Bytes(b) => self.bytes(v, b, verb, depth),
            GoValue::List(l) => stacker::maybe_grow(RED_ZONE, SEGMENT, || self.list(v, l, verb, depth)),
            GoValue::Map(m) => stacker::maybe_grow(RED_ZONE, SEGMENT, || self.map(v, m, verb, depth)),
            GoValue::Object(o) => {
                if !self.by_method(o, false, verb) {
                    stacker::maybe_grow(RED_ZONE, SEGMENT, || self.object(v, o, verb, depth));
                }
            }
            GoValue::Ptr(o) => {
                if self.by_method(o, true, verb) {
                    return;
                }
                if depth == 0 && matches!(o.kind(), GoKind::Struct | GoKind::Slice | GoKind::Map) {
                    self.buf.push(b'&');
                    let target = GoValue::Object(Rc::clone(o));
                    self.object(&target, o, verb, depth + 1);
                    return;
                }
                self.pointer(v, verb);
            }
            _ => match (v.as_int(), v.as_uint()) {
                (Some(n), _) => self.integer(v, n.unsigned_abs(), n < 0, true, verb),
                (_, Some(n)) => self.integer(v, n, false, false, verb),
                _ => self.bad_verb(v, verb),
            },
        }
    }

    /// String() and Error() methods, for the verbs that ask them.
    fn by_method(&mut self, o: &Rc<dyn GoObject>, addressable: bool, verb: char) -> bool {
        if self.erroring || self.f.sharp_v || !matches!(verb, 'v' | 's' | 'x' | 'X' | 'q') {
            return false;
        }
        match o.text(addressable) {
            Some(text) => self.string(&text, verb),
            None => false,
        }
    }

    fn object(&mut self, v: &GoValue, o: &Rc<dyn GoObject>, verb: char, depth: usize) {
        let name = o.type_name();
        match (o.kind(), o.inner()) {
            (GoKind::Struct, _) => {
                if self.f.sharp_v {
                    self.buf.extend(name.bytes());
                }
                self.buf.push(b'{');
                for (i, (field, v)) in o.fields().iter().enumerate() {
                    if i > 0 {
                        self.separator();
                    }
                    if self.f.plus_v || self.f.sharp_v {
                        self.buf.extend(field.bytes());
                        self.buf.push(b':');
                    }
                    self.value(v, verb, depth + 1);
                }
                self.buf.push(b'}');
            }
            (_, Some(GoValue::List(l))) => self.list(v, &l, verb, depth),
            (_, Some(GoValue::Map(m))) => self.map(v, &m, verb, depth),
            (_, Some(inner)) => self.value(&inner, verb, depth),
            _ => self.bad_verb(v, verb),
        }
    }

    fn separator(&mut self) {
        if self.f.sharp_v {
            self.buf.extend(b", ");
        } else {
            self.buf.push(b' ');
        }
    }

    fn list(&mut self, v: &GoValue, l: &GoList, verb: char, depth: usize) {
        let items = l.items();
        if l.kind() == ListKind::Of("uint8") && matches!(verb, 's' | 'q' | 'x' | 'X') {
            let bytes: Vec<u8> = items.iter().filter_map(GoValue::as_uint).map(|n| n as u8).collect();
            drop(items);
            return self.bytes(v, &bytes, verb, depth);
        }
        let (open, close) = if self.f.sharp_v { (b'{', b'}') } else { (b'[', b']') };
        if self.f.sharp_v {
            self.buf.extend(v.type_name().bytes());
            if l.is_nil() {
                self.buf.extend(b"(nil)");
                return;
            }
        }
        self.buf.push(open);
        for (i, v) in items.iter().enumerate() {
            if i > 0 {
                self.separator();
            }
            self.value(v, verb, depth + 1);
        }
        self.buf.push(close);
    }

    fn map(&mut self, v: &GoValue, m: &GoMap, verb: char, depth: usize) {
        if self.f.sharp_v {
            self.buf.extend(v.type_name().bytes());
            if m.is_nil() {
                self.buf.extend(b"(nil)");
                return;
            }
            self.buf.push(b'{');
        } else {
            self.buf.extend(b"map[");
        }
        for (i, (k, v)) in m.entries().iter().enumerate() {
            if i > 0 {
                self.separator();
            }
            if !self.string(k, verb) {
                self.bad_verb(&GoValue::Str(k.clone()), verb);
            }
            self.buf.push(b':');
            self.value(v, verb, depth + 1);
        }
        self.buf.push(if self.f.sharp_v { b'}' } else { b']' });
    }

    fn pointer(&mut self, v: &GoValue, verb: char) {
        match verb {
            'v' if self.f.sharp_v => {
                let text = format!("({})(0x{ADDRESS:x})", v.type_name());
                self.buf.extend(text.bytes());
            }
            'v' => self.hex64(ADDRESS, !self.f.sharp),
            'b' | 'o' | 'd' | 'x' | 'X' => self.integer(v, ADDRESS, false, false, verb),
            _ => self.bad_verb(v, verb),
        }
    }

    fn hex64(&mut self, n: u64, leading: bool) {
        let sharp = std::mem::replace(&mut self.f.sharp, leading);
        self.digits(n, false, 16, 'v', false);
        self.f.sharp = sharp;
    }

    // Padding counts characters.

    fn padding(&mut self, n: usize) {
        // Widths go up to a million, so this stays small.
        let byte = if self.f.zero && !self.f.minus { b'0' } else { b' ' };
        self.buf.extend(std::iter::repeat_n(byte, n));
    }

    fn pad(&mut self, text: &[u8]) {
        let Some(width) = self.f.width.filter(|w| *w > 0) else {
            self.buf.extend(text);
            return;
        };
        let fill = width.saturating_sub(rune_count(text));
        if self.f.minus {
            self.buf.extend(text);
            self.padding(fill);
        } else {
            self.padding(fill);
            self.buf.extend(text);
        }
    }

    fn truncate<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let Some(mut n) = self.f.precision else { return text };
        let mut at = 0;
        while at < text.len() {
            if n == 0 {
                return &text[..at];
            }
            n -= 1;
            at += strconv::decode(&text[at..]).1;
        }
        text
    }

    fn text(&mut self, text: &[u8]) {
        let text = self.truncate(text);
        self.pad(text);
    }

    fn string(&mut self, s: &[u8], verb: char) -> bool {
        match verb {
            'v' if self.f.sharp_v => self.quoted(s),
            'v' | 's' => self.text(s),
            'x' => self.hex_bytes(s, false),
            'X' => self.hex_bytes(s, true),
            'q' => self.quoted(s),
            _ => return false,
        }
        true
    }

    fn quoted(&mut self, s: &[u8]) {
        let s = self.truncate(s);
        let text = if self.f.sharp && strconv::can_backquote(s) {
            [b"`", s, b"`"].concat()
        } else if self.f.plus {
            strconv::quote_ascii(s)
        } else {
            strconv::quote(s)
        };
        self.pad(&text);
    }

    fn hex_bytes(&mut self, s: &[u8], upper: bool) {
        let s = &s[..self.f.precision.unwrap_or(usize::MAX).min(s.len())];
        let prefix: &[u8] = match (self.f.sharp, upper) {
            (false, _) => b"",
            (_, false) => b"0x",
            (_, true) => b"0X",
        };
        let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let mut out = Vec::with_capacity(s.len() * 2);
        for (i, b) in s.iter().enumerate() {
            if i > 0 && self.f.space {
                out.push(b' ');
            }
            if i == 0 || self.f.space {
                out.extend(prefix);
            }
            out.push(digits[usize::from(b >> 4)]);
            out.push(digits[usize::from(b & 15)]);
        }
        self.pad(&out);
    }

    fn bytes(&mut self, v: &GoValue, b: &[u8], verb: char, depth: usize) {
        match verb {
            'v' | 'd' => {
                if self.f.sharp_v {
                    // Go spells the alias here.
                    self.buf.extend(if depth == 0 { "[]byte{" } else { "[]uint8{" }.bytes());
                } else {
                    self.buf.push(b'[');
                }
                for (i, b) in b.iter().enumerate() {
                    if i > 0 {
                        self.separator();
                    }
                    if self.f.sharp_v {
                        self.hex64(u64::from(*b), true);
                    } else {
                        self.digits(u64::from(*b), false, 10, verb, false);
                    }
                }
                self.buf.push(if self.f.sharp_v { b'}' } else { b']' });
            }
            's' | 'x' | 'X' | 'q' => {
                self.string(b, verb);
            }
            _ => {
                let items = b.iter().map(|b| GoValue::Uint8(*b)).collect();
                let l = GoList::of(ListKind::Of("uint8"), items);
                self.list(v, &l, verb, depth);
            }
        }
    }

    fn integer(&mut self, v: &GoValue, n: u64, negative: bool, signed: bool, verb: char) {
        match verb {
            'v' if self.f.sharp_v && !signed => self.hex64(n, true),
            'v' | 'd' => self.digits(n, negative, 10, verb, false),
            'b' => self.digits(n, negative, 2, verb, false),
            'o' | 'O' => self.digits(n, negative, 8, verb, false),
            'x' => self.digits(n, negative, 16, verb, false),
            'X' => self.digits(n, negative, 16, verb, true),
            'c' | 'q' | 'U' => {
                let bits = if negative { n.wrapping_neg() } else { n };
                self.rune(bits, verb);
            }
            _ => self.bad_verb(v, verb),
        }
    }

    fn rune(&mut self, n: u64, verb: char) {
        let c = u32::try_from(n).ok().and_then(char::from_u32);
        match verb {
            'c' => {
                let text = c.unwrap_or('\u{fffd}').to_string();
                self.pad(text.as_bytes());
            }
            'q' => {
                let c = c.unwrap_or('\u{fffd}');
                let text = if self.f.plus { strconv::quote_rune_ascii(c) } else { strconv::quote_rune(c) };
                self.pad(&text);
            }
            _ => {
                let width = self.f.precision.unwrap_or(4).max(4);
                let hex = format!("{n:X}");
                let mut text = format!("U+{}{hex}", "0".repeat(width.saturating_sub(hex.len())));
                if let Some(c) = c.filter(|c| self.f.sharp && strconv::is_print(*c)) {
                    text.push_str(&format!(" '{c}'"));
                }
                let zero = std::mem::take(&mut self.f.zero);
                self.pad(text.as_bytes());
                self.f.zero = zero;
            }
        }
    }

    fn digits(&mut self, n: u64, negative: bool, base: u32, verb: char, upper: bool) {
        let mut least = 0;
        if let Some(p) = self.f.precision {
            least = p;
            if p == 0 && n == 0 {
                let zero = std::mem::take(&mut self.f.zero);
                self.padding(self.f.width.unwrap_or(0));
                self.f.zero = zero;
                return;
            }
        } else if self.f.zero
            && !self.f.minus
            && let Some(w) = self.f.width
        {
            least = w;
            if negative || self.f.plus || self.f.space {
                least = least.saturating_sub(1);
            }
        }
        let number = match base {
            2 => format!("{n:b}"),
            8 => format!("{n:o}"),
            16 if upper => format!("{n:X}"),
            16 => format!("{n:x}"),
            _ => n.to_string(),
        };
        let mut out = String::new();
        if negative {
            out.push('-');
        } else if self.f.plus {
            out.push('+');
        } else if self.f.space {
            out.push(' ');
        }
        let zeros = least.saturating_sub(number.len());
        if self.f.sharp {
            match base {
                2 => out.push_str("0b"),
                8 if zeros == 0 && !number.starts_with('0') => out.push('0'),
                16 => out.push_str(if upper { "0X" } else { "0x" }),
                _ => {}
            }
        }
        if verb == 'O' {
            out.push_str("0o");
        }
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(&number);
        let zero = std::mem::take(&mut self.f.zero);
        self.pad(out.as_bytes());
        self.f.zero = zero;
    }

    fn float(&mut self, n: f64, verb: char) -> bool {
        let (form, precision) = match verb {
            'v' => (b'g', -1),
            'b' | 'g' | 'G' | 'x' | 'X' => (verb as u8, -1),
            'f' | 'e' | 'E' => (verb as u8, 6),
            'F' => (b'f', 6),
            _ => return false,
        };
        let precision = self.f.precision.map_or(precision, |p| i32::try_from(p).unwrap_or(i32::MAX));
        let text = format_float(n, form, precision);
        let mut num = match text.as_bytes().first() {
            Some(b'-' | b'+') => text.into_bytes(),
            _ => [b"+", text.as_bytes()].concat(),
        };
        if self.f.space && num[0] == b'+' && !self.f.plus {
            num[0] = b' ';
        }
        if n.is_nan() || n.is_infinite() {
            let zero = std::mem::take(&mut self.f.zero);
            let from = usize::from(num[0] == b'+' && n.is_nan() && !self.f.space && !self.f.plus);
            self.pad(&num[from..]);
            self.f.zero = zero;
            return true;
        }
        if self.f.sharp && form != b'b' {
            num = sharp_float(num, form, precision);
        }
        if self.f.plus || num[0] != b'+' {
            if self.f.zero
                && !self.f.minus
                && let Some(w) = self.f.width.filter(|w| *w > num.len())
            {
                self.buf.push(num[0]);
                self.padding(w - num.len());
                self.buf.extend(&num[1..]);
                return true;
            }
            self.pad(&num);
            return true;
        }
        self.pad(&num[1..]);
        true
    }
}

/// `#` keeps the point and, for `%g`, the trailing zeros.
fn sharp_float(num: Vec<u8>, form: u8, precision: i32) -> Vec<u8> {
    let mut digits = match form {
        b'g' | b'G' | b'x' if precision < 0 => 6,
        b'g' | b'G' | b'x' => precision,
        _ => 0,
    };
    let hex = matches!(form, b'x' | b'X');
    let cut = num.iter().position(|b| matches!(b, b'p' | b'P') || !hex && matches!(b, b'e' | b'E'));
    let (head, tail) = num.split_at(cut.unwrap_or(num.len()));
    let mut out = head.to_vec();
    let mut point = false;
    let mut nonzero = false;
    for b in &head[1..] {
        if *b == b'.' {
            point = true;
            continue;
        }
        nonzero |= *b != b'0';
        if nonzero {
            digits -= 1;
        }
    }
    if !point {
        if head.len() == 2 && head[1] == b'0' {
            digits -= 1;
        }
        out.push(b'.');
    }
    // Precision is bounded by what a format can say: a million.
    out.extend(std::iter::repeat_n(b'0', usize::try_from(digits).unwrap_or(0)));
    out.extend(tail);
    out
}

fn rune_count(text: &[u8]) -> usize {
    let mut at = 0;
    let mut n = 0;
    while at < text.len() {
        at += strconv::decode(&text[at..]).1;
        n += 1;
    }
    n
}

/// Beyond a million, Go treats a width as absent.
const TOO_LARGE: i64 = 1_000_000;

fn number(s: &[u8], i: &mut usize, end: usize) -> Option<usize> {
    let mut n: Option<usize> = None;
    while *i < end && s[*i].is_ascii_digit() {
        let so_far = n.unwrap_or(0);
        if so_far as i64 > TOO_LARGE {
            *i = end;
            return None;
        }
        n = Some(so_far * 10 + usize::from(s[*i] - b'0'));
        *i += 1;
    }
    n
}

fn int_arg(args: &[GoValue], next: &mut usize) -> Option<i64> {
    let v = args.get(*next)?;
    *next += 1;
    let n = v.as_int().or_else(|| v.as_uint().and_then(|n| i64::try_from(n).ok()))?;
    (-TOO_LARGE..=TOO_LARGE).contains(&n).then_some(n)
}

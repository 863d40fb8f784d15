//! Reads Go's regular expression syntax and writes the same expression for the `regex` crate.

use super::RegexpError;

/// A pattern for the `regex` crate.
pub(super) struct TranslatedPattern {
    pub(super) pattern: String,
    pub(super) names: Vec<Option<String>>,
}

/// Most copies a repetition, or nested repetitions together, may ask for.
const MAX_REPEAT: u32 = 1000;
/// Deepest nesting.
const MAX_HEIGHT: u32 = 1000;
/// Most program instructions, about what Go allows.
const MAX_SIZE: u64 = 3_355_443;

const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
    "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

const SCRIPTS: &[&str] = &[
    "Adlam",
    "Ahom",
    "Anatolian_Hieroglyphs",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Bassa_Vah",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Canadian_Aboriginal",
    "Carian",
    "Caucasian_Albanian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Chorasmian",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cypro_Minoan",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Dives_Akuru",
    "Dogra",
    "Duployan",
    "Egyptian_Hieroglyphs",
    "Elbasan",
    "Elymaic",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gunjala_Gondi",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanifi_Rohingya",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Hiragana",
    "Imperial_Aramaic",
    "Inherited",
    "Inscriptional_Pahlavi",
    "Inscriptional_Parthian",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "Kawi",
    "Kayah_Li",
    "Kharoshthi",
    "Khitan_Small_Script",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Linear_A",
    "Linear_B",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Makasar",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Masaram_Gondi",
    "Medefaidrin",
    "Meetei_Mayek",
    "Mende_Kikakui",
    "Meroitic_Cursive",
    "Meroitic_Hieroglyphs",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "Nag_Mundari",
    "Nandinagari",
    "New_Tai_Lue",
    "Newa",
    "Nko",
    "Nushu",
    "Nyiakeng_Puachue_Hmong",
    "Ogham",
    "Ol_Chiki",
    "Old_Hungarian",
    "Old_Italic",
    "Old_North_Arabian",
    "Old_Permic",
    "Old_Persian",
    "Old_Sogdian",
    "Old_South_Arabian",
    "Old_Turkic",
    "Old_Uyghur",
    "Oriya",
    "Osage",
    "Osmanya",
    "Pahawh_Hmong",
    "Palmyrene",
    "Pau_Cin_Hau",
    "Phags_Pa",
    "Phoenician",
    "Psalter_Pahlavi",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "SignWriting",
    "Sinhala",
    "Sogdian",
    "Sora_Sompeng",
    "Soyombo",
    "Sundanese",
    "Syloti_Nagri",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Tai_Le",
    "Tai_Tham",
    "Tai_Viet",
    "Takri",
    "Tamil",
    "Tangsa",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Toto",
    "Ugaritic",
    "Vai",
    "Vithkuqi",
    "Wancho",
    "Warang_Citi",
    "Yezidi",
    "Yi",
    "Zanabazar_Square",
];

const POSIX: &[(&str, &str)] = &[
    ("[:alnum:]", "0-9A-Za-z"),
    ("[:alpha:]", "A-Za-z"),
    ("[:ascii:]", r"\x00-\x7F"),
    ("[:blank:]", r"\t\x20"),
    ("[:cntrl:]", r"\x00-\x1F\x7F"),
    ("[:digit:]", "0-9"),
    ("[:graph:]", r"!-\x7E"),
    ("[:lower:]", "a-z"),
    ("[:print:]", r"\x20-\x7E"),
    ("[:punct:]", r"!-/:-@\x5B-`\x7B-\x7E"),
    ("[:space:]", r"\t-\r\x20"),
    ("[:upper:]", "A-Z"),
    ("[:word:]", "0-9A-Za-z_"),
    ("[:xdigit:]", "0-9A-Fa-f"),
];

#[derive(Clone, Copy)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_newline: bool,
    ungreedy: bool,
}

/// A finished piece that a repetition can apply to.
struct Atom {
    text: String,
    /// Largest product of nested repetition counts.
    repeats: u32,
    height: u32,
    size: u64,
}

impl Atom {
    fn simple(text: String) -> Self {
        Self { text, repeats: 1, height: 1, size: 1 }
    }
}

#[derive(Default)]
struct Group {
    /// Finished alternatives.
    done: Vec<Atom>,
    current: Vec<Atom>,
    open: &'static str,
    flags: Option<Flags>,
}

impl Group {
    fn close_branch(&mut self) {
        let items = std::mem::take(&mut self.current);
        let atom = Atom {
            repeats: items.iter().map(|atom| atom.repeats).max().unwrap_or(1),
            height: items.iter().map(|atom| atom.height).max().unwrap_or(0),
            size: items.iter().fold(1, |sum, atom| sum.saturating_add(atom.size)),
            text: items.into_iter().map(|atom| atom.text).collect(),
        };
        self.done.push(atom);
    }

    fn finish(mut self) -> Atom {
        self.close_branch();
        let several = u32::from(self.done.len() > 1);
        Atom {
            repeats: self.done.iter().map(|atom| atom.repeats).max().unwrap_or(1),
            height: self.done.iter().map(|atom| atom.height).max().unwrap_or(0) + several,
            size: self.done.iter().fold(2, |sum, atom| sum.saturating_add(atom.size)),
            text: self.done.iter().map(|atom| atom.text.as_str()).collect::<Vec<_>>().join("|"),
        }
    }
}

struct Parser<'a> {
    whole: &'a str,
    at: usize,
    flags: Flags,
    groups: Vec<Group>,
    names: Vec<Option<String>>,
}

fn error<T>(problem: &'static str, expression: &str) -> Result<T, RegexpError> {
    Err(RegexpError { problem, expression: expression.as_bytes().to_vec() })
}

/// Translates a pattern.
pub(super) fn translate(pattern: &[u8]) -> Result<TranslatedPattern, RegexpError> {
    let Ok(whole) = std::str::from_utf8(pattern) else {
        return Err(RegexpError { problem: "invalid UTF-8", expression: pattern.to_vec() });
    };
    let flags = Flags { fold: false, multi_line: false, dot_newline: false, ungreedy: false };
    let mut parser = Parser { whole, at: 0, flags, groups: vec![Group::default()], names: vec![None] };
    parser.run()?;
    let Some(group) = parser.groups.pop() else { return error("internal error", whole) };
    if !parser.groups.is_empty() {
        return error("missing closing )", whole);
    }
    let atom = group.finish();
    parser.check(&atom)?;
    Ok(TranslatedPattern { pattern: atom.text, names: parser.names })
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.whole[self.at..]
    }

    fn bump(&mut self) -> Option<char> {
        let rune = self.rest().chars().next()?;
        self.at += rune.len_utf8();
        Some(rune)
    }

    fn check(&self, atom: &Atom) -> Result<(), RegexpError> {
        if atom.height > MAX_HEIGHT {
            return error("expression nests too deeply", self.whole);
        }
        if atom.size > MAX_SIZE {
            return error("expression too large", self.whole);
        }
        Ok(())
    }

    fn push(&mut self, text: String) {
        if let Some(group) = self.groups.last_mut() {
            group.current.push(Atom::simple(text));
        }
    }

    fn literal(&mut self, rune: u32) {
        let mut text = String::new();
        push_code(&mut text, rune, &mut false);
        let text = self.folded(if text.is_empty() { "[a&&b]".to_owned() } else { text });
        self.push(text);
    }

    fn folded(&self, text: String) -> String {
        if self.flags.fold { format!("(?i:{text})") } else { text }
    }

    fn run(&mut self) -> Result<(), RegexpError> {
        // Where the previous token started, if it was a repetition.
        let mut last_repeat: Option<usize> = None;
        while let Some(rune) = self.rest().chars().next() {
            let start = self.at;
            let mut repeat = None;
            match rune {
                '(' => {
                    if self.rest().starts_with("(?") {
                        self.perl_group()?;
                    } else {
                        self.at += 1;
                        self.names.push(None);
                        self.open("(");
                    }
                }
                '|' => {
                    self.at += 1;
                    if let Some(group) = self.groups.last_mut() {
                        group.close_branch();
                    }
                }
                ')' => {
                    self.at += 1;
                    self.close()?;
                }
                '^' => {
                    self.at += 1;
                    self.push(if self.flags.multi_line { "(?m:^)" } else { r"\A" }.to_owned());
                }
                '$' => {
                    self.at += 1;
                    self.push(if self.flags.multi_line { "(?m:$)" } else { r"\z" }.to_owned());
                }
                '.' => {
                    self.at += 1;
                    self.push(if self.flags.dot_newline { "(?s:.)" } else { r"[^\n]" }.to_owned());
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.at += 1;
                    let (min, max) = match rune {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(min, max, start, last_repeat, false)?;
                    repeat = Some(start);
                }
                '{' => match self.counts() {
                    None => {
                        self.at = start + 1;
                        self.literal('{'.into());
                    }
                    Some((min, max)) => {
                        let wrong = min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || min > max);
                        if wrong {
                            return error("invalid repeat count", &self.whole[start..self.at]);
                        }
                        self.repeat(min, max, start, last_repeat, true)?;
                        repeat = Some(start);
                    }
                },
                '\\' => self.backslash()?,
                _ => {
                    self.bump();
                    self.literal(rune.into());
                }
            }
            last_repeat = repeat;
        }
        Ok(())
    }

    fn open(&mut self, open: &'static str) {
        self.groups.push(Group { open, flags: Some(self.flags), ..Group::default() });
    }

    fn close(&mut self) -> Result<(), RegexpError> {
        let group = match self.groups.pop() {
            Some(group) if !self.groups.is_empty() => group,
            _ => return error("unexpected )", self.whole),
        };
        let open = group.open;
        if let Some(flags) = group.flags {
            self.flags = flags;
        }
        let mut atom = group.finish();
        atom.height += 1;
        atom.text = format!("{open}{})", atom.text);
        self.check(&atom)?;
        if let Some(parent) = self.groups.last_mut() {
            parent.current.push(atom);
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        start: usize,
        last: Option<usize>,
        counted: bool,
    ) -> Result<(), RegexpError> {
        let mut lazy = self.flags.ungreedy;
        if self.rest().starts_with('?') {
            self.at += 1;
            lazy = !lazy;
        }
        if let Some(last) = last {
            return error("invalid nested repetition operator", &self.whole[last..self.at]);
        }
        let token = &self.whole[start..self.at];
        let Some(sub) = self.groups.last_mut().and_then(|group| group.current.pop()) else {
            return error("missing argument to repetition operator", token);
        };
        let count = max.unwrap_or(min);
        let repeats = match (counted, count) {
            (true, 0) if max.is_some() => 1,
            (true, count) => count.max(1).saturating_mul(sub.repeats),
            (false, _) => sub.repeats,
        };
        if counted && (min >= 2 || max.is_some_and(|max| max >= 2)) && repeats > MAX_REPEAT {
            return error("invalid repeat count", token);
        }
        let bounds = match (min, max) {
            (0, None) => "*".to_owned(),
            (1, None) => "+".to_owned(),
            (0, Some(1)) => "?".to_owned(),
            (min, None) => format!("{{{min},}}"),
            (min, Some(max)) if min == max => format!("{{{min}}}"),
            (min, Some(max)) => format!("{{{min},{max}}}"),
        };
        let mark = if lazy { "?" } else { "" };
        let atom = Atom {
            text: format!("(?:{}){bounds}{mark}", sub.text),
            repeats,
            height: sub.height + 1,
            size: sub.size.saturating_add(1).saturating_mul(u64::from(count.max(1))),
        };
        self.check(&atom)?;
        if let Some(group) = self.groups.last_mut() {
            group.current.push(atom);
        }
        Ok(())
    }

    /// Reads `{n}`, `{n,}` or `{n,m}`.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        self.at += 1;
        let min = self.count()?;
        let mut max = Some(min);
        if self.rest().starts_with(',') {
            self.at += 1;
            max = if self.rest().starts_with('}') { None } else { Some(self.count()?) };
        }
        if !self.rest().starts_with('}') {
            return None;
        }
        self.at += 1;
        Some((min, max))
    }

    fn count(&mut self) -> Option<u32> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let text = &self.rest()[..digits];
        if digits == 0 || (digits > 1 && text.starts_with('0')) {
            return None;
        }
        self.at += digits;
        // A number beyond 32 bits is as wrong as any other above the limit.
        Some(text.parse().unwrap_or(u32::MAX))
    }

    /// Reads `(?flags)`, `(?flags:`, `(?P<name>` or `(?<name>`.
    fn perl_group(&mut self) -> Result<(), RegexpError> {
        let text = self.rest();
        let name_start = if text.len() > 4 && text.starts_with("(?P<") {
            Some(4)
        } else if text.len() > 3 && text.starts_with("(?<") {
            Some(3)
        } else {
            None
        };
        if let Some(name_start) = name_start {
            let Some(end) = text.find('>') else { return error("invalid named capture", text) };
            let name = text.get(name_start..end).unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
                return error("invalid named capture", &text[..=end]);
            }
            self.names.push(Some(name.to_owned()));
            self.at += end + 1;
            self.open("(");
            return Ok(());
        }
        let start = self.at;
        self.at += 2;
        let outer = self.flags;
        let mut flags = self.flags;
        let mut on = true;
        let mut saw_flag = false;
        while let Some(rune) = self.bump() {
            match rune {
                'i' => flags.fold = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.ungreedy = on,
                '-' if on => {
                    on = false;
                    saw_flag = false;
                    continue;
                }
                ':' | ')' if on || saw_flag => {
                    if rune == ':' {
                        self.open("(?:");
                        if let Some(group) = self.groups.last_mut() {
                            group.flags = Some(outer);
                        }
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => return error("invalid or unsupported Perl syntax", &self.whole[start..self.at]),
            }
            saw_flag = true;
        }
        error("invalid or unsupported Perl syntax", &self.whole[start..])
    }

    fn backslash(&mut self) -> Result<(), RegexpError> {
        let text = self.rest();
        match text.as_bytes().get(1) {
            Some(b'A') => {
                self.at += 2;
                self.push(r"\A".to_owned());
            }
            Some(b'b') => {
                self.at += 2;
                self.push(r"(?-u:\b)".to_owned());
            }
            Some(b'B') => {
                self.at += 2;
                self.push(r"(?-u:\B)".to_owned());
            }
            Some(b'z') => {
                self.at += 2;
                self.push(r"\z".to_owned());
            }
            Some(b'C') => return error("invalid escape sequence", &text[..2]),
            Some(b'Q') => {
                let quoted = &text[2..];
                let (quoted, used) =
                    quoted.find(r"\E").map_or((quoted, quoted.len()), |end| (&quoted[..end], end + 2));
                for rune in quoted.chars() {
                    self.literal(rune.into());
                }
                self.at += 2 + used;
            }
            Some(b'p' | b'P') => {
                let class = self.unicode_class()?;
                let class = self.folded(class);
                self.push(class);
            }
            Some(kind) if perl_class(*kind).is_some() => {
                let class = perl_class(*kind).unwrap_or_default();
                self.at += 2;
                let class = self.folded(class.to_owned());
                self.push(class);
            }
            _ => {
                let rune = self.escape()?;
                self.literal(rune);
            }
        }
        Ok(())
    }

    /// Reads a backslash and the character it stands for.
    fn escape(&mut self) -> Result<u32, RegexpError> {
        let start = self.at;
        self.at += 1;
        let Some(rune) = self.bump() else { return error("trailing backslash at end of expression", "") };
        let octal = |parser: &Self| parser.rest().bytes().next().filter(|byte| (b'0'..=b'7').contains(byte));
        let found = match rune {
            '1'..='7' if octal(self).is_none() => None,
            '0'..='7' => {
                let mut value = u32::from(rune) - u32::from('0');
                for _ in 0..2 {
                    let Some(digit) = octal(self) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                Some(value)
            }
            'x' => self.hex(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            _ if rune.is_ascii() && !rune.is_ascii_alphanumeric() => Some(rune.into()),
            _ => None,
        };
        match found {
            Some(rune) => Ok(rune),
            None => error("invalid escape sequence", &self.whole[start..self.at]),
        }
    }

    fn hex(&mut self) -> Option<u32> {
        let first = self.bump()?;
        if first != '{' {
            let second = self.bump()?;
            return Some(first.to_digit(16)? * 16 + second.to_digit(16)?);
        }
        let mut value = 0_u32;
        let mut digits = 0;
        loop {
            match self.bump()? {
                '}' => break,
                digit => value = value * 16 + digit.to_digit(16)?,
            }
            if value > 0x10_ffff {
                return None;
            }
            digits += 1;
        }
        (digits > 0).then_some(value)
    }

    /// Reads `\pL`, `\p{Greek}` or `\p{^Greek}`.
    fn unicode_class(&mut self) -> Result<String, RegexpError> {
        let text = self.rest();
        let mut negated = text.as_bytes()[1] == b'P';
        let (sequence, name) = match text[2..].chars().next() {
            Some('{') => {
                let Some(end) = text.find('}') else { return error("invalid character class range", text) };
                (&text[..=end], &text[3..end])
            }
            Some(rune) => (&text[..2 + rune.len_utf8()], &text[2..2 + rune.len_utf8()]),
            None => (text, ""),
        };
        let name = name.strip_prefix('^').inspect(|_| negated = !negated).unwrap_or(name);
        self.at += sequence.len();
        let class = match name {
            "Any" => r"\x00-\x{10FFFF}".to_owned(),
            // Go's C leaves out unassigned code points, and surrogates cannot occur in text.
            "C" => r"\p{Cc}\p{Cf}\p{Co}".to_owned(),
            "Cs" => "a&&b".to_owned(),
            _ if CATEGORIES.contains(&name) => format!(r"\p{{gc={name}}}"),
            _ if SCRIPTS.contains(&name) => format!(r"\p{{sc={name}}}"),
            _ => return error("invalid character class range", sequence),
        };
        Ok(if negated { format!("[^{class}]") } else { format!("[{class}]") })
    }

    fn class(&mut self) -> Result<(), RegexpError> {
        let start = self.at;
        self.at += 1;
        let negated = self.rest().starts_with('^');
        if negated {
            self.at += 1;
        }
        let mut items = String::new();
        let mut first = true;
        // A class of nothing but characters that cannot occur in text.
        let mut empty = true;
        while first || !self.rest().starts_with(']') {
            first = false;
            let text = self.rest();
            if text.starts_with("[:")
                && let Some(end) = text[2..].find(":]")
            {
                let name = &text[..end + 4];
                let positive = name.replacen("[:^", "[:", 1);
                let Some((_, class)) = POSIX.iter().find(|(known, _)| *known == positive) else {
                    return error("invalid character class range", name);
                };
                let sign = if positive == name { "" } else { "^" };
                items.push_str(&format!("[{sign}{class}]"));
                empty = false;
                self.at += name.len();
                continue;
            }
            if text.starts_with('\\') {
                match text.as_bytes().get(1) {
                    Some(b'p' | b'P') => {
                        let class = self.unicode_class()?;
                        items.push_str(&class);
                        empty = false;
                        continue;
                    }
                    Some(kind) if perl_class(*kind).is_some() => {
                        items.push_str(perl_class(*kind).unwrap_or_default());
                        empty = false;
                        self.at += 2;
                        continue;
                    }
                    _ => {}
                }
            }
            let range_start = self.at;
            let low = self.class_char(start)?;
            let mut high = low;
            if self.rest().starts_with('-') && self.rest().len() >= 2 && !self.rest().starts_with("-]") {
                self.at += 1;
                high = self.class_char(start)?;
                if high < low {
                    return error("invalid character class range", &self.whole[range_start..self.at]);
                }
            }
            push_range(&mut items, low, high, &mut empty);
        }
        self.at += 1;
        let class = match (empty, negated) {
            (true, true) => r"[\x00-\x{10FFFF}]".to_owned(),
            (true, false) => "[a&&b]".to_owned(),
            (false, true) => format!("[^{items}]"),
            (false, false) => format!("[{items}]"),
        };
        let class = self.folded(class);
        self.push(class);
        Ok(())
    }

    fn class_char(&mut self, class_start: usize) -> Result<u32, RegexpError> {
        if self.rest().starts_with('\\') {
            return self.escape();
        }
        match self.bump() {
            Some(rune) => Ok(rune.into()),
            None => error("missing closing ]", &self.whole[class_start..]),
        }
    }
}

fn perl_class(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'd' => "[0-9]",
        b'D' => "[^0-9]",
        b's' => r"[\t\n\x0C\r\x20]",
        b'S' => r"[^\t\n\x0C\r\x20]",
        b'w' => "[0-9A-Za-z_]",
        b'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// Writes one code point; a surrogate writes nothing, as it cannot occur in text.
fn push_code(out: &mut String, rune: u32, empty: &mut bool) {
    match char::from_u32(rune) {
        Some(rune) if rune.is_ascii_alphanumeric() => out.push(rune),
        Some(rune) => out.push_str(&format!(r"\x{{{:X}}}", u32::from(rune))),
        None => return,
    }
    *empty = false;
}

fn push_range(out: &mut String, low: u32, high: u32, empty: &mut bool) {
    if low == high {
        return push_code(out, low, empty);
    }
    let low = if (0xd800..=0xdfff).contains(&low) { 0xe000 } else { low };
    let high = if (0xd800..=0xdfff).contains(&high) { 0xd7ff } else { high };
    if low <= high {
        push_code(out, low, empty);
        out.push('-');
        push_code(out, high, empty);
    }
}

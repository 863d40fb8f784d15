//! Parses the syntax of `--set`: `a.b[0].c=1,d={x,y}`.

use serde_json::{Map, Value};
use slipway_go::GoError;
use slipway_go::strconv;

/// The way the text after `=` becomes a value.
#[derive(Clone, Copy)]
pub(super) enum ValueSyntax<'r> {
    /// `--set`: booleans, null and whole numbers are recognised.
    Typed,
    /// `--set-string`: always a string.
    Text,
    /// `--set-file`: a path whose content is the value.
    File(&'r dyn Fn(&str) -> Result<String, GoError>),
    /// `--set-json`: a JSON value.
    Json,
    /// `--set-literal`: everything after `=` as it stands.
    Literal,
}

/// More names inside one another than this are refused.
const DEEPEST_NAME: usize = 30;
const LARGEST_INDEX: i64 = 65536;
/// Lists directly inside lists; Helm has no limit here, the stack does.
const DEEPEST_LIST: usize = 100;

/// Reads `text` into `data`, changing in place what is already there.
pub(super) fn parse_into(
    text: &str,
    kind: ValueSyntax<'_>,
    data: &mut Map<String, Value>,
) -> Result<(), GoError> {
    let mut parser = Parser { text: text.chars().collect(), at: 0, kind };
    loop {
        match parser.parse_key(data, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Error(message)) => return Err(message),
        }
    }
}

enum Stop {
    End,
    Error(GoError),
}

type Step<T = ()> = Result<T, Stop>;

fn parse_error<T>(message: impl Into<GoError>) -> Step<T> {
    Err(Stop::Error(message.into()))
}

struct Parser<'r> {
    text: Vec<char>,
    at: usize,
    kind: ValueSyntax<'r>,
}

/// A run of characters and the one that ended it.
type Run = (String, Option<char>);

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.text.get(self.at).copied();
        self.at += usize::from(letter.is_some());
        letter
    }

    /// Reads up to and including one of `stops`.
    fn read_until(&mut self, stops: &[char]) -> Run {
        let mut run = String::new();
        while let Some(letter) = self.next() {
            if stops.contains(&letter) {
                return (run, Some(letter));
            }
            if letter == '\\' && !matches!(self.kind, ValueSyntax::Literal) {
                match self.next() {
                    Some(escaped) => run.push(escaped),
                    None => break,
                }
            } else {
                run.push(letter);
            }
        }
        (run, None)
    }

    fn parse_key(&mut self, data: &mut Map<String, Value>, names: usize) -> Step {
        let stops: &[char] =
            if matches!(self.kind, ValueSyntax::Literal) { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let (name, stop) = self.read_until(stops);
        match stop {
            None if name.is_empty() => Err(Stop::End),
            None => parse_error(format!("key {} has no value", go_quote(&name))),
            Some('[') => {
                let index = self.index()?;
                let list = match data.get(&name) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(items)) => items.clone(),
                    Some(other) => return parse_error(conversion_error(other, "[]interface {}")),
                };
                let (list, result) = self.parse_item(list, index, names, 0);
                set_named(data, name, Value::Array(list));
                result
            }
            Some('=') => {
                let value = self.parse_value()?;
                match value {
                    Some(value) => set_named(data, name, value),
                    None => {
                        set_named(data, name, Value::String(String::new()));
                        return Err(Stop::End);
                    }
                }
                Ok(())
            }
            Some(',') => {
                let message = format!("key {} has no value (cannot end with ,)", go_quote(&name));
                set_named(data, name, Value::String(String::new()));
                parse_error(message)
            }
            Some(_) => {
                if names + 1 > DEEPEST_NAME {
                    return parse_error(format!(
                        "value name nested level is greater than maximum supported nested level of {DEEPEST_NAME}"
                    ));
                }
                let mut inner = match data.get_mut(&name) {
                    None | Some(Value::Null) => Map::new(),
                    Some(Value::Object(map)) => std::mem::take(map),
                    Some(other) => return parse_error(conversion_error(other, "map[string]interface {}")),
                };
                let result = self.parse_key(&mut inner, names + 1);
                if result.is_ok() && inner.is_empty() {
                    return parse_error(format!("key map {} has no value", go_quote(&name)));
                }
                if !inner.is_empty() {
                    set_named(data, name, Value::Object(inner));
                }
                result
            }
        }
    }

    fn index(&mut self) -> Step<i64> {
        let (digits, stop) = self.read_until(&[']']);
        if stop.is_none() {
            return parse_error("error parsing index: EOF");
        }
        let plain = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
        if plain.is_empty() || !plain.bytes().all(|byte| byte.is_ascii_digit()) {
            return parse_error(format!(
                "error parsing index: strconv.Atoi: parsing {}: invalid syntax",
                go_quote(&digits)
            ));
        }
        match digits.parse() {
            Ok(index) => Ok(index),
            Err(_) => parse_error(format!(
                "error parsing index: strconv.Atoi: parsing {}: value out of range",
                go_quote(&digits)
            )),
        }
    }

    /// Continues after `name[index]`.
    fn parse_item(
        &mut self,
        mut list: Vec<Value>,
        index: i64,
        names: usize,
        lists: usize,
    ) -> (Vec<Value>, Step) {
        if index < 0 {
            return (list, parse_error(format!("negative {index} index not allowed")));
        }
        if lists > DEEPEST_LIST {
            return (list, parse_error(format!("lists are nested more than {DEEPEST_LIST} deep")));
        }
        let (extra, stop) = self.read_until(&['[', '.', '=']);
        if !extra.is_empty() {
            let letters: Vec<String> = extra.chars().map(go_quote_rune).collect();
            let message = format!("unexpected data at end of array index: [{}]", letters.join(" "));
            return (list, parse_error(message));
        }
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        let value = match stop {
            None => return (list, Err(Stop::End)),
            Some('=') => match self.parse_value() {
                Ok(value) => value.unwrap_or_else(|| Value::String(String::new())),
                Err(stop) => return (list, Err(stop)),
            },
            Some('[') => {
                let next = match self.index() {
                    Ok(next) => next,
                    Err(stop) => return (list, Err(stop)),
                };
                let inner = match list.get_mut(place) {
                    None | Some(Value::Null) => Vec::new(),
                    Some(Value::Array(items)) => std::mem::take(items),
                    Some(other) => {
                        let message = conversion_error(other, "[]interface {}");
                        return (list, parse_error(message));
                    }
                };
                let (inner, result) = self.parse_item(inner, next, names, lists + 1);
                if result.is_err() {
                    return (list, result);
                }
                Value::Array(inner)
            }
            Some(_) => {
                let mut inner = match list.get_mut(place) {
                    Some(Value::Object(map)) => std::mem::take(map),
                    Some(other) => {
                        *other = Value::Object(Map::new());
                        Map::new()
                    }
                    None => Map::new(),
                };
                if let Err(stop) = self.parse_key(&mut inner, names) {
                    return (list, Err(stop));
                }
                Value::Object(inner)
            }
        };
        if index > LARGEST_INDEX {
            let message =
                format!("index of {index} is greater than maximum supported index of {LARGEST_INDEX}");
            return (list, parse_error(message));
        }
        if list.len() <= place {
            list.resize(place + 1, Value::Null);
        }
        list[place] = value;
        (list, Ok(()))
    }

    /// The value after `=`; nothing at the end of the text.
    fn parse_value(&mut self) -> Step<Option<Value>> {
        match self.kind {
            ValueSyntax::Literal => {
                let rest: String = self.text[self.at..].iter().collect();
                self.at = self.text.len();
                Ok(Some(Value::String(rest)))
            }
            ValueSyntax::Json => self.parse_json().map(Some),
            _ => self.parse_plain(),
        }
    }

    fn parse_plain(&mut self) -> Step<Option<Value>> {
        match self.text.get(self.at) {
            None => return Ok(None),
            Some('{') => self.at += 1,
            Some(_) => {
                let (run, _) = self.read_until(&[',']);
                return self.scalar_value(run).map(Some);
            }
        }
        let mut items = Vec::new();
        loop {
            let (run, stop) = self.read_until(&[',', '}']);
            match stop {
                None => return parse_error("list must terminate with '}'"),
                Some('}') => {
                    if self.text.get(self.at) == Some(&',') {
                        self.at += 1;
                    }
                    items.push(self.scalar_value(run)?);
                    return Ok(Some(Value::Array(items)));
                }
                Some(_) => items.push(self.scalar_value(run)?),
            }
        }
    }

    fn scalar_value(&self, text: String) -> Step<Value> {
        match self.kind {
            ValueSyntax::Typed => Ok(typed_value(text)),
            ValueSyntax::File(read) => read(&text).map(Value::String).map_err(Stop::Error),
            _ => Ok(Value::String(text)),
        }
    }

    fn parse_json(&mut self) -> Step<Value> {
        if self.skip_blank() {
            return Ok(Value::Null);
        }
        let rest: String = self.text[self.at..].iter().collect();
        let mut stream = serde_json::Deserializer::from_str(&rest).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                self.at += rest[..stream.byte_offset()].chars().count();
                self.skip_blank();
                Ok(super::all_floats(value))
            }
            _ => parse_error("invalid JSON"),
        }
    }

    /// Skips spaces and one comma; tells whether nothing else came before it.
    fn skip_blank(&mut self) -> bool {
        while let Some(letter) = self.text.get(self.at) {
            match letter {
                ',' => {
                    self.at += 1;
                    return true;
                }
                letter if letter.is_whitespace() => self.at += 1,
                _ => return false,
            }
        }
        true
    }
}

/// An empty name sets nothing.
fn set_named(data: &mut Map<String, Value>, name: String, value: Value) {
    if !name.is_empty() {
        data.insert(name, value);
    }
}

fn typed_value(text: String) -> Value {
    for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
        if text.eq_ignore_ascii_case(word) {
            return value;
        }
    }
    if text == "0" {
        return Value::from(0_i64);
    }
    if !text.starts_with('0')
        && let Ok(number) = text.parse::<i64>()
    {
        return Value::from(number);
    }
    Value::String(text)
}

fn conversion_error(value: &Value, wanted: &str) -> String {
    format!(
        "unable to parse key: interface conversion: interface {{}} is {}, not {wanted}",
        super::go_type(value)
    )
}

pub(crate) fn go_quote(text: &str) -> String {
    String::from_utf8_lossy(&strconv::quote(text.as_bytes())).into_owned()
}

fn go_quote_rune(letter: char) -> String {
    String::from_utf8_lossy(&strconv::quote_rune(letter)).into_owned()
}

//! A failure as a program reads it: one JSON object on standard error.

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum as _;
use serde::Serialize;
use serde_json::{Value, json};
use slipway_problem::Problem;

use crate::cli::{Globals, LogFormat, Output};
use crate::config::Settings;
use crate::exit::Exit;
use crate::term::{output, report};

/// Says how a failure is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureForm {
    /// For people.
    Text,
    /// One object, for programs.
    Object,
}

impl FailureForm {
    /// The form for whoever asked for data or events in a form for programs.
    pub fn new(output: Output, log_format: LogFormat) -> Self {
        match (output, log_format) {
            (Output::Table, LogFormat::Text) => Self::Text,
            _ => Self::Object,
        }
    }

    /// The form that the flags of a command line ask for, before settings are known.
    pub fn of_flags(globals: &Globals) -> Self {
        Self::new(globals.output.unwrap_or(Output::Table), globals.log_format.unwrap_or(LogFormat::Text))
    }

    /// The form that a command line asks for which could not be read.
    pub fn of_words(words: &[OsString]) -> Self {
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        let globals = Globals {
            output: flag_value(&words, "--output", "-o").and_then(|text| Output::from_str(text, true).ok()),
            log_format: flag_value(&words, "--log-format", "")
                .and_then(|text| LogFormat::from_str(text, true).ok()),
            config: flag_value(&words, "--config", "").map(|path| Path::new(path).to_owned()),
            ..Globals::default()
        };
        match Settings::resolve(&globals) {
            Ok(settings) => Self::new(settings.output.value, settings.log_format.value),
            Err(_) => Self::of_flags(&globals),
        }
    }
}

/// The value of a flag among words: `--output json`, `--output=json`, `-o json`, `-o=json` or `-ojson`.
fn flag_value<'w>(words: &[&'w str], long: &str, short: &str) -> Option<&'w str> {
    words.iter().enumerate().find_map(|(place, word)| {
        if *word == long || (!short.is_empty() && *word == short) {
            return words.get(place + 1).copied();
        }
        let rest = match word.strip_prefix(long) {
            Some(rest) => rest.strip_prefix('=')?,
            None if short.is_empty() || word.starts_with("--") => return None,
            None => word.strip_prefix(short)?,
        };
        Some(rest.strip_prefix('=').unwrap_or(rest))
    })
}

/// A failure: `{"error": {…}}`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureObject {
    /// The code of the first problem, or the name of the exit code.
    id: String,
    message: String,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    hint: Option<String>,
    exit_code: u8,
    /// What caused it, the nearest first.
    causes: Vec<String>,
    /// Every problem, where files or input are wrong.
    problems: Vec<Problem>,
}

impl FailureObject {
    fn new(failure: &anyhow::Error) -> Self {
        let exit = Exit::of(failure);
        let problems = report::problems_of(failure);
        let first = problems.iter().find(|problem| problem.is_error()).or(problems.first()).cloned();
        let stack = failure.downcast_ref::<slipway_stack::Error>().and_then(|error| error.code());
        let at = first.as_ref().and_then(|problem| problem.at.clone());
        let position = at.as_ref().filter(|at| at.line > 0);
        Self {
            id: stack
                .or(first.as_ref().and_then(|problem| problem.code.as_deref()))
                .unwrap_or(exit.name())
                .to_owned(),
            message: first.as_ref().map_or_else(
                || report::without_numbers(&failure.to_string()),
                |problem| problem.message.clone(),
            ),
            line: position.map(|at| at.line),
            column: position.map(|at| at.column).filter(|column| *column > 0),
            file: at.map(|at| at.file.to_string()),
            hint: match first {
                Some(first) => first.hint,
                None => report::cause_hint(failure),
            },
            exit_code: exit.code(),
            causes: match problems.is_empty() {
                true => failure.chain().skip(1).map(ToString::to_string).collect(),
                false => Vec::new(),
            },
            problems,
        }
    }

    fn of_usage(message: String, hint: Option<String>) -> Self {
        Self { hint, ..Self::of_exit(Exit::Usage, message) }
    }

    fn of_exit(exit: Exit, message: String) -> Self {
        Self {
            id: exit.name().to_owned(),
            message,
            file: None,
            line: None,
            column: None,
            hint: None,
            exit_code: exit.code(),
            causes: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Says it on standard error, in one line. Registered secrets are masked.
    fn tell(&self) {
        let object = json!({ "error": self });
        let masked = output::masked_data(&object).ok().flatten();
        output::message(&format!("{}\n", masked.unwrap_or(object)));
    }
}

/// Says on standard error why the command failed.
pub fn tell(failure: &anyhow::Error, form: FailureForm) {
    match form {
        FailureForm::Text => report::failure(failure),
        FailureForm::Object => FailureObject::new(failure).tell(),
    }
}

/// Says on standard error, as an object, that a command ended with a failure it has printed.
pub fn tell_exit(exit: Exit) {
    FailureObject::of_exit(exit, exit.verdict().to_owned()).tell();
}

/// Says on standard error, as an object, what is wrong with a command line.
pub fn tell_usage(error: &clap::Error, hint: Option<String>) {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").take_while(|part| !part.starts_with("Usage:"));
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message).trim_end();
    let tip = paragraphs.find_map(|part| part.trim().strip_prefix("tip: ").map(str::to_owned));
    FailureObject::of_usage(message.to_owned(), hint.or(tip)).tell();
}

/// JSON Schema of the object.
pub fn schema() -> Value {
    let text = json!({"type": "string"});
    let text_or_null = |about: &str| json!({"type": ["string", "null"], "description": about});
    let number_or_null =
        |about: &str| json!({"type": ["integer", "null"], "minimum": 1, "description": about});
    let location = json!({
        "type": "object",
        "required": ["file", "line", "column"],
        "additionalProperties": false,
        "properties": {
            "file": text,
            "line": {"type": "integer", "minimum": 0, "description": "Counted from 1; 0 for the file as a whole"},
            "column": {"type": "integer", "minimum": 0, "description": "Counted in characters from 1"},
        },
    });
    let problem = json!({
        "type": "object",
        "required": ["severity", "message"],
        "additionalProperties": false,
        "properties": {
            "severity": {"enum": ["error", "warning", "note"]},
            "code": text,
            "message": text,
            "at": location,
            "excerpt": {"type": "string", "description": "The line it points to"},
            "hint": text,
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A failure of slipway",
        "description": "What standard error says of a failure when data (-o json, -o yaml) or events (--log-format json) are asked for in a form for programs",
        "type": "object",
        "required": ["error"],
        "additionalProperties": false,
        "properties": {"error": {
            "type": "object",
            "required": ["id", "message", "file", "line", "column", "hint", "exitCode", "causes", "problems"],
            "additionalProperties": false,
            "properties": {
                "id": {"type": "string", "description": "Code of the first problem, or name of the exit code"},
                "message": text,
                "file": text_or_null("File that is wrong"),
                "line": number_or_null("Line in it"),
                "column": number_or_null("Column in it"),
                "hint": text_or_null("What to do next"),
                "exitCode": {"enum": Exit::ALL.map(Exit::code)},
                "causes": {"type": "array", "items": text, "description": "What caused it, the nearest first"},
                "problems": {"type": "array", "items": problem, "description": "Every problem, where files or input are wrong"},
            },
        }},
    })
}

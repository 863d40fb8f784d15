//! The user's values: files and `--set` flags, applied in Helm's fixed order.

use std::cell::RefCell;
use std::path::Path;

use serde_json::{Map, Value};

use super::strvals::{self, ValueSyntax};
use crate::codec;
use crate::error::{ChartError, ChartFault};
use crate::load::go_io;
use slipway_go::GoError;
use slipway_problem::Location;

/// The values the user gave, by kind of flag; within a kind in the order given.
///
/// The order between the kinds is Helm's and does not depend on the command line: files, then
/// `--set-json`, `--set`, `--set-string`, `--set-file`, `--set-literal`. Overlays, which Helm does not have, come last.
#[derive(Clone, Debug, Default)]
pub struct UserValues {
    /// `-f`: name as given and content.
    pub files: Vec<(String, Vec<u8>)>,
    pub set_json: Vec<String>,
    pub set: Vec<String>,
    pub set_string: Vec<String>,
    pub set_file: Vec<String>,
    pub set_literal: Vec<String>,
    /// The content of the [addresses](UserValues::addresses) that `--set-file` names.
    pub downloads: Vec<(String, Vec<u8>)>,
    /// Values already decoded, under everything else.
    pub base: Map<String, Value>,
    /// Files laid over everything else, flags too: name and content.
    pub overlays: Vec<(String, Vec<u8>)>,
}

impl UserValues {
    /// Adds a values file by path.
    pub fn read_file(&mut self, path: &Path) -> Result<(), ChartError> {
        let content =
            slipway_problem::read_file(path).map_err(|error| ChartError::Values(unreadable(path, &error)))?;
        self.files.push((path.display().to_string(), content));
        Ok(())
    }

    /// The addresses that `--set-file` names instead of files, to be fetched before [`UserValues::build_map`].
    pub fn addresses(&self) -> Vec<String> {
        self.named_files().into_iter().filter(|path| is_address(path)).collect()
    }

    /// The files and addresses that `--set-file` names. Content given for them in [`UserValues::downloads`] is used
    /// instead of theirs.
    pub fn named_files(&self) -> Vec<String> {
        let found = RefCell::new(Vec::new());
        let read = |path: &str| -> Result<String, GoError> {
            found.borrow_mut().push(path.to_owned());
            Ok(String::new())
        };
        for text in &self.set_file {
            // Mistakes are told when the values are put together.
            let _ = strvals::parse_into(text, ValueSyntax::File(&read), &mut Map::new());
        }
        found.into_inner()
    }

    /// Puts everything together.
    pub fn build_map(&self) -> Result<Map<String, Value>, ChartError> {
        let mut base = self.base.clone();
        merge_files(&mut base, &self.files)?;
        for text in &self.set_json {
            self.parse_flag("--set-json", text, &mut base).map_err(|_| {
                let fault = ChartFault::new(format!("failed parsing --set-json data {text}"));
                ChartError::Values(fault.hint(flag_hint("--set-json")))
            })?;
        }
        for (flag, texts) in [
            ("--set", &self.set),
            ("--set-string", &self.set_string),
            ("--set-file", &self.set_file),
            ("--set-literal", &self.set_literal),
        ] {
            for text in texts {
                self.parse_flag(flag, text, &mut base).map_err(|error| {
                    let fault = ChartFault::new(format!("failed parsing {flag} data: {error}"));
                    ChartError::Values(fault.hint(flag_hint(flag)))
                })?;
            }
        }
        merge_files(&mut base, &self.overlays)?;
        Ok(base)
    }

    /// Reads the text of one flag into `values`.
    pub(crate) fn parse_flag(
        &self,
        flag: &str,
        text: &str,
        values: &mut Map<String, Value>,
    ) -> Result<(), GoError> {
        let read = |path: &str| -> Result<String, GoError> {
            let bytes = match self.downloads.iter().find(|(address, _)| address == path) {
                Some((_, content)) => content.clone(),
                None => {
                    let path = Path::new(path);
                    slipway_problem::read_file(path).map_err(|error| go_io("open", path, &error))?
                }
            };
            Ok(String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into()))
        };
        let kind = match flag {
            "--set-json" => ValueSyntax::Json,
            "--set-string" => ValueSyntax::Text,
            "--set-file" => ValueSyntax::File(&read),
            "--set-literal" => ValueSyntax::Literal,
            _ => ValueSyntax::Typed,
        };
        strvals::parse_into(text, kind, values)
    }
}

/// Returns true if a file is named by an address; schemes may be written in any case, as URLs are.
pub fn is_address(path: &str) -> bool {
    let scheme = path.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

/// Lays values files on `base`, first to last.
fn merge_files(base: &mut Map<String, Value>, files: &[(String, Vec<u8>)]) -> Result<(), ChartError> {
    for (name, content) in files {
        let values = codec::read_values(content)
            .map_err(|error| ChartError::Values(no_values(name, content, &error)))?;
        merge_tables(base, values);
    }
    Ok(())
}

/// Says that a values file cannot be read.
fn unreadable(path: &Path, error: &std::io::Error) -> ChartFault {
    ChartFault::from(go_io("open", path, error)).hint(slipway_problem::read_hint(error))
}

/// Says where a values file stops being one. No line is shown: it may hold a password.
fn no_values(name: &str, content: &[u8], error: &GoError) -> ChartFault {
    let fault = ChartFault::new(format!("failed to parse {name}: {error}"));
    let text = String::from_utf8_lossy(content);
    let found = match slipway_yaml::from_str_helm(&text) {
        Ok(_) => {
            return fault
                .at(Location::file(name))
                .hint("a values file is a map of keys, such as `replicas: 2`; this is something else");
        }
        Err(error) => error.to_problem(name, &text),
    };
    let has_tabs = text.lines().any(|line| line.trim_start_matches(' ').starts_with('\t'));
    let fault = match found.hint {
        _ if has_tabs => fault.hint("indent with spaces; YAML takes no tabs there"),
        Some(hint) => fault.hint(hint),
        None => fault.hint("correct the file from there on"),
    };
    fault.at(found.at.unwrap_or_else(|| Location::file(name)))
}

/// How the value of a flag is written.
fn flag_hint(flag: &str) -> &'static str {
    match flag {
        "--set-json" => "write KEY=JSON in quotes, such as --set-json 'ports=[80, 443]'",
        "--set-file" => "write KEY=PATH; paths start at the current directory",
        "--set-string" => {
            "write KEY=TEXT, such as --set-string tag=1.20; a backslash goes before a comma in it"
        }
        "--set-literal" => "write KEY=TEXT; everything after the sign counts as it stands",
        _ => {
            "write KEY=VALUE, such as --set image.tag=1.2,ports[0]=80; a backslash goes before a comma or dot of its own"
        }
    }
}

/// Lays `over` on `base`: tables merge, anything else replaces, null stays null.
fn merge_tables(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_tables(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

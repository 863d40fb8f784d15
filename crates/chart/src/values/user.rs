//! The user's values: files and `--set` flags, applied in Helm's fixed order.

use std::cell::RefCell;
use std::path::Path;

use serde_json::{Map, Value};

use super::strvals::{self, ValueSyntax};
use crate::codec;
use crate::error::ChartError;
use crate::load::go_io;
use slipway_go::GoError;

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
        let content = slipway_problem::read_file(path)
            .map_err(|error| ChartError::Values(go_io("open", path, &error)))?;
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
            self.parse_flag("--set-json", text, &mut base)
                .map_err(|_| ChartError::Values(format!("failed parsing --set-json data {text}")))?;
        }
        for (flag, texts) in [
            ("--set", &self.set),
            ("--set-string", &self.set_string),
            ("--set-file", &self.set_file),
            ("--set-literal", &self.set_literal),
        ] {
            for text in texts {
                self.parse_flag(flag, text, &mut base)
                    .map_err(|error| ChartError::Values(format!("failed parsing {flag} data: {error}")))?;
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
            .map_err(|error| ChartError::Values(format!("failed to parse {name}: {error}")))?;
        merge_tables(base, values);
    }
    Ok(())
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

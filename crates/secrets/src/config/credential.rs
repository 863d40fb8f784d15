//! Credentials of providers: a literal, or where to find one.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use slipway_problem::{Location, Problem};
use slipway_yaml::{FieldReader, YamlNode};

use super::layer::ConfigLayer;

/// A credential of a provider, as the configuration gives it.
#[derive(Clone, Debug)]
pub(crate) struct Credential {
    pub(crate) source: CredentialSource,
    pub(crate) place: Location,
}

/// The place a credential's value comes from.
#[derive(Clone, Debug)]
pub(crate) enum CredentialSource {
    Literal(SecretString),
    /// `env:NAME`
    Variable(String),
    /// `file:PATH`
    File(PathBuf),
    /// `cmd:[PROGRAM, ARGUMENT, …]`
    Command(Vec<String>),
}

/// Reads a credential. Its value never becomes part of a message.
pub(super) fn read(
    fields: &mut FieldReader<'_, '_>,
    key: &'static str,
    layer: &ConfigLayer,
) -> Option<Credential> {
    let node = fields.optional(key)?;
    let place = node.location();
    let Some(text) = node.as_str() else {
        let problem = Problem::error(format!("`{key}` must be a string")).at(place);
        fields.problems().push(problem.hint("put it in quotes, or better: `env:NAME` or `file:PATH`"));
        return None;
    };
    let source = match parse(text, layer.directory()) {
        Ok(source) => source,
        Err(reason) => {
            let problem = Problem::error(format!("`{key}` {reason}")).at(place);
            fields
                .problems()
                .push(problem.hint("write `env:NAME`, `file:PATH` or `cmd:[program, argument]`"));
            return None;
        }
    };
    if matches!(source, CredentialSource::Literal(_)) {
        let warning = Problem::warning(format!("plaintext credential in {}: `{key}`", layer.path.display()));
        fields
            .problems()
            .push(warning.at(place.clone()).hint("use `env:NAME`, `file:PATH` or `cmd:[…]` instead"));
    }
    Some(Credential { source, place })
}

fn parse(text: &str, directory: &Path) -> Result<CredentialSource, &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if let Some(name) = text.strip_prefix("env:") {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        return match name {
            "" => Err("names no variable after `env:`"),
            name if name.chars().all(fits) => Ok(CredentialSource::Variable(name.to_owned())),
            _ => Err("names something after `env:` that is no variable"),
        };
    }
    if let Some(path) = text.strip_prefix("file:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return if path.is_empty() {
            Err("names no file after `file:`")
        } else {
            Ok(CredentialSource::File(directory.join(path)))
        };
    }
    if let Some(list) = text.strip_prefix("cmd:") {
        let words = slipway_yaml::parse_one(list, "cmd").ok();
        let words = words.as_ref().and_then(YamlNode::as_seq).unwrap_or_default();
        let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
        return match words {
            Some(words) if !words.is_empty() => Ok(CredentialSource::Command(words)),
            _ => Err("has no list of words after `cmd:`"),
        };
    }
    Ok(CredentialSource::Literal(text.to_owned().into()))
}

//! Values to text, byte for byte as Go's YAML writers do.

mod key;
mod order;
mod scalar;
mod serializer;

use serde::Serialize;

use crate::error::YamlError;

pub use order::KeyOrder;

/// The Go library whose output is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterDialect {
    /// go-yaml v2: no tabs in blocks.
    Go2,
    /// go-yaml v3: tabs in blocks, even in those that cannot be read back because they start with one.
    Go3,
    /// Text every reader reads back as it was: tabs inside blocks, quotes around `<<` and `=`.
    Safe,
}

/// Writes values as YAML; the default writes as Helm's `toYaml` and `kubectl -o yaml` do.
#[derive(Clone, Debug)]
pub struct YamlEmitter {
    pub(crate) order: KeyOrder,
    pub(crate) indent_sequences: bool,
    pub(crate) width: Option<usize>,
    pub(crate) through_json: bool,
    pub(crate) dialect: WriterDialect,
}

impl Default for YamlEmitter {
    fn default() -> Self {
        Self::helm()
    }
}

impl YamlEmitter {
    /// As sigs.k8s.io/yaml: sorted keys, lists level with their key, long lines folded, and everything
    /// that a detour through JSON does to a value.
    pub fn helm() -> Self {
        Self {
            order: KeyOrder::Natural,
            indent_sequences: false,
            width: Some(80),
            through_json: true,
            dialect: WriterDialect::Go2,
        }
    }

    /// As Helm's `toYamlPretty`: lists indented under their key, nothing folded, floats as they are.
    pub fn pretty() -> Self {
        Self {
            order: KeyOrder::Natural3,
            indent_sequences: true,
            width: None,
            through_json: false,
            dialect: WriterDialect::Go3,
        }
    }

    /// As `kustomize build`.
    pub fn kustomize() -> Self {
        Self::helm()
    }

    /// For manifests people read and diff: keys as given, nothing folded, lists level with their key.
    pub fn manifest() -> Self {
        Self {
            order: KeyOrder::AsGiven,
            indent_sequences: false,
            width: None,
            through_json: false,
            dialect: WriterDialect::Safe,
        }
    }

    /// Chooses the order of keys.
    #[must_use]
    pub fn order(mut self, order: KeyOrder) -> Self {
        self.order = order;
        self
    }

    /// Selects if lists are indented under their key.
    #[must_use]
    pub fn indent_sequences(mut self, indent: bool) -> Self {
        self.indent_sequences = indent;
        self
    }

    /// After which column long lines are folded, if they are.
    #[must_use]
    pub fn width(mut self, width: Option<usize>) -> Self {
        self.width = width;
        self
    }

    /// Writes one document, ending with a line break.
    pub fn emit<T: Serialize + ?Sized>(&self, value: &T) -> Result<String, YamlError> {
        let mut out = String::with_capacity(256);
        self.emit_into(value, &mut out)?;
        Ok(out)
    }

    /// Appends one document, ending with a line break, to `out`.
    pub fn emit_into<T: Serialize + ?Sized>(&self, value: &T, out: &mut String) -> Result<(), YamlError> {
        let mut writer = serializer::DocumentWriter::new(self, std::mem::take(out));
        let result = value.serialize(serializer::NodeSerializer::root(&mut writer));
        *out = writer.finish();
        result
    }
}

/// Writes a value as Helm's `toYaml` does, with the final line break `toYaml` takes off.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, YamlError> {
    YamlEmitter::helm().emit(value)
}

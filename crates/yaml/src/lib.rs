//! YAML as Kubernetes' tools read and write it.
//!
//! * [`parse`] and [`YamlReader`] read files into trees of [`YamlNode`]s that know where they stand;
//!   [`FieldReader`] takes typed values out of such a tree and collects every mistake on the way.
//! * [`from_str_helm`] and [`helm::from_str`] read exactly as Helm and kubectl do, with Go's error texts.
//! * [`to_string`] and [`YamlEmitter`] write exactly as Go does; any `Serialize` value goes in.
//! * [`edit`] changes one value of a file and leaves every other byte alone.

pub mod edit;
pub mod helm;

mod deserialize;
mod emit;
mod error;
mod fields;
mod node;
mod number;
mod read;
mod resolve;
mod scan;
mod tape;

pub use deserialize::{NodeError, from_node};
pub use emit::{KeyOrder, YamlEmitter, to_string};
pub use error::{SyntaxError, YamlError};
pub use fields::FieldReader;
pub use helm::{from_str_helm, go_lossy, map_from_str_helm};
pub use node::{Mapping, NodeForm, NodeValue, SourceText, Span, YamlNode};
pub use number::{go_float, go_json_float};
pub use read::{DuplicateKeys, ProblemCodes, YamlReader, parse, parse_one};
pub use resolve::{ScalarRules, is_yaml11_bool};
pub use scan::ScalarStyle;

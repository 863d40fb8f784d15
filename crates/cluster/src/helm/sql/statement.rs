//! One statement with its parameters, ready to be sent any number of times.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::error::SqlFault;
use super::schema::Tables;

/// Stands in a statement for the labels of a record `r`, as JSON.
pub(super) const LABELS: &str = ":labels";
const LABELS_OF_RECORD: &str = "(SELECT json_object_agg(l.key, l.value)::text FROM custom_labels_v1 l
    WHERE l.releaseKey = r.key AND l.releaseNamespace = r.namespace AND l.key IS NOT NULL AND l.value IS NOT NULL)";

/// A value of a statement.
type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// A statement that the server parses, plans and forgets: poolers between us and it may give the next one to another
/// session.
pub(super) struct Statement {
    text: &'static str,
    parameters: Vec<Parameter>,
}

impl Statement {
    pub(super) fn new(text: &'static str) -> Statement {
        Statement { text, parameters: Vec::new() }
    }

    pub(super) fn text(self, value: impl Into<String>) -> Statement {
        self.with(value.into(), Type::TEXT)
    }

    pub(super) fn optional_text(self, value: Option<&str>) -> Statement {
        self.with(value.map(str::to_owned), Type::TEXT)
    }

    pub(super) fn texts(self, values: Vec<String>) -> Statement {
        self.with(values, Type::TEXT_ARRAY)
    }

    pub(super) fn number(self, value: i32) -> Statement {
        self.with(value, Type::INT4)
    }

    fn with(mut self, value: impl ToSql + Send + Sync + 'static, kind: Type) -> Statement {
        self.parameters.push((Box::new(value), kind));
        self
    }

    /// Sends it to a database with such tables and reads the rows of the answer.
    pub(super) async fn run(&self, client: &Client, tables: Tables) -> Result<Vec<Row>, SqlFault> {
        let labels = match tables {
            Tables::Complete => LABELS_OF_RECORD,
            Tables::Missing | Tables::WithoutLabels => "NULL::text",
        };
        let text = self.text.replace(LABELS, labels);
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> = self
            .parameters
            .iter()
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect();
        Ok(client.query_typed(&text, &parameters).await?)
    }
}

//! Writes discovery documents in protobuf. They are no objects, so the schema does not know their fields.

use serde_json::Value;

use crate::encode::MessageWriter;
use crate::schema::TypeRegistry;

/// One field of a message: its number, its name in JSON and what it holds.
struct DocumentField(u32, &'static str, FieldForm);

/// What a field holds. What is no list is written even when it is empty, as Go does.
enum FieldForm {
    Text,
    Flag,
    Texts,
    /// A list of texts in a message of its own.
    Verbs,
    Message(&'static [DocumentField]),
    Messages(&'static [DocumentField]),
    /// The metadata that the objects of a kind have.
    Metadata(&'static str),
}

use FieldForm::{Flag, Message, Messages, Metadata, Text, Texts, Verbs};

const ADDRESS: &[DocumentField] =
    &[DocumentField(1, "clientCIDR", Text), DocumentField(2, "serverAddress", Text)];
const VERSIONS: &[DocumentField] =
    &[DocumentField(1, "versions", Texts), DocumentField(2, "serverAddressByClientCIDRs", Messages(ADDRESS))];
const GROUP_VERSION: &[DocumentField] =
    &[DocumentField(1, "groupVersion", Text), DocumentField(2, "version", Text)];
const GROUP: &[DocumentField] = &[
    DocumentField(1, "name", Text),
    DocumentField(2, "versions", Messages(GROUP_VERSION)),
    DocumentField(3, "preferredVersion", Message(GROUP_VERSION)),
    DocumentField(4, "serverAddressByClientCIDRs", Messages(ADDRESS)),
];
const GROUPS: &[DocumentField] = &[DocumentField(1, "groups", Messages(GROUP))];
const RESOURCE: &[DocumentField] = &[
    DocumentField(1, "name", Text),
    DocumentField(2, "namespaced", Flag),
    DocumentField(3, "kind", Text),
    DocumentField(4, "verbs", Verbs),
    DocumentField(5, "shortNames", Texts),
    DocumentField(6, "singularName", Text),
    DocumentField(7, "categories", Texts),
    DocumentField(8, "group", Text),
    DocumentField(9, "version", Text),
    DocumentField(10, "storageVersionHash", Text),
];
const RESOURCES: &[DocumentField] =
    &[DocumentField(1, "groupVersion", Text), DocumentField(2, "resources", Messages(RESOURCE))];

const KIND: &[DocumentField] =
    &[DocumentField(1, "group", Text), DocumentField(2, "version", Text), DocumentField(3, "kind", Text)];
const AGGREGATED_SUBRESOURCE: &[DocumentField] = &[
    DocumentField(1, "subresource", Text),
    DocumentField(2, "responseKind", Message(KIND)),
    DocumentField(3, "acceptedTypes", Messages(KIND)),
    DocumentField(4, "verbs", Texts),
];
const AGGREGATED_RESOURCE: &[DocumentField] = &[
    DocumentField(1, "resource", Text),
    DocumentField(2, "responseKind", Message(KIND)),
    DocumentField(3, "scope", Text),
    DocumentField(4, "singularResource", Text),
    DocumentField(5, "verbs", Texts),
    DocumentField(6, "shortNames", Texts),
    DocumentField(7, "categories", Texts),
    DocumentField(8, "subresources", Messages(AGGREGATED_SUBRESOURCE)),
];
const AGGREGATED_VERSION: &[DocumentField] = &[
    DocumentField(1, "version", Text),
    DocumentField(2, "resources", Messages(AGGREGATED_RESOURCE)),
    DocumentField(3, "freshness", Text),
];
const AGGREGATED_GROUP: &[DocumentField] = &[
    DocumentField(1, "metadata", Metadata("ConfigMap")),
    DocumentField(2, "versions", Messages(AGGREGATED_VERSION)),
];
const AGGREGATED_GROUPS: &[DocumentField] = &[
    DocumentField(1, "metadata", Metadata("ConfigMapList")),
    DocumentField(2, "items", Messages(AGGREGATED_GROUP)),
];

/// Writes the content of a document; nothing if it is none.
pub(crate) fn write_document(document: &Value, types: &TypeRegistry) -> Option<MessageWriter> {
    let fields = match document["kind"].as_str()? {
        "APIVersions" => VERSIONS,
        "APIGroupList" => GROUPS,
        "APIGroup" => GROUP,
        "APIResourceList" => RESOURCES,
        "APIGroupDiscoveryList" => AGGREGATED_GROUPS,
        _ => return None,
    };
    let mut writer = MessageWriter::default();
    write_fields(&mut writer, document, fields, types);
    Some(writer)
}

fn write_fields(
    writer: &mut MessageWriter,
    document: &Value,
    fields: &[DocumentField],
    types: &TypeRegistry,
) {
    for DocumentField(number, name, form) in fields {
        let value = &document[*name];
        let items = || value.as_array().into_iter().flatten();
        let texts = |writer: &mut MessageWriter, number: u32| {
            items().for_each(|text| writer.write_bytes(number, text.as_str().unwrap_or("").as_bytes()));
        };
        let mut message = |value: &Value, fields: &[DocumentField]| {
            let mut inner = MessageWriter::default();
            write_fields(&mut inner, value, fields, types);
            writer.write_bytes(*number, inner.written());
        };
        match form {
            Text => writer.write_bytes(*number, value.as_str().unwrap_or("").as_bytes()),
            Flag => writer.write_number(*number, u64::from(value == &Value::Bool(true))),
            Texts => texts(writer, *number),
            // A list that is not there has no message either.
            Verbs if value.is_null() => {}
            Verbs => {
                let mut inner = MessageWriter::default();
                texts(&mut inner, 1);
                writer.write_bytes(*number, inner.written());
            }
            Message(fields) => message(value, fields),
            Messages(fields) => items().for_each(|item| message(item, fields)),
            Metadata(kind) => {
                let members = serde_json::json!({ "metadata": value });
                if let Some(kind) = types.type_of_kind("v1", kind) {
                    writer.write_message(members.as_object(), kind);
                }
            }
        }
    }
}

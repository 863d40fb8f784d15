//! The user's values: sealed layer by layer, so that a rendering gets exactly what the bundle got.

use serde_json::{Map, Value, json};
use slipway_chart::UserValues;
use slipway_policy::SecretUse;
use slipway_problem::Problems;
use slipway_secrets::{FieldSelector, Interpolation, find_references};

use crate::container::{BlobStore, BlobWriter, LayerKind, SecretRefRow, ValueLayerRow};
use crate::error::UnitError;

/// Seals every layer.
pub(crate) fn seal_values(
    values: &UserValues,
    blobs: &mut BlobWriter,
) -> Result<Vec<ValueLayerRow>, UnitError> {
    let mut rows = Vec::new();
    let mut push = |kind: LayerKind, origin: &str, content: Vec<u8>| {
        let (ordinal, sha256) = (rows.len() as i64, blobs.add(content));
        rows.push(ValueLayerRow { ordinal, kind, origin: origin.to_owned(), sha256 });
    };
    for (name, content) in &values.files {
        push(LayerKind::File, name, content.clone());
    }
    for (kind, flag, texts) in [
        (LayerKind::SetJson, "--set-json", &values.set_json),
        (LayerKind::Set, "--set", &values.set),
        (LayerKind::SetString, "--set-string", &values.set_string),
        (LayerKind::SetLiteral, "--set-literal", &values.set_literal),
    ] {
        for text in texts {
            push(kind, flag, text.clone().into_bytes());
        }
    }
    for text in &values.set_file {
        let one = UserValues { set_file: vec![text.clone()], ..UserValues::default() };
        let mut files = Map::new();
        for path in one.named_files() {
            let known = values.downloads.iter().find(|(name, _)| *name == path);
            let content = match known {
                Some((_, content)) => content.clone(),
                None => {
                    slipway_problem::read_file(path.as_ref()).map_err(UnitError::io("read", path.as_ref()))?
                }
            };
            files.insert(path, String::from_utf8_lossy(&content).into_owned().into());
        }
        push(
            LayerKind::SetFile,
            "--set-file",
            json!({"text": text, "files": files}).to_string().into_bytes(),
        );
    }
    for (name, content) in &values.overlays {
        push(LayerKind::ImageInjection, name, content.clone());
    }
    Ok(rows)
}

/// The values of a unit as the bundle had them.
pub(crate) fn restore_values(rows: &[ValueLayerRow], blobs: &BlobStore) -> Result<UserValues, UnitError> {
    let mut values = UserValues::default();
    for row in rows {
        let text = || blobs.text(&row.sha256).map(str::to_owned);
        match row.kind {
            LayerKind::File => values.files.push((row.origin.clone(), blobs.get(&row.sha256)?.to_vec())),
            LayerKind::SetJson => values.set_json.push(text()?),
            LayerKind::Set => values.set.push(text()?),
            LayerKind::SetString => values.set_string.push(text()?),
            LayerKind::SetLiteral => values.set_literal.push(text()?),
            LayerKind::SetFile => {
                let layer: Value = serde_json::from_str(&text()?)
                    .map_err(|_| UnitError::tampered("value_layers", "has a layer that cannot be read"))?;
                values.set_file.push(layer["text"].as_str().unwrap_or_default().to_owned());
                let files = layer["files"].as_object().into_iter().flatten();
                values.downloads.extend(files.map(|(path, content)| {
                    (path.clone(), content.as_str().unwrap_or_default().as_bytes().to_vec())
                }));
            }
            LayerKind::ImageInjection => {
                values.overlays.push((row.origin.clone(), blobs.get(&row.sha256)?.to_vec()));
            }
        }
    }
    Ok(values)
}

/// The secrets the values refer to.
pub(crate) fn secret_rows(values: &Map<String, Value>) -> Result<Vec<SecretRefRow>, UnitError> {
    let mut rows: Vec<SecretRefRow> = Vec::new();
    for found in find_references(&Value::Object(values.clone()), Interpolation::On).map_err(Problems::from)? {
        let reference = found.reference.to_string();
        if let Some(known) = rows.iter_mut().find(|row| row.reference == reference) {
            known.value_paths.push(found.at);
            continue;
        }
        let key = match &found.reference.field {
            Some(FieldSelector::Key(key)) => key.clone(),
            Some(FieldSelector::Pointer(steps)) => format!("/{}", steps.join("/")),
            None => String::new(),
        };
        let path = found.reference.path_and_field();
        rows.push(SecretRefRow {
            provider: found.reference.provider.as_ref().map(ToString::to_string).unwrap_or_default(),
            path: path.split('#').next().unwrap_or_default().to_owned(),
            key,
            reference,
            value_paths: vec![found.at],
            required: 1,
        });
    }
    Ok(rows)
}

/// The providers the values take secrets from, as policies see them: a reference without one takes the `default`.
pub(crate) fn secret_uses(values: &Map<String, Value>) -> Result<Vec<SecretUse>, UnitError> {
    let uses = secret_rows(values)?.into_iter().map(|row| SecretUse {
        provider: if row.provider.is_empty() { "default".to_owned() } else { row.provider },
        reference: row.reference,
    });
    Ok(uses.collect())
}

//! Annotations and labels that a command adds to every object.

use slipway_chart::{RenderedChart, split_documents};
use slipway_manifest::object;
use slipway_problem::{Location, Problem};
use slipway_release::resource::transform::ExtraMetadata;

use crate::exit::UsageError;

/// Metadata for all objects.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Metadata")]
pub struct MetadataFlags {
    /// Annotation for all objects, kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    annotations: Vec<String>,

    /// Label for all objects, kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    labels: Vec<String>,

    /// Annotation for all objects, not kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    runtime_annotations: Vec<String>,

    /// Label for all objects, not kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    runtime_labels: Vec<String>,
}

impl MetadataFlags {
    /// Metadata that is kept in the release.
    pub fn kept(&self) -> anyhow::Result<ExtraMetadata> {
        Ok(ExtraMetadata { annotations: pairs(&self.annotations)?, labels: pairs(&self.labels)? })
    }

    /// Metadata that only the objects in the cluster get.
    pub fn runtime(&self) -> anyhow::Result<ExtraMetadata> {
        Ok(ExtraMetadata {
            annotations: pairs(&self.runtime_annotations)?,
            labels: pairs(&self.runtime_labels)?,
        })
    }

    /// Adds it all to what was rendered, hooks included. Documents that it changes are written anew; without flags every
    /// byte stays.
    pub fn add_to(&self, rendered: &mut RenderedChart) -> anyhow::Result<()> {
        let all = [self.kept()?, self.runtime()?];
        if all.iter().all(ExtraMetadata::is_empty) {
            return Ok(());
        }
        for manifest in
            rendered.manifests.iter_mut().chain(rendered.hooks.iter_mut().map(|hook| &mut hook.manifest))
        {
            manifest.content = annotate(&manifest.content, &all)?;
        }
        if let Some(text) = &mut rendered.post_rendered {
            let mut whole = Vec::with_capacity(text.len());
            for document in split_documents(text) {
                whole.extend_from_slice(b"---\n");
                whole.extend_from_slice(&annotate(document, &all)?);
                whole.push(b'\n');
            }
            *text = whole;
        }
        Ok(())
    }
}

/// Adds metadata to the object of a document; a comment before it stays.
fn annotate(document: &[u8], all: &[ExtraMetadata]) -> anyhow::Result<Vec<u8>> {
    let text = String::from_utf8_lossy(document);
    let found = slipway_yaml::from_str_helm(&text)?;
    if !found.is_object() {
        return Ok(document.to_vec());
    }
    let comments: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let written: Result<Vec<String>, _> = object::expand_lists(vec![found])
        .into_iter()
        .map(|mut object| {
            all.iter().for_each(|extra| extra.add_to(&mut object));
            slipway_yaml::to_string(&object)
        })
        .collect();
    Ok(format!("{comments}{}", written?.join("---\n").trim_end()).into_bytes())
}

/// Reads texts of the form KEY=VALUE.
pub fn pairs(texts: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let read = |text: &String| {
        let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| {
            UsageError(
                Problem::error(format!("`{text}` is not KEY=VALUE"))
                    .at(Location::file("command line"))
                    .into(),
            )
            .into()
        })
    };
    texts.iter().map(read).collect()
}

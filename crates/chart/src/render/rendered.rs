//! The result of a rendering, and the text `helm template` makes of it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::manifests::{RenderedHook, RenderedManifest, split_documents, trim_space};
use super::options::RenderOptions;
use crate::error::{ChartError, ChartFault};
use crate::load::CrdFile;
use slipway_go::filepath;

/// Everything a chart produced.
#[derive(Clone, Debug, Default)]
pub struct RenderedChart {
    /// In install order.
    pub manifests: Vec<RenderedManifest>,
    /// In install order; weights count when they are executed.
    pub hooks: Vec<RenderedHook>,
    pub notes: String,
    /// The definitions of the charts that took part, as they stand in their files.
    pub crds: Vec<CrdFile>,
    /// The output of a post-renderer for [`RenderedChart::manifest_text`].
    pub post_rendered: Option<Vec<u8>>,
}

static SOURCE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("(?-u)# Source: [^/]+/(.+)").ok());

/// A document with where it is from, in pieces.
fn source_document<'d>(path: &'d str, content: &'d [u8]) -> [&'d [u8]; 5] {
    [b"---\n# Source: ", path.as_bytes(), b"\n", content, b"\n"]
}

impl RenderedChart {
    /// Paths and contents: definitions if asked for, then what is no hook.
    fn manifest_documents(&self, options: &RenderOptions) -> Vec<(&str, &[u8])> {
        let crds = self.crds.iter().filter(|_| options.include_crds);
        let crds = crds.map(|crd| (&*crd.path, &*crd.file.data));
        let own = self.manifests.iter().map(|own| (&*own.path, &*own.content));
        crds.chain(own).collect()
    }

    /// Paths and contents of the hooks that are shown.
    fn shown_hooks(&self, options: &RenderOptions) -> impl Iterator<Item = (&str, &[u8])> {
        let tests = !options.skip_tests;
        let hooks = self.hooks.iter().filter(|_| !options.no_hooks);
        hooks
            .filter(move |hook| tests || !hook.is_test())
            .map(|hook| (&*hook.manifest.path, &*hook.manifest.content))
    }

    /// The release's manifest: definitions if asked for, then every document with where it is from.
    /// This is what a post-renderer gets.
    pub fn manifest_text(&self, options: &RenderOptions) -> Vec<u8> {
        let documents = self.manifest_documents(options);
        documents
            .iter()
            .flat_map(|(path, content)| source_document(path, content))
            .collect::<Vec<_>>()
            .concat()
    }

    /// Lets `filter` rewrite the manifests, as `--post-renderer` does; hooks do not pass through it.
    pub fn post_render<E: std::fmt::Display>(
        &mut self,
        options: &RenderOptions,
        filter: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, E>,
    ) -> Result<(), ChartError> {
        let text = filter(self.manifest_text(options)).map_err(|error| {
            let fault = ChartFault::new(format!("error while running post render on files: {error}"));
            ChartError::Manifest(fault.hint(
                "a post-renderer is a program on the PATH, or its path; it reads objects and prints objects",
            ))
        })?;
        self.post_rendered = Some(text);
        Ok(())
    }

    /// The standard output of `helm template`.
    pub fn to_template_output(&self, options: &RenderOptions) -> Result<Vec<u8>, ChartError> {
        Ok(self.template_output(options)?.concat())
    }

    /// The standard output of `helm template` in pieces, for it may be many megabytes.
    pub fn template_output(&self, options: &RenderOptions) -> Result<Vec<Cow<'_, [u8]>>, ChartError> {
        if !options.show_only.is_empty() {
            return Ok(vec![Cow::Owned(self.shown_documents(options)?)]);
        }
        let mut pieces: Vec<Cow<'_, [u8]>> = Vec::new();
        let mut documents = self.manifest_documents(options);
        let last = documents.pop().filter(|_| self.post_rendered.is_none());
        // White space goes at both ends of the whole; the first document begins with dashes.
        match last.map(|(path, content)| (path, content.trim_ascii_end())) {
            Some((path, content)) if content.last().is_some_and(|byte| byte.is_ascii() && *byte != 0x0b) => {
                documents.push((path, content));
                pieces.extend(
                    documents.iter().flat_map(|own| source_document(own.0, own.1)).map(Cow::Borrowed),
                );
            }
            _ => {
                let whole = match &self.post_rendered {
                    Some(text) => Cow::Borrowed(&**text),
                    None => Cow::Owned(self.manifest_text(options)),
                };
                pieces.extend([Cow::Owned(trim_space(&whole).to_vec()), Cow::Borrowed(&b"\n"[..])]);
            }
        }
        pieces.extend(
            self.shown_hooks(options).flat_map(|own| source_document(own.0, own.1)).map(Cow::Borrowed),
        );
        Ok(pieces)
    }

    /// The documents `--show-only` asks for.
    fn shown_documents(&self, options: &RenderOptions) -> Result<Vec<u8>, ChartError> {
        let everything = RenderOptions { show_only: Vec::new(), ..options.clone() };
        let out = self.to_template_output(&everything)?;
        let pieces: Vec<(&[u8], &str)> = split_documents(&out)
            .into_iter()
            .filter_map(|piece| {
                let found = SOURCE.as_ref()?.captures(piece)?;
                Some((piece, std::str::from_utf8(found.get(1)?.as_bytes()).ok()?))
            })
            .collect();
        let mut shown = Vec::new();
        for pattern in &options.show_only {
            let mut missing = true;
            for (piece, path) in &pieces {
                if filepath::matches(pattern, path).unwrap_or(false) {
                    missing = false;
                    shown.extend_from_slice(b"---\n");
                    shown.extend_from_slice(piece);
                    shown.push(b'\n');
                }
            }
            if missing {
                return Err(ChartError::Unusable(unknown_template(pattern, &pieces)));
            }
        }
        Ok(shown)
    }
}

/// Says which templates gave something, where the asked one did not.
fn unknown_template(pattern: &str, pieces: &[(&[u8], &str)]) -> ChartFault {
    const MOST: usize = 8;
    let fault = ChartFault::new(format!("could not find template {pattern} in chart"));
    let mut paths: Vec<&str> = pieces.iter().map(|(_, path)| *path).collect();
    paths.dedup();
    let shown: Vec<String> = paths.iter().take(MOST).map(|path| format!("`{path}`")).collect();
    let more = if paths.len() > MOST { " and more" } else { "" };
    match slipway_problem::nearest_name(pattern, paths.iter().copied()) {
        Some(nearest) => fault.hint(format!("did you mean `{nearest}`?")),
        None if paths.is_empty() => fault.hint("no template gave anything with these values"),
        None => fault.hint(format!("these gave something: {}{more}", shown.join(", "))),
    }
}

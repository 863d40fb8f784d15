//! What came out of a rendering, and the text `helm template` makes of it.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::manifests::{Hook, Manifest, split, trim};
use super::options::RenderOptions;
use crate::error::Error;
use crate::gopath;
use crate::load::Crd;

/// Everything a chart produced.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// In install order.
    pub manifests: Vec<Manifest>,
    /// In install order; weights count when they are executed.
    pub hooks: Vec<Hook>,
    pub notes: String,
    /// The definitions of the charts that took part, as they stand in their files.
    pub crds: Vec<Crd>,
    /// What a post-renderer made of [`Rendered::manifest_text`].
    pub post_rendered: Option<Vec<u8>>,
}

static SOURCE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("(?-u)# Source: [^/]+/(.+)").ok());

fn document(out: &mut Vec<u8>, path: &str, content: &[u8]) {
    out.extend_from_slice(b"---\n# Source: ");
    out.extend_from_slice(path.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(content);
    out.push(b'\n');
}

impl Rendered {
    /// The release's manifest: definitions if asked for, then every document with where it is from.
    /// This is what a post-renderer gets.
    pub fn manifest_text(&self, options: &RenderOptions) -> Vec<u8> {
        const AROUND: usize = 16;
        let crds = self.crds.iter().filter(|_| options.include_crds);
        let crds = crds.map(|crd| crd.path.len() + crd.file.data.len() + AROUND).sum::<usize>();
        let own = self.manifests.iter().map(|own| own.path.len() + own.content.len() + AROUND);
        let mut out = Vec::with_capacity(crds + own.sum::<usize>());
        if options.include_crds {
            for crd in &self.crds {
                document(&mut out, &crd.path, &crd.file.data);
            }
        }
        for manifest in &self.manifests {
            document(&mut out, &manifest.path, &manifest.content);
        }
        out
    }

    /// Lets `filter` rewrite the manifests, as `--post-renderer` does; hooks do not pass through it.
    pub fn post_render(
        &mut self,
        options: &RenderOptions,
        filter: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, String>,
    ) -> Result<(), Error> {
        let text = filter(self.manifest_text(options))
            .map_err(|error| Error::Manifest(format!("error while running post render on files: {error}")))?;
        self.post_rendered = Some(text);
        Ok(())
    }

    /// The standard output of `helm template`.
    pub fn to_template_output(&self, options: &RenderOptions) -> Result<Vec<u8>, Error> {
        let mut out = match &self.post_rendered {
            Some(text) => text.clone(),
            None => self.manifest_text(options),
        };
        // White space goes at both ends, without a second copy of what may be many megabytes.
        let trimmed = trim(&out);
        let (start, length) = (trimmed.as_ptr().addr() - out.as_ptr().addr(), trimmed.len());
        out.truncate(start + length);
        out.drain(..start);
        out.push(b'\n');
        if !options.no_hooks {
            for hook in self.hooks.iter().filter(|hook| !(options.skip_tests && hook.is_test())) {
                document(&mut out, &hook.manifest.path, &hook.manifest.content);
            }
        }
        if options.show_only.is_empty() {
            return Ok(out);
        }
        let pieces: Vec<(&[u8], &str)> = split(&out)
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
                if gopath::matches(pattern, path).unwrap_or(false) {
                    missing = false;
                    shown.extend_from_slice(b"---\n");
                    shown.extend_from_slice(piece);
                    shown.push(b'\n');
                }
            }
            if missing {
                return Err(Error::Unusable(format!("could not find template {pattern} in chart")));
            }
        }
        Ok(shown)
    }
}

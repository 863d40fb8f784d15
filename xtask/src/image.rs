//! `cargo xtask image`: an OCI image of the binary, written as a layout without a container engine.
//!
//! Promotions call `git` and read certificates and time zones, which come with a base: any image with `git`, as a layout
//! (`--base DIR`). The same inputs give the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::shell;

const USAGE: &str =
    "usage: cargo xtask image [--binary FILE] [--base DIR] [--out DIR] [--arch amd64|arm64] [--tag NAME]";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What an image is made of.
pub struct ImageRequest {
    pub binary: PathBuf,
    pub base: Option<PathBuf>,
    pub out: PathBuf,
    pub architecture: String,
    pub tag: String,
}

impl ImageRequest {
    /// An image of a binary for this machine, with no base.
    pub fn of(binary: PathBuf, out: PathBuf) -> Self {
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        Self { binary, base: None, out, architecture: architecture.to_owned(), tag: "latest".to_owned() }
    }
}

/// Writes an image.
pub fn run(args: &[&str]) -> Result<()> {
    let target = shell::target();
    let mut request = ImageRequest::of(target.join("release/slipway"), target.join("image"));
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else { bail!("{USAGE}") };
        match *word {
            "--binary" => request.binary = value.into(),
            "--base" => request.base = Some(value.into()),
            "--out" => request.out = value.into(),
            "--arch" => (*value).clone_into(&mut request.architecture),
            "--tag" => (*value).clone_into(&mut request.tag),
            _ => bail!("{USAGE}"),
        }
    }
    let digest = write_image(&request)?;
    eprintln!("wrote {} ({digest})", request.out.display());
    Ok(())
}

/// A layout of blobs named by their digests.
struct Layout<'d>(&'d Path);

impl Layout<'_> {
    fn put(&self, content: &[u8]) -> Result<String> {
        let digest: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        let place = self.0.join("blobs/sha256");
        fs::create_dir_all(&place)?;
        fs::write(place.join(&digest), content)?;
        Ok(format!("sha256:{digest}"))
    }

    fn get(&self, digest: &Value) -> Result<Vec<u8>> {
        let text =
            digest.as_str().and_then(|text| text.strip_prefix("sha256:")).context("no sha256 digest")?;
        fs::read(self.0.join("blobs/sha256").join(text)).with_context(|| format!("read blob {text}"))
    }

    fn get_json(&self, digest: &Value) -> Result<Value> {
        Ok(serde_json::from_slice(&self.get(digest)?)?)
    }
}

/// Writes an image as a layout; gives the digest of its manifest.
pub fn write_image(request: &ImageRequest) -> Result<String> {
    let binary = fs::read(&request.binary).with_context(|| format!("read {}", request.binary.display()))?;
    let out = Layout(&request.out);
    let (mut layers, mut config) = match &request.base {
        Some(base) => copy_base(base, &out, &request.architecture)?,
        None => (Vec::new(), json!({"rootfs": {"type": "layers", "diff_ids": []}, "config": {}})),
    };
    let archive = layer_archive(&binary)?;
    let diff_id = format!(
        "sha256:{}",
        Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    );
    let packed = compress(&archive)?;
    layers.push(json!({"mediaType": LAYER, "digest": out.put(&packed)?, "size": packed.len()}));
    config["architecture"] = request.architecture.as_str().into();
    config["os"] = "linux".into();
    config["config"]["Entrypoint"] = json!(["/usr/local/bin/slipway"]);
    config["config"]["Cmd"] = json!(["controller", "run"]);
    config["config"]["User"] = "65534:65534".into();
    config["config"]["Labels"]["org.opencontainers.image.title"] = "slipway".into();
    config["rootfs"]["diff_ids"]
        .as_array_mut()
        .context("the base has no list of layers")?
        .push(diff_id.into());
    // Times and histories of builds would make every image another.
    if let Some(config) = config.as_object_mut() {
        config.remove("history");
        config.remove("created");
    }
    let config = serde_json::to_vec(&config)?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "digest": out.put(&config)?, "size": config.len()},
        "layers": layers,
    }))?;
    let digest = out.put(&manifest)?;
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [{
        "mediaType": MANIFEST, "digest": digest, "size": manifest.len(),
        "platform": {"architecture": request.architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": request.tag},
    }]});
    fs::write(request.out.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(request.out.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(digest)
}

/// Copies the layers of a base; gives them and its configuration.
fn copy_base(base: &Path, out: &Layout<'_>, architecture: &str) -> Result<(Vec<Value>, Value)> {
    let source = Layout(base);
    let index =
        fs::read(base.join("index.json")).with_context(|| format!("{} is no OCI layout", base.display()))?;
    let mut listed: Value = serde_json::from_slice(&index)?;
    let manifest = loop {
        let entries = listed["manifests"].as_array().cloned().unwrap_or_default();
        let fits = |entry: &&Value| {
            entry["platform"]["architecture"].as_str().is_none_or(|found| found == architecture)
        };
        let entry = entries.iter().find(fits).context("the base has no image of this architecture")?;
        let read = source.get_json(&entry["digest"])?;
        if read["layers"].is_array() {
            break read;
        }
        listed = read;
    };
    let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
    for layer in &layers {
        out.put(&source.get(&layer["digest"])?)?;
    }
    Ok((layers, source.get_json(&manifest["config"]["digest"])?))
}

fn layer_archive(binary: &[u8]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: &str, kind: tar::EntryType, mode: u32, content: &[u8]| -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_mtime(0);
        archive.append_data(&mut header, path, content)?;
        Ok(())
    };
    add("tmp/", tar::EntryType::Directory, 0o1777, &[])?;
    add("var/cache/kardinal/", tar::EntryType::Directory, 0o777, &[])?;
    add("usr/local/bin/slipway", tar::EntryType::Regular, 0o755, binary)?;
    Ok(archive.into_inner()?)
}

fn compress(archive: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    std::io::Write::write_all(&mut encoder, archive)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(place: &Path, name: &str, base: Option<PathBuf>) -> ImageRequest {
        let binary = place.join("binary");
        fs::write(&binary, b"#!/bin/true\n").expect("is written");
        ImageRequest { binary, base, out: place.join(name), architecture: "amd64".into(), tag: "v1".into() }
    }

    #[test]
    fn an_image_is_a_layout_whose_digests_fit_and_the_same_every_time() {
        let place = std::env::temp_dir().join(format!("slipway-image-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a directory");
        let first = write_image(&request(&place, "first", None)).expect("is written");
        assert_eq!(first, write_image(&request(&place, "second", None)).expect("is written"));
        let on_top = request(&place, "third", Some(place.join("first")));
        write_image(&on_top).expect("is written");
        let layout = Layout(&on_top.out);
        for blob in fs::read_dir(on_top.out.join("blobs/sha256")).expect("has blobs") {
            let path = blob.expect("is read").path();
            let content = fs::read(&path).expect("is read");
            let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(path.ends_with(&digest));
        }
        let index: Value = serde_json::from_slice(&fs::read(on_top.out.join("index.json")).expect("is read"))
            .expect("is JSON");
        let manifest = layout.get_json(&index["manifests"][0]["digest"]).expect("is there");
        let config = layout.get_json(&manifest["config"]["digest"]).expect("is there");
        assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(2), "the base and our own");
        assert_eq!(config["rootfs"]["diff_ids"].as_array().map(Vec::len), Some(2));
        assert_eq!(config["config"]["User"], "65534:65534");
        fs::remove_dir_all(&place).expect("is removed");
    }
}

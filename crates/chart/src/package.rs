//! Packing a chart into the archive Helm would make, byte for byte the same every time.

use std::io::Write;

use flate2::{Compression, GzBuilder};

use crate::codec;
use crate::error::ChartError;
use crate::load::{Chart, ChartFile};

/// The mark Helm leaves in the gzip header of every chart it packs.
const GZIP_EXTRA: &[u8] = b"+aHR0cHM6Ly95b3V0dS5iZS96OVV6MWljandyTQo=";

/// A packed chart.
#[derive(Clone, Debug)]
pub struct PackedChart {
    /// `NAME-VERSION.tgz`.
    pub file_name: String,
    pub bytes: Vec<u8>,
}

/// How to pack.
#[derive(Clone, Debug, Default)]
pub struct PackageOptions {
    /// Another version than Chart.yaml's.
    pub version: Option<String>,
    /// Another appVersion than Chart.yaml's.
    pub app_version: Option<String>,
    /// Seconds since 1970 for every entry, so that the same chart gives the same archive.
    pub modified: u64,
}

/// Packs a chart with its subcharts.
pub fn package(chart: &Chart, options: &PackageOptions) -> Result<PackedChart, ChartError> {
    let mut chart = chart.clone();
    if let Some(version) = &options.version {
        chart.metadata.version = version.clone();
    }
    if let Some(app_version) = &options.app_version {
        chart.metadata.app_version = app_version.clone();
    }
    let mut metadata = chart.metadata.clone();
    metadata.validate().map_err(ChartError::Publish)?;
    let failed =
        |error: std::io::Error| ChartError::Publish(format!("cannot pack {}: {error}", chart.name()));

    let gzip = GzBuilder::new()
        .extra(GZIP_EXTRA)
        .comment("Helm")
        .operating_system(255)
        .write(Vec::new(), Compression::default());
    let mut archive = tar::Builder::new(gzip);
    write_chart(&mut archive, &chart, "", options.modified)?;
    let bytes = archive.into_inner().and_then(flate2::write::GzEncoder::finish).map_err(failed)?;
    Ok(PackedChart { file_name: format!("{}-{}.tgz", chart.name(), chart.metadata.version), bytes })
}

fn write_chart<W: Write>(
    archive: &mut tar::Builder<W>,
    chart: &Chart,
    prefix: &str,
    modified: u64,
) -> Result<(), ChartError> {
    let base = format!("{prefix}{}", chart.name());
    let mut add = |name: &str, data: &[u8]| -> Result<(), ChartError> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(modified);
        let path = format!("{base}/{name}");
        archive
            .append_data(&mut header, &path, data)
            .map_err(|error| ChartError::Publish(format!("cannot pack {path}: {error}")))
    };
    let mut metadata = chart.metadata.clone();
    if metadata.api_version == "v1" {
        // A v1 chart keeps its dependencies in requirements.yaml, which is among its files.
        metadata.dependencies.clear();
    }
    add("Chart.yaml", codec::write(&metadata.to_json()).as_bytes())?;
    if metadata.api_version == "v2"
        && let Some(lock) = &chart.lock
    {
        add("Chart.lock", codec::write(&lock.to_json()).as_bytes())?;
    }
    for file in chart.raw.iter().filter(|file| file.name == "values.yaml") {
        add("values.yaml", &file.data)?;
    }
    if let Some(schema) = &chart.schema {
        if serde_json::from_slice::<serde::de::IgnoredAny>(schema).is_err() {
            return Err(ChartError::Publish("invalid JSON in values.schema.json".into()));
        }
        add("values.schema.json", schema)?;
    }
    for ChartFile { name, data } in chart.templates.iter().chain(&chart.files) {
        add(name, data)?;
    }
    for child in &chart.dependencies {
        write_chart(archive, child, &format!("{base}/charts/"), modified)?;
    }
    Ok(())
}

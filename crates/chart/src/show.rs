//! What `show` prints of a chart: its description, defaults, readme, definitions.

use crate::codec;
use crate::error::ChartError;
use crate::load::Chart;

/// Which part to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartPart {
    Chart,
    Values,
    Readme,
    Crds,
    All,
}

/// The text Helm's `show` prints for a part of a chart.
pub fn show(chart: &Chart, part: ChartPart) -> Result<Vec<u8>, ChartError> {
    let mut out = Vec::new();
    if matches!(part, ChartPart::Chart | ChartPart::All) {
        out.extend_from_slice(codec::write(&chart.metadata.to_json()).as_bytes());
        out.push(b'\n');
    }
    if matches!(part, ChartPart::Values | ChartPart::All)
        && let Some(values) = chart.raw_file("values.yaml")
    {
        if part == ChartPart::All {
            out.extend_from_slice(b"---\n");
        }
        out.extend_from_slice(&values.data);
        out.push(b'\n');
    }
    if matches!(part, ChartPart::Readme | ChartPart::All)
        && let Some(readme) = readme(chart)
    {
        if part == ChartPart::All {
            out.extend_from_slice(b"---\n");
        }
        out.extend_from_slice(readme);
        out.push(b'\n');
    }
    if matches!(part, ChartPart::Crds | ChartPart::All) {
        for crd in chart.crds() {
            if !crd.file.data.starts_with(b"---") {
                out.extend_from_slice(b"---\n");
            }
            out.extend_from_slice(&crd.file.data);
            out.push(b'\n');
        }
    }
    Ok(out)
}

fn readme(chart: &Chart) -> Option<&[u8]> {
    const NAMES: [&str; 3] = ["readme.md", "readme.txt", "readme"];
    NAMES.iter().find_map(|name| {
        chart.files.iter().find(|file| file.name.eq_ignore_ascii_case(name)).map(|file| &*file.data)
    })
}

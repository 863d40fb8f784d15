//! What `show` prints of a chart: its description, defaults, readme, definitions.

use crate::codec;
use crate::error::Error;
use crate::load::Chart;

/// Which part to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Chart,
    Values,
    Readme,
    Crds,
    All,
}

/// The text Helm's `show` prints for a part of a chart.
pub fn show(chart: &Chart, part: Part) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    if matches!(part, Part::Chart | Part::All) {
        out.extend_from_slice(codec::write(&chart.metadata.to_json()).as_bytes());
        out.push(b'\n');
    }
    if matches!(part, Part::Values | Part::All)
        && let Some(values) = chart.raw_file("values.yaml")
    {
        if part == Part::All {
            out.extend_from_slice(b"---\n");
        }
        out.extend_from_slice(&values.data);
        out.push(b'\n');
    }
    if matches!(part, Part::Readme | Part::All)
        && let Some(readme) = readme(chart)
    {
        if part == Part::All {
            out.extend_from_slice(b"---\n");
        }
        out.extend_from_slice(readme);
        out.push(b'\n');
    }
    if matches!(part, Part::Crds | Part::All) {
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

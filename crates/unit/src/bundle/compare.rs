//! Compares the two renderings of a bundle: fields that differ, and everything else a reader should be warned of.

use std::collections::{BTreeMap, BTreeSet};

use slipway_problem::{Problem, Problems};
use slipway_source::{Document, LoadedSource, RecordPart, RenderedSource, SourceContent};

use super::NondeterministicFields;
use crate::error::UnitError;
use crate::render::{Hazard, HazardHost, differing_fields, named_hazards, object_key, object_keys};

/// Compares two renderings, the second without definitions kept apart: the fields that differ, or a refusal that names them all.
pub(super) fn compare_renderings(
    first: &RenderedSource,
    second: &RenderedSource,
    policy: NondeterministicFields,
) -> Result<BTreeMap<String, Vec<String>>, UnitError> {
    let keys = object_keys(&first.documents);
    let (keys, compared): (Vec<String>, Vec<&Document>) = keys
        .into_iter()
        .zip(&first.documents)
        .filter(|(_, document)| document.stored != RecordPart::Aside)
        .unzip();
    if !compared.iter().map(|document| object_key(document)).eq(second.documents.iter().map(object_key)) {
        let problem = Problem::error("the source gives other objects at every rendering");
        return Err(problem.hint("give names that do not depend on time or chance").into());
    }
    let mut differing = BTreeMap::new();
    for ((key, one), other) in keys.into_iter().zip(compared).zip(&second.documents) {
        let fields = differing_fields(&one.object, &other.object);
        if !fields.is_empty() {
            differing.insert(key, fields);
        }
    }
    if policy == NondeterministicFields::Allow {
        return Ok(differing);
    }
    let hint =
        "give these values yourself, or list and leave them out of the proof with --allow-nondeterministic";
    let problems: Problems = differing
        .iter()
        .flat_map(|(key, fields)| fields.iter().map(move |field| (key, field)))
        .map(|(key, field)| {
            Problem::error(format!("{key}: `{field}` is another at every rendering")).hint(hint)
        })
        .collect();
    Ok(problems.into_result(differing)?)
}

pub(super) fn hazards_of(host: &HazardHost, loaded: &LoadedSource, differs: bool) -> BTreeSet<Hazard> {
    let mut hazards = host.asked();
    if !differs {
        // Asked for and not used, or used for something that does not show.
        hazards.remove(&Hazard::Random);
        hazards.remove(&Hazard::Time);
    }
    if let SourceContent::Chart(chart) = loaded.content() {
        hazards.extend(named_hazards(chart.chart()));
    }
    hazards
}

pub(super) fn bundle_warnings(
    rendered: &RenderedSource,
    hazards: &BTreeSet<Hazard>,
    nondeterministic: &BTreeMap<String, Vec<String>>,
) -> Problems {
    let mut warnings: Problems = rendered.warnings.iter().cloned().collect();
    for hazard in hazards {
        warnings.push(Problem::warning(format!("the chart asks for {hazard}")));
    }
    for (key, fields) in nondeterministic {
        warnings.push(Problem::warning(format!(
            "{key}: not proven, another at every rendering: {}",
            fields.join(", ")
        )));
    }
    warnings
}

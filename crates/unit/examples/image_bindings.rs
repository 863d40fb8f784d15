//! Binds every image of the charts below some directories and checks what came of it: `image_bindings [--own-only]
//! DIR...`
//!
//! Each image a chart renders is given to a bundle twice: under its own repository, and from a mirror, where only its name is
//! left (not with `--own-only`). A binding must change the image of every container it says it changes and of no other; what is not bound must be
//! reported. Prints a row a chart and ends with failure if any binding is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use slipway_chart::{Capabilities, UserValues};
use slipway_event::{Redactor, SystemClock};
use slipway_manifest::image::ImageReference;
use slipway_problem::Problem;
use slipway_source::{LoadContext, RenderSettings, SourcePath};
use slipway_unit::*;

const DIGEST: &str = "sha256:d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1";

fn main() -> ExitCode {
    let mut words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let is_own_only = words.first().is_some_and(|word| word == "--own-only");
    if is_own_only {
        words.remove(0);
    }
    let charts = words.into_iter().flat_map(|root| charts_below(root.into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    line(
        "| chart | images | bound by values | by the rendered objects | reported | mirrored: bound | reported | places left |",
    );
    line("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut total = Outcomes::default();
    let mut bound_charts = 0;
    for chart in charts {
        let name = chart.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match runtime.block_on(bind_chart(&chart, is_own_only)) {
            Ok(outcomes) if outcomes.images == 0 => {}
            Ok(outcomes) => {
                line(&format!("| {name} {}", outcomes.row()));
                outcomes.notes.iter().for_each(|note| line(&format!("<!-- {name}: {note} -->")));
                bound_charts += 1;
                total.add(&outcomes);
            }
            Err(why) => line(&format!("<!-- {name} is left out: {why} -->")),
        }
    }
    line(&format!("| **{bound_charts} charts** {}", total.row()));
    line(&format!("wrong bindings: {}", total.wrong));
    if total.wrong == 0 && bound_charts > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn line(text: &str) {
    use std::io::Write as _;
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{text}");
}

fn charts_below(root: PathBuf) -> Vec<PathBuf> {
    if root.join("Chart.yaml").is_file() {
        return vec![root];
    }
    let entries = std::fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    let mut charts: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join("Chart.yaml").is_file()).collect();
    charts.sort();
    charts
}

/// What came of the images of a chart.
#[derive(Default)]
struct Outcomes {
    images: usize,
    values: usize,
    rendered: usize,
    reported: usize,
    mirrored: usize,
    mirrored_reported: usize,
    /// Containers of the same repository that kept their image.
    left: usize,
    wrong: usize,
    notes: Vec<String>,
}

impl Outcomes {
    fn row(&self) -> String {
        let Self { images, values, rendered, reported, mirrored, mirrored_reported, left, .. } = self;
        format!(
            "| {images} | {values} | {rendered} | {reported} | {mirrored} | {mirrored_reported} | {left} |"
        )
    }

    fn add(&mut self, other: &Self) {
        self.images += other.images;
        self.values += other.values;
        self.rendered += other.rendered;
        self.reported += other.reported;
        self.mirrored += other.mirrored;
        self.mirrored_reported += other.mirrored_reported;
        self.left += other.left;
        self.wrong += other.wrong;
    }
}

/// The image of every container of a unit.
type Uses = BTreeMap<(String, String), String>;

struct Bundled {
    uses: Uses,
    kinds: Vec<BindingKind>,
    objects: BTreeMap<String, String>,
}

async fn bind_chart(chart: &Path, is_own_only: bool) -> Result<Outcomes, String> {
    let base = bundle_with(chart, None).await.map_err(|error| first_line(&error))?;
    let mut outcomes = Outcomes::default();
    let images: BTreeSet<&String> = base.uses.values().collect();
    let mut seen = BTreeSet::new();
    for image in images {
        let Ok(reference) = image.parse::<ImageReference>() else {
            outcomes.notes.push(format!("`{image}` is no image"));
            continue;
        };
        if !seen.insert(reference.full_repository()) {
            continue;
        }
        outcomes.images += 1;
        let wanted = ImageReference { digest: Some(DIGEST.to_owned()), ..reference.clone() };
        match bundle_with(chart, Some(&wanted)).await {
            Ok(bound) => {
                let in_objects = bound.kinds.iter().all(|kind| *kind == BindingKind::PostRender);
                let count = if in_objects { &mut outcomes.rendered } else { &mut outcomes.values };
                *count += 1;
                let repository = reference.full_repository();
                check(&base, &bound, &wanted, |before| before.full_repository() == repository, &mut outcomes);
            }
            Err(error) => {
                outcomes.reported += 1;
                outcomes.notes.push(first_line(&error));
            }
        }
        if is_own_only {
            continue;
        }
        let mirror =
            ImageReference { repository: format!("mirror.example/{}", reference.short_name()), ..wanted };
        match bundle_with(chart, Some(&mirror)).await {
            Ok(bound) => {
                outcomes.mirrored += 1;
                let name = reference.short_name().to_owned();
                // With one place alone the name counts for nothing.
                let only = base.uses.values().collect::<BTreeSet<_>>().len() == 1;
                check(&base, &bound, &mirror, |before| only || before.short_name() == name, &mut outcomes);
            }
            Err(_) => outcomes.mirrored_reported += 1,
        }
    }
    Ok(outcomes)
}

/// Holds a bound unit against the unbound one.
fn check(
    base: &Bundled,
    bound: &Bundled,
    wanted: &ImageReference,
    may_change: impl Fn(&ImageReference) -> bool,
    outcomes: &mut Outcomes,
) {
    if !base.uses.keys().eq(bound.uses.keys()) {
        outcomes.wrong += 1;
        outcomes.notes.push(format!("WRONG, {wanted}: other containers are rendered"));
        return;
    }
    let mut reached = 0;
    for ((place, before), after) in base.uses.iter().zip(bound.uses.values()) {
        let may_change = before.parse::<ImageReference>().is_ok_and(|before| may_change(&before));
        let is_wanted = after.parse::<ImageReference>().is_ok_and(|found| {
            found.full_repository() == wanted.full_repository() && found.digest == wanted.digest
        });
        match (before == after, may_change) {
            (true, true) => outcomes.left += 1,
            (true, false) => {}
            (false, true) if is_wanted => reached += 1,
            (false, _) => {
                outcomes.wrong += 1;
                outcomes.notes.push(format!("WRONG, {wanted}: {place:?} changed from {before} to {after}"));
            }
        }
    }
    // Custom resources name images too, which no pod shows.
    if reached == 0 && base.objects == bound.objects {
        outcomes.wrong += 1;
        outcomes.notes.push(format!("WRONG, {wanted}: bound, and nothing changed"));
    }
    for (key, before) in &base.objects {
        let after = bound.objects.get(key).map(String::as_str).unwrap_or_default();
        if let Some(label) = changed_label(before, after) {
            outcomes.wrong += 1;
            outcomes.notes.push(format!("WRONG, {wanted}: changes a label of {key}: {label}"));
        }
    }
}

/// The first line of a label or selector that differs between two objects of the same shape.
fn changed_label<'t>(before: &str, after: &'t str) -> Option<&'t str> {
    let lines: Vec<&str> = after.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_label = |number: usize| {
        let above = lines[..number].iter().rev().find(|line| indent(line) < indent(lines[number]));
        matches!(above.map(|line| line.trim()), Some("labels:" | "matchLabels:" | "selector:"))
    };
    let differs = before.lines().zip(&lines).enumerate().filter(|(_, (one, other))| one != *other);
    differs.map(|(number, _)| number).find(|number| is_label(*number)).map(|number| lines[number])
}

fn first_line(error: &UnitError) -> String {
    let text = match error {
        UnitError::Problems(problems) => problems.iter().map(|problem| problem.message.clone()).next(),
        _ => None,
    };
    let text = text.unwrap_or_else(|| error.to_string());
    text.lines().next().unwrap_or_default().to_owned()
}

async fn bundle_with(chart: &Path, image: Option<&ImageReference>) -> Result<Bundled, UnitError> {
    let (masked, redactor) = (LoadContext::default(), Redactor::new());
    let context = BundleContext {
        masked: &masked,
        images: None,
        redactor: &redactor,
        clock: &SystemClock,
        tool: "image bindings",
        builder: "nobody@nowhere",
    };
    let place = tempfile::tempdir().map_err(|error| UnitError::from(Problem::error(error.to_string())))?;
    let path = place.path().join("unit");
    let request = BundleRequest {
        source: SourcePath::detect(chart).map_err(UnitError::from)?,
        reference: "chart".to_owned(),
        values: UserValues::default(),
        release: "demo".into(),
        namespace: "demo".into(),
        env: None,
        capabilities: Capabilities::default(),
        images: image.map(|image| ImageInput::given("image", image.clone())).into_iter().collect(),
        builds: Vec::new(),
        mapping: ImageMapping::default(),
        inferred: InferredBindings::Accept,
        pin: PinMode::Inputs,
        nondeterministic: NondeterministicFields::Allow,
        strategy: None,
        overlay_slots: BTreeMap::new(),
        policies: None,
        revision: None,
        parent: None,
        settings: RenderSettings::default(),
    };
    bundle(request, &context, &path).await?;
    let unit = UnitFile::open(&path, &OpenOptions::default())?;
    let rows = unit.rows();
    let uses = rows.image_uses.iter();
    let uses = uses.map(|used| ((used.object_key.clone(), used.container.clone()), used.reference.clone()));
    let kinds = rows.image_bindings.iter().map(|binding| binding.kind).collect();
    Ok(Bundled { uses: uses.collect(), kinds, objects: unit.object_texts()? })
}

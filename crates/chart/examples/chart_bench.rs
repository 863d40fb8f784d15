//! How long a new chart takes to render when it is parsed already and only values change.

use std::time::Instant;

use slipway_chart::{Chart, ChartFile, ChartProgram, LoadOptions, Notices, RenderOptions, create};

#[allow(clippy::print_stdout)]
fn main() {
    let short = std::env::args().any(|arg| arg == "--short");
    let rounds = if short { 20 } else { 2000 };
    let files: Vec<ChartFile> = create("web").expect("a chart of that name can be made");
    let chart = Chart::from_files(files, &LoadOptions::default(), &mut Notices::new()).expect("it loads");
    let program = ChartProgram::new(chart);
    let options = RenderOptions::default();
    let mut times: Vec<f64> = (0..rounds)
        .map(|round| {
            let values = serde_json::json!({"replicaCount": round, "ingress": {"enabled": true}});
            let values = values.as_object().cloned().unwrap_or_default();
            let begun = Instant::now();
            let rendered = program.render(&values, &options).expect("it renders");
            let output = rendered.to_template_output(&options).expect("it prints");
            assert!(!output.is_empty());
            begun.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!("{}", serde_json::json!({"case": "library: a created chart, new values", "slipway ms": median}));
}

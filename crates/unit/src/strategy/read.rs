//! Reads strategy files strictly: every mistake at once, each with its place.

use std::time::Duration;

use serde_json::Value;
use slipway_go::time::Duration as GoDuration;
use slipway_problem::Problems;
use slipway_yaml::{FieldReader, YamlNode, YamlReader};

use super::settings::{
    BlueGreenSettings, CanarySettings, CanaryStep, OnFailure, SignalSettings, StepPause, Strategy,
    StrategyKind, TargetName, TrafficProvider,
};
use crate::verify::{ExecProbe, VerifyProbe};

const DEEPEST: usize = 16;
const LARGEST: usize = 256 << 10;
const DEFAULT_WEIGHT_ERROR: u8 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum KindWord {
    Rolling,
    Canary,
    BlueGreen,
}

impl Strategy {
    /// Reads the text of a strategy file; its settings stand under `strategy` or at the top.
    pub fn load(text: &str, file: &str) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let reader = YamlReader::new().max_depth(DEEPEST).max_bytes(LARGEST);
        let root = reader.gather_one(text, file, &mut problems);
        let strategy = root.as_ref().map(|root| {
            let Some(inner) = root.get("strategy") else { return read_strategy(root, &mut problems) };
            let mut fields = FieldReader::new(root, &mut problems);
            fields.ignore("strategy");
            fields.finish();
            read_strategy(inner, &mut problems)
        });
        problems.sort_by_location();
        match strategy.flatten() {
            Some(strategy) => problems.into_result(strategy),
            None => Err(problems),
        }
    }

    /// Reads a strategy that is a part of another file.
    pub fn read(node: &YamlNode, problems: &mut Problems) -> Option<Self> {
        read_strategy(node, problems)
    }

    /// Reads a strategy that a unit keeps.
    pub fn parse(value: &Value) -> Result<Self, Problems> {
        Self::load(&value.to_string(), "strategy")
    }

    /// A deploy as a whole.
    pub fn rolling() -> Self {
        Self {
            kind: StrategyKind::Rolling,
            targets: Vec::new(),
            signals: SignalSettings::default(),
            on_failure: OnFailure::default(),
        }
    }
}

fn read_strategy(node: &YamlNode, problems: &mut Problems) -> Option<Strategy> {
    let mut fields = FieldReader::new(node, problems);
    fields.required("type");
    let words =
        [("rolling", KindWord::Rolling), ("canary", KindWord::Canary), ("bluegreen", KindWord::BlueGreen)];
    let kind = fields.one_of("type", &words);
    let mut seen: Vec<String> = Vec::new();
    let targets = fields.list("targets", |target| read_target(target, &mut seen));
    let canary = fields.fields("canary", read_canary);
    let blue_green = fields.fields("bluegreen", read_blue_green);
    let signals = fields.fields("signals", read_signals).unwrap_or_default();
    let on_failure =
        fields.one_of("onFailure", &[("rollback", OnFailure::Rollback), ("hold", OnFailure::Hold)]);
    let kind = match kind {
        None => None,
        Some(KindWord::Rolling) => Some(StrategyKind::Rolling),
        Some(KindWord::Canary) => {
            require_section(&mut fields, "canary", &targets);
            canary.map(StrategyKind::Canary)
        }
        Some(KindWord::BlueGreen) => {
            require_section(&mut fields, "bluegreen", &targets);
            if targets.len() > 1 {
                fields.report_problem(
                    "targets",
                    "a blue-green rollout has one target: its Service selects one",
                );
            }
            blue_green.map(StrategyKind::BlueGreen)
        }
    };
    fields.finish();
    Some(Strategy { kind: kind?, targets, signals, on_failure: on_failure.unwrap_or_default() })
}

fn require_section(fields: &mut FieldReader<'_, '_>, key: &'static str, targets: &[TargetName]) {
    fields.required(key);
    if targets.is_empty() && fields.node_of("targets").as_seq().is_none_or(<[YamlNode]>::is_empty) {
        let problem = fields.node_of("targets").problem("`targets` names no Deployment");
        fields.problems().push(problem.hint("write `targets: [{kind: Deployment, name: api}]`"));
    }
}

fn read_target(fields: &mut FieldReader<'_, '_>, seen: &mut Vec<String>) -> Option<TargetName> {
    let name = fields.required_str("name").to_owned();
    let kind = fields.str("kind").unwrap_or("Deployment");
    if kind != "Deployment" {
        let problem = fields.node_of("kind").problem(format!("a {kind} cannot be rolled out step by step"));
        fields.problems().push(problem.hint("targets are Deployments; use `type: rolling` for the others"));
    }
    if seen.contains(&name) {
        fields.report_problem("name", format!("the target `{name}` is named twice"));
    }
    seen.push(name.clone());
    (!name.is_empty()).then_some(TargetName(name))
}

fn read_canary(fields: &mut FieldReader<'_, '_>) -> CanarySettings {
    fields.required("steps");
    let mut last = 0;
    let steps = fields.list("steps", |step| read_step(step, &mut last));
    if !steps.iter().any(|step| matches!(step, CanaryStep::Weight(_))) && fields.problems().is_empty() {
        let problem = fields.node_of("steps").problem("the steps have no weight");
        fields.problems().push(problem.hint("write `{weight: 10}` and more"));
    }
    let providers = [
        ("replicas", TrafficProvider::Replicas),
        ("gateway-api", TrafficProvider::GatewayApi),
        ("nginx-ingress", TrafficProvider::NginxIngress),
    ];
    CanarySettings {
        steps,
        max_weight_error: percent(fields, "maxWeightError", 0..=100).unwrap_or(DEFAULT_WEIGHT_ERROR),
        provider: fields.one_of("provider", &providers).unwrap_or_default(),
        service: fields.string("service"),
    }
}

fn read_step(fields: &mut FieldReader<'_, '_>, last: &mut u8) -> Option<CanaryStep> {
    let given: Vec<&str> =
        ["weight", "pause", "check"].into_iter().filter(|key| fields.has_key(key)).collect();
    let weight = percent(fields, "weight", 1..=100);
    let pause = read_pause(fields);
    let check = fields.one_of("check", &[("verify", ())]);
    if given.len() != 1 {
        let problem = fields.node().problem("a step is one of `weight`, `pause`, `check`");
        fields
            .problems()
            .push(problem.hint("`{weight: 10}`, `{pause: 5m}`, `{pause: manual}`, `{check: verify}`"));
        return None;
    }
    if let Some(weight) = weight {
        if weight <= *last {
            let problem = fields.node_of("weight").problem(format!("the weight {weight} follows {last}"));
            fields.problems().push(problem.hint("weights grow from step to step"));
        }
        *last = weight;
        return Some(CanaryStep::Weight(weight));
    }
    if *last == 100 {
        let problem = fields.node().problem("nothing comes after the weight 100");
        fields.problems().push(problem.hint("the old pods are gone then: check before"));
    }
    pause.map(CanaryStep::Pause).or(check.map(|()| CanaryStep::Check))
}

fn read_pause(fields: &mut FieldReader<'_, '_>) -> Option<StepPause> {
    if fields.node_of("pause").as_str() == Some("manual") {
        fields.ignore("pause");
        return Some(StepPause::Manual);
    }
    duration(fields, "pause").map(StepPause::For)
}

fn read_blue_green(fields: &mut FieldReader<'_, '_>) -> BlueGreenSettings {
    let checks = fields.seq("prePromotion", |node, problems| {
        if node.as_str() == Some("verify") {
            return Some(());
        }
        let given = node.as_str().unwrap_or("this");
        problems.push(node.problem(format!("`{given}` is no check")).hint("checks are `verify`"));
        None
    });
    let settings = BlueGreenSettings {
        service: fields.required_str("service").to_owned(),
        preview: fields.string("preview"),
        scale_down_delay: duration(fields, "scaleDownDelay").unwrap_or_default(),
        checks: checks.len(),
        auto_promote: fields.bool("autoPromote").unwrap_or_default(),
    };
    if settings.preview.as_ref() == Some(&settings.service) {
        fields.report_problem("preview", "`preview` and `service` are the same Service");
    }
    settings
}

fn read_signals(fields: &mut FieldReader<'_, '_>) -> SignalSettings {
    let usual = SignalSettings::default();
    SignalSettings {
        readiness: fields.bool("readiness").unwrap_or(usual.readiness),
        restart_budget: fields.u64("restartBudget").unwrap_or(usual.restart_budget),
        events: fields.bool("events").unwrap_or(usual.events),
        probes: fields.list("probes", read_probe),
    }
}

fn read_probe(fields: &mut FieldReader<'_, '_>) -> Option<VerifyProbe> {
    const KINDS: [&str; 3] = ["http", "tcp", "exec"];
    fields.check_exclusive(&KINDS);
    let http = fields.string("http").map(VerifyProbe::Http);
    let tcp = fields.string("tcp").map(VerifyProbe::Tcp);
    let exec = fields.fields("exec", |exec| {
        exec.required("command");
        ExecProbe { image: exec.required_str("image").to_owned(), command: exec.strings("command") }
    });
    if !KINDS.iter().any(|kind| fields.has_key(kind)) {
        let problem = fields.node().problem("a probe is one of `http`, `tcp`, `exec`");
        fields.problems().push(problem.hint(
            "`{http: \"https://api.example/health\"}`, `{tcp: \"api.example:443\"}`, `{exec: {image: …, command: […]}}`",
        ));
    }
    http.or(tcp).or(exec.map(VerifyProbe::Exec))
}

fn percent(
    fields: &mut FieldReader<'_, '_>,
    key: &'static str,
    range: std::ops::RangeInclusive<u8>,
) -> Option<u8> {
    let number = fields.u64(key)?;
    let found = u8::try_from(number).ok().filter(|number| range.contains(number));
    if found.is_none() {
        fields.report_problem(key, format!("`{key}` must be from {} to {}", range.start(), range.end()));
    }
    found
}

fn duration(fields: &mut FieldReader<'_, '_>, key: &'static str) -> Option<Duration> {
    let text = fields.text(key)?;
    let found = GoDuration::parse_days(&text);
    if found.is_none() {
        let problem = fields.node_of(key).problem(format!("`{text}` is not a duration"));
        fields.problems().push(problem.hint("write a number with a unit: `30s`, `5m`, `1h30m`"));
    }
    found
}

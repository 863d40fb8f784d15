//! Figures for Prometheus: counters, histograms and gauges, written as text.
//!
//! `collect` turns changes of objects into counts, each transition once; only the process that leads counts them.

mod collect;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use slipway_kro::{NodeState, QueueReport, WORK_BOUNDS};
use slipway_promotion::ControllerReport;
use slipway_promotion::step::StepReconciler;
use slipway_scm::BreakerState;

pub(crate) use self::collect::MetricCollector;
use crate::process::ProcessState;

/// The upper bounds of latencies, in seconds.
const LATENCY: &[f64] = &[0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0];
/// The upper bounds of lead times, in seconds: a minute to a week.
const LEAD_TIME: &[f64] =
    &[60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0, 86400.0, 259_200.0, 604_800.0];

#[derive(Clone, Copy, Debug)]
enum FigureKind {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

/// A figure: its name, the labels of its series, and what it says.
struct Figure {
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    kind: FigureKind,
}

macro_rules! figures {
    ($($constant:ident = $name:literal [$($label:literal),*] $kind:expr, $help:literal;)*) => {
        $(pub(crate) const $constant: FigureName = FigureName($name);)*
        /// Every figure there is; those without a series are shown by name alone.
        const FIGURES: &[Figure] =
            &[$(Figure { name: $name, labels: &[$($label),*], help: $help, kind: $kind },)*];
    };
}

/// The name of a figure in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FigureName(&'static str);

use FigureKind::{Counter, Gauge, Histogram};

figures! {
    BUNDLES_CREATED = "kardinal_bundles_created_total" ["pipeline", "source"] Counter, "Bundles created";
    PROMOTIONS_OPENED = "kardinal_promotions_opened_total" ["env", "approval"] Counter, "Pull requests opened, and pushes where none is needed";
    PROMOTIONS_MERGED = "kardinal_promotions_merged_total" ["env"] Counter, "Pull requests merged";
    PROMOTIONS_FAILED = "kardinal_promotions_failed_total" ["env", "reason"] Counter, "Promotions that failed";
    ROLLBACKS = "kardinal_rollbacks_total" ["env", "trigger"] Counter, "Bundles that take an environment back";
    GATES_EVALUATED = "kardinal_policy_gates_evaluated_total" ["result"] Counter, "Evaluations of gates";
    GATES_BLOCKED = "kardinal_policy_gates_blocked_total" ["gate"] Counter, "Promotions a gate has held";
    HEALTH_DURATION = "kardinal_health_check_duration_seconds" ["adapter"] Histogram(LATENCY), "Time from the change to its proof of health";
    GIT_DURATION = "kardinal_git_operation_duration_seconds" ["op"] Histogram(LATENCY), "Time of operations on repositories";
    SCM_REQUESTS = "kardinal_scm_api_requests_total" ["provider", "endpoint", "status"] Counter, "Requests to servers of pull requests";
    LEAD_TIMES = "kardinal_promotion_lead_time_seconds" ["pipeline", "env"] Histogram(LEAD_TIME), "Time from a bundle's creation to its verification";
    BUNDLES = "kardinal_bundles_total" ["phase"] Counter, "Bundles that reached a phase";
    STEPS = "kardinal_steps_total" ["type", "result"] Counter, "Entries of steps that ended";
    STEP_DURATION = "kardinal_step_duration_seconds" ["step"] Histogram(LATENCY), "Time of entries of steps";
    GATE_EVALUATIONS = "kardinal_gate_evaluations_total" ["result"] Counter, "Evaluations of gates, by the older name";
    PR_DURATION = "kardinal_pr_duration_seconds" ["env"] Histogram(LEAD_TIME), "Time from a pull request to its merge";
    GATE_BLOCKING = "kardinal_gate_blocking_duration_seconds" ["gate"] Histogram(LEAD_TIME), "Time a gate has held a promotion";
    WEBHOOKS = "kardinal_webhook_events_total" ["provider", "result"] Counter, "Deliveries of webhooks";
    LEADER = "kardinal_leader" [] Gauge, "1 while this process leads";
    TERM = "kardinal_leader_term" [] Gauge, "Number of the lease this process holds or has held last";
    CIRCUIT_OPEN = "kardinal_circuit_open" ["host"] Gauge, "1 while nothing is sent to a server that fails";
    GRAPH_NODES = "kardinal_graph_nodes" ["state"] Gauge, "Nodes of Graphs by their state";
    GRAPH_RECONCILE = "kardinal_graph_reconcile_seconds" [] Histogram(&WORK_BOUNDS), "Time of walks through Graphs";
    QUEUE_DEPTH = "kardinal_workqueue_depth" ["queue"] Gauge, "Objects that wait to be looked at";
    QUEUE_RUNNING = "kardinal_workqueue_running" ["queue"] Gauge, "Objects that are looked at";
    QUEUE_ADDS = "kardinal_workqueue_adds_total" ["queue"] Counter, "Objects that were put into the queue";
    QUEUE_RETRIES = "kardinal_workqueue_retries_total" ["queue"] Counter, "Looks that failed and are repeated";
    QUEUE_WORK = "kardinal_workqueue_work_duration_seconds" ["queue"] Histogram(&WORK_BOUNDS), "Time of looks at objects";
    GIT_CACHE_BYTES = "kardinal_git_cache_bytes" [] Gauge, "Bytes the mirrors of repositories take";
    AGENT_HEARTBEAT = "kardinal_agent_last_heartbeat_seconds" ["shard"] Gauge, "Seconds since an agent was heard of";
}

#[derive(Clone, Debug, Default)]
struct Series {
    value: f64,
    /// How many observations are at most each bound.
    buckets: Vec<u64>,
    count: u64,
}

/// The figures of a process.
#[derive(Default)]
pub(crate) struct MetricRegistry {
    series: Mutex<BTreeMap<(&'static str, Vec<String>), Series>>,
}

impl MetricRegistry {
    fn change(&self, name: FigureName, labels: &[&str], change: impl FnOnce(&mut Series)) {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        change(all.entry((name.0, labels)).or_default());
    }

    pub(crate) fn count(&self, name: FigureName, labels: &[&str]) {
        self.change(name, labels, |series| series.value += 1.0);
    }

    pub(crate) fn set(&self, name: FigureName, labels: &[&str], value: f64) {
        self.change(name, labels, |series| series.value = value);
    }

    pub(crate) fn observe(&self, name: FigureName, labels: &[&str], value: f64) {
        let figure = FIGURES.iter().find(|figure| figure.name == name.0);
        let Some(Figure { kind: Histogram(bounds), .. }) = figure else { return };
        self.change(name, labels, |series| {
            series.buckets.resize(bounds.len(), 0);
            for (bucket, bound) in series.buckets.iter_mut().zip(*bounds) {
                *bucket += u64::from(value <= *bound);
            }
            series.count += 1;
            series.value += value;
        });
    }

    pub(crate) fn count_webhook(&self, provider: &str, result: &str) {
        self.count(WEBHOOKS, &[provider, result]);
    }

    /// Takes over what the controller has counted itself.
    fn take_report(&self, report: &ControllerReport) {
        let states = [
            NodeState::Ready,
            NodeState::NotReady,
            NodeState::Pending,
            NodeState::Held,
            NodeState::Excluded,
            NodeState::Blocked,
            NodeState::Conflict,
            NodeState::Error,
            NodeState::SystemError,
        ];
        for state in states {
            let count = report.nodes.get(&state).copied().unwrap_or_default();
            self.set(GRAPH_NODES, &[&format!("{state:?}")], count as f64);
        }
        self.set_histogram(GRAPH_RECONCILE, &[], &report.graphs);
        for (queue, figures) in [("objects", &report.objects), ("graphs", &report.graphs)] {
            self.set(QUEUE_DEPTH, &[queue], figures.depth as f64);
            self.set(QUEUE_RUNNING, &[queue], figures.running as f64);
            self.set(QUEUE_ADDS, &[queue], figures.adds as f64);
            self.set_histogram(QUEUE_WORK, &[queue], figures);
        }
        self.set(QUEUE_RETRIES, &["objects"], report.retries as f64);
    }

    fn set_histogram(&self, name: FigureName, labels: &[&str], report: &QueueReport) {
        self.change(name, labels, |series| {
            series.buckets = report.buckets.to_vec();
            series.count = report.ended;
            series.value = report.seconds;
        });
    }

    /// Every figure as Prometheus reads it.
    pub(crate) fn text(&self, state: &ProcessState, steps: Option<&StepReconciler>) -> String {
        self.set(LEADER, &[], if state.is_leader() { 1.0 } else { 0.0 });
        self.set(TERM, &[], state.term() as f64);
        let working = state.working_steps();
        if let Some(steps) = working.as_ref().or(steps) {
            for host in steps.server_reports() {
                let is_open = !matches!(host.breaker, BreakerState::Closed);
                self.set(CIRCUIT_OPEN, &[&host.host], if is_open { 1.0 } else { 0.0 });
                for request in host.requests {
                    let status = request.status.to_string();
                    self.set(SCM_REQUESTS, &[&host.host, &request.action, &status], request.count as f64);
                }
            }
        }
        if let Some(report) = state.working_report() {
            self.take_report(&report);
        }
        let all = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for figure in FIGURES {
            write_figure(&mut text, figure, &all);
        }
        text
    }
}

fn write_figure(text: &mut String, figure: &Figure, all: &BTreeMap<(&'static str, Vec<String>), Series>) {
    let Figure { name, labels, help, kind } = figure;
    let word = match kind {
        Counter => "counter",
        Gauge => "gauge",
        Histogram(_) => "histogram",
    };
    // Writing to a text cannot fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {word}\n");
    for ((_, values), series) in all.iter().filter(|((known, _), _)| known == name) {
        let own: Vec<String> = labels
            .iter()
            .zip(values)
            .map(|(label, value)| format!("{label}=\"{}\"", escape(value)))
            .collect();
        let with = |more: Option<String>| {
            let all: Vec<String> = own.iter().cloned().chain(more).collect();
            if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
        };
        let Histogram(bounds) = kind else {
            let _ = writeln!(text, "{name}{} {}", with(None), series.value);
            continue;
        };
        for (bound, bucket) in bounds.iter().zip(&series.buckets) {
            let _ = writeln!(text, "{name}_bucket{} {bucket}", with(Some(format!("le=\"{bound}\""))));
        }
        let _ = writeln!(text, "{name}_bucket{} {}", with(Some("le=\"+Inf\"".to_owned())), series.count);
        let _ = writeln!(text, "{name}_sum{} {}", with(None), series.value);
        let _ = writeln!(text, "{name}_count{} {}", with(None), series.count);
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

//! Writes down what changes between two looks at the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use slipway_promotion::gate::{GateEvaluator, GateLine};
use slipway_promotion::kinds::{
    Bundle, BundlePhase, GatePhase, Pipeline, PolicyGate, PromotionStep, StepState, find_condition,
};

use super::timeline::{ArrivalReason, EnvironmentArrival, TimelineEntry, TimelineEvent};

/// Looks at objects again and again, and keeps what is new.
pub(super) struct Observer {
    pipeline: Pipeline,
    entries: Vec<TimelineEntry>,
    seen: BTreeSet<String>,
    gates: BTreeMap<String, GatePhase>,
    reasons: Vec<(String, String, ArrivalReason)>,
    evaluator: GateEvaluator,
}

impl Observer {
    pub(super) fn new(pipeline: &Pipeline) -> Self {
        Self {
            pipeline: pipeline.clone(),
            entries: Vec::new(),
            seen: BTreeSet::new(),
            gates: BTreeMap::new(),
            reasons: Vec::new(),
            evaluator: GateEvaluator::new(),
        }
    }

    fn note(&mut self, at: Timestamp, bundle: &str, environment: Option<&str>, event: TimelineEvent) {
        let (bundle, environment) = (bundle.to_owned(), environment.map(str::to_owned));
        self.entries.push(TimelineEntry { at, bundle, environment, event });
    }

    /// Notes something once.
    fn note_once(
        &mut self,
        key: String,
        at: Timestamp,
        bundle: &str,
        environment: Option<&str>,
        event: TimelineEvent,
    ) -> bool {
        let is_new = self.seen.insert(key);
        if is_new {
            self.note(at, bundle, environment, event);
        }
        is_new
    }

    pub(super) fn note_closed(&mut self, environment: &str, number: u64, at: Timestamp) {
        let bundle = self.bundle_of(environment);
        self.note(at, &bundle, Some(environment), TimelineEvent::PullRequestClosed { number });
        self.end_reason(environment, &bundle, "approval", at);
    }

    /// The bundle whose promotion was last noted in an environment.
    fn bundle_of(&self, environment: &str) -> String {
        let found = self.entries.iter().rev().find(|entry| entry.environment.as_deref() == Some(environment));
        found.map(|entry| entry.bundle.clone()).unwrap_or_default()
    }

    pub(super) fn note_synced(&mut self, bundle: &str, environment: &str, healthy: bool, at: Timestamp) {
        self.note(at, bundle, Some(environment), TimelineEvent::Synced { healthy });
    }

    fn begin_reason(&mut self, environment: &str, bundle: &str, what: &str, detail: String, from: Timestamp) {
        let reason = ArrivalReason { what: what.to_owned(), detail, from, until: None };
        self.reasons.push((environment.to_owned(), bundle.to_owned(), reason));
    }

    fn end_reason(&mut self, environment: &str, bundle: &str, what: &str, until: Timestamp) {
        let open = self.reasons.iter_mut().rev().find(|(place, of, reason)| {
            place == environment && of == bundle && reason.what == what && reason.until.is_none()
        });
        if let Some((_, _, reason)) = open {
            reason.until = Some(until);
        }
    }

    /// Looks at everything.
    pub(super) fn look(
        &mut self,
        bundles: &[Bundle],
        steps: &[PromotionStep],
        gates: &[PolicyGate],
        now: Timestamp,
    ) {
        let first = self.entries.len();
        for bundle in bundles {
            self.look_at_bundle(bundle, now);
        }
        for gate in gates.iter().filter(|gate| gate.is_instance()) {
            self.look_at_gate(gate, now);
        }
        for step in steps {
            self.look_at_step(step, now);
        }
        let order: BTreeMap<String, usize> = self
            .pipeline
            .spec
            .environments
            .iter()
            .enumerate()
            .map(|(index, environment)| (environment.name.clone(), index))
            .collect();
        let place = |entry: &TimelineEntry| {
            entry.environment.as_ref().and_then(|name| order.get(name).copied()).map_or(0, |index| index + 1)
        };
        // A rollback follows what it takes back.
        let rollbacks: BTreeSet<&str> =
            bundles.iter().filter(|bundle| bundle.is_rollback()).map(Bundle::name).collect();
        self.entries[first..].sort_by_cached_key(|entry| {
            let is_rollback = rollbacks.contains(entry.bundle.as_str());
            let is_end = matches!(entry.event, TimelineEvent::BundleEnded { .. });
            let (bundle, text) = (entry.bundle.clone(), entry.event.to_string());
            (is_rollback, is_end, place(entry), entry.event.rank(), bundle, text)
        });
    }

    fn look_at_bundle(&mut self, bundle: &Bundle, now: Timestamp) {
        let name = bundle.name();
        // The version that ran before was created by nobody in this play.
        if bundle.phase() == BundlePhase::Verified && !self.seen.contains(&format!("bundle/{name}")) {
            let is_before = bundle.status.graph_ref.is_none();
            if is_before {
                return;
            }
        }
        let version = bundle.spec.version();
        let made = match bundle.spec.provenance.as_ref().and_then(|origin| origin.rollback_of.clone()) {
            Some(takes_back) => TimelineEvent::RollbackCreated { version, takes_back },
            None => TimelineEvent::BundleCreated { version },
        };
        self.note_once(format!("bundle/{name}"), now, name, None, made);
        if let Some(ready) = find_condition(&bundle.status.conditions, "Ready")
            && bundle.phase() == BundlePhase::Available
            && bundle.status.phase.is_some()
        {
            let (reason, message) = (ready.reason.clone(), ready.message.clone());
            let key = format!("held/{name}/{reason}");
            self.note_once(key, now, name, None, TimelineEvent::BundleHeld { reason, message });
        }
        if bundle.phase().is_terminal() {
            let phase = bundle.phase();
            self.note_once(format!("end/{name}"), now, name, None, TimelineEvent::BundleEnded { phase });
        }
    }

    fn look_at_gate(&mut self, gate: &PolicyGate, now: Timestamp) {
        let Some(phase) = gate.status.phase else { return };
        let (Some(environment), Some(bundle)) = (&gate.spec.environment, &gate.spec.bundle_ref) else {
            return;
        };
        let key = format!("{}/{}", gate.namespace(), gate.name());
        let before = self.gates.insert(key, phase);
        let line = GateLine::from_status(gate, &self.evaluator, now);
        let is_open = |phase: GatePhase| matches!(phase, GatePhase::Pass | GatePhase::Overridden);
        match (before, phase) {
            // Nobody stands before it yet.
            (_, GatePhase::Pending) => {}
            (Some(before), phase) if before != GatePhase::Pending && is_open(before) == is_open(phase) => {}
            (_, phase) if is_open(phase) => {
                let event = TimelineEvent::GateOpened { gate: line.name.clone(), detail: line.detail };
                self.note(now, bundle, Some(environment), event);
                self.end_reason(environment, bundle, &line.name, now);
            }
            _ => {
                self.begin_reason(environment, bundle, &line.name, line.detail.clone(), now);
                let event = TimelineEvent::GateClosed { gate: line.name, detail: line.detail, eta: line.eta };
                self.note(now, bundle, Some(environment), event);
            }
        }
    }

    fn look_at_step(&mut self, step: &PromotionStep, now: Timestamp) {
        let (environment, bundle, status) = (&step.spec.environment, &step.spec.bundle_ref, &step.status);
        let key = |what: &str| format!("{what}/{}", step.name());
        let place = Some(environment.as_str());
        if status.started_at.is_some() {
            self.note_once(key("started"), now, bundle, place, TimelineEvent::Started);
        }
        if let Some(number) = status.pr_number {
            let event = TimelineEvent::PullRequestOpened { number };
            if self.note_once(key("pull"), now, bundle, place, event) {
                let detail = format!("pull request {number} waits to be merged");
                self.begin_reason(environment, bundle, "approval", detail, now);
            }
        } else if status.promoted_at.is_some() {
            self.note_once(key("pushed"), now, bundle, place, TimelineEvent::Pushed);
        }
        if status.merge_sha.is_some() && status.pr_number.is_some() {
            let event = TimelineEvent::Merged { by: status.merged_by.clone() };
            if self.note_once(key("merged"), now, bundle, place, event) {
                self.end_reason(environment, bundle, "approval", now);
            }
        }
        if step.state() == StepState::Verified {
            self.note_once(key("verified"), now, bundle, place, TimelineEvent::Verified);
        }
        if step.state().is_failure() {
            let reason = status.reason.clone().unwrap_or_default();
            let message = status.message.clone().unwrap_or_default();
            self.note_once(key("failed"), now, bundle, place, TimelineEvent::Failed { reason, message });
        }
    }

    /// The environments a bundle is meant for, in order.
    pub(super) fn environments(&self, bundle: &Bundle) -> Vec<String> {
        let intent = bundle.spec.intent();
        let names = self.pipeline.spec.environments.iter().map(|environment| environment.name.clone());
        let last = intent.target.clone();
        let mut meant: Vec<String> = Vec::new();
        for name in names {
            let is_last = last.as_deref() == Some(name.as_str());
            if !intent.skip.contains(&name) {
                meant.push(name);
            }
            if is_last {
                break;
            }
        }
        meant
    }

    /// The arrivals of a bundle, and everything that happened.
    pub(super) fn into_parts(
        self,
        bundle: &Bundle,
        meant: &[String],
    ) -> (Vec<EnvironmentArrival>, Vec<TimelineEntry>) {
        let reached = |name: &str| {
            let is_it = |entry: &&TimelineEntry| {
                entry.bundle == bundle.name()
                    && entry.environment.as_deref() == Some(name)
                    && entry.event == TimelineEvent::Verified
            };
            self.entries.iter().rev().find(is_it).map(|entry| entry.at)
        };
        let because = |name: &str| {
            let own = self.reasons.iter().filter(|(place, of, _)| place == name && of == bundle.name());
            // What took no time is no reason.
            let took_time = |reason: &ArrivalReason| {
                reason.until.is_none_or(|until| until.duration_since(reason.from).as_secs() > 0)
            };
            own.map(|(_, _, reason)| reason.clone()).filter(took_time).collect()
        };
        let arrival = |name: &String| EnvironmentArrival {
            name: name.clone(),
            reached_at: reached(name),
            because: because(name),
        };
        (meant.iter().map(arrival).collect(), self.entries)
    }
}

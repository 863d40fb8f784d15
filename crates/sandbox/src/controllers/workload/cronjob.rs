//! Cron jobs: a job each time the schedule says so.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use crate::controllers::cron::CronSchedule;
use crate::status::Result;
use crate::store::StoreEvent;

const TABLE: &str = "cronjobs.batch";
const JOBS: &str = "jobs.batch";
const COMPONENT: &str = "cronjob-controller";
/// More missed times than this are worth a warning.
const MANY: usize = 100;
/// Missed times looked at one by one before the search starts over from a day ago.
const MOST: usize = 5000;

pub(super) struct CronJobController {
    family: OwnerIndex,
}

impl Default for CronJobController {
    fn default() -> CronJobController {
        CronJobController { family: OwnerIndex::new(TABLE, &[JOBS]) }
    }
}

impl Controller for CronJobController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        // Jobs are never adopted.
        if &*event.table == JOBS && event.object.owners.is_empty() {
            return;
        }
        self.family.observe_owned(event, queue);
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(cron) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        if is_deleting(&cron) {
            return Ok(NextReconcile::Done);
        }
        let jobs = owned_children(cluster, JOBS, &cron, None)?;
        let mut book = CronJobSync { status: cron["status"].clone(), cron, jobs, cluster };
        book.close_finished()?;
        let next = book.start_due();
        if book.status != book.cron["status"] {
            let status = book.status.clone();
            cluster.update_status(TABLE, &item.key, MANAGER, |value| value["status"] = status.clone())?;
        }
        next
    }
}

struct CronJobSync<'a> {
    cron: Value,
    status: Value,
    jobs: Vec<Value>,
    cluster: &'a ClusterHandle,
}

/// `Complete` or `Failed`.
fn job_outcome(job: &Value) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|k| has_condition(job, k))
}

impl CronJobSync<'_> {
    fn record_event(&self, kind: &str, reason: &str, message: &str) {
        self.cluster.record_event(&self.cron, COMPONENT, kind, reason, message);
    }

    /// Removes finished and vanished jobs from the list of active ones, and trims the history.
    fn close_finished(&mut self) -> Result<()> {
        let mut active = list_at(&self.status, "/active").to_vec();
        for job in &self.jobs {
            let listed = active.iter().any(|r| r["uid"] == *uid_of(job));
            match job_outcome(job) {
                Some(how) if listed => {
                    active.retain(|r| r["uid"] != *uid_of(job));
                    let message = format!("Saw completed job: {}, condition: {how}", name_of(job));
                    self.record_event("Normal", "SawCompletedJob", &message);
                    if how == "Complete" {
                        self.status["lastSuccessfulTime"] = job["status"]["completionTime"].clone();
                    }
                }
                _ => {}
            }
        }
        active.retain(|r| self.jobs.iter().any(|j| r["uid"] == *uid_of(j)));
        self.set_active(active);
        for (kind, pointer, usual) in [
            ("Complete", "/spec/successfulJobsHistoryLimit", 3),
            ("Failed", "/spec/failedJobsHistoryLimit", 1),
        ] {
            let limit = usize::try_from(int_or(&self.cron, pointer, usual)).unwrap_or(usize::MAX);
            let mut old: Vec<&Value> =
                self.jobs.iter().filter(|j| job_outcome(j) == Some(kind) && !is_deleting(j)).collect();
            old.sort_by_key(|j| (text_at(j, "/status/startTime"), name_of(j)));
            let excess = old.len().saturating_sub(limit);
            for job in old.into_iter().take(excess) {
                delete_exactly(self.cluster, JOBS, job)?;
                self.record_event("Normal", "SuccessfulDelete", &format!("Deleted job {}", name_of(job)));
            }
        }
        Ok(())
    }

    fn set_active(&mut self, active: Vec<Value>) {
        if !active.is_empty() {
            self.status["active"] = active.into();
        } else if let Some(status) = self.status.as_object_mut() {
            status.shift_remove("active");
        }
    }

    /// Starts the job that is due, if one is, and returns the time of the next.
    fn start_due(&mut self) -> Result<NextReconcile> {
        if self.cron["spec"]["suspend"] == true {
            return Ok(NextReconcile::Done);
        }
        let schedule = match CronSchedule::parse(text_at(&self.cron, "/spec/schedule")) {
            Ok(schedule) => schedule,
            Err(why) => {
                self.record_event("Warning", "UnparseableSchedule", &why);
                return Ok(NextReconcile::Done);
            }
        };
        let zone = TimeZone::get(text_at(&self.cron, "/spec/timeZone")).unwrap_or(TimeZone::UTC);
        let now = self.cluster.now();
        let (due, next) = self.due_times(&schedule, &zone, now);
        let wait = next.map_or(NextReconcile::Done, |at| {
            let left = at.timestamp().duration_since(now);
            NextReconcile::Later(Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1))
        });
        let Some(due) = due else { return Ok(wait) };
        if let Some(limit) = self.cron["spec"]["startingDeadlineSeconds"].as_u64() {
            let late = Duration::try_from(now.duration_since(due.timestamp())).unwrap_or_default();
            if late > Duration::from_secs(limit) {
                let message = format!(
                    "Missed scheduled time to start a job: {}",
                    due.timestamp().strftime("%a, %d %b %Y %H:%M:%S +0000")
                );
                self.record_event("Warning", "MissSchedule", &message);
                return Ok(wait);
            }
        }
        let active = list_at(&self.status, "/active").to_vec();
        match text_at(&self.cron, "/spec/concurrencyPolicy") {
            "Forbid" if !active.is_empty() => {
                let message =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.record_event("Normal", "JobAlreadyActive", message);
                return Ok(wait);
            }
            "Replace" => {
                for job in self.jobs.iter().filter(|j| job_outcome(j).is_none()) {
                    delete_exactly(self.cluster, JOBS, job)?;
                    self.record_event("Normal", "SuccessfulDelete", &format!("Deleted job {}", name_of(job)));
                }
                self.set_active(vec![]);
            }
            _ => {}
        }
        self.start_job(&due)?;
        Ok(wait)
    }

    /// The last time that has come since the last run, and the next that will.
    fn due_times(
        &self,
        schedule: &CronSchedule,
        zone: &TimeZone,
        now: Timestamp,
    ) -> (Option<Zoned>, Option<Zoned>) {
        let parse = |pointer: &str| text_at(&self.cron, pointer).parse::<Timestamp>().ok();
        let last = text_at(&self.status, "/lastScheduleTime").parse::<Timestamp>().ok();
        let mut from = last.or_else(|| parse("/metadata/creationTimestamp")).unwrap_or(now);
        if let Some(limit) = self.cron["spec"]["startingDeadlineSeconds"].as_i64() {
            let earliest = now.checked_sub(jiff::SignedDuration::from_secs(limit.clamp(0, 1 << 40)));
            from = from.max(earliest.unwrap_or(from));
        }
        let mut at = from.to_zoned(zone.clone());
        let mut due = None;
        let mut missed = 0;
        loop {
            let Some(next) = schedule.next_after(&at) else { return (due, None) };
            if next.timestamp() > now {
                if missed > MANY {
                    let message = format!(
                        "too many missed start times: {missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                    );
                    self.record_event("Warning", "TooManyMissedTimes", &message);
                }
                return (due, Some(next));
            }
            missed += 1;
            at = next.clone();
            due = Some(next);
            if missed % MOST == 0 {
                let recent = now.checked_sub(jiff::SignedDuration::from_hours(24)).unwrap_or(now);
                at = at.max(recent.to_zoned(zone.clone()));
            }
        }
    }

    fn start_job(&mut self, due: &Zoned) -> Result<()> {
        let template = &self.cron["spec"]["jobTemplate"];
        let called = format!("{}-{}", name_of(&self.cron), due.timestamp().as_second() / 60);
        let mut meta = json!({"name": called, "ownerReferences": [owner_reference(&self.cron)]});
        for kind in ["labels", "annotations"] {
            if let Some(members) = template["metadata"].get(kind) {
                meta[kind] = members.clone();
            }
        }
        let shown = if due.offset() == jiff::tz::Offset::UTC {
            due.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
        } else {
            due.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        };
        meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] = shown.into();
        let job = json!({"metadata": meta, "spec": template["spec"]});
        match self.cluster.create(JOBS, namespace_of(&self.cron), job, MANAGER) {
            Ok(_) => self.record_event("Normal", "SuccessfulCreate", &format!("Created job {called}")),
            // Made before the sandbox was opened again.
            Err(status) if status.code == 409 => {}
            Err(status) => {
                self.record_event(
                    "Warning",
                    "FailedCreate",
                    &format!("Error creating job: {}", status.message),
                );
                return Err(status);
            }
        }
        if let Some(job) = self.cluster.get(JOBS, namespace_of(&self.cron), &called) {
            let mut active = list_at(&self.status, "/active").to_vec();
            active.push(job_reference(&job));
            self.set_active(active);
        }
        self.status["lastScheduleTime"] = crate::clock::rfc3339(due.timestamp()).into();
        Ok(())
    }
}

fn job_reference(job: &Value) -> Value {
    json!({
        "kind": "Job", "namespace": namespace_of(job), "name": name_of(job), "uid": uid_of(job),
        "apiVersion": "batch/v1", "resourceVersion": job["metadata"]["resourceVersion"],
    })
}

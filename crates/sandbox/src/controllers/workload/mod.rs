//! Simulated workload controllers, scheduler and kubelet.
//!
//! Nothing runs: pods become ready, finish or fail when the sandbox's clock says so, and the annotations
//! `sim/*` on a pod choose which. Every controller works from what the store holds, so a sandbox opened
//! again carries on where it was; only fractions of a second are kept in memory.

mod autoscale;
mod budget;
mod common;
mod cronjob;
mod daemonset;
mod deployment;
mod deployment_progress;
mod endpoints;
mod fault;
mod housekeeping;
mod job;
mod job_end;
mod job_indexes;
mod kubelet;
mod mirror;
mod node;
mod pod_report;
mod replicaset;
mod revision;
mod rollout;
mod scheduler;
mod statefulset;
mod status;
mod template_hash;
mod usage;
mod volume;

use super::Controller;

/// The controllers that bring workloads to life.
pub(crate) fn workload_controllers() -> Vec<Box<dyn Controller>> {
    vec![
        Box::<deployment::DeploymentController>::default(),
        Box::new(replicaset::ReplicaSetController::new(replicaset::ReplicaKind::ReplicaSet)),
        Box::new(replicaset::ReplicaSetController::new(replicaset::ReplicaKind::ReplicationController)),
        Box::<statefulset::StatefulSetController>::default(),
        Box::<daemonset::DaemonSetController>::default(),
        Box::<job::JobController>::default(),
        Box::<cronjob::CronJobController>::default(),
        Box::<scheduler::Scheduler>::default(),
        Box::<kubelet::Kubelet>::default(),
        Box::<endpoints::EndpointsController>::default(),
        Box::new(mirror::MirrorController),
        Box::new(volume::VolumeController),
        Box::<budget::DisruptionController>::default(),
        Box::new(autoscale::AutoscalerController),
        Box::<usage::QuotaController>::default(),
        Box::new(housekeeping::HousekeepingController),
    ]
}

//! Evidence in clusters: a revision says which unit it came from and when it was verified, for those who do not have the
//! ledger that tells it.

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_cluster::helm::{Release, ReleaseStorage, StorageDriver};

use crate::container::UnitFile;
use crate::error::UnitError;
use crate::evidence::AppliedUnit;
use crate::ledger::{ApplyStatus, UnitTarget};
use crate::plan::{UNIT_DIGEST, UNIT_ENV, UNIT_OVERLAY, UNIT_VERIFIED};

fn mark<'r>(release: &'r Release, key: &str) -> Option<&'r str> {
    release.info.annotations.get(key).and_then(Value::as_str)
}

/// The deployed revision, if it came from the unit.
async fn deployed_revision(
    storage: &ReleaseStorage,
    unit: &UnitFile,
    release: &str,
) -> Result<Option<Release>, UnitError> {
    let history = storage.read_history(release).await?;
    let deployed = history.last_deployed().filter(|last| mark(last, UNIT_DIGEST) == Some(unit.digest()));
    Ok(deployed.cloned())
}

/// Writes to the deployed revision of a unit that it was verified at a time, or takes that back.
pub async fn mark_verification(
    cluster: &Cluster,
    target: &UnitTarget,
    unit: &UnitFile,
    driver: StorageDriver,
    verified: Option<Timestamp>,
) -> Result<(), UnitError> {
    let storage = ReleaseStorage::new(cluster.clone(), driver, target.namespace.as_str());
    let Some(mut release) = deployed_revision(&storage, unit, &target.release).await? else { return Ok(()) };
    match verified {
        Some(at) => drop(release.info.annotations.insert(UNIT_VERIFIED.to_owned(), at.to_string().into())),
        None if release.info.annotations.shift_remove(UNIT_VERIFIED).is_none() => return Ok(()),
        None => {}
    }
    Ok(storage.update(&release).await?)
}

/// The apply a cluster tells of: none unless the target runs the unit and it was verified there.
pub async fn find_deployed_evidence(
    cluster: &Cluster,
    target: &UnitTarget,
    unit: &UnitFile,
    driver: StorageDriver,
) -> Result<Option<AppliedUnit>, UnitError> {
    let storage = ReleaseStorage::new(cluster.clone(), driver, target.namespace.as_str());
    let Some(release) = deployed_revision(&storage, unit, &target.release).await? else { return Ok(None) };
    let (env, verified) = (mark(&release, UNIT_ENV), mark(&release, UNIT_VERIFIED));
    let Some(verified) = verified.filter(|_| env == target.env.as_deref()) else { return Ok(None) };
    Ok(Some(AppliedUnit {
        apply_id: format!("revision {} in {target}", release.version),
        target: target.clone(),
        started_at: verified.to_owned(),
        ended_at: Some(verified.to_owned()),
        status: ApplyStatus::Succeeded,
        revision: Some(release.version.into()),
        overlay: mark(&release, UNIT_OVERLAY).map(str::to_owned),
        verified: Some(true),
        rolled_back: false,
    }))
}

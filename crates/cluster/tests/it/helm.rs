//! Stored releases.

use slipway_cluster::ErrorClass;
use slipway_cluster::helm::{Release, ReleaseStorage, RevisionStatus, StorageDriver, StorageScope};

use crate::world::{at, bare};

fn release(name: &str, version: u32, status: RevisionStatus) -> Release {
    let mut release =
        Release { name: name.into(), namespace: "default".into(), version, ..Release::default() };
    release.info.status = status;
    release.chart.metadata.insert("name".into(), "chart".into());
    release.chart.metadata.insert("version".into(), "1.0.0".into());
    release
}

#[tokio::test]
async fn revisions_are_kept_under_helms_names() {
    let (_sandbox, cluster) = bare();
    for (driver, kind) in [(StorageDriver::Secret, "Secret"), (StorageDriver::ConfigMap, "ConfigMap")] {
        let storage = ReleaseStorage::new(cluster.clone(), driver, "default");
        let mut first = release("web", 1, RevisionStatus::PendingInstall);
        first.labels.insert("team".into(), "shop".into());
        storage.create(&first).await.unwrap();
        let again = storage.create(&first).await.unwrap_err();
        assert_eq!(again.class, ErrorClass::AlreadyExists);
        first.info.status = RevisionStatus::Deployed;
        storage.update(&first).await.unwrap();
        storage.create(&release("web", 2, RevisionStatus::Failed)).await.unwrap();
        storage.create(&release("other", 7, RevisionStatus::Deployed)).await.unwrap();

        let stored = cluster.get(&at("v1", kind, "sh.helm.release.v1.web.v1")).await.unwrap().unwrap();
        let labels = &stored["metadata"]["labels"];
        assert_eq!(
            (&labels["owner"], &labels["status"], &labels["version"]),
            (&"helm".into(), &"deployed".into(), &"1".into())
        );
        assert!(labels["modifiedAt"].is_string() && labels.get("createdAt").is_none());
        if driver == StorageDriver::Secret {
            assert_eq!(stored["type"], "helm.sh/release.v1");
        }

        let history = storage.read_history("web").await.unwrap();
        let read: Vec<_> = history.releases.iter().map(|r| (r.version, r.info.status)).collect();
        assert_eq!(read, [(1, RevisionStatus::Deployed), (2, RevisionStatus::Failed)]);
        assert_eq!(history.releases[0], first);
        assert_eq!((history.last_revision(), history.last_deployed().map(|r| r.version)), (2, Some(1)));
        assert_eq!(storage.read_revision("web", 2).await.unwrap().unwrap().version, 2);
        assert!(storage.read_revision("web", 9).await.unwrap().is_none());

        let all = storage.list_all(StorageScope::Everywhere).await.unwrap();
        let names: Vec<_> = all.iter().map(|s| (s.name.as_str(), s.revision, s.status)).collect();
        assert_eq!(
            names,
            [
                ("other", 7, RevisionStatus::Deployed),
                ("web", 1, RevisionStatus::Deployed),
                ("web", 2, RevisionStatus::Failed)
            ]
        );
        let latest = storage.latest_revisions(StorageScope::Namespace).await.unwrap();
        assert_eq!(latest.len(), 2);
        assert_eq!(latest[1].1.as_ref().unwrap().version, 2);

        assert_eq!(storage.prune_history("web", 2).await.unwrap(), [2], "the deployed one stays");
        assert_eq!(storage.read_history("web").await.unwrap().last_revision(), 1);
    }
}

#[tokio::test]
async fn what_cannot_be_stored_or_read_is_told() {
    let (_sandbox, cluster) = bare();
    let storage = ReleaseStorage::new(cluster.clone(), StorageDriver::Secret, "default");
    let mut reserved = release("web", 1, RevisionStatus::Deployed);
    reserved.labels.insert("owner".into(), "me".into());
    assert!(storage.create(&reserved).await.unwrap_err().message.contains("`owner`"));
    let mut huge = release("web", 1, RevisionStatus::Deployed);
    // Text that does not compress.
    let mut seed = 1_u64;
    huge.manifest = (0..1_500_000)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            char::from(33 + (seed >> 58) as u8)
        })
        .collect();
    let error = storage.create(&huge).await.unwrap_err();
    assert!(error.class == ErrorClass::Invalid && error.message.contains("too large"), "{error}");

    storage.create(&release("web", 3, RevisionStatus::Deployed)).await.unwrap();
    let place = at("v1", "Secret", "sh.helm.release.v1.web.v3");
    let broken =
        slipway_cluster::ObjectPatch::Merge(serde_json::json!({"data": {"release": "bm9uc2Vuc2U="}}));
    cluster.patch(&place, &broken, &slipway_cluster::WriteOptions::default(), None).await.unwrap();
    let history = storage.read_history("web").await.unwrap();
    assert!(history.releases.is_empty());
    assert_eq!((history.damaged[0].revision, history.last_revision()), (3, 3));
}

/// Two revisions as Helm 3.17.3 stored them: `helm install demo`, `helm upgrade demo`.
const RECORDED: &str = include_str!("data/helm-3.17.3.json");

#[tokio::test]
async fn what_helm_stored_is_read_to_the_letter() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use std::io::Read;

    let (_sandbox, cluster) = bare();
    let recorded: Vec<serde_json::Value> = serde_json::from_str(RECORDED).unwrap();
    for secret in &recorded {
        let place = at("v1", "Secret", secret["metadata"]["name"].as_str().unwrap());
        cluster.create(&place, secret, &slipway_cluster::WriteOptions::default()).await.unwrap();
    }
    let storage = ReleaseStorage::new(cluster, StorageDriver::Secret, "default");
    let history = storage.read_history("demo").await.unwrap();
    let read: Vec<_> = history.releases.iter().map(|r| (r.version, r.info.status)).collect();
    assert_eq!(read, [(1, RevisionStatus::Superseded), (2, RevisionStatus::Deployed)]);
    for (release, secret) in history.releases.iter().zip(&recorded) {
        let text = STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap();
        let packed = STANDARD.decode(&text).unwrap();
        let mut json = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut json).unwrap();
        assert_eq!(serde_json::to_string(release).unwrap(), json, "written as Helm writes it");
        assert_eq!(release.hooks[0].weight, -5);
        assert_eq!(release.chart.version(), "0.3.1");
    }
}

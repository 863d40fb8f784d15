//! Stores a release for Helm to read: `store KUBECONFIG NAME REVISION STATUS`.
//!
//! For checks by hand: `helm list`, `helm history NAME`, `helm get all NAME`, `helm rollback NAME 1`.

use slipway_cluster::connect::{ConnectOptions, connect};
use slipway_cluster::helm::{HelmTime, Release, ReleaseStorage, RevisionStatus, StorageDriver};

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, name, revision, status] = arguments.as_slice() else {
        return Err("usage: store KUBECONFIG NAME REVISION STATUS".into());
    };
    let options = ConnectOptions { kubeconfig: vec![kubeconfig.into()], ..ConnectOptions::default() };
    let cluster = connect(&options).await?;
    let now = HelmTime::from(jiff::Timestamp::now());
    let mut release = Release {
        name: name.clone(),
        namespace: cluster.default_namespace().to_owned(),
        version: revision.parse()?,
        manifest: format!(
            "---\n# Source: demo/templates/cm.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  revision: \"{revision}\"\n"
        ),
        apply_method: "ssa".into(),
        ..Release::default()
    };
    release.info.status = RevisionStatus::from(status.as_str());
    release.info.description = "Install complete".into();
    (release.info.first_deployed, release.info.last_deployed) = (now.clone(), now);
    for (key, value) in [("name", "demo"), ("version", "0.1.0"), ("apiVersion", "v2"), ("appVersion", "1")] {
        release.chart.metadata.insert(key.into(), value.into());
    }
    release.chart.drop_file_contents();
    ReleaseStorage::new(cluster, StorageDriver::Secret, &release.namespace).create(&release).await?;
    Ok(())
}

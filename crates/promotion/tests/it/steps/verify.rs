//! Signatures of images, and Jobs that test an environment.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::StepState;

use super::world::{World, ended};

fn digest_of(content: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(content)))
}

/// A key, and its public half as cosign writes it.
struct Signer {
    key: EcdsaKeyPair,
    pem: String,
}

impl Signer {
    fn new() -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        // SubjectPublicKeyInfo of a P-256 key: a fixed head, then the point.
        let mut der = HEXLOWER.decode(b"3059301306072a8648ce3d020106082a8648ce3d030107034200").unwrap();
        der.extend(key.public_key().as_ref());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", BASE64.encode(&der));
        Self { key, pem }
    }

    fn sign(&self, message: &[u8]) -> String {
        BASE64.encode(self.key.sign(&SystemRandom::new(), message).unwrap().as_ref())
    }
}

/// A registry with one signed image.
async fn registry(signer: &Signer, signed: &str, payload_digest: &str) -> String {
    let payload = json!({"critical": {"identity": {"docker-reference": "acme/app"},
        "image": {"docker-manifest-digest": payload_digest}, "type": "cosign container image signature"}, "optional": null})
    .to_string();
    let manifest = json!({"schemaVersion": 2, "layers": [{"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
        "digest": digest_of(payload.as_bytes()), "size": payload.len(),
        "annotations": {"dev.cosignproject.cosign/signature": signer.sign(payload.as_bytes())}}]});
    let mut contents = BTreeMap::new();
    contents.insert(format!("/v2/acme/app/manifests/{}.sig", signed.replace(':', "-")), manifest.to_string());
    contents.insert(format!("/v2/acme/app/blobs/{}", digest_of(payload.as_bytes())), payload);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let contents = Arc::new(contents);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let contents = contents.clone();
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let found = contents.get(request.uri().path()).cloned();
                async move {
                    let status = if found.is_some() { 200 } else { 404 };
                    let body = Full::new(Bytes::from(found.unwrap_or_default()));
                    Ok::<_, std::convert::Infallible>(
                        hyper::Response::builder().status(status).body(body).unwrap(),
                    )
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    host
}

async fn verify(
    signer: &Signer,
    trusted: &Signer,
    digest: Option<&str>,
    payload_digest: &str,
) -> (StepState, String) {
    let mut world = World::new().await;
    let signed = digest_of(b"image");
    let host = registry(signer, &signed, payload_digest).await;
    world.options.outbound.plain_registries.insert(host.clone());
    world.restart();
    world.secret("cosign", &[("cosign.pub", &trusted.pem)]).await;
    let mut image = json!({"name": "app", "reference": format!("{host}/acme/app:1.29.0")});
    if let Some(digest) = digest {
        image["digest"] = json!(digest);
    }
    world
        .bundle_with("b", json!({"type": "image", "pipeline": "app", "artifacts": {"images": [image]}}))
        .await;
    let mut spec = world.spec("b", "dev");
    spec["steps"] = json!([{"uses": "verify-image", "config": {"publicKeySecretRef": "cosign"}}, {"uses": "health-check"}]);
    let step = world.step("b-dev", spec).await;
    let done = world.settle(&step).await;
    let (state, reason) = ended(&done);
    (state, reason.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_image_signed_with_the_key_is_promoted() {
    let (ours, other) = (Signer::new(), Signer::new());
    let image = digest_of(b"image");
    let unsigned = digest_of(b"another image");
    let refused = (StepState::Failed, "SignatureInvalid".to_owned());
    assert_eq!(verify(&ours, &ours, Some(&image), &image).await, (StepState::Verified, String::new()));
    assert_eq!(verify(&other, &ours, Some(&image), &image).await, refused, "another key");
    assert_eq!(verify(&ours, &ours, Some(&unsigned), &image).await, refused, "no signature");
    assert_eq!(verify(&ours, &ours, Some(&image), &unsigned).await, refused, "a signature of another image");
    assert_eq!(verify(&ours, &ours, None, &image).await, refused, "a tag alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_integration_test_is_one_job_whose_end_counts() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dev"}})).await;
    for (name, condition, expected) in [
        ("passes", "Complete", (StepState::Verified, "")),
        ("fails", "Failed", (StepState::Failed, "IntegrationTestFailed")),
    ] {
        let mut spec = world.spec("app-1", "dev");
        spec["pipeline"] = json!(name);
        spec["steps"] = json!([{"uses": "integration-test", "config": {"image": "tests:1", "command": ["run"], "env": {"SUITE": "smoke"}}},
            {"uses": "health-check"}]);
        let step = world.step(name, spec).await;
        world.reconcile(&step).await;
        world.reconcile(&step).await;
        let kind = world.cluster.find_kind(&Gvk::new("batch", "v1", "Job")).await.unwrap().unwrap();
        let jobs = world.cluster.list(&kind, Some("dev"), &Default::default()).await.unwrap().items;
        let ours = |job: &&Value| job["metadata"]["labels"]["kardinal.io/pipeline"] == name;
        let jobs: Vec<&Value> = jobs.iter().filter(ours).collect();
        assert_eq!(jobs.len(), 1);
        let job = jobs[0];
        assert_eq!(job["spec"]["backoffLimit"], 0);
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 1_800);
        let env = job["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
        assert!(env.contains("1.29.0") && env.contains("SUITE"), "{env}");
        let at = ObjectRef::of(job);
        let now = world.now();
        let mut conditions = vec![
            json!({"type": condition, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}),
        ];
        let target = if condition == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
        conditions.insert(
            0,
            json!({"type": target, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}),
        );
        let mut status = json!({"startTime": now, "conditions": conditions});
        if condition == "Complete" {
            status["completionTime"] = json!(now);
        }
        world.patch_status(at, status).await;
        world.clock.advance(std::time::Duration::from_secs(15));
        assert_eq!(ended(&world.settle(&step).await), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_are_written_only_where_that_is_allowed() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "dev");
    spec["update"] = json!({"strategy": "argocd"});
    let step = world.step("app-1-dev", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "ArgoCDWritesDenied"));
}

//! Many who push to one branch.

use std::sync::Arc;

use serde_json::json;
use slipway_promotion::kinds::StepState;

use super::world::{KUSTOMIZATION, World};
use crate::forge::git;

#[tokio::test(flavor = "multi_thread")]
async fn ten_pipelines_and_a_person_push_to_one_branch() {
    let files: Vec<(String, String)> = (0..10)
        .map(|number| (format!("apps/{number}/kustomization.yaml"), KUSTOMIZATION.to_owned()))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let world = Arc::new(World::with_files(&files).await);
    let mut steps = Vec::new();
    for number in 0..10 {
        let bundle = format!("bundle-{number}");
        world.bundle(&bundle, "1.29.0").await;
        let mut spec = world.spec(&bundle, "dev");
        spec["pipeline"] = json!(format!("app-{number}"));
        spec["path"] = json!(format!("apps/{number}"));
        steps.push(world.step(&format!("app-{number}"), spec).await);
    }
    let person = {
        let world = world.clone();
        tokio::task::spawn_blocking(move || {
            for round in 0..3 {
                world.forge.person("main", &format!("by hand {round}"), &[("README", &format!("{round}\n"))]);
            }
        })
    };
    let runs = steps.iter().map(|step| {
        let (world, step) = (world.clone(), step.clone());
        tokio::spawn(async move { world.until(&step, StepState::Verified).await })
    });
    for run in futures::future::join_all(runs).await {
        run.expect("the step is verified");
    }
    person.await.expect("a person could push");
    let subjects = world.forge.subjects("main");
    assert_eq!(
        subjects.iter().filter(|subject| subject.starts_with("[kardinal]")).count(),
        10,
        "{subjects:?}"
    );
    assert_eq!(subjects.iter().filter(|subject| subject.starts_with("by hand")).count(), 3);
    assert_eq!(git(&world.forge.repository(), &["rev-list", "--count", "--merges", "main"]).unwrap(), "0");
    for number in 0..10 {
        let text = world.forge.file("main", &format!("apps/{number}/kustomization.yaml")).unwrap();
        assert!(text.contains("1.29.0"), "{number}: {text}");
    }
}

//! Objects in files: every problem at once, each with its line.

use slipway_promotion::act::{read_config, scaffold_files};
use slipway_promotion::files::PromotionFiles;

fn problems(text: &str) -> String {
    PromotionFiles::default().read(text, "app.yaml").expect_err("is wrong").to_string()
}

#[test]
fn every_problem_of_a_pipeline_is_told_with_its_line() {
    let text = "apiVersion: kardinal.io/v1alpha1
kind: Pipeline
metadata: {name: app}
spec:
  git: {url: ftp://nowhere, provder: github}
  environments:
  - {name: dev, approval: maybe}
  - {name: prod, dependsOn: [stagin]}
  - {name: staging, path: ../elsewhere, steps: [{uses: deploy-it}]}
  historyLimit: many
---
apiVersion: kardinal.io/v1alpha1
kind: PolicyGate
metadata: {name: g}
spec:
  expression: bundle.versio == 'x' &&
---
apiVersion: kardinal.io/v1alpha1
kind: Pipelin
metadata: {name: x}
---
just: text
";
    insta::assert_snapshot!(problems(text));
}

#[test]
fn problems_of_a_pipeline_that_can_be_read_have_their_field() {
    let text = "apiVersion: kardinal.io/v1alpha1
kind: Pipeline
metadata: {name: app}
spec:
  git: {url: https://git.example/app}
  environments:
  - {name: dev, dependsOn: [prod]}
  - {name: prod, dependsOn: [dev]}
  - {name: staging, path: ../elsewhere, steps: [{uses: deploy-it}], regions: [eu]}
";
    insta::assert_snapshot!(problems(text));
}

#[test]
fn the_few_lines_become_the_documented_pipeline() {
    let text = "app: my-app
image: ghcr.io/myorg/my-app
git:
  url: https://github.com/myorg/gitops-repo
  secret: github-token
environments: [dev, staging, prod]
prodApproval: pr-review
";
    let config = read_config(text, "slipway.yaml").expect("is read");
    let pipeline = config.pipeline("default");
    insta::assert_json_snapshot!(pipeline.manifest().expect("is written"));
    let files = scaffold_files(&pipeline, &config.image);
    let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let environments =
        ["dev", "staging", "prod"].map(|name| format!("environments/{name}/kustomization.yaml"));
    assert_eq!(names[..3], environments);
    assert_eq!(names[3..], ["base/kustomization.yaml", "base/deployment.yaml"]);
}

#[test]
fn wrong_lines_are_told_all_at_once() {
    let text = "app: My App
imgae: x
git:
  url: nowhere
  provider: githib
environments: [dev, PROD]
prodApproval: sometimes
";
    let problems = read_config(text, "slipway.yaml").expect_err("is wrong").to_string();
    insta::assert_snapshot!(problems);
}

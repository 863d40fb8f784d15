//! A Pipeline made from a few lines, and the directories it works on.

use slipway_problem::{Problem, Problems};
use slipway_yaml::{FieldReader, YamlNode};

use crate::kinds::{
    ApprovalMode, EnvironmentSpec, GitSpec, Metadata, Pipeline, PipelineSpec, ScmProvider, SecretRef,
    UpdateSpec, UpdateStrategy,
};

/// The few lines: `app`, `image`, `git`, `environments`, `prodApproval`, `strategy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineConfig {
    pub app: String,
    pub image: String,
    pub git_url: String,
    pub git_secret: Option<String>,
    pub git_branch: Option<String>,
    /// The server of pull requests; told by the host of `git_url` when absent.
    pub provider: Option<ScmProvider>,
    pub environments: Vec<String>,
    /// The approval of the last environment; the others need none.
    pub prod_approval: ApprovalMode,
    pub strategy: UpdateStrategy,
}

/// Reads the few lines; returns every problem at once.
pub fn read_config(text: &str, file: &str) -> Result<PipelineConfig, Problems> {
    let node = slipway_yaml::parse_one(text, file)?;
    let mut problems = Problems::new();
    let mut config = PipelineConfig { prod_approval: ApprovalMode::PrReview, ..PipelineConfig::default() };
    let mut fields = FieldReader::new(&node, &mut problems);
    config.app = fields.required_str("app").to_owned();
    config.image = fields.required_str("image").to_owned();
    if let Some(node) = fields.required("git") {
        let mut inner = Problems::new();
        let mut git = FieldReader::new(node, &mut inner);
        config.git_url = git.required_str("url").to_owned();
        config.git_secret = git.string("secret");
        config.git_branch = git.string("branch");
        config.provider = git.one_of("provider", &PROVIDERS);
        git.finish();
        fields.problems().extend(inner);
    }
    config.environments = fields.strings("environments");
    if config.environments.is_empty() {
        fields.report_problem("environments", "`environments` names at least one environment");
    }
    let approvals = [("auto", ApprovalMode::Auto), ("pr-review", ApprovalMode::PrReview)];
    if let Some(approval) = fields.one_of("prodApproval", &approvals) {
        config.prod_approval = approval;
    }
    let strategies = [("kustomize", UpdateStrategy::Kustomize), ("helm", UpdateStrategy::Helm)];
    if let Some(strategy) = fields.one_of("strategy", &strategies) {
        config.strategy = strategy;
    }
    fields.finish();
    check(&config, &node, &mut problems);
    problems.into_result(config)
}

const PROVIDERS: [(&str, ScmProvider); 7] = [
    ("github", ScmProvider::GitHub),
    ("gitlab", ScmProvider::GitLab),
    ("gitea", ScmProvider::Gitea),
    ("forgejo", ScmProvider::Forgejo),
    ("bitbucket", ScmProvider::Bitbucket),
    ("azuredevops", ScmProvider::AzureDevOps),
    ("none", ScmProvider::None),
];

fn check(config: &PipelineConfig, node: &YamlNode, problems: &mut Problems) {
    let mut say = |path: &[&str], message: String, hint: &str| {
        let at = node.node_at(path.iter().copied()).unwrap_or(node);
        problems.push(at.problem(message).hint(hint));
    };
    if !config.app.is_empty() && !is_label(&config.app, 63) {
        say(
            &["app"],
            format!("`{}` cannot name a Pipeline", config.app),
            "lower-case letters, digits and dashes, such as `my-app`",
        );
    }
    let schemes = ["https://", "http://", "ssh://", "git@", "file://"];
    if !config.git_url.is_empty() && !schemes.iter().any(|scheme| config.git_url.starts_with(scheme)) {
        say(
            &["git", "url"],
            format!("`{}` is no address of a repository", config.git_url),
            "such as `https://github.com/myorg/gitops-repo`",
        );
    }
    for (index, name) in config.environments.iter().enumerate() {
        let index = index.to_string();
        if !is_label(name, 40) {
            say(
                &["environments", &index],
                format!("`{name}` cannot name an environment"),
                "lower-case letters, digits and dashes, at most 40",
            );
        }
    }
}

fn is_label(text: &str, longest: usize) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= longest
        && text.chars().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl PipelineConfig {
    /// Checks answers a person gave, which stand in no file.
    pub fn check_answers(&self) -> Result<(), Problems> {
        let mut problems = Problems::new();
        let mut say = |holds: bool, message: String| {
            if !holds {
                problems.push(Problem::error(message));
            }
        };
        say(is_label(&self.app, 63), format!("`{}` cannot name a Pipeline", self.app));
        say(!self.git_url.is_empty(), "the repository has no address".to_owned());
        say(!self.environments.is_empty(), "there are no environments".to_owned());
        for name in &self.environments {
            say(is_label(name, 40), format!("`{name}` cannot name an environment"));
        }
        problems.into_result(())
    }

    /// The Pipeline: each environment after the one before, the last with its approval.
    pub fn pipeline(&self, namespace: &str) -> Pipeline {
        let host = self.git_url.split("://").nth(1).unwrap_or(&self.git_url);
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let guessed = match host.split(['/', ':']).next().unwrap_or_default() {
            host if host.contains("gitlab") => ScmProvider::GitLab,
            host if host.contains("gitea") || host.contains("codeberg") => ScmProvider::Gitea,
            host if host.contains("bitbucket") => ScmProvider::Bitbucket,
            host if host.contains("azure") || host.contains("visualstudio") => ScmProvider::AzureDevOps,
            _ if self.git_url.starts_with("file://") => ScmProvider::None,
            _ => ScmProvider::GitHub,
        };
        let git = GitSpec {
            url: self.git_url.clone(),
            branch: self.git_branch.clone().unwrap_or_else(|| "main".to_owned()),
            provider: self.provider.unwrap_or(guessed),
            secret_ref: self.git_secret.as_ref().map(SecretRef::named),
            branch_prefix: "env/".to_owned(),
            ..GitSpec::default()
        };
        let last = self.environments.len().saturating_sub(1);
        let environment = |(index, name): (usize, &String)| EnvironmentSpec {
            name: name.clone(),
            path: Some(format!("environments/{name}")),
            update: Some(UpdateSpec { strategy: self.strategy, ..UpdateSpec::default() }),
            approval: if index == last { self.prod_approval } else { ApprovalMode::Auto },
            ..EnvironmentSpec::default()
        };
        let environments = self.environments.iter().enumerate().map(environment).collect();
        let spec = PipelineSpec { git, environments, history_limit: 20, ..PipelineSpec::default() };
        Pipeline::new(Metadata::named(namespace, self.app.clone()), spec)
    }
}

/// A file of a GitOps repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaffoldedFile {
    pub path: String,
    pub content: String,
}

/// The files a Pipeline needs in its repository: a kustomization or values a environment, and one Deployment for all.
pub fn scaffold_files(pipeline: &Pipeline, image: &str) -> Vec<ScaffoldedFile> {
    let app = pipeline.name();
    let mut files = Vec::new();
    let mut file = |path: String, content: String| files.push(ScaffoldedFile { path, content });
    for environment in &pipeline.spec.environments {
        let name = &environment.name;
        let path = environment.path.clone().unwrap_or_else(|| format!("environments/{name}"));
        let update = environment.update.clone().unwrap_or_default();
        match update.strategy {
            UpdateStrategy::Helm => {
                let values = update.helm.unwrap_or_default().values_file;
                file(format!("{path}/{values}"), format!("image:\n  repository: {image}\n  tag: \"0\"\n"));
            }
            _ => {
                let depth = "../".repeat(path.split('/').count());
                file(
                    format!("{path}/kustomization.yaml"),
                    format!(
                        "namespace: {name}\nresources:\n- {depth}base\nimages:\n- name: {image}\n  newTag: \"0\"\n"
                    ),
                );
            }
        }
    }
    file("base/kustomization.yaml".to_owned(), "resources:\n- deployment.yaml\n".to_owned());
    file(
        "base/deployment.yaml".to_owned(),
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {app}\nspec:\n  replicas: 1\n  selector:\n    \
             matchLabels:\n      app: {app}\n  template:\n    metadata:\n      labels:\n        app: {app}\n    spec:\n      \
             containers:\n      - name: {app}\n        image: {image}\n"
        ),
    );
    files
}

//! What a delivery is about.

use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{WebhookError, WebhookHeaders};
use crate::remote::ProviderKind;

/// What a delivery is about: what to look at, and never what is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookEvent {
    /// A test of the connection.
    Ping,
    /// A pull request was opened, changed, closed or merged.
    PullRequest { repository: String, number: u64 },
    /// Somebody has reviewed a pull request.
    Review { repository: String, number: u64 },
    /// Something nobody here waits for.
    Other,
}

#[derive(Deserialize)]
struct HubBody {
    repository: HubRepository,
    pull_request: HubPull,
}

#[derive(Deserialize)]
struct HubRepository {
    full_name: String,
}

#[derive(Deserialize)]
struct HubPull {
    number: u64,
}

#[derive(Deserialize)]
struct GitLabBody {
    project: GitLabProject,
    object_attributes: GitLabAttributes,
}

#[derive(Deserialize)]
struct GitLabProject {
    path_with_namespace: String,
}

#[derive(Deserialize)]
struct GitLabAttributes {
    iid: u64,
    #[serde(default)]
    action: Option<String>,
}

#[derive(Deserialize)]
struct BitbucketBody {
    repository: HubRepository,
    pullrequest: BitbucketPull,
}

#[derive(Deserialize)]
struct BitbucketPull {
    id: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureBody {
    #[serde(default)]
    id: Option<String>,
    event_type: String,
    #[serde(default)]
    resource: Option<AzureResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureResource {
    #[serde(default)]
    pull_request_id: Option<u64>,
    #[serde(default)]
    repository: Option<AzureRepository>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureRepository {
    name: String,
    remote_url: String,
    project: AzureProject,
}

#[derive(Deserialize)]
struct AzureProject {
    name: String,
}

/// Reads a delivery that is true.
pub(super) fn parse(
    kind: ProviderKind,
    headers: &WebhookHeaders,
    body: &[u8],
) -> Result<WebhookEvent, WebhookError> {
    match kind {
        ProviderKind::GitHub => parse_hub(headers.get("x-github-event"), body),
        ProviderKind::Gitea => {
            parse_hub(headers.get("x-gitea-event").or_else(|| headers.get("x-forgejo-event")), body)
        }
        ProviderKind::GitLab => parse_gitlab(headers.get("x-gitlab-event"), body),
        ProviderKind::Bitbucket => parse_bitbucket(headers.get("x-event-key"), body),
        ProviderKind::AzureDevOps => parse_azure(body),
        ProviderKind::None => Err(WebhookError::Unsupported { provider: kind }),
    }
}

/// The id of a delivery; the hash of its body where the server gives none.
pub(super) fn delivery_id(kind: ProviderKind, headers: &WebhookHeaders, body: &[u8]) -> String {
    let names: &[&str] = match kind {
        ProviderKind::GitHub => &["x-github-delivery"],
        ProviderKind::Gitea => &["x-gitea-delivery", "x-forgejo-delivery", "x-github-delivery"],
        ProviderKind::GitLab => &["webhook-id", "idempotency-key", "x-gitlab-event-uuid"],
        ProviderKind::Bitbucket => &["x-request-uuid"],
        ProviderKind::AzureDevOps | ProviderKind::None => &[],
    };
    let header = names.iter().find_map(|name| headers.get(name)).map(str::to_owned);
    let own = || match kind {
        ProviderKind::AzureDevOps => serde_json::from_slice::<AzureBody>(body).ok()?.id,
        _ => None,
    };
    // Headers are not signed: the body belongs to the id, so that nobody can use up the id of another delivery.
    let hash = HEXLOWER.encode(&Sha256::digest(body));
    let id: String = header.or_else(own).unwrap_or_default().chars().take(100).collect();
    format!("{kind:?}/{id}/{hash}")
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, WebhookError> {
    serde_json::from_slice(body).map_err(|_| WebhookError::Malformed)
}

fn parse_hub(event: Option<&str>, body: &[u8]) -> Result<WebhookEvent, WebhookError> {
    let event = event.ok_or(WebhookError::Malformed)?;
    if event == "ping" {
        return Ok(WebhookEvent::Ping);
    }
    let is_review = event.starts_with("pull_request_review")
        || matches!(event, "pull_request_approved" | "pull_request_rejected" | "pull_request_comment");
    if !is_review && !matches!(event, "pull_request" | "pull_request_sync" | "pull_request_label") {
        return Ok(WebhookEvent::Other);
    }
    let HubBody { repository, pull_request } = read(body)?;
    let (repository, number) = (repository.full_name, pull_request.number);
    Ok(if is_review {
        WebhookEvent::Review { repository, number }
    } else {
        WebhookEvent::PullRequest { repository, number }
    })
}

fn parse_gitlab(event: Option<&str>, body: &[u8]) -> Result<WebhookEvent, WebhookError> {
    if event.ok_or(WebhookError::Malformed)? != "Merge Request Hook" {
        return Ok(WebhookEvent::Other);
    }
    let GitLabBody { project, object_attributes } = read(body)?;
    let (repository, number) = (project.path_with_namespace, object_attributes.iid);
    Ok(match object_attributes.action.as_deref() {
        Some("approved" | "unapproved" | "approval" | "unapproval") => {
            WebhookEvent::Review { repository, number }
        }
        _ => WebhookEvent::PullRequest { repository, number },
    })
}

fn parse_bitbucket(event: Option<&str>, body: &[u8]) -> Result<WebhookEvent, WebhookError> {
    let event = event.ok_or(WebhookError::Malformed)?;
    if event == "diagnostics:ping" {
        return Ok(WebhookEvent::Ping);
    }
    let Some(action) = event.strip_prefix("pullrequest:") else { return Ok(WebhookEvent::Other) };
    let BitbucketBody { repository, pullrequest } = read(body)?;
    let (repository, number) = (repository.full_name, pullrequest.id);
    Ok(match action {
        "approved" | "unapproved" | "changes_request_created" | "changes_request_removed" => {
            WebhookEvent::Review { repository, number }
        }
        _ => WebhookEvent::PullRequest { repository, number },
    })
}

fn parse_azure(body: &[u8]) -> Result<WebhookEvent, WebhookError> {
    let AzureBody { event_type, resource, .. } = read(body)?;
    if !event_type.starts_with("git.pullrequest.") {
        return Ok(WebhookEvent::Other);
    }
    let resource = resource.ok_or(WebhookError::Malformed)?;
    let (Some(number), Some(repository)) = (resource.pull_request_id, resource.repository) else {
        return Err(WebhookError::Malformed);
    };
    let organisation = organisation_of(&repository.remote_url).ok_or(WebhookError::Malformed)?;
    let repository = format!("{organisation}/{}/{}", repository.project.name, repository.name);
    // One event type stands for votes and for every other change.
    Ok(WebhookEvent::PullRequest { repository, number })
}

/// The organisation in the address of a repository.
fn organisation_of(address: &str) -> Option<String> {
    let url = url::Url::parse(address).ok()?;
    let host = url.host_str()?;
    match host.strip_suffix(".visualstudio.com") {
        Some(organisation) => Some(organisation.to_owned()),
        None => url.path_segments()?.next().map(str::to_owned),
    }
}

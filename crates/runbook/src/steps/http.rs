//! `http`: waits until an address answers as expected. An extension of khook's format.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_http::{
    ClientOptions, HttpClient, HttpError, HttpRequest, Method, NetworkLimits, NetworkOptions,
};
use slipway_problem::Problem;
use slipway_source::shown_address;

use super::{StepAction, StepFuture, StepOutcome, StepType};
use crate::context::{RunTarget, StepContext};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::error::{AttemptError, ErrorKind};
use crate::files;
use crate::inputs::StepInputs;
use crate::model::{Action, Step};
use crate::plan::look::PlanRequest;
use crate::plan::{StepPreview, StepVerb};
use crate::references::{self, StepResolver};
use crate::schema::{ADDRESS, described, filled, like, object, or_reference};

/// The pause between two requests, unless the step names one.
const INTERVAL: Duration = Duration::from_secs(2);
/// The time limit of one request, unless the step names one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The most of an answer that is searched for a text.
const LARGEST_ANSWER: usize = 1 << 20;
const STATUSES: std::ops::RangeInclusive<i64> = 100..=599;

/// The settings of an `http` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    pub url: String,
    /// The expected status; any success if absent.
    pub status: Option<u16>,
    /// A text the answer must hold.
    pub contains: Option<String>,
    pub interval: Duration,
    pub request_timeout: Duration,
    /// A file of PEM certificates that are trusted besides the system's.
    pub ca_file: Option<String>,
    pub insecure_skip_tls_verify: bool,
}

/// The outcome of one request.
enum Answered {
    AsExpected(String),
    Otherwise(String),
}

impl HttpCheck {
    /// Makes the client. Whoever stops the step drops its request, so that the last answer is what is told.
    fn client(&self, cx: &StepContext<'_>) -> Result<HttpClient, AttemptError> {
        let fetch = |message: String| AttemptError::new(ErrorKind::Fetch, message).permanent();
        let read = |path: &String| {
            let bytes = files::read(&cx.world.place.base.join(path));
            bytes.map_err(|error| fetch(format!("caFile {path}: {}", files::explain(&error))))
        };
        let limit = self.request_timeout;
        let limits = NetworkLimits { connect: limit, idle: limit, total: limit };
        let options = ClientOptions {
            ca: self.ca_file.as_ref().map(read).transpose()?,
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")).to_owned(),
            network: NetworkOptions { limits, ..NetworkOptions::default() },
            ..ClientOptions::default()
        };
        HttpClient::new(&options).map_err(|error| fetch(error.to_string()))
    }

    async fn ask(&self, client: &HttpClient) -> Result<Answered, HttpError> {
        let request = HttpRequest::new(Method::GET, slipway_http::parse_url(&self.url)?);
        let answer = client.send_request(request).await?;
        let status = answer.status_code();
        let is_expected = match self.status {
            Some(expected) => status.as_u16() == expected,
            None => status.is_success(),
        };
        if !is_expected {
            return Ok(Answered::Otherwise(format!("it answers {status}")));
        }
        let Some(text) = &self.contains else {
            return Ok(Answered::AsExpected(format!("answers {status}")));
        };
        let body = answer.read_body(LARGEST_ANSWER).await?;
        if String::from_utf8_lossy(&body).contains(text.as_str()) {
            Ok(Answered::AsExpected(format!("answers {status} with the expected text")))
        } else {
            Ok(Answered::Otherwise(format!("it answers {status} without the expected text")))
        }
    }

    /// Asks once. Whatever may pass is an answer that is not the expected one.
    async fn look(&self, client: &HttpClient) -> Result<Answered, AttemptError> {
        match self.ask(client).await {
            Ok(answered) => Ok(answered),
            Err(error @ HttpError::Invalid(_)) => {
                Err(AttemptError::new(ErrorKind::Fetch, error.to_string()).permanent())
            }
            Err(error) => Ok(Answered::Otherwise(error.to_string())),
        }
    }
}

async fn run(cx: &StepContext<'_>, check: &HttpCheck) -> Result<StepOutcome, AttemptError> {
    let address = shown_address(&check.url);
    if cx.world.place.target == RunTarget::Copy {
        // What a copy of a cluster serves is reached by nobody.
        return Ok(StepOutcome::noted(format!("{address} is not asked in a rehearsal")));
    }
    let client = check.client(cx)?;
    loop {
        match check.look(&client).await? {
            Answered::AsExpected(note) => return Ok(StepOutcome::noted(format!("{address} {note}"))),
            Answered::Otherwise(why) => cx.awaits(format!("waiting for {address}: {why}"), Vec::new()),
        }
        tokio::time::sleep(check.interval).await;
    }
}

async fn plan(cx: &StepContext<'_>, check: &HttpCheck) -> Result<StepPreview, AttemptError> {
    let address = shown_address(&check.url);
    Ok(match check.look(&check.client(cx)?).await? {
        Answered::AsExpected(note) => StepPreview::new(StepVerb::NoOp, format!("{address} {note}")),
        Answered::Otherwise(why) => StepPreview::new(StepVerb::Wait, format!("{address}: {why}")),
    })
}

impl StepAction for HttpCheck {
    fn describe(&self) -> String {
        let expected = self.status.map(|status| format!(" answers {status}")).unwrap_or_default();
        format!("{}{expected}", shown_address(&self.url))
    }

    fn plan<'a>(&'a self, cx: &'a StepContext<'a>, _: &'a PlanRequest<'a>) -> StepFuture<'a, StepPreview> {
        Box::pin(plan(cx, self))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(run(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a wait creates nothing")
    }

    fn inputs(&self) -> StepInputs<'_> {
        let files = self.ca_file.iter().map(|path| ("caFile", path.as_str())).collect();
        StepInputs { files, ..StepInputs::default() }
    }

    fn is_default(&self, _: &Step, key: &str, value: &Value) -> bool {
        key == "insecureSkipTLSVerify" && value == false
    }

    fn resolve<'a>(&'a self, resolver: &'a StepResolver<'a>) -> StepFuture<'a, Option<Action>> {
        Box::pin(async {
            let tree = json!({"url": self.url, "contains": self.contains});
            let Some(tree) = resolver.tree(&tree).await? else { return Ok(None) };
            let contains = self.contains.as_ref().map(|_| references::text(&tree["contains"]));
            Ok(Some(Action::Http(Self { url: references::text(&tree["url"]), contains, ..self.clone() })))
        })
    }
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "http",
    needed: "url is required",
    decode: |block, _| decode(block).map(Action::Http),
    definition: "HttpOp",
    about: "Waits until an address answers.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<HttpCheck> {
    let url = block.filled("url").map(|(node, url)| {
        if !fields::is_http(url) {
            block.error(node, "url", "E420", "url must be an HTTP(S) URL");
        }
        url.to_owned()
    });
    if url.is_none() && block.get("url").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E420", Problem::error("url is required"));
    }
    let status = block.get("status").and_then(|node| {
        let status = node.as_i64().filter(|status| STATUSES.contains(status));
        if status.is_none() {
            let message = format!("status must be a number from 100 to 599, found `{}`", node.raw());
            block.error(node, "status", "E421", message);
        }
        status.and_then(|status| u16::try_from(status).ok())
    });
    let positive = |key: &'static str, default: Duration| match block.duration(key) {
        Some((node, limit)) if limit.is_zero() => {
            block.error(node, key, "E422", format!("{key} must be more than zero"));
            default
        }
        Some((_, limit)) => limit,
        None => default,
    };
    let interval = positive("interval", INTERVAL);
    let request_timeout = positive("requestTimeout", REQUEST_TIMEOUT);
    let text = |key: &'static str| block.filled(key).map(|(_, text)| text.to_owned());
    let (contains, ca_file) = (text("contains"), text("caFile"));
    let insecure_skip_tls_verify = block.bool("insecureSkipTLSVerify").unwrap_or(false);
    if insecure_skip_tls_verify && ca_file.is_some() {
        let message = "caFile and insecureSkipTLSVerify are mutually exclusive";
        block.exclusive("E423", ["caFile", "insecureSkipTLSVerify"], message);
    }
    Some(HttpCheck {
        url: url?,
        status,
        contains,
        interval,
        request_timeout,
        ca_file,
        insecure_skip_tls_verify,
    })
}

fn schema() -> Value {
    let status = or_reference(json!({ "type": "integer", "minimum": 100, "maximum": 599 }));
    object(
        &["url"],
        vec![
            ("url", like("The address that has to answer.", ADDRESS)),
            (
                "status",
                crate::schema::with(
                    status,
                    "description",
                    json!("The expected status; any success unless given."),
                ),
            ),
            ("contains", filled("A text the answer must hold.")),
            (
                "interval",
                described("PositiveDurationOrRef", "The pause between two requests; 2s unless given."),
            ),
            (
                "requestTimeout",
                described("PositiveDurationOrRef", "The time limit of one request; 10s unless given."),
            ),
            ("caFile", filled("A file of PEM certificates to trust, beside the document.")),
            ("insecureSkipTLSVerify", described("BoolOrRef", "Takes any certificate.")),
        ],
    )
}

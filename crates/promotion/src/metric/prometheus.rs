//! Asks Prometheus for one number.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use slipway_http::{Authorization, HttpError, HttpRequest, Method, parse_url};

use crate::OutboundClients;

const TIMEOUT: Duration = Duration::from_secs(10);
/// A query has one number as its answer.
const LARGEST: usize = 1 << 20;

/// Why a query has no number as its answer.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    #[error("no data")]
    NoData,
    #[error("{0} series where one is needed; aggregate them")]
    ManySeries(usize),
    #[error("a {0} where a number is needed")]
    WrongType(String),
    #[error("the query is refused: {0}")]
    Refused(String),
    #[error("no answer within {}s", TIMEOUT.as_secs())]
    Timeout,
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the answer is not Prometheus': status {0}")]
    Foreign(u16),
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    data: AnswerData,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnswerData {
    result_type: String,
    result: Value,
}

/// Asks for the present value of a query.
pub async fn query_prometheus(
    outbound: &OutboundClients,
    address: &str,
    authorization: Option<&PrometheusLogin>,
    query: &str,
) -> Result<f64, PrometheusError> {
    let mut url = parse_url(&format!("{}/api/v1/query", address.trim_end_matches('/')))?;
    url.query_pairs_mut().append_pair("query", query);
    let mut request = HttpRequest::new(Method::GET, url);
    if let Some(login) = authorization {
        let origin = request.url.origin();
        request.authorization = Some(match login {
            PrometheusLogin::Token(token) => Authorization::from_token(token, origin)?,
            PrometheusLogin::User(login) => Authorization::from_login(login, origin)?,
        });
    }
    let asked = async {
        let response = outbound.shared()?.send_request(request).await?;
        let status = response.status_code().as_u16();
        Ok::<_, HttpError>((status, response.read_body(LARGEST).await?))
    };
    let (status, body) =
        tokio::time::timeout(TIMEOUT, asked).await.map_err(|_| PrometheusError::Timeout)??;
    read_answer(status, &body)
}

/// Credentials for Prometheus.
#[derive(Clone)]
pub enum PrometheusLogin {
    Token(String),
    User(slipway_http::Login),
}

/// Reads the number of an answer: a scalar, or the only element of a vector.
pub fn read_answer(status: u16, body: &[u8]) -> Result<f64, PrometheusError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|_| PrometheusError::Foreign(status))?;
    if answer.status != "success" {
        return Err(PrometheusError::Refused(answer.error));
    }
    let sample = match answer.data.result_type.as_str() {
        "scalar" => &answer.data.result,
        "vector" => match answer.data.result.as_array().map(Vec::as_slice) {
            None | Some([]) => return Err(PrometheusError::NoData),
            Some([one]) => &one["value"],
            Some(many) => return Err(PrometheusError::ManySeries(many.len())),
        },
        other => return Err(PrometheusError::WrongType(other.to_owned())),
    };
    // Numbers are texts: JSON has neither NaN nor infinities.
    let number = match sample.get(1).and_then(Value::as_str) {
        Some("+Inf") => f64::INFINITY,
        Some("-Inf") => f64::NEG_INFINITY,
        Some(text) => text.parse().map_err(|_| PrometheusError::Foreign(status))?,
        None => return Err(PrometheusError::Foreign(status)),
    };
    // A division of nothing by nothing: there is nothing to measure.
    if number.is_nan() { Err(PrometheusError::NoData) } else { Ok(number) }
}

//! The audit webhook: lines are sent to an address of the user's before the values they speak of are used.

use std::sync::{Mutex, PoisonError};

use secrecy::ExposeSecret as _;
use slipway_http::header::CONTENT_TYPE;
use slipway_http::{Authorization, HeaderValue, HttpRequest, Method};

use crate::audit::{AuditError, AuditLine};
use crate::config::WebhookSettings;
use crate::provider::build::BuildContext;
use crate::provider::rest::{RestClient, TlsOptions, unexpected};
use crate::provider::{ErrorCode, ProviderError};

/// The most lines of one request.
const LINES_A_REQUEST: usize = 1000;

/// Sends audit lines as lines of JSON.
pub(crate) struct AuditWebhook {
    settings: WebhookSettings,
    context: BuildContext,
    pending: Mutex<Vec<AuditLine>>,
}

impl AuditWebhook {
    pub(crate) fn new(settings: WebhookSettings, context: BuildContext) -> Self {
        Self { settings, context, pending: Mutex::default() }
    }

    /// Keeps a line to be sent.
    pub(crate) fn record(&self, line: &AuditLine) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
    }

    /// Sends what was recorded. Lines that could not be sent are not tried again: whoever waits for them was told.
    pub(crate) async fn deliver(&self) -> Result<(), AuditError> {
        let lines = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        if lines.is_empty() {
            return Ok(());
        }
        let failed = |source| AuditError::Webhook { address: self.settings.url.to_string(), source };
        let rest = RestClient::new(self.context.limits, &self.context.network, TlsOptions::default());
        // Lines that are left when the user stops a run are sent all the same.
        let rest = match self.context.network.stop.is_cancelled() {
            true => rest.and_then(|rest| rest.for_cleanup()).map_err(failed)?,
            false => rest.map_err(failed)?,
        };
        for chunk in lines.chunks(LINES_A_REQUEST) {
            let answer = rest.send(&self.request(chunk).await.map_err(failed)?).await.map_err(failed)?;
            if !answer.status.is_success() {
                return Err(failed(unexpected(&answer, "send audit lines")));
            }
        }
        Ok(())
    }

    async fn request(&self, lines: &[AuditLine]) -> Result<HttpRequest, ProviderError> {
        let mut request = HttpRequest::new(Method::POST, self.settings.url.clone());
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        let mut content = Vec::new();
        for line in lines {
            let written = serde_json::to_writer(&mut content, line);
            written.map_err(|error| ProviderError::new(ErrorCode::Invalid, error.to_string()))?;
            content.push(b'\n');
        }
        request.content = Some(content);
        if let Some(token) = &self.settings.token {
            let token = self.context.credential(token).await?;
            let header = Authorization::from_token(token.expose_secret(), request.url.origin());
            request.authorization =
                Some(header.map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?);
        }
        Ok(request)
    }
}

//! A client's line to the sandbox with a tap on it: every request is written down, and the line can be cut
//! or answered in the server's place.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use slipway_sandbox::{ApiService, BoxError, ResponseBody, Status};
use tokio_util::sync::CancellationToken;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
}

impl Seen {
    /// Whether it changes anything.
    pub(crate) fn is_write(&self) -> bool {
        let is_question = self.path.ends_with("/selfsubjectrulesreviews");
        self.method != Method::GET && !self.query.contains("dryRun=All") && !is_question
    }
}

/// When the line is cut: with the request of this number (from 1), which is served or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) at: usize,
    pub(crate) served: bool,
    /// Counts only requests that change something.
    pub(crate) writes: bool,
}

type Answer = dyn Fn(&Seen) -> Option<Box<Status>> + Send + Sync;
type Witness = dyn Fn(Seen) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// The line. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tap {
    inner: ApiService,
    log: Arc<Mutex<Vec<Seen>>>,
    cut: Option<Cut>,
    answer: Option<Arc<Answer>>,
    witness: Option<Arc<Witness>>,
    /// Fires when the line is cut: nothing is answered from then on.
    pub(crate) dead: CancellationToken,
}

impl Tap {
    pub(crate) fn on(inner: ApiService) -> Self {
        let dead = CancellationToken::new();
        Self { inner, log: Arc::default(), cut: None, answer: None, witness: None, dead }
    }

    pub(crate) fn cut(self, cut: Cut) -> Self {
        Self { cut: Some(cut), ..self }
    }

    /// Answers in the server's place where `answer` gives one.
    pub(crate) fn answer(
        self,
        answer: impl Fn(&Seen) -> Option<Box<Status>> + Send + Sync + 'static,
    ) -> Self {
        Self { answer: Some(Arc::new(answer)), ..self }
    }

    /// Lets somebody look at the cluster after every write, before its answer is given.
    pub(crate) fn witness<F>(self, look: impl Fn(Seen) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { witness: Some(Arc::new(move |seen| Box::pin(look(seen)))), ..self }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.lock().expect("nobody panics with it").clone()
    }

    /// The paths of everything written so far, in order.
    pub(crate) fn written(&self) -> Vec<String> {
        self.seen().into_iter().filter(Seen::is_write).map(|seen| seen.path).collect()
    }

    /// Where in the order of writes the first one to this path comes.
    pub(crate) fn position(&self, end: &str) -> usize {
        let written = self.written();
        written.iter().position(|path| path.ends_with(end)).unwrap_or_else(|| panic!("{end}: {written:#?}"))
    }
}

impl<B> tower::Service<Request<B>> for Tap
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.dead.is_cancelled() {
            return Box::pin(std::future::pending());
        }
        let uri = request.uri();
        let seen = Seen {
            method: request.method().clone(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
        };
        let number = {
            let mut log = self.log.lock().expect("nobody panics with it");
            log.push(seen.clone());
            match self.cut {
                Some(Cut { writes: true, .. }) => log.iter().filter(|seen| seen.is_write()).count(),
                _ => log.len(),
            }
        };
        if let Some(status) = self.answer.as_ref().and_then(|answer| answer(&seen)) {
            return Box::pin(async move {
                let body = serde_json::to_vec(&status.to_value()).unwrap_or_default();
                Ok(Response::builder().status(status.code).body(ResponseBody::whole(body))?)
            });
        }
        let cuts = self.cut.is_some_and(|cut| cut.at == number && (!cut.writes || seen.is_write()));
        let dead = self.dead.clone();
        if cuts && self.cut.is_some_and(|cut| !cut.served) {
            dead.cancel();
            return Box::pin(std::future::pending());
        }
        let answer = self.inner.call(request);
        let witness = self.witness.clone().filter(|_| seen.is_write());
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(witness) = witness {
                witness(seen).await;
            }
            if cuts {
                dead.cancel();
                std::future::pending::<()>().await;
            }
            Ok(answer)
        })
    }
}

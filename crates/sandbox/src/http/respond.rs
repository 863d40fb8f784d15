//! Answers: bodies, headers and the byte-copying forms of objects, lists and watch frames.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde_json::Value;
use slipway_manifest::encode::encode_protobuf;
use slipway_manifest::schema::Schema;

use crate::http::negotiate::{NegotiatedForm, ResponseEncoding};
use crate::status::Status;

/// The error that ends a body early.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A response body: bytes at hand, or a stream of watch frames or log lines.
pub struct ResponseBody(BodyKind);

enum BodyKind {
    Whole(Option<Bytes>),
    Stream(BoxStream<'static, Result<Bytes, BoxError>>),
}

impl ResponseBody {
    pub fn empty() -> ResponseBody {
        ResponseBody(BodyKind::Whole(None))
    }

    pub fn whole(bytes: impl Into<Bytes>) -> ResponseBody {
        ResponseBody(BodyKind::Whole(Some(bytes.into())))
    }

    pub fn stream(stream: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static) -> ResponseBody {
        ResponseBody(BodyKind::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            BodyKind::Whole(_) => "Body(whole)",
            BodyKind::Stream(_) => "Body(stream)",
        })
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            BodyKind::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            BodyKind::Stream(stream) => stream.as_mut().poll_next(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, BodyKind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            BodyKind::Stream(_) => SizeHint::default(),
        }
    }
}

/// The answer to one request, before headers.
pub(crate) struct Reply {
    pub code: u16,
    pub content: ReplyContent,
    pub warnings: Vec<String>,
    /// The revision this request wrote; the answer waits until it is durable.
    pub wrote: Option<u64>,
}

/// The content of an answer.
pub(crate) enum ReplyContent {
    /// JSON text, ready.
    Json(Bytes),
    Value(Value),
    Text(String),
    Stream {
        content_type: &'static str,
        body: ResponseBody,
    },
}

impl Reply {
    pub(crate) fn json(code: u16, bytes: impl Into<Bytes>) -> Reply {
        Reply { code, content: ReplyContent::Json(bytes.into()), warnings: vec![], wrote: None }
    }

    pub(crate) fn value(code: u16, value: Value) -> Reply {
        Reply { code, content: ReplyContent::Value(value), warnings: vec![], wrote: None }
    }

    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Reply {
        self.warnings = warnings;
        self
    }

    pub(crate) fn with_revision(mut self, rev: Option<u64>) -> Reply {
        self.wrote = rev;
        self
    }
}

/// Options for printing an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrintOptions {
    pub accept: NegotiatedForm,
    pub pretty: bool,
    pub gzip: bool,
}

/// Bodies longer than this are compressed for clients that can unpack them.
const GZIP_FROM: usize = 128 * 1024;

pub(crate) fn render_reply(reply: Reply, printing: PrintOptions) -> Response<ResponseBody> {
    let code = StatusCode::from_u16(reply.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    let body = match reply.content {
        ReplyContent::Stream { content_type, body } => {
            if !content_type.is_empty() {
                headers.push((CONTENT_TYPE, HeaderValue::from_static(content_type)));
            }
            body
        }
        ReplyContent::Text(text) => {
            headers.push((CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")));
            ResponseBody::whole(text)
        }
        ReplyContent::Json(bytes) => print_json(bytes, printing, &mut headers),
        ReplyContent::Value(value) => {
            let mut text = serde_json::to_vec(&value).unwrap_or_default();
            text.push(b'\n');
            print_json(text.into(), printing, &mut headers)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().extend(headers.into_iter().map(|(k, v)| (Some(k), v)));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for warning in reply.warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted_warning(&warning))) {
            response.headers_mut().append("warning", value);
        }
    }
    response
}

fn print_json(
    bytes: Bytes,
    printing: PrintOptions,
    headers: &mut Vec<(HeaderName, HeaderValue)>,
) -> ResponseBody {
    let mut content_type = printing.accept.content_type();
    let bytes = match printing.accept.encoding {
        ResponseEncoding::Protobuf => to_protobuf(&bytes).map_or_else(
            || {
                content_type = NegotiatedForm::JSON.content_type();
                bytes
            },
            Bytes::from,
        ),
        ResponseEncoding::Yaml => crate::http::body::json_to_yaml(&bytes).map_or(bytes, Bytes::from),
        ResponseEncoding::Json if printing.pretty => to_pretty(&bytes).map_or(bytes, Bytes::from),
        ResponseEncoding::Json => bytes,
    };
    headers.push((CONTENT_TYPE, HeaderValue::from_static(content_type)));
    if printing.gzip && bytes.len() > GZIP_FROM {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        if encoder.write_all(&bytes).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            headers.push((http::header::CONTENT_ENCODING, HeaderValue::from_static("gzip")));
            headers.push((http::header::VARY, HeaderValue::from_static("Accept-Encoding")));
            return ResponseBody::whole(packed);
        }
    }
    ResponseBody::whole(bytes)
}

/// The object in protobuf; documents that are no objects have no such form.
fn to_protobuf(json: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(json).ok()?;
    encode_protobuf(&value, Schema::built_in().types())
}

fn to_pretty(bytes: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    serde_json::to_vec_pretty(&value).ok()
}

/// Prints a failure.
pub(crate) fn render_failure(status: &Status, printing: PrintOptions) -> Response<ResponseBody> {
    let reply = Reply::value(status.code, status.to_value()).with_warnings(status.warnings.clone());
    let mut response = render_reply(reply, printing);
    if let Some(seconds) = status.retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A quoted string as RFC 7234 warnings carry it.
fn quoted_warning(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

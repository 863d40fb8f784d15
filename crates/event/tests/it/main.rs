//! What readers of the event stream rely on.

mod json_form;
mod redaction;
mod streams;

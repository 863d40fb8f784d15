//! One test binary: what a chart is, what it is given, what comes out.

mod args;
mod golden;
mod hostile;
#[cfg(feature = "net")]
mod hosts;
mod lint;
#[cfg(feature = "net")]
mod net;
mod provenance;
mod strvals;
mod tools;
#[cfg(feature = "net")]
mod trust;

//! One test binary: what a chart is, what it is given, what comes out.

mod args;
mod golden;
mod lint;
mod strvals;
mod tools;

//! One test binary: what a chart is, what it is given, what comes out.

mod strvals;

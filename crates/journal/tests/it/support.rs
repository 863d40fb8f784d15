//! Graphs and time for the other tests.

use slipway_graph::Graph;

/// A graph from lines `node: need need`.
pub(crate) fn parse(text: &str) -> Graph<&str> {
    let mut builder = Graph::builder();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (node, needs) = line.split_once(':').expect("a colon");
        builder.add(node, node, needs.split_whitespace());
    }
    builder.build().expect("a valid graph")
}

pub(crate) fn virtual_time<R>(work: impl Future<Output = R>) -> R {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work)
}

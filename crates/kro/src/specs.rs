//! Compiled specs, shared by content and kept while they are in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::api::GraphSpec;
use crate::compile::{CompileError, SharedGraph, SpecFault, SpecProblem, compile};
use crate::expression::Expressions;
use crate::project::hash_value;
use crate::queue::lock;

/// How many specs are kept compiled. Idle Graphs need none: compiling anew takes a fraction of a millisecond.
const KEPT: usize = 256;

pub(crate) struct Specs {
    expressions: Expressions,
    compiled: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_hash: HashMap<u64, (SharedGraph, u64)>,
    turn: u64,
}

impl Specs {
    pub(crate) fn new() -> Self {
        Self { expressions: Expressions::new(), compiled: Mutex::default() }
    }

    /// Compiles the `spec` of a Graph.
    pub(crate) fn compile(&self, spec: &Value) -> Result<SharedGraph, CompileError> {
        let hash = hash_value(spec);
        let mut kept = lock(&self.compiled);
        kept.turn += 1;
        let turn = kept.turn;
        if let Some((graph, used)) = kept.by_hash.get_mut(&hash) {
            *used = turn;
            return Ok(graph.clone());
        }
        drop(kept);
        let read: GraphSpec = serde_json::from_value(spec.clone()).map_err(|error| {
            let message = error.to_string();
            CompileError(vec![SpecProblem {
                fault: SpecFault::Declaration,
                path: "spec".to_owned(),
                message,
                hint: None,
            }])
        })?;
        let graph: SharedGraph = Arc::new(compile(&self.expressions, &read)?);
        let mut kept = lock(&self.compiled);
        if kept.by_hash.len() >= KEPT {
            let oldest = kept.by_hash.iter().min_by_key(|(_, (_, used))| *used).map(|(hash, _)| *hash);
            oldest.map(|hash| kept.by_hash.remove(&hash));
        }
        kept.by_hash.insert(hash, (graph.clone(), turn));
        Ok(graph)
    }
}

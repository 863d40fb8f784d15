//! How long compiling and evaluating take: `cargo run --release -p slipway-cel --example cel_bench`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use serde_json::json;
use slipway_cel::{Bindings, Env, Type};

fn main() {
    let item = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "port": {"type": "integer"}, "weight": {"type": "number"},
    }});
    let schema = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "items": {"type": "array", "items": item},
    }});
    let items: Vec<_> =
        (0..10_000).map(|n| json!({"name": format!("n{n}"), "port": n, "weight": n})).collect();
    let object = json!({"replicas": 3, "items": items});
    let env = Env::kubernetes().variable("self", Type::from_json_schema(&schema));

    let rule = "self.replicas >= 1 && (!has(self.items) || self.items.all(i, i.name.matches('^[a-z][a-z0-9-]*$') && i.port < 65536))";
    let rounds = 2_000;
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(env.compile(black_box(rule)).is_ok());
    }
    println!("compile a rule: {:?}", start.elapsed() / rounds);

    let small = "self.replicas >= 1 && self.items.size() <= 20000 && self.replicas % 2 == 1";
    let start = Instant::now();
    for _ in 0..rounds {
        black_box(env.compile(black_box(small)).is_ok());
    }
    println!("compile a small rule: {:?}", start.elapsed() / rounds);

    let program = env
        .compile("self.items.filter(i, i.port % 2 == 0).map(i, i.weight * 2.0).all(w, w >= 0.0)")
        .expect("the expression is correct");
    let bindings = Bindings::new().json("self", &object);
    let rounds = 50;
    let start = Instant::now();
    for _ in 0..rounds {
        assert_eq!(black_box(&program).eval_bool(&bindings), Ok(true));
    }
    println!("three macros over 10,000 elements: {:?}", start.elapsed() / rounds);
}

//! The functions Kubernetes adds.

use serde_json::Value as Json;

use crate::common::eval;

#[test]
fn kubernetes_functions_give_their_values() {
    let mut wrong = Vec::new();
    for line in include_str!("kubernetes.txt").lines().filter(|line| !line.starts_with('#')) {
        let (text, expected) = line.rsplit_once('|').expect("has a bar");
        match expected.strip_prefix("error: ") {
            Some(message) => match eval(text) {
                Err(found) if found.contains(message) => {}
                other => wrong.push(format!("{text}: expected {message}, found {other:?}")),
            },
            None => {
                let expected: Json = serde_json::from_str(expected).expect("is JSON");
                match eval(text) {
                    Ok(Some(found)) if found == expected => {}
                    other => wrong.push(format!("{text}: expected {expected}, found {other:?}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! What pods and the kinds that make them are refused and warned for, as a real server was recorded to say it.

use serde_json::{Value, json};

use crate::client::bare;

/// Objects with the causes and warnings of a real server, each cut short after 110 characters.
const RECORDED: &str = include_str!("recorded/pods.json");

fn cut(text: &str) -> String {
    text.chars().take(110).collect()
}

#[tokio::test]
async fn refusals_and_warnings_are_those_recorded() {
    let (_sandbox, client) = bare();
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(cases.len() > 50);
    for case in cases {
        let mut object = json!({"metadata": {"name": "x"}});
        object.as_object_mut().unwrap().extend(case["object"].as_object().unwrap().clone());
        let at = format!("{}?dryRun=All", case["at"].as_str().unwrap());
        let answer = client.post(&at, &object).await;
        let mut causes: Vec<String> = answer.body["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| cut(&format!("{}: {}", c["field"].as_str().unwrap(), c["message"].as_str().unwrap())))
            .collect();
        if causes.is_empty() && answer.code >= 400 {
            causes.push(cut(answer.body["message"].as_str().unwrap()));
        }
        assert_eq!(json!(causes), case["causes"], "{object}");
        let warnings: Vec<String> = answer
            .headers
            .get_all("warning")
            .iter()
            .map(|w| cut(w.to_str().unwrap().trim_start_matches("299 - ")))
            .collect();
        assert_eq!(json!(warnings), case["warnings"], "{object}");
    }
}

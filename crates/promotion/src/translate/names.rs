//! The ids of nodes: words of the expression language, unique in a Graph whatever their case.

use std::collections::BTreeSet;

use crate::kinds::labels::short_hash;

/// Names the expression language of Graphs binds; a node cannot have them.
const BOUND: [&str; 12] =
    ["region", "time", "math", "json", "lists", "hash", "base64", "random", "strings", "omit", "now", "each"];

fn is_reserved(id: &str) -> bool {
    slipway_cel::is_reserved(id) || BOUND.contains(&id)
}

/// The id of the node that reads the Bundle.
pub(super) const BUNDLE_NODE: &str = "bundle";
/// The longest id before a hash is needed.
const LONGEST: usize = 54;

/// The ids given out so far.
#[derive(Debug)]
pub(super) struct NodeIds {
    /// In lower case.
    taken: BTreeSet<String>,
}

impl NodeIds {
    pub(super) fn new() -> Self {
        Self { taken: BTreeSet::from([BUNDLE_NODE.to_owned()]) }
    }

    /// Keeps an id somebody else has given.
    pub(super) fn reserve(&mut self, id: &str) {
        self.taken.insert(id.to_lowercase());
    }

    /// The id of an environment's step.
    pub(super) fn environment(&mut self, name: &str) -> String {
        let plain = camel_case(name);
        let id = if self.is_free(&plain) { plain } else { format!("{plain}0{}", short_hash(name, 4)) };
        self.take(id, name)
    }

    /// The id of a gate: its name, where no other node has it.
    pub(super) fn gate(&mut self, gate: &str, namespace: &str, environment: &str) -> String {
        let plain = camel_case(gate);
        if self.is_free(&plain) && plain.len() <= LONGEST {
            return self.take(plain, gate);
        }
        let long = format!("g{}0{plain}0{}", capitalised(&camel_case(environment)), short_hash(namespace, 6));
        let id = if long.len() <= LONGEST {
            long
        } else {
            format!("{}0{}", &long[..LONGEST], short_hash(&format!("{namespace}/{gate}/{environment}"), 8))
        };
        self.take(id, &format!("{namespace}/{gate}/{environment}"))
    }

    fn is_free(&self, id: &str) -> bool {
        !is_reserved(id) && !self.taken.contains(&id.to_lowercase())
    }

    /// Gives an id out; one that is taken all the same gets a longer hash.
    fn take(&mut self, id: String, identity: &str) -> String {
        let id = if self.is_free(&id) {
            id
        } else {
            format!("{}0{}", &id[..id.len().min(40)], short_hash(identity, 16))
        };
        self.taken.insert(id.to_lowercase());
        id
    }
}

/// A name as an id: whatever is neither letter nor digit ends a word and goes.
fn camel_case(name: &str) -> String {
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let mut id = String::with_capacity(name.len() + 1);
    if first.starts_with(|c: char| c.is_ascii_digit()) || first.is_empty() {
        id.push('x');
    }
    let mut letters = first.chars();
    id.extend(letters.next().map(|letter| letter.to_ascii_lowercase()));
    id.push_str(letters.as_str());
    words.for_each(|word| id.push_str(&capitalised(word)));
    id
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| format!("{}{}", first.to_ascii_uppercase(), letters.as_str()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ids_of_the_expression_language() {
        for (name, id) in [
            ("dev", "dev"),
            ("prod-us-east", "prodUsEast"),
            ("no-weekend-deploys", "noWeekendDeploys"),
            ("2nd", "x2nd"),
            ("Team_A.b", "teamAB"),
        ] {
            assert_eq!(camel_case(name), id);
        }
    }

    #[test]
    fn ids_that_would_clash_are_told_apart() {
        let mut ids = NodeIds::new();
        let given: Vec<String> =
            ["prod-1", "prod1", "prod-eu", "prodEu", "bundle", "in", "true", "schedule", "region"]
                .iter()
                .map(|name| ids.environment(name))
                .collect();
        let distinct: BTreeSet<String> = given.iter().map(|id| id.to_lowercase()).collect();
        assert_eq!(distinct.len(), given.len(), "{given:?}");
        assert_eq!(given[0], "prod1");
        assert_eq!(given[7], "schedule");
        for id in &given {
            assert!(!is_reserved(id) && id != BUNDLE_NODE, "{id}");
        }
    }

    #[test]
    fn a_gate_of_two_environments_has_two_ids() {
        let mut ids = NodeIds::new();
        ids.environment("soak");
        assert_eq!(ids.gate("no-weekend", "platform", "prod-us"), "noWeekend");
        let second = ids.gate("no-weekend", "platform", "prod-eu");
        assert!(second.starts_with("gProdEu0noWeekend0"), "{second}");
        assert!(ids.gate("soak", "platform", "prod-eu").starts_with("gProdEu0soak0"));
        let long = ids.gate(&"very-long-name".repeat(12), "platform", "prod-eu");
        assert!(long.len() <= 63, "{long}");
    }
}

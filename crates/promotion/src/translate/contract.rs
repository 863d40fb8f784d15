//! Contracts as gates: what a consumer needs of a provider becomes an expression over `contracts`.

use crate::kinds::{
    ContractMode, GoDuration, Metadata, Pipeline, PolicyGate, PolicyGateSpec, PromotionContract, labels,
};

/// The word contracts use for their provider.
const PROVIDER: &str = "provider";
const SEMVER: &str = ".versionSemver";

/// The gate templates of the contracts a pipeline is the consumer of.
pub fn contract_gates(contracts: &[PromotionContract], pipeline: &Pipeline) -> Vec<PolicyGate> {
    let binds = |contract: &&PromotionContract| {
        contract.namespace() == pipeline.namespace()
            && contract.spec.consumer.pipeline == pipeline.name()
            && !contract.metadata.is_being_deleted()
    };
    contracts.iter().filter(binds).map(contract_gate).collect()
}

fn contract_gate(contract: &PromotionContract) -> PolicyGate {
    let spec = &contract.spec;
    let name = format!("contract-{}", contract.name());
    let mut metadata = Metadata::named(contract.namespace(), labels::bounded_name(&name, &name));
    metadata.uid.clone_from(&contract.metadata.uid);
    metadata.generation = contract.metadata.generation;
    metadata.creation_timestamp = contract.metadata.creation_timestamp;
    metadata.labels.insert(labels::SCOPE.to_owned(), "contract".to_owned());
    let usual = || match spec.mode {
        ContractMode::Requires => format!("needs {} of {}", spec.require, contract.provider_key()),
        ContractMode::Conflicts => format!("conflicts with {} of {}", spec.require, contract.provider_key()),
    };
    let message = if spec.message.is_empty() { usual() } else { spec.message.clone() };
    let gate = PolicyGateSpec {
        expression: contract_expression(contract),
        message,
        applies_to: vec![spec.consumer.environment.clone()],
        recheck_interval: GoDuration::from_mins(1),
        ..PolicyGateSpec::default()
    };
    PolicyGate::new(metadata, gate)
}

/// The expression of a contract as a gate evaluates it. A provider that runs nothing meets no requirement and is no conflict.
pub fn contract_expression(contract: &PromotionContract) -> String {
    let key = contract.provider_key();
    let required = with_provider(&contract.spec.require, &format!("contracts[\"{key}\"]"));
    match contract.spec.mode {
        ContractMode::Requires => required,
        ContractMode::Conflicts => format!("!(\"{key}\" in contracts) || !({required})"),
    }
}

/// Puts the provider's place for the word `provider`, outside of texts and names of fields.
fn with_provider(text: &str, place: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        if c == '"' || c == '\'' {
            let end = end_of_text(rest, c);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            before = c;
            continue;
        }
        let starts_word = is_word(c) && !is_word(before) && before != '.';
        if starts_word
            && let Some(after) = rest.strip_prefix(PROVIDER)
            && !after.starts_with(is_word)
        {
            match after.strip_prefix(SEMVER).filter(|after| !after.starts_with(is_word)) {
                Some(after) => {
                    out.push_str(&format!("semver({place}.version)"));
                    rest = after;
                }
                None => {
                    out.push_str(place);
                    rest = after;
                }
            }
            before = ']';
            continue;
        }
        out.push(c);
        before = c;
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// The length of the quoted text at the beginning of an expression, with its quotes.
fn end_of_text(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::GateEvaluator;
    use crate::kinds::{ContractConsumer, ContractProvider, PromotionContractSpec};

    fn contract(require: &str, mode: ContractMode) -> PromotionContract {
        let spec = PromotionContractSpec {
            consumer: ContractConsumer { pipeline: "web".into(), environment: "prod".into() },
            provider: ContractProvider {
                pipeline: "api".into(),
                namespace: None,
                environment: "prod".into(),
            },
            require: require.to_owned(),
            mode,
            message: String::new(),
        };
        PromotionContract::new(Metadata::named("shop", "needs-api"), spec)
    }

    #[test]
    fn the_provider_is_put_in_where_it_is_meant() {
        let place = "contracts[\"shop/api/prod\"]";
        for (text, expected) in [
            ("provider.version == 'provider'", format!("{place}.version == 'provider'")),
            (
                "provider.labels.provider == \"a\\\"provider\"",
                format!("{place}.labels.provider == \"a\\\"provider\""),
            ),
            (
                "provider.soakMinutes>30&&provider.phase=='Verified'",
                format!("{place}.soakMinutes>30&&{place}.phase=='Verified'"),
            ),
            (
                "provider.versionSemver.isGreaterThan(semver('1.2.3'))",
                format!("semver({place}.version).isGreaterThan(semver('1.2.3'))"),
            ),
            ("providers == 1 && my_provider == 2", "providers == 1 && my_provider == 2".to_owned()),
        ] {
            assert_eq!(contract_expression(&contract(text, ContractMode::Requires)), expected);
        }
    }

    #[test]
    fn the_gates_of_contracts_compile() {
        for mode in [ContractMode::Requires, ContractMode::Conflicts] {
            let gate = contract_gate(&contract("provider.versionSemver.isLessThan(semver('2.0.0'))", mode));
            assert!(GateEvaluator::new().check(&gate.spec).is_ok(), "{}", gate.spec.expression);
        }
    }
}

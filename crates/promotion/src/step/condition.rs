//! The condition of an entry: an expression over the bundle, the step and the outputs so far.

use serde_json::json;
use slipway_cel::{Bindings, Env, Type};

use crate::kinds::{Bundle, PromotionStep, PromotionStepStatus};

use super::outcome::StepError;

/// Names expressions may use.
const VARIABLES: [&str; 6] = ["bundle", "pipeline", "environment", "region", "outputs", "attempt"];

/// Evaluates a condition. One that cannot be evaluated fails the step: nothing is left out by mistake.
pub(super) fn holds(
    text: &str,
    step: &PromotionStep,
    status: &PromotionStepStatus,
    bundle: &Bundle,
) -> Result<bool, StepError> {
    let wrong = |why: String| StepError::failed("InvalidCondition", format!("`{text}`: {why}"));
    let env = VARIABLES.iter().fold(Env::kubernetes(), |env, name| env.variable(name, Type::Dyn));
    let program = env.compile_as(text, &Type::Bool).map_err(|errors| {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        wrong(texts.join("; "))
    })?;
    let values = [
        json!({
            "name": bundle.name(),
            "version": bundle.spec.version(),
            "type": bundle.spec.kind,
            "labels": bundle.metadata.labels,
            "isRollback": bundle.is_rollback(),
            "isEmergency": bundle.is_emergency(),
        }),
        json!(step.spec.pipeline),
        json!(step.spec.environment),
        json!(step.spec.region.clone().unwrap_or_default()),
        json!(status.outputs),
        json!(status.attempt.unwrap_or(1)),
    ];
    let bindings = VARIABLES
        .iter()
        .zip(&values)
        .fold(Bindings::new(), |bindings, (name, value)| bindings.json(name, value));
    program.eval_bool(&bindings).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{BundleSpec, Metadata, PromotionStepSpec, Resource};

    #[test]
    fn conditions_read_outputs_and_fail_loudly() {
        let step = Resource::new(
            Metadata::named("apps", "s"),
            PromotionStepSpec { environment: "prod".into(), ..PromotionStepSpec::default() },
        );
        let bundle = Resource::new(Metadata::named("apps", "b"), BundleSpec::default());
        let mut status = PromotionStepStatus::default();
        status.outputs.insert("noChange".into(), "true".into());
        let holds = |text: &str| holds(text, &step, &status, &bundle);
        assert_eq!(holds("environment == 'prod'"), Ok(true));
        assert_eq!(holds("outputs.noChange == 'true' && !bundle.isRollback"), Ok(true));
        assert_eq!(holds("'x' in outputs"), Ok(false));
        assert!(holds("outputs.missing == 'a'").is_err());
        assert!(holds("1 + 1").is_err());
        assert!(holds("nobody == 1").is_err());
    }
}

//! Rules on objects: kinds, scope, expressions.

use slipway_manifest::ObjectRef;

use super::Violation;
use crate::expression::{ExpressionFacts, ExpressionScope, RuleExpression, failure_message};
use crate::input::PolicyInput;
use crate::model::ScopeCheck;
use crate::pattern::PatternList;
use crate::report::PolicyCode;

pub(super) fn forbidden_kinds(kinds: &PatternList, input: &PolicyInput<'_>) -> Vec<Violation> {
    let objects = input.objects.iter().filter(|object| kinds.fits_kind(&object.reference.gvk));
    objects
        .map(|object| {
            let message = format!("the kind {} is forbidden", object.reference.gvk.kind);
            Violation::of_object(&object.reference, PolicyCode::ForbiddenKind, message).at("kind")
        })
        .collect()
}

pub(super) fn cluster_scoped(scope: ScopeCheck, input: &PolicyInput<'_>) -> Vec<Violation> {
    let is_global = |object: &&ObjectRef| object.namespace.is_none();
    match scope {
        ScopeCheck::All => {
            let objects = input.objects.iter().map(|object| &object.reference).filter(is_global);
            let violation = |object| {
                Violation::of_object(object, PolicyCode::ClusterScoped, "belongs to the whole cluster")
            };
            objects.map(violation).collect()
        }
        ScopeCheck::OnlyChanged => {
            let changes = input.changes.iter().filter(|change| is_global(&&change.object));
            changes
                .map(|change| {
                    let message = format!("{} of an object of the whole cluster", change.action.word());
                    Violation::of_object(&change.object, PolicyCode::ClusterScoped, message)
                })
                .collect()
        }
    }
}

pub(super) fn check_expression(
    expression: &RuleExpression,
    input: &PolicyInput<'_>,
    facts: &ExpressionFacts<'_>,
) -> Vec<Violation> {
    let broken = || {
        let otherwise = || format!("does not hold: {}", expression.text);
        expression.message.clone().unwrap_or_else(otherwise)
    };
    match expression.scope() {
        ExpressionScope::WholePlan => match expression.holds(facts, None) {
            Ok(true) => Vec::new(),
            Ok(false) => vec![Violation::of_fact("plan", PolicyCode::Expression, broken())],
            Err(error) => {
                vec![Violation::of_fact("plan", PolicyCode::ExpressionFailed, failure_message(&error))]
            }
        },
        ExpressionScope::EachObject => {
            let judged = input.objects.iter().filter_map(|object| {
                let violation = |code, message| Violation::of_object(&object.reference, code, message);
                match expression.holds(facts, Some(object.object)) {
                    Ok(true) => None,
                    Ok(false) => Some(violation(PolicyCode::Expression, broken())),
                    Err(error) => Some(violation(PolicyCode::ExpressionFailed, failure_message(&error))),
                }
            });
            judged.collect()
        }
    }
}

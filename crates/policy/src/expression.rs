//! Rules written as expressions: compiled when the file is read, evaluated within limits.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use slipway_cel::{Bindings, CelError, Env, EvalError, EvalErrorKind, Limits, Program, Type, Value};
use slipway_manifest::ObjectRef;
use slipway_manifest::image::ImageReference;

use crate::input::{PolicyInput, UnitFacts};

/// The computation one evaluation may take.
const COST: u64 = 1_000_000;
/// The longest expression.
const LENGTH: usize = 16 << 10;

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let limits = Limits { length: LENGTH, cost: COST, ..Limits::default() };
    let list = || Type::list(Type::Dyn);
    Env::kubernetes()
        .variable("object", Type::Dyn)
        .variable("objects", list())
        .variable("changes", list())
        .variable("images", list())
        .variable("secrets", list())
        .variable("target", Type::Dyn)
        .variable("unit", Type::Dyn)
        .variable("now", Type::Timestamp)
        .limits(limits)
});

/// A rule that must hold, of every object or of the whole plan.
#[derive(Clone, Debug)]
pub(crate) struct RuleExpression {
    pub(crate) text: String,
    /// Shown when it does not hold.
    pub(crate) message: Option<String>,
    program: Arc<Program>,
}

/// The subject of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpressionScope {
    /// It reads `object`: evaluated once an object.
    EachObject,
    /// Evaluated once.
    WholePlan,
}

/// The facts an expression may read, in the form it reads them; made once an evaluation of all rules.
pub(crate) struct ExpressionFacts<'i> {
    objects: Vec<&'i Json>,
    changes: Json,
    images: Json,
    secrets: Json,
    target: Json,
    unit: Json,
    now: Timestamp,
}

impl RuleExpression {
    pub(crate) fn compile(text: &str, message: Option<String>) -> Result<Self, Vec<CelError>> {
        let program = Arc::new(ENVIRONMENT.compile_as(text, &Type::Bool)?);
        Ok(Self { text: text.to_owned(), message, program })
    }

    pub(crate) fn scope(&self) -> ExpressionScope {
        match self.reads("object") {
            true => ExpressionScope::EachObject,
            false => ExpressionScope::WholePlan,
        }
    }

    fn reads(&self, variable: &str) -> bool {
        self.program.references().iter().any(|reference| reference.variable == variable)
    }

    /// Tells whether the rule holds.
    pub(crate) fn holds(
        &self,
        facts: &ExpressionFacts<'_>,
        object: Option<&Json>,
    ) -> Result<bool, EvalError> {
        let mut bindings = Bindings::new()
            .json("changes", &facts.changes)
            .json("images", &facts.images)
            .json("secrets", &facts.secrets)
            .json("target", &facts.target)
            .json("unit", &facts.unit)
            .value("now", Value::Timestamp(facts.now));
        if let Some(object) = object {
            bindings.set("object", Value::from_json(object));
        }
        if self.reads("objects") {
            let all: Vec<Value<'_>> = facts.objects.iter().map(|object| Value::from_json(object)).collect();
            bindings.set("objects", Value::list(all));
        }
        self.program.eval_bool(&bindings)
    }
}

/// Says why an expression gave no answer, without a value it read: that may be a secret.
pub(crate) fn failure_message(error: &EvalError) -> String {
    let why = match &error.kind {
        EvalErrorKind::NoSuchKey { key, .. } => {
            return format!("the expression reads `{key}`, which is not there");
        }
        EvalErrorKind::CostLimit => "computes too much",
        EvalErrorKind::Canceled => "was stopped",
        EvalErrorKind::Unbound(_) => "reads a variable that is not set",
        EvalErrorKind::NoSuchOverload => "compares or combines values of types that do not fit",
        EvalErrorKind::DivisionByZero => "divides by zero",
        EvalErrorKind::Overflow => "computes a number that is too large",
        EvalErrorKind::IndexOutOfBounds => "reads past the end of a list",
        EvalErrorKind::Invalid => "reads a value of another type or form than it needs",
    };
    format!("the expression {why}")
}

impl<'i> ExpressionFacts<'i> {
    pub(crate) fn new(input: &'i PolicyInput<'_>) -> Self {
        Self {
            objects: input.objects.iter().map(|object| object.object).collect(),
            changes: input
                .changes
                .iter()
                .map(|change| with_reference(&change.object, json!({"action": change.action})))
                .collect(),
            images: input
                .images
                .iter()
                .map(|image| {
                    let parsed: Option<ImageReference> = image.image.parse().ok();
                    let part = |pick: fn(&ImageReference) -> Option<&str>| parsed.as_ref().and_then(pick);
                    let path = parsed.as_ref().map(ImageReference::path);
                    let facts = json!({
                        "image": image.image,
                        "container": image.container,
                        "registry": part(|image| Some(image.registry())),
                        "repository": path,
                        "tag": part(|image| image.tag.as_deref()),
                        "digest": part(|image| image.digest.as_deref()),
                    });
                    with_reference(&image.object, facts)
                })
                .collect(),
            secrets: input
                .secrets
                .iter()
                .map(|used| json!({"provider": used.provider, "reference": used.reference}))
                .collect(),
            target: json!(input.target),
            unit: input.unit.as_ref().map_or(Json::Null, unit_facts),
            now: input.now,
        }
    }
}

fn with_reference(object: &ObjectRef, mut facts: Json) -> Json {
    facts["apiVersion"] = object.gvk.api_version().into();
    facts["kind"] = object.gvk.kind.clone().into();
    facts["namespace"] = object.namespace.clone().unwrap_or_default().into();
    facts["name"] = object.name.clone().into();
    facts
}

fn unit_facts(unit: &UnitFacts) -> Json {
    json!({
        "signedBy": unit.signed_by,
        "verifiedIn": unit.verified_in,
        "created": unit.created.map(|created| created.to_string()),
        "cleanGit": unit.clean_git,
    })
}

//! `authorizer` in expressions: asks what the user of a request, or a service account, may do.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use slipway_cel::{Answer, Env, EvalError, Opaque, Overload, Type, Value};

use crate::auth::User;
use crate::auth::rbac::{AccessDecision, AccessRules, RequestAttributes};
use crate::write::admit::meta;

use super::WriteAttempt;

/// The names of the variables.
pub(super) const AUTHORIZER: &str = "authorizer";
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// Someone whose rights can be asked for.
#[derive(Clone)]
struct Authorizer {
    rules: AccessRules,
    /// Nobody for what the server does by itself, which may do everything.
    user: Option<Arc<User>>,
}

/// Access that is asked for, put together call by call.
#[derive(Clone, Default)]
struct AskedAccess {
    path: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

/// A value of this library. The types of Kubernetes' own are told apart by what may be called on them.
#[derive(Clone)]
enum AuthorizerValue {
    Authorizer(Authorizer),
    PathCheck(Authorizer, AskedAccess),
    GroupCheck(Authorizer, AskedAccess),
    ResourceCheck(Authorizer, AskedAccess),
    Decision(AccessDecision),
}

const AUTHORIZER_TYPE: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

impl fmt::Debug for AuthorizerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

impl Opaque for AuthorizerValue {
    fn type_name(&self) -> &str {
        match self {
            AuthorizerValue::Authorizer(_) => AUTHORIZER_TYPE,
            AuthorizerValue::PathCheck(..) => PATH_CHECK,
            AuthorizerValue::GroupCheck(..) => GROUP_CHECK,
            AuthorizerValue::ResourceCheck(..) => RESOURCE_CHECK,
            AuthorizerValue::Decision(_) => DECISION,
        }
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        match (self, other.as_any().downcast_ref::<Self>()) {
            (AuthorizerValue::Decision(a), Some(AuthorizerValue::Decision(b))) => a == b,
            _ => false,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn show(&self) -> String {
        self.type_name().to_owned()
    }
}

impl AuthorizerValue {
    fn into_value<'a>(self) -> Value<'a> {
        Value::Opaque(Arc::new(self))
    }

    /// The answer to whether a verb is allowed.
    fn check(&self, verb: &str) -> Answer<'static> {
        let (AuthorizerValue::PathCheck(authorizer, asked)
        | AuthorizerValue::ResourceCheck(authorizer, asked)) = self
        else {
            return Err(EvalError::no_overload());
        };
        let request = RequestAttributes {
            verb,
            group: &asked.group,
            resource: &asked.resource,
            subresource: &asked.subresource,
            namespace: &asked.namespace,
            name: &asked.name,
            path: &asked.path,
        };
        let decision = match &authorizer.user {
            Some(user) => authorizer.rules.decide(user, &request),
            None => AccessDecision { allowed: true, reason: String::new() },
        };
        Ok(AuthorizerValue::Decision(decision).into_value())
    }
}

/// Both variables' values for a write.
pub(super) fn authorizer_values(rules: AccessRules, attempt: &WriteAttempt<'_>) -> [Value<'static>; 2] {
    let authorizer = Authorizer { rules, user: attempt.author.user.clone() };
    let asked = AskedAccess {
        group: attempt.served.def.group.clone(),
        resource: attempt.served.def.plural.clone(),
        subresource: attempt.subresource.to_owned(),
        namespace: attempt.metadata_text("namespace").to_owned(),
        name: attempt.metadata_text("name").to_owned(),
        ..AskedAccess::default()
    };
    [
        AuthorizerValue::Authorizer(authorizer.clone()).into_value(),
        AuthorizerValue::ResourceCheck(authorizer, asked).into_value(),
    ]
}

/// Declares the variables and what can be called on them.
pub(super) fn declare_authorizer(env: Env) -> Env {
    let env = env
        .variable(AUTHORIZER, Type::opaque(AUTHORIZER_TYPE))
        .variable(REQUEST_RESOURCE, Type::opaque(RESOURCE_CHECK));
    overloads().into_iter().fold(env, Env::function)
}

fn receiver<'v>(args: &'v [Value<'_>]) -> Result<&'v AuthorizerValue, EvalError> {
    match args.first() {
        Some(Value::Opaque(inner)) => inner.as_any().downcast_ref().ok_or_else(EvalError::no_overload),
        _ => Err(EvalError::no_overload()),
    }
}

fn text<'v>(args: &'v [Value<'_>], position: usize) -> Result<&'v str, EvalError> {
    args.get(position).and_then(Value::as_str).ok_or_else(EvalError::no_overload)
}

/// A call that says more about a resource.
fn narrows(name: &str, set: fn(&mut AskedAccess, &str)) -> Overload {
    let check = || Type::opaque(RESOURCE_CHECK);
    Overload::method(name, vec![check(), Type::String], check(), move |_, args| {
        let AuthorizerValue::ResourceCheck(authorizer, asked) = receiver(args)? else {
            return Err(EvalError::no_overload());
        };
        let mut asked = asked.clone();
        set(&mut asked, text(args, 1)?);
        Ok(AuthorizerValue::ResourceCheck(authorizer.clone(), asked).into_value())
    })
}

/// A call that reads a decision.
fn decides(name: &str, result: Type, read: fn(&AccessDecision) -> Value<'static>) -> Overload {
    Overload::method(name, vec![Type::opaque(DECISION)], result, move |_, args| match receiver(args)? {
        AuthorizerValue::Decision(decision) => Ok(read(decision)),
        _ => Err(EvalError::no_overload()),
    })
}

fn overloads() -> Vec<Overload> {
    let of = |name: &str| Type::opaque(name);
    let check = |check: &str| {
        Overload::method("check", vec![of(check), Type::String], of(DECISION), |_, args| {
            receiver(args)?.check(text(args, 1)?)
        })
    };
    vec![
        Overload::method("path", vec![of(AUTHORIZER_TYPE), Type::String], of(PATH_CHECK), |_, args| {
            let AuthorizerValue::Authorizer(authorizer) = receiver(args)? else {
                return Err(EvalError::no_overload());
            };
            let path = text(args, 1)?;
            if path.is_empty() {
                return Err(EvalError::invalid("path must not be empty"));
            }
            let asked = AskedAccess { path: path.to_owned(), ..AskedAccess::default() };
            Ok(AuthorizerValue::PathCheck(authorizer.clone(), asked).into_value())
        }),
        Overload::method("group", vec![of(AUTHORIZER_TYPE), Type::String], of(GROUP_CHECK), |_, args| {
            let AuthorizerValue::Authorizer(authorizer) = receiver(args)? else {
                return Err(EvalError::no_overload());
            };
            let asked = AskedAccess { group: text(args, 1)?.to_owned(), ..AskedAccess::default() };
            Ok(AuthorizerValue::GroupCheck(authorizer.clone(), asked).into_value())
        }),
        Overload::method(
            "serviceAccount",
            vec![of(AUTHORIZER_TYPE), Type::String, Type::String],
            of(AUTHORIZER_TYPE),
            |_, args| {
                let AuthorizerValue::Authorizer(authorizer) = receiver(args)? else {
                    return Err(EvalError::no_overload());
                };
                service_account(authorizer, text(args, 1)?, text(args, 2)?)
            },
        ),
        Overload::method("resource", vec![of(GROUP_CHECK), Type::String], of(RESOURCE_CHECK), |_, args| {
            let AuthorizerValue::GroupCheck(authorizer, asked) = receiver(args)? else {
                return Err(EvalError::no_overload());
            };
            let resource = text(args, 1)?;
            if resource.is_empty() {
                return Err(EvalError::invalid("resource must not be empty"));
            }
            let asked = AskedAccess { resource: resource.to_owned(), ..asked.clone() };
            Ok(AuthorizerValue::ResourceCheck(authorizer.clone(), asked).into_value())
        }),
        narrows("subresource", |asked, text| text.clone_into(&mut asked.subresource)),
        narrows("namespace", |asked, text| text.clone_into(&mut asked.namespace)),
        narrows("name", |asked, text| text.clone_into(&mut asked.name)),
        // Rules do not know selectors: they allow all objects or none.
        narrows("fieldSelector", |_, _| {}),
        narrows("labelSelector", |_, _| {}),
        check(PATH_CHECK),
        check(RESOURCE_CHECK),
        decides("allowed", Type::Bool, |decision| Value::Bool(decision.allowed)),
        decides("reason", Type::String, |decision| Value::string(decision.reason.clone())),
        // Rules in a store can always be read.
        decides("errored", Type::Bool, |_| Value::Bool(false)),
        decides("error", Type::String, |_| Value::string(String::new())),
    ]
}

/// Asks for a service account instead.
fn service_account(authorizer: &Authorizer, namespace: &str, name: &str) -> Answer<'static> {
    if !meta::subdomain_problems(name).is_empty() {
        return Err(EvalError::invalid("Invalid service account name"));
    }
    if !meta::dns_label_problems(namespace).is_empty() {
        return Err(EvalError::invalid("Invalid service account namespace"));
    }
    let all = "system:serviceaccounts";
    let user = User::new(
        &format!("system:serviceaccount:{namespace}:{name}"),
        &[all, &format!("{all}:{namespace}")],
    );
    // Asked about rather than logged in: rules decide, enforced or not.
    let user = User { impersonated: true, ..user };
    let authorizer = Authorizer { rules: authorizer.rules.clone(), user: Some(Arc::new(user)) };
    Ok(AuthorizerValue::Authorizer(authorizer).into_value())
}

//! Walks a program and computes its value.

mod access;
mod arithmetic;
mod bindings;
mod coerce;
mod looping;
mod meter;

use std::sync::Arc;

pub use bindings::Bindings;
pub use meter::Meter;

use crate::check::{Coerce, Node, Step};
use crate::deep::deeper;
use crate::error::EvalError;
use crate::library::{Answer, Overload};
use crate::parse::Binary;
use crate::program::{LeafRead, Program, Trace};
use crate::value::{Key, Map, Value, compare, equal};

/// Evaluates a program.
pub(crate) fn run<'a>(program: &Program, bindings: &Bindings<'a>) -> Answer<'a> {
    Run::new(program, bindings, None).eval(&program.node)
}

/// Evaluates a program and keeps what it reads.
pub(crate) fn trace<'a>(program: &Program, bindings: &Bindings<'a>) -> Trace<'a> {
    let mut run = Run::new(program, bindings, Some(Vec::new()));
    let result = run.eval(&program.node);
    Trace { result, reads: run.reads.unwrap_or_default() }
}

struct Run<'p, 'a> {
    program: &'p Program,
    variables: Vec<Option<Value<'a>>>,
    locals: Vec<Value<'a>>,
    meter: Meter<'a>,
    /// The leaves read so far, when they are kept.
    reads: Option<Vec<LeafRead<'a>>>,
}

impl<'p, 'a> Run<'p, 'a> {
    fn new(program: &'p Program, bindings: &Bindings<'a>, reads: Option<Vec<LeafRead<'a>>>) -> Self {
        let variables = program.variables.iter().map(|name| bindings.get(name).cloned()).collect();
        let meter = Meter::new(program.cost, bindings);
        let locals = vec![Value::Null; program.locals];
        Self { program, variables, locals, meter, reads }
    }

    fn eval(&mut self, node: &Node) -> Answer<'a> {
        self.meter.charge(1)?;
        let result = deeper(|| self.eval_step(node)).map_err(|error| error.at(node.offset));
        let result = match result {
            Ok(value) if node.coerce != Coerce::No => Ok(coerce::coerce(value, node.coerce)),
            other => other,
        };
        if self.reads.is_some() {
            self.keep(node.offset, &result);
        }
        result
    }

    /// Keeps the first value of a leaf.
    #[cold]
    fn keep(&mut self, offset: u32, result: &Answer<'a>) {
        let place = self.program.leaves.iter().position(|leaf| leaf.offset == offset);
        if let (Some(leaf), Some(reads)) = (place, &mut self.reads)
            && !reads.iter().any(|read| read.leaf == leaf)
        {
            reads.push(LeafRead { leaf, value: result.as_ref().ok().cloned() });
        }
    }

    fn eval_step(&mut self, node: &Node) -> Answer<'a> {
        match &node.step {
            Step::Literal(value) => Ok(value.clone()),
            Step::Variable(place) => self.variable_value(*place),
            Step::Local(slot) => Ok(self.locals.get(*slot as usize).cloned().unwrap_or(Value::Null)),
            Step::Select { operand, field } => {
                let operand = self.eval(operand)?;
                self.select_field(&operand, field)
            }
            Step::SelectOptional { operand, field } => {
                let operand = self.eval(operand)?;
                self.select_optional(&operand, field)
            }
            Step::Has { operand, field } => {
                let operand = self.eval(operand)?;
                self.has_field(&operand, field)
            }
            Step::Index(both) => {
                let (operand, index) = (self.eval(&both[0])?, self.eval(&both[1])?);
                self.index_value(&operand, &index)
            }
            Step::IndexOptional(both) => {
                let (operand, index) = (self.eval(&both[0])?, self.eval(&both[1])?);
                self.index_optional(operand, &index)
            }
            Step::And(terms) => self.eval_logic(terms, false),
            Step::Or(terms) => self.eval_logic(terms, true),
            Step::Not(operand) => match self.eval(operand)? {
                Value::Bool(truth) => Ok(Value::Bool(!truth)),
                _ => Err(EvalError::no_overload()),
            },
            Step::Flag(operand) => match self.eval(operand)? {
                Value::String(text) if *text == *"true" => Ok(Value::Bool(true)),
                Value::String(text) if *text == *"false" => Ok(Value::Bool(false)),
                _ => Err(EvalError::no_overload()),
            },
            Step::Negate(operand) => arithmetic::negate(&self.eval(operand)?),
            Step::Ternary(parts) => match self.eval(&parts[0])? {
                Value::Bool(true) => self.eval(&parts[1]),
                Value::Bool(false) => self.eval(&parts[2]),
                _ => Err(EvalError::no_overload()),
            },
            Step::Binary(operator, both) => {
                let left = self.eval(&both[0])?;
                let right = self.eval(&both[1])?;
                self.eval_binary(*operator, &left, &right)
            }
            Step::Matches(text, pattern) => match self.eval(text)? {
                Value::String(text) => {
                    self.meter.charge_bytes(text.len())?;
                    Ok(Value::Bool(pattern.is_match(&text)))
                }
                _ => Err(EvalError::no_overload()),
            },
            Step::List(items) => self.eval_list(items),
            Step::Map(entries) => self.eval_map(entries),
            Step::Call { overloads, args } => self.eval_call(overloads, args),
            Step::Or2 { target, other, value } => self.eval_or(target, other, *value),
            Step::Loop(inner) => self.eval_loop(inner),
            Step::Bind { slot, init, body } => {
                let init = self.eval(init)?;
                self.set_local(*slot, init);
                self.eval(body)
            }
            Step::OptMap { slot, target, body, flat } => self.opt_map(*slot, target, body, *flat),
        }
    }

    fn set_local(&mut self, slot: u32, value: Value<'a>) {
        if let Some(local) = self.locals.get_mut(slot as usize) {
            *local = value;
        }
    }

    fn variable_value(&self, place: u32) -> Answer<'a> {
        match self.variables.get(place as usize) {
            Some(Some(value)) => Ok(value.clone()),
            _ => {
                let name = self.program.variables.get(place as usize).map_or("", |name| name);
                Err(EvalError::unbound(name))
            }
        }
    }

    /// `&&` and `||`: one decisive term decides, whatever errors the others have and wherever it stands.
    fn eval_logic(&mut self, terms: &[Node], decisive: bool) -> Answer<'a> {
        let mut failed: Option<EvalError> = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(truth)) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::no_overload())),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn eval_binary(&mut self, operator: Binary, left: &Value<'a>, right: &Value<'a>) -> Answer<'a> {
        let order = |test: fn(std::cmp::Ordering) -> bool| match compare(left, right) {
            Some(order) => Ok(Value::Bool(test(order))),
            // NaN is neither less nor more.
            None if matches!((left, right), (Value::Double(_), _) | (_, Value::Double(_)))
                && is_number(left)
                && is_number(right) =>
            {
                Ok(Value::Bool(false))
            }
            None => Err(EvalError::no_overload()),
        };
        match operator {
            Binary::Equal => Ok(Value::Bool(equal(left, right, &self.meter)?)),
            Binary::NotEqual => Ok(Value::Bool(!equal(left, right, &self.meter)?)),
            Binary::Less => order(std::cmp::Ordering::is_lt),
            Binary::LessEqual => order(std::cmp::Ordering::is_le),
            Binary::Greater => order(std::cmp::Ordering::is_gt),
            Binary::GreaterEqual => order(std::cmp::Ordering::is_ge),
            Binary::In => self.eval_contains(left, right),
            _ => arithmetic::binary(operator, left, right, &self.meter),
        }
    }

    fn eval_contains(&mut self, item: &Value<'a>, whole: &Value<'a>) -> Answer<'a> {
        match whole {
            Value::List(list) => {
                for element in list.iter() {
                    if equal(&element, item, &self.meter)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            Value::Map(map) => Ok(Value::Bool(Key::of(item).is_some_and(|key| map.get(&key).is_some()))),
            _ => Err(EvalError::no_overload()),
        }
    }

    fn eval_list(&mut self, items: &[(Node, bool)]) -> Answer<'a> {
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.eval(item)?, optional) {
                (Value::Optional(inner), true) => values.extend(inner.map(|inner| (*inner).clone())),
                (_, true) => return Err(EvalError::no_overload()),
                (value, false) => values.push(value),
            }
        }
        Ok(Value::list(values))
    }

    fn eval_map(&mut self, entries: &[(Node, Node, bool)]) -> Answer<'a> {
        let mut made = crate::value::Entries::default();
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            let key = match &key {
                Value::Double(_) => None,
                other => Key::of(other),
            };
            let Some(key) = key else { return Err(EvalError::invalid("unsupported key type")) };
            let value = match (self.eval(value)?, optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => (*inner).clone(),
                (_, true) => return Err(EvalError::no_overload()),
                (value, false) => value,
            };
            let shown = key.clone();
            if !made.insert(key, value) {
                return Err(EvalError::invalid(format!("Failed with repeated key: {}", shown.show())));
            }
        }
        Ok(Value::Map(Map::from(made)))
    }

    fn eval_call(&mut self, overloads: &[Arc<Overload>], args: &[Node]) -> Answer<'a> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        match overloads.iter().find(|overload| overload.admits(&values)) {
            Some(overload) => (overload.run)(&self.meter, &values),
            None => Err(EvalError::no_overload()),
        }
    }

    fn eval_or(&mut self, target: &Node, other: &Node, value: bool) -> Answer<'a> {
        match self.eval(target)? {
            Value::Optional(Some(inner)) if value => Ok((*inner).clone()),
            found @ Value::Optional(Some(_)) => Ok(found),
            Value::Optional(None) => match self.eval(other)? {
                found @ Value::Optional(_) => Ok(found),
                found if value => Ok(found),
                _ => Err(EvalError::no_overload()),
            },
            _ => Err(EvalError::no_overload()),
        }
    }

    fn opt_map(&mut self, slot: u32, target: &Node, body: &Node, flat: bool) -> Answer<'a> {
        match self.eval(target)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => {
                self.set_local(slot, (*inner).clone());
                let found = self.eval(body)?;
                Ok(if flat { found } else { Value::some(found) })
            }
            _ => Err(EvalError::no_overload()),
        }
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

//! The checked form of an expression: names resolved, overloads chosen, constants computed.

use std::sync::Arc;

use crate::library::{Overload, Pattern};
use crate::parse::Binary;
use crate::value::Value;

/// One step of a program.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) offset: u32,
    pub(crate) coerce: Coerce,
    pub(crate) step: Step,
}

/// The conversion of a JSON value whose form differs from the declared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coerce {
    No,
    /// `1` where a double is declared.
    Double,
    /// `1.0` where an integer is declared.
    Int,
    /// Text where a time is declared.
    Timestamp,
    Duration,
    /// Base64 where bytes are declared.
    Bytes,
}

#[derive(Debug)]
pub(crate) enum Step {
    Literal(Value<'static>),
    Variable(u32),
    Local(u32),
    Select {
        operand: Box<Node>,
        field: Arc<str>,
    },
    /// A field that may be absent, of a value that may be optional.
    SelectOptional {
        operand: Box<Node>,
        field: Arc<str>,
    },
    Has {
        operand: Box<Node>,
        field: Arc<str>,
    },
    Index(Box<[Node; 2]>),
    IndexOptional(Box<[Node; 2]>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    /// A text that says `true` or `false`.
    Flag(Box<Node>),
    Ternary(Box<[Node; 3]>),
    Binary(Binary, Box<[Node; 2]>),
    Matches(Box<Node>, Pattern),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Call {
        overloads: Vec<Arc<Overload>>,
        args: Vec<Node>,
    },
    /// `optional.or(other)` and `orValue`, which look at the other only when they must.
    Or2 {
        target: Box<Node>,
        other: Box<Node>,
        value: bool,
    },
    Loop(Box<Loop>),
    /// `cel.bind`
    Bind {
        slot: u32,
        init: Box<Node>,
        body: Box<Node>,
    },
    /// `optMap`, and `optFlatMap` when flat.
    OptMap {
        slot: u32,
        target: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// `map`, `transformList`
    Map,
    TransformMap,
    SortBy,
}

/// A macro that goes through a list or a map.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) kind: LoopKind,
    pub(crate) range: Node,
    /// The slot of the element; with a second variable, the key goes here and the element there.
    pub(crate) slot: u32,
    pub(crate) second: Option<u32>,
    pub(crate) element: Coerce,
    pub(crate) condition: Option<Node>,
    pub(crate) result: Option<Node>,
}

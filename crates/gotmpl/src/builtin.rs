//! The functions that are part of the engine: text/template's own and Helm's `include` and `tpl`.

use crate::func::{FuncCode, FuncMap, FuncSignature, GoType};

/// A function whose operands the engine handles itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Builtin {
    And,
    Or,
    Not,
    Len,
    Index,
    Slice,
    Call,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Print,
    Printf,
    Println,
    Html,
    Js,
    UrlQuery,
    Include,
    Tpl,
}

impl FuncMap {
    /// The functions text/template always has.
    pub fn builtins() -> Self {
        use Builtin as B;
        let mut map = FuncMap::new();
        let mut add = |name: &str, signature, b| map.define(name, signature, FuncCode::Builtin(b));
        add("and", FuncSignature::variadic(&[GoType::Any], GoType::Any, GoType::Any), B::And);
        add("or", FuncSignature::variadic(&[GoType::Any], GoType::Any, GoType::Any), B::Or);
        add("not", FuncSignature::new(&[GoType::Any], GoType::Bool), B::Not);
        add("len", FuncSignature::new(&[GoType::Any], GoType::Int), B::Len);
        add("index", FuncSignature::variadic(&[GoType::Any], GoType::Any, GoType::Any), B::Index);
        add("slice", FuncSignature::variadic(&[GoType::Any], GoType::Any, GoType::Any), B::Slice);
        add("call", FuncSignature::variadic(&[GoType::Any], GoType::Any, GoType::Any), B::Call);
        add("eq", FuncSignature::variadic(&[GoType::Any], GoType::Any, GoType::Bool), B::Eq);
        for (name, b) in [("ne", B::Ne), ("lt", B::Lt), ("le", B::Le), ("gt", B::Gt), ("ge", B::Ge)] {
            add(name, FuncSignature::new(&[GoType::Any, GoType::Any], GoType::Bool), b);
        }
        add("print", FuncSignature::variadic(&[], GoType::Any, GoType::String), B::Print);
        add("println", FuncSignature::variadic(&[], GoType::Any, GoType::String), B::Println);
        add("printf", FuncSignature::variadic(&[GoType::String], GoType::Any, GoType::String), B::Printf);
        add("html", FuncSignature::variadic(&[], GoType::Any, GoType::String), B::Html);
        add("js", FuncSignature::variadic(&[], GoType::Any, GoType::String), B::Js);
        add("urlquery", FuncSignature::variadic(&[], GoType::Any, GoType::String), B::UrlQuery);
        map
    }
}

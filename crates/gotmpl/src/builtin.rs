//! The functions that are part of the engine: text/template's own and Helm's `include` and `tpl`.

use crate::func::{Code, FuncMap, Signature, Ty};

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
        let mut add = |name: &str, signature, b| map.define(name, signature, Code::Builtin(b));
        add("and", Signature::variadic(&[Ty::Any], Ty::Any, Ty::Any), B::And);
        add("or", Signature::variadic(&[Ty::Any], Ty::Any, Ty::Any), B::Or);
        add("not", Signature::new(&[Ty::Any], Ty::Bool), B::Not);
        add("len", Signature::new(&[Ty::Any], Ty::Int), B::Len);
        add("index", Signature::variadic(&[Ty::Any], Ty::Any, Ty::Any), B::Index);
        add("slice", Signature::variadic(&[Ty::Any], Ty::Any, Ty::Any), B::Slice);
        add("call", Signature::variadic(&[Ty::Any], Ty::Any, Ty::Any), B::Call);
        add("eq", Signature::variadic(&[Ty::Any], Ty::Any, Ty::Bool), B::Eq);
        for (name, b) in [("ne", B::Ne), ("lt", B::Lt), ("le", B::Le), ("gt", B::Gt), ("ge", B::Ge)] {
            add(name, Signature::new(&[Ty::Any, Ty::Any], Ty::Bool), b);
        }
        add("print", Signature::variadic(&[], Ty::Any, Ty::String), B::Print);
        add("println", Signature::variadic(&[], Ty::Any, Ty::String), B::Println);
        add("printf", Signature::variadic(&[Ty::String], Ty::Any, Ty::String), B::Printf);
        add("html", Signature::variadic(&[], Ty::Any, Ty::String), B::Html);
        add("js", Signature::variadic(&[], Ty::Any, Ty::String), B::Js);
        add("urlquery", Signature::variadic(&[], Ty::Any, Ty::String), B::UrlQuery);
        map
    }
}

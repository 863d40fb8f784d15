//! Types and kinds.

use crate::func::{FuncMap, GoType};

const A: GoType = GoType::Any;
const S: GoType = GoType::String;

pub(super) fn add(map: &mut FuncMap) {
    map.add("typeOf", &[A], S, |_, args| Ok((&*args.get(0).type_name()).into()));
    map.add("typeIs", &[S, A], GoType::Bool, |_, args| {
        Ok((args.str(0) == args.get(1).type_name().as_bytes()).into())
    });
    map.add("typeIsLike", &[S, A], GoType::Bool, |_, args| {
        let found = args.get(1).type_name();
        let found = found.as_bytes();
        Ok((args.str(0) == found || found.strip_prefix(b"*") == Some(args.str(0))).into())
    });
    map.add("kindOf", &[A], S, |_, args| Ok(args.get(0).kind().name().into()));
    map.add("kindIs", &[S, A], GoType::Bool, |_, args| {
        Ok((args.str(0) == args.get(1).kind().name().as_bytes()).into())
    });
}

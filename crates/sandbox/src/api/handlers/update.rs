//! PUT: a whole object in place of the live one.

use serde_json::Value;

use crate::http::respond::Reply;
use crate::status::{Cause, Named, Result, Status};
use crate::write::admit::meta;
use crate::write::admit::prepare::Part;
use crate::write::admit::rules;
use crate::write::convert;
use crate::write::{Author, Ownership, Proposal, Written};

use super::{Naming, Request, check_identity};

pub(super) fn handle(request: &Request) -> Result<Reply> {
    replace(request, Part::Main)
}

/// Replaces one part of an object by the body's.
pub(super) fn replace(request: &Request, part: Part) -> Result<Reply> {
    let author = request.author("UpdateOptions")?;
    let validation = request.query.field_validation("UpdateOptions")?;
    let mut warnings = Vec::new();
    let value = request.decode_object(validation, &mut warnings)?;
    match replace_by(request, part, &author, value) {
        Ok(mut written) => {
            warnings.append(&mut written.warnings);
            written.warnings = warnings;
            Ok(request.reply(written))
        }
        Err(mut status) => {
            status.warnings.append(&mut warnings);
            Err(status)
        }
    }
}

fn replace_by(request: &Request, part: Part, author: &Author, mut value: Value) -> Result<Written> {
    check_identity(request, &mut value, Naming::Required)?;
    let served = request.storage();
    let value = convert::to_storage(&request.served, value);
    let key = request.key();
    let missing = request.core.store.get(&served.table, &key).is_none();
    let kind = served.rule_key();
    if missing && part == Part::Main && rules::created_by_update(kind) && served.custom.is_none() {
        let mut value = value;
        let uid = meta::text(&value, "uid");
        if !uid.is_empty() {
            return Err(crate::write::uid_conflict(&served, &key, uid, "", author.dry_run));
        }
        meta::of(&mut value).shift_remove("resourceVersion");
        return request.core.create(&served, &request.path.namespace, value, author, Ownership::Update);
    }
    let ends = meta::text(&value, "deletionTimestamp");
    let deleting = request.core.store.get(&served.table, &key).is_some_and(|object| object.deleting);
    if !missing && !ends.is_empty() && !deleting {
        let cause = Cause::invalid("metadata.deletionTimestamp", &ends.into(), "field is immutable");
        return Err(Status::invalid(served.named_kind(), &key.name, vec![cause]));
    }
    let unversioned = matches!(meta::text(&value, "resourceVersion"), "" | "0");
    if !missing && unversioned && (served.custom.is_some() || rules::needs_version_for_update(kind)) {
        let subject = Named { group: &served.def.group, what: &served.def.plural };
        return Err(Status::invalid(
            subject,
            &request.path.name,
            vec![Cause::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update")],
        ));
    }
    request.core.update(&served, &key, part, author, &mut |_| {
        Ok(Proposal { value: value.clone(), ownership: Ownership::Update, warnings: vec![] })
    })
}

//! Running the enabled patches over the objects, in order.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use slipway_problem::{Location, Problems};

use super::eval::{ChangeKind, FieldWrite, StatementInput, StatementWalk, WalkError};
use super::ready::ReadyStatement;
use super::realize::{NoValue, ValueRealizer};
use super::seg::PathSegment;
use super::target::ObjectTargets;
use super::whole::{self, WholeOutcome};
use crate::kpatch::{GroupBody, PatchGroup, PatchOp, Statement};
use crate::params::{ParamData, ParamValue, ResolvedParams};
use crate::patches::Patch;
use crate::report::coded_error;
use crate::resources::{Resource, label_of};
use crate::schema::{FieldType, KindTypes};
use crate::val::ValuePos;

/// Problems of one statement beyond these say nothing new.
const MOST_PER_STATEMENT: usize = 20;
/// A patch with more problems than these is broken as a whole.
const MOST_PER_PATCH: usize = 200;
/// Most bytes all patches together write: a large parameter times many objects would fill all memory.
const MOST_BYTES: usize = 64 << 20;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WriteKind {
    Set,
    Insert,
    Delete,
    Replace,
}

/// One change a patch made to one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchWrite {
    /// Index into the objects as loaded.
    pub resource: usize,
    pub path: Vec<PathSegment>,
    pub kind: WriteKind,
    pub old: Option<Json>,
    pub new: Option<Json>,
    /// Index into all patches.
    pub patch: usize,
    pub(crate) group: usize,
    /// `None`: the group as a whole.
    pub(crate) statement: Option<usize>,
    pub(crate) pos: ValuePos,
}

/// The changes of all patches.
#[derive(Default)]
pub(crate) struct AppliedPatches {
    pub(crate) writes: Vec<PatchWrite>,
}

struct PatchRun<'a> {
    params: &'a ResolvedParams,
    kinds: &'a KindTypes,
    targets: ObjectTargets,
    problems: &'a mut Problems,
    writes: WriteLog,
}

/// The changes so far, and the bytes they put into objects.
#[derive(Default)]
struct WriteLog {
    writes: Vec<PatchWrite>,
    bytes: usize,
}

impl WriteLog {
    /// Returns true once patches wrote more than they may.
    fn is_full(&self) -> bool {
        self.bytes > MOST_BYTES
    }

    fn push_write(&mut self, write: PatchWrite) {
        self.bytes += write.new.as_ref().map_or(0, json_weight);
        self.writes.push(write);
    }
}

/// The bytes of a value, as far as they matter to a bound.
fn json_weight(value: &Json) -> usize {
    let mut bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        bytes += 16;
        match value {
            Json::String(text) => bytes += text.len(),
            Json::Array(items) => open.extend(items),
            Json::Object(map) => {
                bytes += map.keys().map(String::len).sum::<usize>();
                open.extend(map.values());
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }
    bytes
}

/// Runs `order` (indices into `patches`) over the objects.
pub(crate) fn apply_patches(
    resources: &mut [Resource],
    patches: &[Patch],
    order: &[usize],
    params: &ResolvedParams,
    kinds: &KindTypes,
    problems: &mut Problems,
) -> AppliedPatches {
    let targets = ObjectTargets::new(resources);
    let mut run = PatchRun { params, kinds, targets, problems, writes: WriteLog::default() };
    for &index in order {
        if run.writes.is_full() {
            break;
        }
        run.run_patch(index, &patches[index], resources);
    }
    AppliedPatches { writes: run.writes.writes }
}

impl PatchRun<'_> {
    fn run_patch(&mut self, index: usize, patch: &Patch, resources: &mut [Resource]) {
        let mut failed = HashSet::new();
        let mut found = Problems::new();
        let mut warned = HashSet::new();
        for (number, group) in patch.content.groups.iter().enumerate() {
            if found.len() > MOST_PER_PATCH {
                break;
            }
            self.run_group(index, patch, number, group, resources, &mut failed, &mut found, &mut warned);
            if self.writes.is_full() {
                let message = format!("patches write more than {} MiB into objects", MOST_BYTES >> 20);
                let at = Location::new(&*patch.file, group.header.pos.line, group.header.pos.column);
                found.push(coded_error("KX061", message).at(at));
                break;
            }
        }
        found.add_excerpts(&patch.file, &patch.text);
        self.problems.extend(found);
    }

    #[allow(clippy::too_many_arguments)]
    fn run_group(
        &mut self,
        index: usize,
        patch: &Patch,
        number: usize,
        group: &PatchGroup,
        resources: &mut [Resource],
        failed: &mut HashSet<usize>,
        found: &mut Problems,
        warned: &mut HashSet<(u32, u32)>,
    ) {
        let mut warnings = Problems::new();
        let mut realize = ValueRealizer { params: self.params, file: &patch.file, warnings: &mut warnings };
        let chosen =
            match self.targets.choose(&group.header.scope, group.header.optional, resources, &realize) {
                Ok(chosen) => chosen,
                Err(NoValue::Broken) => return,
                Err(NoValue::Problem(problem)) => {
                    found.push(problem);
                    return;
                }
            };
        found.extend(chosen.warning);
        let objects: Vec<usize> =
            chosen.objects.into_iter().filter(|object| !failed.contains(object)).collect();
        match &group.body {
            GroupBody::Statements(statements) => {
                if let Some(builder) = &group.header.builder {
                    let task = StatementTask { index, number, statement: None, group, pos: group.header.pos };
                    run_builder(
                        &mut self.writes,
                        &task,
                        builder,
                        statements,
                        &objects,
                        resources,
                        self.kinds,
                        &mut realize,
                        failed,
                        found,
                        warned,
                    );
                } else {
                    for (position, statement) in statements.iter().enumerate() {
                        if found.len() > MOST_PER_PATCH || self.writes.is_full() {
                            break;
                        }
                        let task = StatementTask {
                            index,
                            number,
                            statement: Some(position),
                            group,
                            pos: statement.pos,
                        };
                        if statement.switches {
                            switch_objects(&task, statement, &objects, resources, &mut realize, found);
                            continue;
                        }
                        let ready = ReadyStatement::new(
                            group.header.steps.iter().chain(&statement.steps),
                            &statement.op,
                            statement.pos,
                            &realize,
                        );
                        let optional = group.header.optional || statement.optional;
                        run_statement(
                            &mut self.writes,
                            &task,
                            ready,
                            StatementInput::Value(statement.value.as_ref()),
                            optional,
                            &objects,
                            resources,
                            self.kinds,
                            &mut realize,
                            failed,
                            found,
                            warned,
                        );
                    }
                }
            }
            GroupBody::Strategic(val) | GroupBody::Merge(val) | GroupBody::Json(val) => {
                for &object in &objects {
                    if self.writes.is_full() {
                        break;
                    }
                    let resource = &mut resources[object];
                    let ty = if matches!(group.body, GroupBody::Json(_)) {
                        FieldType::unknown()
                    } else {
                        resource.ty(self.kinds)
                    };
                    let label = resource.label();
                    let field = || label.clone();
                    let value = match realize.value(val, ty, &field) {
                        Ok(value) => value,
                        Err(NoValue::Broken) => continue,
                        Err(NoValue::Problem(problem)) => {
                            found.push(problem);
                            failed.insert(object);
                            continue;
                        }
                    };
                    let ty = resource.ty(self.kinds);
                    match whole::apply_whole(
                        &resource.value,
                        &group.body,
                        value,
                        ty,
                        &patch.file,
                        val.pos,
                        &label,
                    ) {
                        Ok((WholeOutcome::Disabled, _)) => {
                            resource.enabled =
                                Some((false, Location::new(&*patch.file, val.pos.line, val.pos.column)));
                        }
                        Ok((WholeOutcome::Changed { object: changed, changes }, remark)) => {
                            resource.value = Arc::new(changed);
                            let task = StatementTask { index, number, statement: None, group, pos: val.pos };
                            record_writes(&mut self.writes, &task, object, changes);
                            found.extend(remark);
                        }
                        Err(problem) => {
                            found.push(problem);
                            failed.insert(object);
                        }
                    }
                }
            }
        }
        found.extend(warnings);
    }
}

/// The statement that runs, and its patch.
struct StatementTask<'t> {
    index: usize,
    number: usize,
    statement: Option<usize>,
    group: &'t PatchGroup,
    pos: ValuePos,
}

fn record_writes(writes: &mut WriteLog, task: &StatementTask<'_>, object: usize, changes: Vec<FieldWrite>) {
    for change in changes {
        writes.push_write(PatchWrite {
            resource: object,
            path: change.path,
            kind: match change.did {
                ChangeKind::Set => WriteKind::Set,
                ChangeKind::Insert => WriteKind::Insert,
                ChangeKind::Delete => WriteKind::Delete,
                ChangeKind::Replace => WriteKind::Replace,
            },
            old: change.old,
            new: change.new,
            patch: task.index,
            group: task.number,
            statement: task.statement,
            pos: task.pos,
        });
    }
}

/// Runs one statement on every object of its header.
#[allow(clippy::too_many_arguments)]
fn run_statement(
    writes: &mut WriteLog,
    task: &StatementTask<'_>,
    ready: Result<ReadyStatement, NoValue>,
    input: StatementInput<'_>,
    optional: bool,
    objects: &[usize],
    resources: &mut [Resource],
    kinds: &KindTypes,
    realize: &mut ValueRealizer<'_>,
    failed: &mut HashSet<usize>,
    found: &mut Problems,
    warned: &mut HashSet<(u32, u32)>,
) {
    let ready = match ready {
        Ok(ready) => ready,
        Err(NoValue::Broken) => return,
        Err(NoValue::Problem(problem)) => {
            found.push(problem);
            return;
        }
    };
    let scope = &task.group.header.scope;
    if matches!(ready.first_key(), Some("apiVersion" | "kind")) {
        let field = ready.first_key().unwrap_or_default();
        let at = Location::new(realize.file, task.pos.line, task.pos.column);
        found.push(coded_error("KX040", format!("`{field}` cannot be patched")).at(at));
        return;
    }
    let sets_namespace = scope.all && ready.is_path(&["metadata", "namespace"]);
    let (mut hits, mut missing, mut reported) = (0, None, 0);
    for &object in objects {
        if writes.is_full() {
            return;
        }
        if failed.contains(&object) {
            continue;
        }
        let resource = &mut resources[object];
        if sets_namespace && kinds.is_namespaced(&resource.id.group, &resource.id.kind) == Some(false) {
            continue;
        }
        let ty = kinds.of(&resource.api_version, &resource.id.kind);
        let Resource { id, at, value, .. } = resource;
        let label = || label_of(id, at);
        let mut walk = StatementWalk {
            realize,
            ready: &ready,
            input,
            pos: task.pos,
            optional,
            wild: scope.is_wild(),
            any_kind: scope.all || scope.kind.is_none(),
            label: &label,
            warned,
            path: Vec::new(),
            changes: Vec::new(),
            missing: None,
            hits: 0,
        };
        let result = walk.run(Arc::make_mut(value), ty);
        hits += walk.hits;
        if missing.is_none() {
            missing = walk.missing.take();
        }
        let changes = std::mem::take(&mut walk.changes);
        record_writes(writes, task, object, changes);
        match result {
            Ok(()) => {}
            Err(WalkError::Broken) => return,
            Err(WalkError::Problem(problem)) => {
                failed.insert(object);
                reported += 1;
                // A wrong parameter is wrong for every object alike.
                let once = problem.code.as_deref().is_some_and(|code| code.starts_with("KV"));
                found.push(problem);
                if once || reported >= MOST_PER_STATEMENT {
                    return;
                }
            }
        }
    }
    if hits == 0
        && reported == 0
        && let Some(mut problem) = missing
    {
        if problem.code.as_deref() == Some("KX020") {
            problem.code = Some("KX022".to_owned());
            problem.message = format!("no object of `[{scope}]` has it: {}", problem.message);
        }
        found.push(problem);
    }
}

/// Builds one list element from the statements of a header and inserts it.
#[allow(clippy::too_many_arguments)]
fn run_builder(
    writes: &mut WriteLog,
    task: &StatementTask<'_>,
    builder: &PatchOp,
    statements: &[Statement],
    objects: &[usize],
    resources: &mut [Resource],
    kinds: &KindTypes,
    realize: &mut ValueRealizer<'_>,
    failed: &mut HashSet<usize>,
    found: &mut Problems,
    warned: &mut HashSet<(u32, u32)>,
) {
    for &object in objects {
        let ty = element_type(&resources[object], task.group, kinds);
        let label_text = resources[object].label();
        let label = || label_text.clone();
        let mut element = Json::Object(Map::new());
        let mut whole = true;
        for statement in statements {
            let ready = match ReadyStatement::new(&statement.steps, &statement.op, statement.pos, realize) {
                Ok(ready) => ready,
                Err(NoValue::Broken) => return,
                Err(NoValue::Problem(problem)) => {
                    found.push(problem);
                    return;
                }
            };
            let mut walk = StatementWalk {
                realize,
                ready: &ready,
                input: StatementInput::Value(statement.value.as_ref()),
                pos: statement.pos,
                optional: statement.optional,
                wild: false,
                any_kind: false,
                label: &label,
                warned,
                path: Vec::new(),
                changes: Vec::new(),
                missing: None,
                hits: 0,
            };
            match walk.run(&mut element, ty) {
                Ok(()) => {}
                Err(WalkError::Broken) => return,
                Err(WalkError::Problem(problem)) => {
                    let once = problem.code.as_deref().is_some_and(|code| code.starts_with("KV"));
                    found.push(problem);
                    if once {
                        return;
                    }
                    whole = false;
                    failed.insert(object);
                }
            }
        }
        if !whole {
            continue;
        }
        let ready = ReadyStatement::new(&task.group.header.steps, builder, task.pos, realize);
        run_statement(
            writes,
            task,
            ready,
            StatementInput::Ready(&element),
            task.group.header.optional,
            &[object],
            resources,
            kinds,
            realize,
            failed,
            found,
            warned,
        );
    }
}

/// The type of the elements of the list a builder header names.
fn element_type<'k>(resource: &Resource, group: &PatchGroup, kinds: &'k KindTypes) -> FieldType<'k> {
    use crate::kpatch::StepKind;
    use crate::schema::ChildType;
    let mut ty = kinds.of(&resource.api_version, &resource.id.kind);
    for step in &group.header.steps {
        ty = match &step.kind {
            StepKind::Key(key) => match ty.child(&key.to_string()) {
                ChildType::Known(ty) => ty,
                _ => FieldType::unknown(),
            },
            StepKind::Index(_) | StepKind::All | StepKind::Match(_) => ty.item(),
        };
    }
    ty.item()
}

/// `enabled: …` below a header: the last one counts.
fn switch_objects(
    task: &StatementTask<'_>,
    statement: &Statement,
    objects: &[usize],
    resources: &mut [Resource],
    realize: &mut ValueRealizer<'_>,
    found: &mut Problems,
) {
    let at = Location::new(realize.file, statement.pos.line, statement.pos.column);
    let value = match &statement.value {
        None => Ok(Json::Null),
        Some(val) => realize.value(val, FieldType::unknown(), &|| "enabled".to_owned()),
    };
    let on = match value {
        Ok(Json::Bool(on)) => on,
        Ok(Json::String(text)) if text == "true" => true,
        Ok(Json::String(text)) if text == "false" => false,
        Ok(other) => {
            let message = format!("`enabled` must be true or false, not {}", crate::val::type_name(&other));
            found.push(coded_error("KP030", message).at(at));
            return;
        }
        Err(NoValue::Broken) => return,
        Err(NoValue::Problem(problem)) => {
            found.push(problem);
            return;
        }
    };
    let _ = task;
    for &object in objects {
        resources[object].enabled = Some((on, at.clone()));
    }
}

/// The boolean a parameter holds, in the strict sense of `enabled`.
pub(crate) fn bool_value(param: &ParamValue) -> Option<bool> {
    match &param.data {
        ParamData::Bool(value) => Some(*value),
        ParamData::Text(text) if &**text == "true" => Some(true),
        ParamData::Text(text) if &**text == "false" => Some(false),
        _ => None,
    }
}

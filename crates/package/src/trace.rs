//! The way back: every field a patch or a parameter touches.

use crate::apply::{WriteKind, show_segs};
use crate::build::PackageBuild;
use crate::kpatch::{DeletedChildren, ElementAnchor};
use crate::kpatch::{GlobPiece, GroupBody, MatchTerm, NameGlob, PatchFile, PatchOp, PathStep, StepKind};
use crate::resources::show_id;
use crate::template::ParamPath;
use crate::val::{ValuePos, WrittenValue};

/// One field and the statement that wrote it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct TouchedField {
    pub object: String,
    pub path: String,
    pub kind: WriteKind,
    /// File and line of the statement.
    pub file: String,
    pub line: u32,
    /// The parameters in it.
    pub parameters: Vec<String>,
}

impl PackageBuild {
    /// Every field a patch wrote; `id` as reports name it.
    pub fn trace_patch(&self, id: &str) -> Vec<TouchedField> {
        self.touched_fields(|patch, _| self.patches[patch].shown() == id || self.patches[patch].id == id)
    }

    /// Every field a parameter, or one below it, went to.
    pub fn trace_param(&self, path: &ParamPath) -> Vec<TouchedField> {
        self.touched_fields(|_, used| {
            used.iter().any(|used| {
                self.params
                    .chain(used)
                    .iter()
                    .any(|(link, _)| link.0.starts_with(&path.0) || path.0.starts_with(&link.0))
            })
        })
    }

    fn touched_fields(&self, wanted: impl Fn(usize, &[ParamPath]) -> bool) -> Vec<TouchedField> {
        let mut found = Vec::new();
        for write in &self.writes {
            let used = self.references_of(write.patch, write.group, write.statement);
            if wanted(write.patch, &used) {
                found.push(TouchedField {
                    object: show_id(&self.resources[write.resource].id),
                    path: show_segs(&write.path),
                    kind: write.kind,
                    file: self.patches[write.patch].file.to_string(),
                    line: write.pos.line,
                    parameters: used.iter().map(ToString::to_string).collect(),
                });
            }
        }
        found
    }

    /// The parameters in a statement, or in a whole group.
    pub(crate) fn references_of(
        &self,
        patch: usize,
        group: usize,
        statement: Option<usize>,
    ) -> Vec<ParamPath> {
        let mut found: Vec<ParamPath> = Vec::new();
        let Some(group) = self.patches[patch].content.groups.get(group) else { return found };
        let mut add = |val: &WrittenValue| {
            val.visit_templates(&mut |template, _| {
                for path in template.references() {
                    if !found.contains(path) {
                        found.push(path.clone());
                    }
                }
            });
        };
        match (&group.body, statement) {
            (GroupBody::Statements(statements), Some(index)) => {
                if let Some(value) = statements.get(index).and_then(|statement| statement.value.as_ref()) {
                    add(value);
                }
            }
            (GroupBody::Statements(statements), None) => {
                statements.iter().filter_map(|statement| statement.value.as_ref()).for_each(add);
            }
            (GroupBody::Strategic(val) | GroupBody::Merge(val) | GroupBody::Json(val), _) => add(val),
        }
        found
    }
}

/// Every reference in a patch, with its place.
pub(crate) fn patch_references(patch: &PatchFile) -> Vec<(&ParamPath, ValuePos)> {
    let mut found = Vec::new();
    for group in &patch.groups {
        let header = &group.header;
        collect_glob(&header.scope.name, header.pos, &mut found);
        if let Some(namespace) = &header.scope.namespace {
            collect_glob(namespace, header.pos, &mut found);
        }
        collect_steps(&header.steps, &mut found);
        if let Some(builder) = &header.builder {
            collect_op(builder, header.pos, &mut found);
        }
        match &group.body {
            GroupBody::Statements(statements) => {
                for statement in statements {
                    collect_steps(&statement.steps, &mut found);
                    collect_op(&statement.op, statement.pos, &mut found);
                    if let Some(value) = &statement.value {
                        collect_values(value, &mut found);
                    }
                }
            }
            GroupBody::Strategic(val) | GroupBody::Merge(val) | GroupBody::Json(val) => {
                collect_values(val, &mut found);
            }
        }
    }
    found
}

fn collect_values<'p>(val: &'p WrittenValue, found: &mut Vec<(&'p ParamPath, ValuePos)>) {
    val.visit_templates(&mut |template, pos| found.extend(template.references().map(|path| (path, pos))));
}

fn collect_glob<'p>(glob: &'p NameGlob, pos: ValuePos, found: &mut Vec<(&'p ParamPath, ValuePos)>) {
    for piece in &glob.0 {
        if let GlobPiece::Reference(path) = piece {
            found.push((path, pos));
        }
    }
}

fn collect_terms<'p>(terms: &'p [MatchTerm], pos: ValuePos, found: &mut Vec<(&'p ParamPath, ValuePos)>) {
    found.extend(terms.iter().flat_map(|term| term.value.references()).map(|path| (path, pos)));
}

fn collect_steps<'p>(steps: &'p [PathStep], found: &mut Vec<(&'p ParamPath, ValuePos)>) {
    for step in steps {
        match &step.kind {
            StepKind::Key(key) => found.extend(key.references().map(|path| (path, step.pos))),
            StepKind::Match(all) => collect_terms(all, step.pos, found),
            _ => {}
        }
    }
}

fn collect_op<'p>(op: &'p PatchOp, pos: ValuePos, found: &mut Vec<(&'p ParamPath, ValuePos)>) {
    match op {
        PatchOp::Before(ElementAnchor::Match(all))
        | PatchOp::After(ElementAnchor::Match(all))
        | PatchOp::Delete(Some(DeletedChildren::Anchor(ElementAnchor::Match(all)))) => {
            collect_terms(all, pos, found);
        }
        PatchOp::Delete(Some(DeletedChildren::Named(name))) => {
            found.extend(name.references().map(|path| (path, pos)));
        }
        _ => {}
    }
}

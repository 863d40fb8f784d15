//! Following references from patches into Kubernetes fields.

use std::collections::HashMap;

use slipway_problem::Problems;

use super::kinds::{FieldScalar, FieldType, Form, Kinds, Next};
use crate::apply::{Realize, Targets};
use crate::kpatch::{Body, Glob, GlobPiece, Group, Step, StepKind};
use crate::params::Params;
use crate::patches::{Enabled, Patch};
use crate::resources::Resource;
use crate::template::{ParamPath, Piece, Template};
use crate::val::{Data, Val};

/// One use of a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UsageKind<'k> {
    /// As the value of a field.
    Field(FieldType<'k>),
    /// Inside text.
    Text,
    /// As the number before a unit: `${size}Gi`.
    Amount,
    /// As a name or key.
    Name,
    /// To switch a patch or an object.
    Switch,
}

/// One place a parameter is used.
#[derive(Clone, Debug)]
pub(crate) struct Usage<'k> {
    pub(crate) param: ParamPath,
    pub(crate) kind: UsageKind<'k>,
    /// `patches/x.kpatch:7 Deployment/web spec.replicas`.
    pub(crate) shown: String,
    /// `Deployment.spec.replicas`, for descriptions.
    pub(crate) field: String,
}

/// Finds the usages in all patches, enabled or not.
pub(crate) struct Tracer<'k, 'a> {
    pub(crate) kinds: &'k Kinds,
    pub(crate) resources: &'a [Resource],
    pub(crate) params: &'a Params,
}

/// One kind a header reaches, with an object of it.
#[derive(Clone)]
struct Reached {
    api_version: String,
    kind: String,
    name: String,
}

impl<'k> Tracer<'k, '_> {
    pub(crate) fn usages(&self, patches: &[Patch]) -> Vec<Usage<'k>> {
        let targets = Targets::new(self.resources);
        let mut everything: Vec<Reached> = Vec::new();
        self.add_kinds(0..self.resources.len(), &mut everything);
        let mut usages = Vec::new();
        for patch in patches {
            if let Enabled::When(path) = &patch.enabled {
                let line = patch.enabled_at.as_ref().map_or(0, |at| at.line);
                let file = patch.enabled_at.as_ref().map_or(&*patch.file, |at| &at.file);
                usages.push(Usage {
                    param: path.clone(),
                    kind: UsageKind::Switch,
                    shown: format!("{file}:{line} enabled"),
                    field: "patch metadata".to_owned(),
                });
            }
            let mut quiet = Problems::new();
            let realize = Realize { params: self.params, file: &patch.file, warnings: &mut quiet };
            for group in &patch.content.groups {
                let reached = if group.header.scope.all {
                    everything.clone()
                } else {
                    let mut reached = Vec::new();
                    if let Ok(chosen) = targets.choose(&group.header.scope, true, self.resources, &realize) {
                        self.add_kinds(chosen.objects.into_iter(), &mut reached);
                    }
                    reached
                };
                self.group(patch, group, &reached, &mut usages);
            }
        }
        usages
    }

    fn add_kinds(&self, objects: impl Iterator<Item = usize>, reached: &mut Vec<Reached>) {
        let mut seen: HashMap<(&str, &str), ()> = HashMap::new();
        for object in objects {
            let resource = &self.resources[object];
            if seen.insert((&resource.api_version, &resource.id.kind), ()).is_none() {
                reached.push(Reached {
                    api_version: resource.api_version.clone(),
                    kind: resource.id.kind.clone(),
                    name: resource.id.name.clone(),
                });
            }
        }
    }

    fn group(&self, patch: &Patch, group: &Group, reached: &[Reached], usages: &mut Vec<Usage<'k>>) {
        let header = &group.header;
        let mut name = |path: &ParamPath, line: u32, what: &str| {
            usages.push(Usage {
                param: path.clone(),
                kind: UsageKind::Name,
                shown: format!("{}:{line} {what}", patch.file),
                field: what.to_owned(),
            });
        };
        let globs = |glob: &Glob| -> Vec<ParamPath> {
            glob.0
                .iter()
                .filter_map(|piece| match piece {
                    GlobPiece::Reference(path) => Some(path.clone()),
                    _ => None,
                })
                .collect()
        };
        for path in globs(&header.scope.name)
            .iter()
            .chain(header.scope.namespace.iter().flat_map(globs).collect::<Vec<_>>().iter())
        {
            name(path, header.pos.line, "header");
        }
        let mut steps_of = |steps: &[Step], line: u32| {
            for step in steps {
                match &step.kind {
                    StepKind::Key(key) => key.references().for_each(|path| name(path, line, "key")),
                    StepKind::Match(terms) => {
                        terms
                            .iter()
                            .flat_map(|term| term.value.references())
                            .for_each(|path| name(path, line, "selector"));
                    }
                    _ => {}
                }
            }
        };
        steps_of(&header.steps, header.pos.line);
        match &group.body {
            Body::Statements(statements) => {
                for statement in statements {
                    steps_of(&statement.steps, statement.pos.line);
                }
                for statement in statements {
                    let Some(value) = &statement.value else { continue };
                    if !has_reference(value) {
                        continue;
                    }
                    if statement.switches {
                        value.templates(&mut |template, pos| {
                            for path in template.references() {
                                usages.push(Usage {
                                    param: path.clone(),
                                    kind: UsageKind::Switch,
                                    shown: format!("{}:{} enabled", patch.file, pos.line),
                                    field: "enabled".to_owned(),
                                });
                            }
                        });
                        continue;
                    }
                    for kind in reached {
                        let mut ty = self.kinds.of(&kind.api_version, &kind.kind);
                        let mut path = String::new();
                        walk(&mut ty, &mut path, &header.steps);
                        if header.builder.is_some() {
                            ty = ty.item();
                        }
                        walk(&mut ty, &mut path, &statement.steps);
                        if matches!(
                            statement.op,
                            crate::kpatch::Op::Append
                                | crate::kpatch::Op::Before(_)
                                | crate::kpatch::Op::After(_)
                        ) {
                            ty = ty.item();
                        }
                        self.value(patch, kind, value, ty, &path, usages);
                    }
                }
            }
            Body::Strategic(value) | Body::Merge(value) => {
                for kind in reached {
                    self.value(patch, kind, value, self.kinds.of(&kind.api_version, &kind.kind), "", usages);
                }
            }
            Body::Json(value) => {
                for kind in reached.iter().take(1) {
                    self.value(patch, kind, value, FieldType::unknown(), "", usages);
                }
            }
        }
    }

    fn value(
        &self,
        patch: &Patch,
        kind: &Reached,
        value: &Val,
        ty: FieldType<'k>,
        path: &str,
        usages: &mut Vec<Usage<'k>>,
    ) {
        let mut usage = |param: &ParamPath, how: UsageKind<'k>| {
            usages.push(Usage {
                param: param.clone(),
                kind: how,
                shown: format!("{}:{} {}/{} {path}", patch.file, value.pos.line, kind.kind, kind.name),
                field: format!("{}.{path}", kind.kind),
            });
        };
        match &value.data {
            Data::Text(Template::Whole(param)) => {
                let how = if value.tag.is_some() { UsageKind::Text } else { UsageKind::Field(ty) };
                usage(param, how);
            }
            Data::Text(Template::Mixed(pieces)) => match pieces.as_slice() {
                [Piece::Reference(param), Piece::Text(unit)]
                    if ty.form() == Form::Scalar(FieldScalar::Quantity)
                        && super::Format::Quantity.check(&format!("1{unit}")).is_none() =>
                {
                    usage(param, UsageKind::Amount);
                }
                pieces => {
                    for piece in pieces {
                        if let Piece::Reference(param) = piece {
                            usage(param, UsageKind::Text);
                        }
                    }
                }
            },
            Data::List(items) => {
                items.iter().for_each(|item| self.value(patch, kind, item, ty.item(), path, usages));
            }
            Data::Map(map) => {
                for (key, value) in map {
                    let below = match ty.child(key) {
                        Next::Known(ty) => ty,
                        _ => FieldType::unknown(),
                    };
                    let mut path = path.to_owned();
                    lengthen(&mut path, key);
                    self.value(patch, kind, value, below, &path, usages);
                }
            }
            _ => {}
        }
    }
}

fn has_reference(value: &Val) -> bool {
    let mut found = false;
    value.templates(&mut |template, _| found |= template.references().next().is_some());
    found
}

/// Follows steps through types; list selectors leave no trace in the path.
fn walk(ty: &mut FieldType<'_>, path: &mut String, steps: &[Step]) {
    for step in steps {
        let key = match &step.kind {
            StepKind::Key(key) => key.to_string(),
            StepKind::Index(index) if ty.form() == Form::Map => index.to_string(),
            StepKind::All if ty.form() == Form::Map => {
                *ty = match ty.values_of_map() {
                    Some(values) => values,
                    None => FieldType::unknown(),
                };
                continue;
            }
            _ => {
                *ty = ty.item();
                continue;
            }
        };
        *ty = match ty.child(&key) {
            Next::Known(below) => below,
            _ => FieldType::unknown(),
        };
        lengthen(path, &key);
    }
}

/// Adds a step to a path that is shown; nobody reads beyond a few hundred characters, and every usage
/// keeps a copy.
fn lengthen(path: &mut String, key: &str) {
    const LONGEST: usize = 400;
    if path.len() > LONGEST {
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.extend(key.chars().take(LONGEST));
}

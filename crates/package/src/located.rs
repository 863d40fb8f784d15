//! The place a field's value was written: the patch line that set it last, or its manifest.

use serde_json::Value as Json;
use slipway_problem::{Location, Problem};

use crate::apply::{PatchWrite, PathSegment};
use crate::build::{BuiltObject, PackageBuild};

/// The path of a field below fixed keys.
pub(crate) fn key_path(path: &[&str]) -> Vec<PathSegment> {
    path.iter().map(|key| PathSegment::Key((*key).to_owned())).collect()
}

/// Returns true if a write changed a field, something around it or something below it.
fn concerns_path(write: &PatchWrite, path: &[PathSegment]) -> bool {
    write.path.iter().zip(path).all(|(written, wanted)| written.is(wanted))
}

fn mentions_text(value: &Json, text: &str) -> bool {
    match value {
        Json::String(found) => found == text,
        Json::Array(items) => items.iter().any(|item| mentions_text(item, text)),
        Json::Object(map) => map.values().any(|value| mentions_text(value, text)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

impl PackageBuild {
    fn writes_to(&self, resource: usize) -> impl Iterator<Item = &PatchWrite> {
        self.writes.iter().rev().filter(move |write| write.resource == resource)
    }

    fn write_place(&self, write: &PatchWrite) -> Location {
        Location::new(&*self.patches[write.patch].file, write.pos.line, write.pos.column)
    }

    /// Puts a problem with the fields at `paths` where the last of them was written.
    pub(crate) fn locate_problem(
        &self,
        problem: Problem,
        resource: usize,
        paths: &[Vec<PathSegment>],
    ) -> Problem {
        let write =
            self.writes_to(resource).find(|write| paths.iter().any(|path| concerns_path(write, path)));
        self.at_write(problem, resource, write, paths.first().map(Vec::as_slice))
    }

    /// The same for one field, or at the object if no patch wrote it: the warnings about whole objects.
    pub(crate) fn locate_field(&self, problem: Problem, object: &BuiltObject, path: &[&str]) -> Problem {
        self.locate_write(problem, object, &key_path(path))
    }

    pub(crate) fn locate_write(
        &self,
        problem: Problem,
        object: &BuiltObject,
        path: &[PathSegment],
    ) -> Problem {
        let write = self.writes_to(object.resource).find(|write| concerns_path(write, path));
        self.at_write(problem, object.resource, write, None)
    }

    /// Puts a problem with a reference to `name` where a patch wrote that name, or at the object.
    pub(crate) fn locate_name(&self, problem: Problem, object: &BuiltObject, name: &str) -> Problem {
        let says = |write: &&PatchWrite| write.new.as_ref().is_some_and(|new| mentions_text(new, name));
        let write = self.writes_to(object.resource).find(says);
        self.at_write(problem, object.resource, write, None)
    }

    fn at_write(
        &self,
        problem: Problem,
        resource: usize,
        write: Option<&PatchWrite>,
        path: Option<&[PathSegment]>,
    ) -> Problem {
        let resource = &self.resources[resource];
        match (write, path) {
            (Some(write), _) => {
                let problem = problem.at(self.write_place(write));
                if problem.hint.is_some() || resource.at.line == 0 {
                    return problem;
                }
                problem.hint(format!("the patched object is at {}", resource.at))
            }
            (None, Some(path)) => problem.at(resource.locate_field(path)),
            (None, None) => problem.at(resource.at.clone()),
        }
    }
}

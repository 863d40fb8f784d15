//! Turning a written value into JSON: references become values, values get the type of their field.

use serde_json::Value as Json;
use slipway_problem::{Location, Problem, Problems};

use super::cast::{self, Misfit};
use crate::params::{Found, Param, ParamData, Params};
use crate::report::{error, warning};
use crate::schema::{FieldType, Next};
use crate::template::{ParamPath, Template};
use crate::val::{Data, Pos, Val};

/// Realises the values of one file.
pub(crate) struct Realize<'a> {
    pub(crate) params: &'a Params,
    pub(crate) file: &'a str,
    /// Warnings go here, each once however many objects a value goes to.
    pub(crate) warnings: &'a mut Problems,
}

/// The reason there is no value.
pub(crate) enum NoValue {
    /// A parameter is broken, which was reported.
    Broken,
    Problem(Problem),
}

impl From<Problem> for NoValue {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Realize<'_> {
    fn at(&self, pos: Pos) -> Location {
        Location::new(self.file, pos.line, pos.column)
    }

    /// The JSON of a value for a field of type `ty`; `field` names it in messages.
    pub(crate) fn value(
        &mut self,
        val: &Val,
        ty: FieldType<'_>,
        field: &dyn Fn() -> String,
    ) -> Result<Json, NoValue> {
        match &val.data {
            Data::Null => Ok(Json::Null),
            Data::Bool(value) => self.literal(&Json::Bool(*value), val, ty, field),
            Data::Number(number) => {
                if val.tag.is_none()
                    && ty.form() == crate::schema::Form::Scalar(crate::schema::FieldScalar::String)
                {
                    return Ok(Json::String(number.text.to_string()));
                }
                self.literal(&Json::Number(number.json.clone()), val, ty, field)
            }
            Data::Text(template) => self.text(template, val, ty, field),
            Data::List(items) => {
                let ty = ty.item();
                items
                    .iter()
                    .map(|item| self.value(item, ty, field))
                    .collect::<Result<_, _>>()
                    .map(Json::Array)
            }
            Data::Map(map) => {
                let mut out = serde_json::Map::with_capacity(map.len());
                for (key, value) in map {
                    let ty = match ty.child(key) {
                        Next::Known(ty) => ty,
                        _ => FieldType::unknown(),
                    };
                    let below = || format!("{}.{key}", field());
                    out.insert(key.replace("$${", "${"), self.value(value, ty, &below)?);
                }
                Ok(Json::Object(out))
            }
        }
    }

    fn literal(
        &self,
        json: &Json,
        val: &Val,
        ty: FieldType<'_>,
        field: &dyn Fn() -> String,
    ) -> Result<Json, NoValue> {
        if val.tag.is_some() {
            return Ok(json.clone());
        }
        cast::json(json, ty).map_err(|wrong| self.misfit(wrong, val.pos, None, field).into())
    }

    fn misfit(
        &self,
        wrong: Misfit,
        pos: Pos,
        from: Option<(&ParamPath, &Param)>,
        field: &dyn Fn() -> String,
    ) -> Problem {
        let Misfit { below, expected, found } = wrong;
        let problem = error(
            "KX033",
            match from {
                Some((path, param)) => {
                    let at = self.params.location(param.pos);
                    format!("`{}{below}` must be {expected}; parameter `{path}` ({at}) is {found}", field())
                }
                None => format!("`{}{below}` must be {expected}, not {found}", field()),
            },
        );
        let problem = match from {
            None if expected != "a string" => {
                problem.hint("take the quotes off, or force a type with !!int, !!bool")
            }
            _ => problem,
        };
        problem.at(self.at(pos))
    }

    fn text(
        &mut self,
        template: &Template,
        val: &Val,
        ty: FieldType<'_>,
        field: &dyn Fn() -> String,
    ) -> Result<Json, NoValue> {
        match template {
            Template::Literal(text) => {
                if let Some(tag) = val.tag {
                    let param = Param { data: ParamData::Text(text.as_str().into()), pos: val.pos };
                    return cast::force(tag, &param).map_err(|why| {
                        error("KX033", format!("`{}`: {why}", field())).at(self.at(val.pos)).into()
                    });
                }
                if val.quoted {
                    return cast::quoted(text, ty)
                        .map_err(|wrong| self.misfit(wrong, val.pos, None, field).into());
                }
                cast::json(&Json::String(text.clone()), ty)
                    .map_err(|wrong| self.misfit(wrong, val.pos, None, field).into())
            }
            Template::Whole(path) => {
                let Found::Value(param) = self.params.find(path) else {
                    return Err(self.params.undefined(path, self.at(val.pos)).into());
                };
                if is_broken(param) {
                    return Err(NoValue::Broken);
                }
                if let Some(tag) = val.tag {
                    return cast::force(tag, param).map_err(|why| {
                        error("KX033", format!("parameter `{path}`: {why}")).at(self.at(val.pos)).into()
                    });
                }
                cast::param(param, ty)
                    .map_err(|wrong| self.misfit(wrong, val.pos, Some((path, param)), field).into())
            }
            Template::Mixed(pieces) => {
                let found =
                    self.params.interpolate(pieces).map_err(|problem| problem.at(self.at(val.pos)))?;
                let Some((text, floats)) = found else { return Err(NoValue::Broken) };
                for path in floats {
                    let at = self.at(val.pos);
                    let known = self.warnings.iter().any(|known| known.at.as_ref() == Some(&at));
                    if !known {
                        let message = format!("`{path}` is an unquoted number used as text");
                        self.warnings.push(
                            warning("KV030", message).at(at).hint(format!("quote it where `{path}` is set")),
                        );
                    }
                }
                if let Some(tag) = val.tag {
                    let param = Param { data: ParamData::Text(text.into()), pos: val.pos };
                    return cast::force(tag, &param).map_err(|why| {
                        error("KX033", format!("`{}`: {why}", field())).at(self.at(val.pos)).into()
                    });
                }
                cast::quoted(&text, ty).map_err(|wrong| self.misfit(wrong, val.pos, None, field).into())
            }
        }
    }

    /// The text of a name, key or match value: references in it must be single values.
    pub(crate) fn name(&self, template: &Template, pos: Pos) -> Result<String, NoValue> {
        let single = |path: &ParamPath| -> Result<String, NoValue> {
            let Found::Value(param) = self.params.find(path) else {
                return Err(self.params.undefined(path, self.at(pos)).into());
            };
            match &param.data {
                ParamData::Broken => Err(NoValue::Broken),
                ParamData::Number(number) if number.float => {
                    Err(self.not_a_name(path, "a number with a fraction", pos))
                }
                _ => param
                    .text()
                    .map(|(text, _)| text.into_owned())
                    .map_err(|(_, what)| self.not_a_name(path, what, pos)),
            }
        };
        match template {
            Template::Literal(text) => Ok(text.clone()),
            Template::Whole(path) => single(path),
            Template::Mixed(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    crate::template::Piece::Text(text) => Ok(text.clone()),
                    crate::template::Piece::Reference(path) => single(path),
                })
                .collect(),
        }
    }

    fn not_a_name(&self, path: &ParamPath, what: &str, pos: Pos) -> NoValue {
        error("KV021", format!("`{path}` is {what}; a name must be a string, an integer or a boolean"))
            .at(self.at(pos))
            .into()
    }
}

fn is_broken(param: &Param) -> bool {
    match &param.data {
        ParamData::Broken => true,
        ParamData::List(items) => items.iter().any(is_broken),
        ParamData::Map(map) => map.values().any(is_broken),
        _ => false,
    }
}

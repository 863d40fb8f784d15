//! `replace-image`: replaces the first group of regular expressions by the version of a bundle.

use regex::Regex;
use slipway_go::regexp::compile_text_pattern;

use crate::kinds::{ImageArtifact, ReplaceRule};
use crate::step::edit::{EditInputs, EditNote, EditTrees, VersionChange, read_text, write_file};
use crate::step::outcome::StepError;

pub(super) fn edit(inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
    let rules = inputs.step.update.replace.clone().unwrap_or_default().rules;
    if rules.is_empty() {
        return Err(StepError::failed("InvalidConfig", "`update.replace.rules` is empty"));
    }
    let mut changes = Vec::new();
    for rule in &rules {
        let path = inputs.path_below(&rule.file)?;
        let Some(before) = read_text(trees.source, &path)? else {
            return Err(StepError::failed("FileNotFound", format!("there is no `{path}`")));
        };
        let regex = compile(&rule.regex)?;
        let image = image_of(rule, inputs)?;
        let new = value_of(rule, image)?;
        let mut text = String::new();
        let (mut copied, mut count) = (0, 0);
        for found in regex.captures_iter(&before) {
            let Some(group) = found.get(1) else { continue };
            text.push_str(&before[copied..group.start()]);
            text.push_str(&new);
            copied = group.end();
            count += 1;
            if group.as_str() != new {
                let (image, old) = (image.repository().to_owned(), group.as_str().to_owned());
                changes.push(VersionChange { image, old, new: new.clone() });
            }
        }
        if count == 0 {
            let message = format!("`{}` matches no line of `{path}`", rule.regex);
            return Err(StepError::failed("NoMatch", message));
        }
        text.push_str(&before[copied..]);
        write_file(trees.source, &path, text.as_bytes())?;
    }
    let version = inputs.bundle.version();
    let message =
        if changes.is_empty() { format!("already at {version}") } else { format!("replaced by {version}") };
    Ok(EditNote { message, changes, ..EditNote::default() })
}

/// The largest compiled expression.
const LARGEST_EXPRESSION: usize = 1 << 20;

fn compile(pattern: &str) -> Result<Regex, StepError> {
    let wrong =
        |why: String| StepError::failed("InvalidConfig", format!("`{pattern}` cannot be used: {why}"));
    let regex =
        compile_text_pattern(pattern, LARGEST_EXPRESSION).map_err(|error| wrong(error.to_string()))?;
    if regex.captures_len() < 2 {
        return Err(wrong("it has no group to replace".to_owned()));
    }
    Ok(regex)
}

/// The image a rule is about: the only one, or the one whose name the file's line names in `value` as `tag:NAME`.
fn image_of<'i>(rule: &ReplaceRule, inputs: &'i EditInputs) -> Result<&'i ImageArtifact, StepError> {
    let images = &inputs.bundle.artifacts.images;
    let name = rule.value.as_deref().and_then(|value| value.split_once(':')).map(|(_, name)| name);
    let found = match name {
        Some(name) => images.iter().find(|image| image.name == name),
        None => images.first(),
    };
    found.ok_or_else(|| {
        let name = name.unwrap_or("an image");
        StepError::failed("ImageNotInBundle", format!("the bundle has no image `{name}`"))
    })
}

/// The text that replaces the group.
fn value_of(rule: &ReplaceRule, image: &ImageArtifact) -> Result<String, StepError> {
    let wanted = rule.value.as_deref().unwrap_or("tag");
    let part = wanted.split_once(':').map_or(wanted, |(part, _)| part);
    let value = match part {
        "tag" => image.tag().map(str::to_owned),
        "digest" => image.digest.clone(),
        "reference" => Some(match &image.digest {
            Some(digest) if !image.reference.contains('@') => format!("{}@{digest}", image.reference),
            _ => image.reference.clone(),
        }),
        other => {
            let message = format!("`value` is `tag`, `digest` or `reference`, not `{other}`");
            return Err(StepError::failed("InvalidConfig", message));
        }
    };
    value.ok_or_else(|| {
        StepError::failed("ImageIncomplete", format!("the image `{}` has no {part}", image.name))
    })
}

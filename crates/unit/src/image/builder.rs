//! Builds images with a program of the user, which writes what it made into a metadata file as BuildKit does.

use std::path::PathBuf;

use serde_json::Value;
use slipway_event::Clock;
use slipway_manifest::image::{ImageReference, is_sha256_digest};
use slipway_problem::{Location, Problem};
use slipway_process::{ProcessGroup, Program, ProgramLimits};
use tokio_util::sync::CancellationToken;

use super::input::ImageInput;
use crate::container::{BuildRow, ContentHash, ImageOrigin};
use crate::error::UnitError;

const LARGEST_METADATA: u64 = 4 << 20;
const LARGEST_OUTPUT: usize = 64 << 20;
const LARGEST_LOG: usize = 1 << 20;

/// A build of one image: a program with its arguments, in which `{{context}}`, `{{metadata}}`, `{{name}}` and `{{ref}}`
/// stand for what is built.
#[derive(Clone, Debug)]
pub struct BuilderCommand {
    pub name: String,
    /// The reference the image is pushed under.
    pub reference: ImageReference,
    pub context: PathBuf,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub cancel: CancellationToken,
}

/// An image that was built.
#[derive(Debug)]
pub(crate) struct BuiltImage {
    pub(crate) input: ImageInput,
    pub(crate) build: BuildRow,
    /// The output of the builder, without secrets.
    pub(crate) log: Vec<u8>,
}

/// Runs a builder and reads the digest it wrote.
pub(crate) async fn run_builder(
    command: &BuilderCommand,
    redactor: &slipway_event::Redactor,
    clock: &dyn Clock,
) -> Result<BuiltImage, UnitError> {
    let place = tempfile::tempdir().map_err(UnitError::io("create a directory for", &command.context))?;
    let metadata = place.path().join("metadata.json");
    let replaced = |text: &String| {
        text.replace("{{context}}", &command.context.display().to_string())
            .replace("{{metadata}}", &metadata.display().to_string())
            .replace("{{name}}", &command.name)
            .replace("{{ref}}", &command.reference.to_string())
    };
    let mut words = command.command.iter();
    let Some(program) = words.next() else {
        return Err(UnitError::problem("the builder has no command"));
    };
    let started = clock.now();
    let limits = ProgramLimits { time: None, output: LARGEST_OUTPUT, notes: LARGEST_LOG };
    let ended = Program::new(program.as_str())
        .args(words.map(replaced))
        .pass_environment()
        .directory(&command.context)
        .limits(limits)
        .group(ProcessGroup::Own)
        .stop(command.cancel.clone())
        .run()
        .await
        .map_err(|error| {
            let problem = Problem::error(format!("building image `{}`: {error}", command.name));
            UnitError::from(problem.hint("the builder is a program on PATH, or its path"))
        })?;
    let log = redactor.redact(&String::from_utf8_lossy(&ended.stderr)).into_owned().into_bytes();
    if !ended.is_success() {
        let tail: Vec<&str> = std::str::from_utf8(&log).unwrap_or_default().lines().rev().take(5).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let message = format!("building image `{}` failed ({})", command.name, ended.status);
        return Err(Problem::error(message).hint(tail.join("; ")).into());
    }
    let at = Location::file(format!("metadata of the builder of `{}`", command.name));
    let wrong = |what: String| UnitError::from(Problem::error(what).at(at.clone()));
    let content = slipway_problem::read_file_within(&metadata, LARGEST_METADATA).map_err(|error| {
        let problem = Problem::error(format!("the builder wrote no metadata file: {error}")).at(at.clone());
        let hint = "have it write {{metadata}}, as `docker buildx build --metadata-file {{metadata}}` does";
        UnitError::from(problem.hint(hint))
    })?;
    let about: Value =
        serde_json::from_slice(&content).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let digest = about.get("containerimage.digest").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !is_sha256_digest(&digest) {
        return Err(wrong("`containerimage.digest` is not a SHA-256 digest".to_owned()));
    }
    let build = BuildRow {
        id: command.name.clone(),
        context: command.context.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        dockerfile: about.get("buildx.build.provenance").map(|_| "provenance").unwrap_or_default().to_owned(),
        args: command.command.iter().map(|text| redactor.redact(text).into_owned()).collect(),
        digest: digest.clone(),
        started_at: started.to_string(),
        ended_at: clock.now().to_string(),
        log_sha256: Some(ContentHash::of(&log)),
    };
    let media_type =
        about.pointer("/containerimage.descriptor/mediaType").and_then(Value::as_str).unwrap_or_default();
    let reference = ImageReference { digest: Some(digest), ..command.reference.clone() };
    let input = ImageInput {
        origin: ImageOrigin::Build,
        media_type: media_type.to_owned(),
        build_id: Some(command.name.clone()),
        ..ImageInput::given(&command.name, reference)
    };
    Ok(BuiltImage { input, build, log })
}

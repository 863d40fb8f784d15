//! Images a user gives to a bundle, and registries that know digests.

use std::fmt;

use futures::future::BoxFuture;
use slipway_manifest::image::ImageReference;
use slipway_problem::{Problem, Problems};

use crate::container::{ImageOrigin, ImagePlatform, ImageRow};
use crate::error::UnitError;

/// Asks registries for digests.
pub trait ImageResolver: Send + Sync {
    /// The digest, type and platforms of an image.
    fn resolve<'a>(
        &'a self,
        reference: &'a ImageReference,
    ) -> BoxFuture<'a, Result<ResolvedImage, UnitError>>;
}

/// An image as its registry has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedImage {
    pub digest: String,
    pub media_type: String,
    pub platforms: Vec<ImagePlatform>,
}

/// An image given to a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageInput {
    /// The name the user gives it.
    pub name: String,
    pub reference: ImageReference,
    pub origin: ImageOrigin,
    pub media_type: String,
    pub platforms: Vec<ImagePlatform>,
    pub build_id: Option<String>,
    pub size_bytes: Option<u64>,
}

impl ImageInput {
    /// Reads `NAME=REFERENCE`.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let hint = "write NAME=[REGISTRY/]REPOSITORY[:TAG][@sha256:…]";
        let is_whole = |(name, reference): &(&str, &str)| !name.is_empty() && !reference.is_empty();
        let Some((name, reference)) = text.split_once('=').filter(is_whole) else {
            return Err(Problem::error(format!("`{text}` does not name an image")).hint(hint));
        };
        Ok(Self::given(name, reference.parse::<ImageReference>()?))
    }

    /// An image whose digest the user knows, or whose registry does.
    pub fn given(name: &str, reference: ImageReference) -> Self {
        Self {
            name: name.to_owned(),
            reference,
            origin: ImageOrigin::Given,
            media_type: String::new(),
            platforms: Vec::new(),
            build_id: None,
            size_bytes: None,
        }
    }

    pub(crate) fn to_row(&self) -> ImageRow {
        ImageRow {
            name: self.name.clone(),
            repository: self.reference.repository.clone(),
            tag: self.reference.tag.clone().unwrap_or_default(),
            digest: self.reference.digest.clone().unwrap_or_default(),
            media_type: self.media_type.clone(),
            platforms: self.platforms.clone(),
            source: self.origin,
            build_id: self.build_id.clone(),
            sbom_ref: None,
            provenance_ref: None,
            size_bytes: self.size_bytes.and_then(|size| i64::try_from(size).ok()),
        }
    }
}

impl fmt::Display for ImageInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.reference)
    }
}

/// Gives every input a digest: those without one are looked up.
pub(crate) async fn complete_inputs(
    inputs: &mut [ImageInput],
    resolver: Option<&dyn ImageResolver>,
) -> Result<(), UnitError> {
    let mut problems = Problems::new();
    let mut seen = std::collections::BTreeSet::new();
    for input in inputs {
        if !seen.insert(input.name.clone()) {
            let problem = Problem::error(format!("image `{}` is given twice", input.name));
            problems.push(problem.hint("give every image a name of its own"));
        }
        if input.reference.digest.is_some() {
            continue;
        }
        let Some(resolver) = resolver else {
            let hint = "write its digest: NAME=REPOSITORY:TAG@sha256:…";
            problems.push(Problem::error(format!("image `{}` has no digest", input.name)).hint(hint));
            continue;
        };
        let found = resolver.resolve(&input.reference).await?;
        input.reference.digest = Some(found.digest);
        input.media_type = found.media_type;
        input.platforms = found.platforms;
    }
    Ok(problems.into_result(())?)
}

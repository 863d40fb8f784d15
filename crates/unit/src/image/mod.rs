//! Images of a unit: inputs with digests, the places in values and objects they are bound at, and the proof that each
//! binding reaches a container.

mod bind;
mod builder;
mod forms;
mod input;
mod layout;
mod mapping;
mod nodes;
mod path;
mod pin;
mod rewrite;
mod trial;
mod uses;

pub use bind::InferredBindings;
pub(crate) use bind::{BindRequest, bind_images};
pub use builder::BuilderCommand;
pub(crate) use builder::run_builder;
pub(crate) use input::complete_inputs;
pub use input::{ImageInput, ImageResolver, ResolvedImage};
pub use layout::read_layout;
pub use mapping::ImageMapping;
pub(crate) use nodes::merged_values;
pub use pin::PinMode;
pub(crate) use pin::pin_tags;
pub(crate) use rewrite::{RewriteRule, rewrite_objects};
pub(crate) use uses::container_images;

//! The steps between decoding and storing: defaults, admission, preparation, validation.

pub(crate) mod admission;
pub(crate) mod allocate;
pub(crate) mod amounts;
pub(crate) mod default;
pub(crate) mod gate;
pub(crate) mod gated;
pub(crate) mod immutable;
pub(crate) mod immutable_pod;
pub(crate) mod meta;
pub(crate) mod pod_security;
pub(crate) mod policy;
pub(crate) mod prepare;
pub(crate) mod quota;
pub(crate) mod rules;
pub(crate) mod validate;
pub(crate) mod warn;
pub(crate) mod warn_pod;

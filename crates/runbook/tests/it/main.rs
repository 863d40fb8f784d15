//! Runbooks from the outside.

mod substitution;

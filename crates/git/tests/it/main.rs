//! Repositories with the real `git` program and local bare remotes.
#![cfg(unix)]

mod changes;
mod crashes;
mod credentials;
mod hostile;
mod landing;
mod mirrors;
mod names;
mod signing;
mod support;
mod trees;

//! Sources, from a reference to objects.

mod digests;
mod loading;
mod references;
mod secrets;
mod support;

//! The package system seen from outside: files in, objects and problems out.

mod demo;
mod hostile;
mod objects;
mod outputs;
mod parameters;
mod patches;
mod schema;
mod statements;
mod support;
mod tools;

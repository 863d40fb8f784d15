//! The package system seen from outside: files in, objects and problems out.

mod demo;
mod support;

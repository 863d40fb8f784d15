//! Go `text/template` with Sprig and Helm's functions.

pub mod go;

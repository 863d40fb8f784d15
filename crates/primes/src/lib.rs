//! Primes for the keys that charts make. The search is a crate of its own since it is the one piece of the
//! template engine that must be optimised in debug builds too.

mod montgomery;
mod search;

pub use search::{DsaParameters, PrimeSeed, dsa_parameters, prime_pair};

//! Git repositories as promotion and stacks use them.
//!
//! A [`RepositoryCache`] keeps one bare mirror a repository; a [`Repository`] is one of them with a
//! [`GitCredential`]. [`Repository::check_out`] gives a private [`WorkTree`], which commits and pushes;
//! [`Repository::land`] puts one edit on a branch that others push to as well. [`Git`] is the program behind all of it,
//! run without a shell, the user's settings, hooks, filters or prompts, and reads work trees of users
//! ([`Git::changes`], [`Git::head`]).
//!
//! Addresses, branches and paths are types that cannot be taken for options or leave the repository. Credentials reach
//! Git through its environment alone, and no error shows one.

mod address;
mod cache;
mod change;
mod commit;
mod credential;
mod error;
mod history;
mod land;
mod local;
mod lock;
mod mirror;
mod name;
mod program;
mod push;
mod read;
mod signing;
mod tree;

pub use address::{AddressError, RepositoryAddress, TransportPolicy};
pub use cache::{CacheOptions, RepositoryCache};
pub use change::{CommitChange, FileChange, FileContent, TextMerge};
pub use commit::{CommitIdentity, CommitOutcome, CommitRequest, Trailer};
pub use credential::GitCredential;
pub use error::{ErrorClass, GitError};
pub use history::FoundCommit;
pub use land::{LandError, LandOutcome, LandRequest, ReplayPolicy};
pub use local::{LocalFile, LocalRepository};
pub use mirror::Repository;
pub use name::{BranchName, CommitId, CommitPrefix, InvalidName, OperationId, TreePath};
pub use program::{Git, GitCall, GitProgram};
pub use push::{BranchLease, PushOutcome};
pub use read::{Changes, Head, RangeError, ignores_work_tree};
pub use signing::SigningKey;
pub use tree::{CheckoutBase, CheckoutRequest, WorkTree};

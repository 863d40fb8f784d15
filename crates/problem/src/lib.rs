//! Located, explained problems: the one error style of every Slipway crate.
//!
//! A loader collects every [`Problem`] it finds and returns them together as [`Problems`]. A problem
//! says what is wrong, where ([`Location`], file:line:column), and what to do next (`hint:`). How it
//! looks on a terminal is the binary's business; [`std::fmt::Display`] gives the plain form.
//!
//! Files that users name are read whole by [`read_file`] alone, which bounds size and time.

mod bounded;
mod location;
mod nearest;
mod problem;
mod reason;

pub use bounded::{
    LARGEST_FILE, describe_io, read_file, read_file_within, read_hint, read_regular_file, read_stream,
    read_text_file,
};
pub use location::Location;
pub use nearest::nearest_name;
pub use problem::{Problem, ProblemSeverity, Problems};
pub use reason::ProblemReason;

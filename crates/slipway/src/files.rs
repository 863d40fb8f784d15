//! Reading what the user names on the command line.

use std::io::Read;
use std::path::Path;

use slipway_problem::{Location, Problem};

/// Larger files are not ours to read into memory.
const LARGEST: u64 = 64 << 20;

/// A text file, or standard input when named `-`, with the name to use in messages.
pub struct Text {
    pub name: String,
    pub text: String,
}

/// Reads a text file or, for `-`, standard input.
pub fn read_text(path: &Path) -> Result<Text, Problem> {
    let stdin = path.as_os_str() == "-";
    let name = if stdin { "<stdin>".to_owned() } else { path.display().to_string() };
    let at = || Location::file(name.as_str());
    let mut bytes = Vec::new();
    let read = if stdin {
        std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path; relative paths start at the current directory",
            std::io::ErrorKind::PermissionDenied => "check the file's permissions",
            std::io::ErrorKind::IsADirectory => "name a file, or `-` for standard input",
            _ => "is it a readable file?",
        };
        Problem::error(format!("cannot read the file: {error}")).at(at()).hint(hint)
    })?;
    if bytes.len() as u64 > LARGEST {
        return Err(Problem::error(format!("the file is larger than {} MiB", LARGEST >> 20))
            .at(at())
            .hint("is it the right file?"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let valid = String::from_utf8_lossy(&error.as_bytes()[..offset]).into_owned();
        Problem::error("the file is not UTF-8 text")
            .at(Location::in_text(name.as_str(), &valid, offset))
            .hint("expected a YAML text file; is this a binary or compressed one?")
    })?;
    Ok(Text { name, text })
}

//! Reading, and replacing, the files the user names.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use slipway_problem::{
    LARGEST_FILE, Location, Problem, describe_io, read_file, read_file_within, read_hint, read_stream,
};

/// A text file, or standard input when named `-`, with the name to use in messages.
pub struct Text {
    pub name: String,
    pub text: String,
}

/// The reason a text file gave no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextError {
    /// It cannot be read at all.
    Unreadable(Problem),
    /// Its content is no text.
    NotText(Problem),
}

impl From<TextError> for Problem {
    fn from(error: TextError) -> Self {
        match error {
            TextError::Unreadable(problem) | TextError::NotText(problem) => problem,
        }
    }
}

/// Reads a text file or, for `-`, standard input.
pub fn read_text(path: &Path) -> Result<Text, Problem> {
    read_text_within(path, LARGEST_FILE)
}

/// As [`read_text`], for callers that tell the reasons apart.
pub fn try_read_text(path: &Path) -> Result<Text, TextError> {
    try_read_text_within(path, LARGEST_FILE)
}

/// Reads a text file of at most `limit` bytes or, for `-`, standard input.
pub fn read_text_within(path: &Path, limit: u64) -> Result<Text, Problem> {
    Ok(try_read_text_within(path, limit)?)
}

fn try_read_text_within(path: &Path, limit: u64) -> Result<Text, TextError> {
    let name = shown(path);
    let bytes = if path.as_os_str() == "-" {
        read_stream(std::io::stdin().lock(), limit)
    } else {
        read_file_within(path, limit)
    };
    let bytes = bytes.map_err(|error| TextError::Unreadable(unreadable(&name, &error)))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let valid = String::from_utf8_lossy(&error.as_bytes()[..offset]).into_owned();
        TextError::NotText(
            Problem::error("the file is not UTF-8 text")
                .at(Location::in_text(name.as_str(), &valid, offset))
                .hint("expected a YAML text file; is this a binary or compressed one?"),
        )
    })?;
    Ok(Text { name, text })
}

/// Reads a file or, for `-`, standard input.
pub fn read_input(path: &Path) -> Result<Vec<u8>, Problem> {
    if path.as_os_str() == "-" { read_stdin() } else { read(path) }
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    read_file(path).map_err(|error| unreadable(&shown(path), &error))
}

/// Reads standard input to its end.
pub fn read_stdin() -> Result<Vec<u8>, Problem> {
    read_stream(std::io::stdin().lock(), LARGEST_FILE).map_err(|error| unreadable(STDIN, &error))
}

const STDIN: &str = "<stdin>";

fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { STDIN.to_owned() } else { path.display().to_string() }
}

fn unreadable(name: &str, error: &std::io::Error) -> Problem {
    let why = describe_io(error);
    Problem::error(format!("cannot read the file: {why}")).at(Location::file(name)).hint(read_hint(error))
}

/// Replaces a file's content: after a crash it holds the old text or the new one, nothing between.
pub fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    write_beside(path, content, Mode::Ordinary)
}

/// Replaces a file's content as [`replace`] does and leaves it readable to its owner alone, whatever the
/// file's mode was.
pub fn replace_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    write_beside(path, content, Mode::Private)
}

/// Creates a directory when it is missing and closes it to everybody but its owner.
pub fn create_private_directory(directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("create {}", directory.display());
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).with_context(failed)?;
    narrow(directory, 0o700).with_context(failed)
}

/// Opens a file and closes it to everybody but its owner, whatever its mode was.
pub fn open_private(path: &Path, options: &mut std::fs::OpenOptions) -> anyhow::Result<std::fs::File> {
    let failed = || format!("open {}", path.display());
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.open(path).with_context(failed)?;
    narrow(path, 0o600).with_context(failed)?;
    Ok(file)
}

#[cfg(unix)]
fn narrow(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let current = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    if current & !mode == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(current & mode))
}

#[cfg(not(unix))]
fn narrow(_: &Path, _: u32) -> std::io::Result<()> {
    Ok(())
}

/// Who may read a file we write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Those who could before; of a new file, those the umask lets.
    Ordinary,
    /// Its owner.
    Private,
}

fn write_beside(path: &Path, content: &[u8], mode: Mode) -> anyhow::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || format!("write {}", path.display());
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    if mode == Mode::Ordinary {
        use std::os::unix::fs::PermissionsExt;
        // The system takes the umask off, as for any file a program creates.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(directory).with_context(failed)?;
    file.write_all(content).with_context(failed)?;
    if mode == Mode::Ordinary
        && let Ok(metadata) = std::fs::metadata(path)
    {
        file.as_file().set_permissions(metadata.permissions()).with_context(failed)?;
    }
    file.as_file().sync_all().with_context(failed)?;
    file.persist(path).with_context(failed)?;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn modes_follow_the_umask_the_old_file_or_privacy() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mode = |name: &str| std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        std::fs::write(path("any"), "").unwrap();
        replace(&path("new"), b"x").unwrap();
        assert_eq!(mode("new"), mode("any"), "as any program's file");
        std::fs::set_permissions(path("new"), std::fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path("new"), b"y").unwrap();
        assert_eq!(mode("new"), 0o640, "as it was");
        std::fs::set_permissions(path("any"), std::fs::Permissions::from_mode(0o644)).unwrap();
        replace_private(&path("any"), b"z").unwrap();
        assert_eq!(mode("any"), 0o600, "private, whatever it was");
    }
}

//! Files that are whole or not there, whatever happens in between.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use rand::RngExt as _;

/// Replaces a file: after a crash it holds the old content or the new one.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let written = temporary(path, content)?;
    fs::rename(&written, path).inspect_err(|_| drop(fs::remove_file(&written)))?;
    sync_directory(path)
}

/// Creates a file that must not exist.
pub fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let written = temporary(path, content)?;
    // A link, unlike a rename, refuses to replace what is there.
    let linked = fs::hard_link(&written, path);
    drop(fs::remove_file(&written));
    linked?;
    sync_directory(path)
}

fn temporary(path: &Path, content: &[u8]) -> io::Result<std::path::PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let random: u32 = rand::rng().random();
    let temporary = path.with_file_name(format!(".{name}.{random:08x}.tmp"));
    let mut file = private().create_new(true).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    Ok(temporary)
}

/// Opens for writing; a new file is its owner's alone.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory and those above it, for the owner alone. One that others may open is closed to them.
pub fn directories(path: &Path) -> io::Result<()> {
    builder().recursive(true).create(path)?;
    close(path)
}

/// Takes everybody else's rights to a directory of ours away.
#[cfg(unix)]
fn close(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)) {
        // Somebody else's directory is somebody else's to close.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        closed => closed,
    }
}

#[cfg(not(unix))]
fn close(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a directory that must not exist.
pub fn directory(path: &Path) -> io::Result<()> {
    builder().create(path)
}

fn builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Makes a name survive a crash.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// Keeps what lies in a directory of ours out of everybody's repository.
pub fn ignore(directory: &Path) -> io::Result<()> {
    let path = directory.join(".gitignore");
    if path.exists() { Ok(()) } else { replace(&path, b"*\n") }
}

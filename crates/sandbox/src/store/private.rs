//! Directories and files that only their owner may read, whatever their mode was before.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates `dir` when it is missing and closes it to everybody but its owner.
pub(crate) fn create_directory(dir: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    narrow(dir, 0o700)
}

/// Opens a file for its owner alone.
pub(crate) fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let file = options.open(path)?;
    narrow(path, 0o600)?;
    Ok(file)
}

/// Creates a file, or empties the one that is there.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    open_private(path, OpenOptions::new().write(true).create(true).truncate(true))
}

/// Writes a whole file: after a crash it holds the old content or the new one.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    use io::Write;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let mut file = create_private(&fresh)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

/// Makes renames and new names in `dir` survive a crash.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Closes every file of `dir` to everybody but its owner.
pub(crate) fn narrow_files(dir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            narrow(&entry.path(), 0o600)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn narrow(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let current = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    if current & !mode == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(current & mode))
}

#[cfg(not(unix))]
fn narrow(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

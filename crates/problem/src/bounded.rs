//! Reading whole files without trusting their size: the one reader for every file a user names.
//!
//! A path may name a device that never ends, a pipe nobody writes into, or a file larger than memory.
//! Here each of them becomes an error that says so, instead of a hang or an abort.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The largest file that is read unless the caller says otherwise.
pub const LARGEST_FILE: u64 = 64 << 20;

/// Says what the system said, without its number and beginning in lower case.
pub fn describe_io(error: &io::Error) -> String {
    let text = error.to_string();
    let mut letters = text.split(" (os error").next().unwrap_or(&text).chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Time until somebody must have opened a pipe for writing.
const WRITER_WAIT: Duration = Duration::from_secs(5);
/// Time until a pipe or device must have been read to its end.
const END_WAIT: Duration = Duration::from_secs(120);

/// Reads a file of at most [`LARGEST_FILE`] bytes.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_file_within(path, LARGEST_FILE)
}

/// Reads a text file of at most [`LARGEST_FILE`] bytes; anything but UTF-8 is an error.
pub fn read_text_file(path: &Path) -> io::Result<String> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_file(path)?).map_err(|_| invalid())
}

/// Reads a file of at most `limit` bytes. Directories are refused; pipes and devices are read with a limit of
/// time as well, because they may have no end.
pub fn read_file_within(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if about.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if about.len() > limit {
        return Err(too_large(limit));
    }
    if about.is_file() {
        // Files of the system, and those that grow, have more than their size says.
        return read_stream(File::open(path)?, limit);
    }
    read_endless(path, limit, WRITER_WAIT, END_WAIT)
}

/// Reads an ordinary file of at most `limit` bytes that will be read again: a pipe or a device, which gives its
/// content once, is refused unopened.
pub fn read_regular_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    read_file_within(path, limit)
}

/// Reads a stream of at most `limit` bytes to its end.
pub fn read_stream(stream: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

/// Reads what may block for ever. The thread that does is left behind when it takes too long: no portable call
/// wakes it, and it holds nothing but the descriptor.
fn read_endless(path: &Path, limit: u64, open_wait: Duration, end_wait: Duration) -> io::Result<Vec<u8>> {
    enum Progress {
        Opened,
        Ended(io::Result<Vec<u8>>),
    }
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    std::thread::Builder::new().name("read".to_owned()).spawn(move || {
        let ended = File::open(path).and_then(|file| {
            // A reader that gave up waits for nothing.
            let _ = sender.send(Progress::Opened);
            read_stream(file, limit)
        });
        let _ = sender.send(Progress::Ended(ended));
    })?;
    let mut wait = open_wait;
    loop {
        match receiver.recv_timeout(wait) {
            Ok(Progress::Opened) => wait = end_wait,
            Ok(Progress::Ended(result)) => return result,
            Err(RecvTimeoutError::Timeout) if wait == open_wait => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody writes into this pipe"));
            }
            Err(RecvTimeoutError::Timeout) => {
                let message = format!("it did not end within {} seconds", end_wait.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("its reader stopped")),
        }
    }
}

fn too_large(limit: u64) -> io::Error {
    let size = if limit >= 1 << 20 { format!("{} MiB", limit >> 20) } else { format!("{limit} bytes") };
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {size}, the most that is read"))
}

/// Says what to do about a file that could not be read.
pub fn read_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path; relative paths start at the current directory",
        io::ErrorKind::PermissionDenied => "check the file's permissions",
        io::ErrorKind::IsADirectory => "name a file inside of the directory",
        io::ErrorKind::FileTooLarge => "is it the right file?",
        io::ErrorKind::InvalidInput => "write what a pipe or device gives to a file first",
        io::ErrorKind::TimedOut => "name an ordinary file, or a pipe whose writer is running",
        io::ErrorKind::InvalidData => "expected a text file; is this a binary or compressed one?",
        io::ErrorKind::ReadOnlyFilesystem => "name a place that may be written",
        io::ErrorKind::NotADirectory => "a part of the path is a file, not a directory",
        _ => "is it a readable file?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_at_the_limit_are_read_and_larger_ones_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "12345678").unwrap();
        assert_eq!(read_file_within(&path, 8).unwrap(), b"12345678");
        let error = read_file_within(&path, 7).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it is larger than 7 bytes, the most that is read");
        assert_eq!(read_file(directory.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read_file(&directory.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn devices_without_end_and_pipes_without_a_writer_are_refused() {
        assert_eq!(
            read_file_within(Path::new("/dev/zero"), 1 << 20).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(read_file(Path::new("/dev/null")).unwrap(), b"");
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let moment = Duration::from_millis(20);
        let error = read_endless(&pipe, 10, moment, moment * 2).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::TimedOut, "nobody writes into this pipe")
        );
    }

    #[cfg(unix)]
    #[test]
    fn pipes_with_a_writer_are_read_to_their_end() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let writer = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::write(pipe, "from a pipe"))
        };
        assert_eq!(read_text_file(&pipe).unwrap(), "from a pipe");
        writer.join().unwrap().unwrap();
    }
}

//! Standard output and standard error as files, and how much they take without anybody having to wait.

use std::fs::File;
use std::io::{self, Write};

/// A stream of the process.
pub trait Stream: Write + Send {
    /// Writes what the stream takes at once, and returns how much that was. What fails is left for a write that may
    /// wait, which then fails as well.
    fn write_at_once(&mut self, _text: &[u8]) -> usize {
        0
    }
}

impl Stream for io::Stdout {}
impl Stream for io::Stderr {}

/// A stream without the buffer of the standard library, which would try again what failed.
#[cfg(unix)]
#[derive(Debug)]
pub struct UnbufferedStream {
    file: File,
    is_always_ready: bool,
}

#[cfg(unix)]
impl UnbufferedStream {
    /// A stream beside one of the process, with the same file.
    pub fn beside(stream: impl std::os::fd::AsFd) -> io::Result<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let is_always_ready = file.metadata().is_ok_and(|metadata| metadata.is_file() || is_null(&metadata));
        Ok(Self { file, is_always_ready })
    }
}

/// Returns true for `/dev/null`.
#[cfg(unix)]
fn is_null(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    cfg!(target_os = "linux") && metadata.file_type().is_char_device() && metadata.rdev() == 0x103
}

#[cfg(unix)]
impl Write for UnbufferedStream {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        self.file.write(chunk)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
impl Stream for UnbufferedStream {
    fn write_at_once(&mut self, text: &[u8]) -> usize {
        let mut written = 0;
        while written < text.len() {
            let rest = &text[written..];
            let result = if self.is_always_ready {
                self.file.write(rest)
            } else {
                write_without_waiting(&self.file, rest)
            };
            match result {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }
}

/// Writes as if the file had been opened not to block, which pipes and sockets of Linux can; other processes that have the
/// same file open notice nothing.
#[cfg(target_os = "linux")]
fn write_without_waiting(file: &File, text: &[u8]) -> io::Result<usize> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    Ok(pwritev2(file, &[io::IoSlice::new(text)], u64::MAX, ReadWriteFlags::NOWAIT)?)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn write_without_waiting(_: &File, _: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_pipe_takes_what_fits_and_files_take_everything() {
        use std::io::Read as _;

        use super::*;

        let (mut reader, writer) = io::pipe().unwrap();
        let mut stream = UnbufferedStream::beside(&writer).unwrap();
        drop(writer);
        let text = vec![b'x'; 1 << 20];
        let fitting = stream.write_at_once(&text);
        assert!((1..text.len()).contains(&fitting), "{fitting}");
        assert_eq!(stream.write_at_once(b"more"), 0);
        let mut taken = vec![0; fitting];
        reader.read_exact(&mut taken).unwrap();
        assert_eq!(stream.write_at_once(b"more"), 4);
        drop(reader);
        assert_eq!(stream.write_at_once(b"gone"), 0);
        assert_eq!(stream.write(b"gone").unwrap_err().kind(), io::ErrorKind::BrokenPipe);

        let mut file = UnbufferedStream::beside(tempfile::tempfile().unwrap()).unwrap();
        assert_eq!(file.write_at_once(&text), text.len());
        let mut nothing = UnbufferedStream::beside(File::create("/dev/null").unwrap()).unwrap();
        assert_eq!(nothing.write_at_once(&text), text.len());
        let mut full = UnbufferedStream::beside(File::create("/dev/full").unwrap()).unwrap();
        assert_eq!(full.write_at_once(&text), 0);
    }
}

//! The terminal that the live view draws on. It writes through the one writer, so that a terminal that is
//! stopped or gone never holds up a run.

use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;

use super::output::Stderr;

/// Collects what is drawn and writes it frame by frame.
#[derive(Debug, Default)]
pub struct Screen {
    frame: Mutex<String>,
}

/// Of a terminal that does not tell.
const USUAL_SIZE: (u16, u16) = (80, 24);

impl Screen {
    fn draw(&self, text: &str) -> io::Result<()> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn move_cursor(&self, count: usize, direction: char) -> io::Result<()> {
        if count == 0 { Ok(()) } else { self.draw(&format!("\u{1b}[{count}{direction}")) }
    }
}

/// Columns and rows.
fn size() -> (u16, u16) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col, size.ws_row);
    }
    USUAL_SIZE
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        size().0
    }

    fn height(&self) -> u16 {
        size().1
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.move_cursor(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.move_cursor(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.move_cursor(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.move_cursor(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.draw(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.draw(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.draw("\r\u{1b}[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let frame = std::mem::take(&mut *self.frame.lock().unwrap_or_else(PoisonError::into_inner));
        Stderr.write_all(frame.as_bytes())
    }
}

//! A terminal as a person sees it: commands run on a pseudo terminal, and what they write becomes rows of cells.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Place, wait_for_end};

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    pub columns: usize,
    pub rows: usize,
}

impl ScreenSize {
    fn in_kernel_form(self) -> Winsize {
        let (ws_col, ws_row) = (self.columns.try_into().unwrap(), self.rows.try_into().unwrap());
        Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// Colours a program may use; the terminal's own palette decides what they look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InkColor {
    #[default]
    Text,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// The look of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ink {
    pub color: InkColor,
    pub bold: bool,
    pub dim: bool,
}

/// One character of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub letter: char,
    pub ink: Ink,
}

const BLANK: Cell = Cell { letter: ' ', ink: Ink { color: InkColor::Text, bold: false, dim: false } };

/// A row of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenRow {
    pub cells: Vec<Cell>,
    /// The text goes on in the next row: the terminal broke it, not the program.
    goes_on: bool,
}

impl ScreenRow {
    /// A row of one ink.
    pub fn plain(text: &str, ink: Ink) -> Self {
        Self { cells: text.chars().map(|letter| Cell { letter, ink }).collect(), goes_on: false }
    }

    pub fn text(&self) -> String {
        self.cells.iter().map(|cell| cell.letter).collect::<String>().trim_end().to_owned()
    }
}

/// What a terminal shows, with everything that scrolled off its top.
#[derive(Clone, Debug)]
pub struct Screen {
    size: ScreenSize,
    rows: Vec<ScreenRow>,
    row: usize,
    column: usize,
    ink: Ink,
    /// The beginning of an escape whose end has not come.
    unfinished: String,
}

impl Screen {
    pub fn new(size: ScreenSize) -> Self {
        let (row, column, unfinished) = (0, 0, String::new());
        Self { size, rows: vec![ScreenRow::default()], row, column, ink: Ink::default(), unfinished }
    }

    /// All rows from the first one written, without blank ones at the end.
    pub fn rows(&self) -> &[ScreenRow] {
        let used = self.rows.iter().rposition(|row| !row.text().is_empty()).map_or(0, |last| last + 1);
        &self.rows[..used]
    }

    /// The texts of the rows that are in view.
    pub fn visible(&self) -> Vec<String> {
        self.rows[self.top()..].iter().map(ScreenRow::text).collect()
    }

    pub fn text(&self) -> String {
        self.rows().iter().map(|row| row.text() + "\n").collect()
    }

    /// Returns true if the cursor stands at the beginning of a row with nothing in it and nothing below.
    pub fn is_tidy(&self) -> bool {
        self.column == 0 && self.rows[self.row..].iter().all(|row| row.text().is_empty())
    }

    fn top(&self) -> usize {
        self.rows.len().saturating_sub(self.size.rows)
    }

    pub fn feed(&mut self, text: &str) {
        let text = std::mem::take(&mut self.unfinished) + text;
        let mut rest = text.as_str();
        while let Some(letter) = rest.chars().next() {
            if letter == '\u{1b}' {
                let Some(end) = rest[1..].find(|end: char| end.is_ascii_alphabetic()) else {
                    rest.clone_into(&mut self.unfinished);
                    return;
                };
                let (escape, after) = rest.split_at(end + 2);
                self.obey(escape);
                rest = after;
                continue;
            }
            rest = &rest[letter.len_utf8()..];
            match letter {
                '\r' => self.column = 0,
                '\n' => self.move_down(),
                letter => self.put(letter),
            }
        }
    }

    fn move_down(&mut self) {
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(ScreenRow::default());
        }
    }

    fn put(&mut self, letter: char) {
        assert!(!letter.is_control(), "a terminal is sent {letter:?}");
        if self.column == self.size.columns {
            self.rows[self.row].goes_on = true;
            self.column = 0;
            self.move_down();
        }
        let cells = &mut self.rows[self.row].cells;
        if cells.len() <= self.column {
            cells.resize(self.column + 1, BLANK);
        }
        cells[self.column] = Cell { letter, ink: self.ink };
        self.column += 1;
    }

    fn obey(&mut self, escape: &str) {
        let inner = escape.strip_prefix("\u{1b}[").unwrap_or_else(|| panic!("an escape {escape:?}"));
        let (numbers, command) = inner.split_at(inner.len() - 1);
        let count = numbers.parse().unwrap_or(1);
        match command {
            "A" => self.row = self.row.saturating_sub(count).max(self.top()),
            "B" => self.row = (self.row + count).min(self.rows.len() - 1),
            "G" => self.column = count - 1,
            "K" => self.rows[self.row].cells.truncate(self.column),
            "J" => {
                self.rows[self.row].cells.truncate(self.column);
                self.rows[self.row + 1..].fill(ScreenRow::default());
            }
            "L" => {
                let height = self.rows.len();
                let blank = std::iter::repeat_n(ScreenRow::default(), count);
                self.rows.splice(self.row..self.row, blank);
                self.rows.truncate(height);
                self.column = 0;
            }
            "m" => numbers.split(';').for_each(|number| self.dip(number)),
            _ => panic!("an escape {escape:?}"),
        }
    }

    /// Changes the ink.
    fn dip(&mut self, number: &str) {
        match number {
            "" | "0" => self.ink = Ink::default(),
            "1" => self.ink.bold = true,
            "2" => self.ink.dim = true,
            "31" => self.ink.color = InkColor::Red,
            "32" => self.ink.color = InkColor::Green,
            "33" => self.ink.color = InkColor::Yellow,
            "36" => self.ink.color = InkColor::Cyan,
            "39" => self.ink.color = InkColor::Text,
            _ => panic!("ink {number}"),
        }
    }

    /// Gives the terminal another size, and breaks rows anew as terminals do.
    pub fn resize(&mut self, size: ScreenSize) {
        let mut lines: Vec<Vec<Cell>> = Vec::new();
        let (mut is_going_on, mut cursor) = (false, (0, 0));
        for (at, row) in self.rows.iter().enumerate() {
            if !is_going_on {
                lines.push(Vec::new());
            }
            let (index, line) = (lines.len() - 1, lines.last_mut().unwrap());
            if at == self.row {
                cursor = (index, line.len() + self.column);
            }
            line.extend(&row.cells);
            is_going_on = row.goes_on;
        }
        self.size = size;
        self.rows.clear();
        for (index, line) in lines.iter().enumerate() {
            let parts = line.len().max(1).div_ceil(size.columns);
            for part in 0..parts {
                if cursor.0 == index && (part + 1 == parts || cursor.1 < (part + 1) * size.columns) {
                    self.row = self.rows.len();
                    self.column = (cursor.1 - part * size.columns).min(size.columns);
                    cursor.0 = usize::MAX;
                }
                let cells = line.iter().skip(part * size.columns).take(size.columns).copied().collect();
                self.rows.push(ScreenRow { cells, goes_on: part + 1 < parts });
            }
        }
    }
}

/// What came over a terminal so far.
#[derive(Debug)]
struct Received {
    screen: Screen,
    bytes: usize,
    /// Every screen that was shown, with the time it appeared.
    frames: Vec<(Duration, Screen)>,
}

/// Opens a pseudo terminal: the end that shows, and the end for a command.
pub fn open_terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(master), terminal)
}

/// A command on a terminal of its own.
pub struct OnTerminal {
    child: Child,
    terminal: File,
    received: Arc<Mutex<Received>>,
    reader: Option<JoinHandle<()>>,
}

impl OnTerminal {
    pub fn start(place: &Place, words: &[&str], size: ScreenSize) -> Self {
        let (master, terminal) = open_terminal();
        tcsetwinsize(&terminal, size.in_kernel_form()).unwrap();
        let mut command = place.command(words);
        command.env("TERM", "xterm").stdin(Stdio::null());
        command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
        let started = Instant::now();
        let child = command.spawn().unwrap();
        // The command holds the other end; only then does reading end with it.
        drop(command);
        let received = Received { screen: Screen::new(size), bytes: 0, frames: Vec::new() };
        let received = Arc::new(Mutex::new(received));
        let (mut source, shared) = (master.try_clone().unwrap(), received.clone());
        let reader = std::thread::spawn(move || {
            let (mut chunk, mut text) = ([0; 4096], Vec::new());
            // Linux ends a terminal whose last user left with an error.
            while let Ok(count @ 1..) = source.read(&mut chunk) {
                text.extend_from_slice(&chunk[..count]);
                let valid = std::str::from_utf8(&text).map_or_else(|error| error.valid_up_to(), str::len);
                let rest = text.split_off(valid);
                let whole = String::from_utf8(std::mem::replace(&mut text, rest)).unwrap();
                let mut received = shared.lock().unwrap();
                received.bytes += count;
                received.screen.feed(&whole);
                let frame = (started.elapsed(), received.screen.clone());
                received.frames.push(frame);
            }
        });
        Self { child, terminal: master, received, reader: Some(reader) }
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap()
    }

    /// How much was written so far.
    pub fn bytes(&self) -> usize {
        self.received().bytes
    }

    pub fn screen(&self) -> Screen {
        self.received().screen.clone()
    }

    /// Waits until the screen is as it should be.
    pub fn wait_until(&mut self, what: &str, is_shown: impl Fn(&Screen) -> bool) -> Screen {
        let mut shown = self.screen();
        let mut is_over = false;
        eventually_on(&mut shown, what, |shown| {
            *shown = self.screen();
            let is_right = is_shown(shown);
            // Once more after the end, whose last words may have come since.
            let was_over = std::mem::replace(&mut is_over, self.child.try_wait().unwrap().is_some());
            assert!(is_right || !was_over, "it ended before {what}:\n{}", shown.text());
            is_right
        });
        shown
    }

    /// Gives the terminal another size.
    pub fn resize(&self, size: ScreenSize) {
        let mut received = self.received();
        tcsetwinsize(&self.terminal, size.in_kernel_form()).unwrap();
        received.screen.resize(size);
    }

    /// Sends what Ctrl-C sends.
    pub fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Waits for the end; returns it with everything that was shown.
    pub fn finish(mut self) -> Ended {
        let status = wait_for_end(&mut self.child, "the command");
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let received = self.received();
        let (screen, frames) = (received.screen.clone(), received.frames.clone());
        Ended { status, screen, bytes: received.bytes, frames }
    }
}

/// Waits as tests do, showing what was on the screen where it does not happen.
fn eventually_on(shown: &mut Screen, what: &str, mut is_true: impl FnMut(&mut Screen) -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !is_true(shown) {
        assert!(Instant::now() < end, "it did not happen: {what}\n{}", shown.text());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command that ended on its terminal.
pub struct Ended {
    pub status: ExitStatus,
    pub screen: Screen,
    /// How much it wrote.
    pub bytes: usize,
    pub frames: Vec<(Duration, Screen)>,
}

const SMALL: ScreenSize = ScreenSize { columns: 8, rows: 3 };

#[test]
fn rows_are_broken_scrolled_and_joined_as_on_a_terminal() {
    let mut screen = Screen::new(SMALL);
    screen.feed("one\r\n123456789\r\n\u{1b}[31mred\u{1b}[");
    screen.feed("0m\r\n");
    assert_eq!(screen.visible(), ["9", "red", ""], "the first rows scrolled off");
    assert_eq!(screen.text(), "one\n12345678\n9\nred\n");
    assert!(screen.is_tidy());
    screen.resize(ScreenSize { columns: 4, rows: 6 });
    assert_eq!(screen.text(), "one\n1234\n5678\n9\nred\n");
    screen.resize(ScreenSize { columns: 10, rows: 6 });
    assert_eq!(screen.text(), "one\n123456789\nred\n");
    screen.feed("\u{1b}[2A\u{1b}[2Gx\u{1b}[K\r\u{1b}[1Lnew");
    assert_eq!(screen.text(), "one\nnew\n1x\nred\n");
    assert!(!screen.is_tidy());
}

//! The last rows of a terminal, redrawn in place. Only what changed is written: a row whose timer moved on costs a few
//! bytes, and lines that scroll by above the region move it down without drawing it again.

use std::fmt::Write as _;
use std::io::Write as _;

use super::board::BoardLine;
use crate::term::escape::{Colors, Controls, settle};
use crate::term::output::Stderr;
use crate::term::style::paint;

/// Columns and rows of a terminal that does not tell.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Columns and rows of the terminal.
pub fn terminal_size() -> (usize, usize) {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stderr())
        && size.ws_col > 0
        && size.ws_row > 0
    {
        return (size.ws_col.into(), size.ws_row.into());
    }
    USUAL_SIZE
}

/// Rows that are drawn, with the cursor at the beginning of the line below them.
#[derive(Debug)]
pub struct Region {
    drawn: Vec<BoardLine>,
    width: usize,
    colors: Colors,
}

impl Region {
    pub fn new(colors: Colors) -> Self {
        Self { drawn: Vec::new(), width: USUAL_SIZE.0, colors }
    }

    /// Prints `above` over the region and shows `rows` in it; returns the bytes this took.
    pub fn show(&mut self, above: &str, rows: Vec<BoardLine>, size: (usize, usize)) -> usize {
        let frame = self.frame(above, rows, size);
        // A terminal that is gone shows nothing; the run goes on.
        let _ = Stderr.write_all(frame.as_bytes());
        frame.len()
    }

    /// Takes the region away.
    pub fn clear(&mut self) {
        self.show("", Vec::new(), (self.width, usize::MAX));
    }

    /// The text that changes the terminal.
    fn frame(&mut self, above: &str, rows: Vec<BoardLine>, (width, height): (usize, usize)) -> String {
        let mut frame = String::new();
        if width != self.width {
            // A narrower terminal has broken the rows it held.
            let rows =
                self.drawn.iter().map(|row| row.text.chars().count().max(1).div_ceil(width.max(1))).sum();
            erase(&mut frame, rows);
            self.drawn.clear();
            self.width = width;
        }
        let above = wrapped(above, width);
        if self.drawn.len() + above.len() >= height {
            // More than a screen can be moved by: the region is drawn anew below.
            erase(&mut frame, self.drawn.len());
            self.drawn.clear();
        }
        if !above.is_empty() {
            self.insert_above(&mut frame, &above);
        }
        self.redraw(&mut frame, rows);
        frame
    }

    /// Moves the region down by as many lines as are printed.
    fn insert_above(&self, frame: &mut String, lines: &[String]) {
        let height = self.drawn.len();
        if height > 0 {
            // Room below first, so that nothing is pushed off the screen; then lines are pushed in at the top.
            frame.push_str(&"\n".repeat(lines.len()));
            let _ = write!(frame, "\u{1b}[{}A\u{1b}[{}L", height + lines.len(), lines.len());
        }
        for line in lines {
            frame.push_str(line);
            frame.push_str("\r\n");
        }
        if height > 0 {
            let _ = write!(frame, "\u{1b}[{height}B");
        }
    }

    fn redraw(&mut self, frame: &mut String, rows: Vec<BoardLine>) {
        if rows.len() < self.drawn.len() {
            let surplus = self.drawn.len() - rows.len();
            erase(frame, surplus);
            self.drawn.truncate(rows.len());
        }
        // The line the cursor is in, counted from the top of the region.
        let mut line = self.drawn.len();
        for (index, (old, new)) in self.drawn.iter().zip(&rows).enumerate() {
            if old == new {
                continue;
            }
            if index < line {
                let _ = write!(frame, "\u{1b}[{}A", line - index);
            } else {
                // A few rows further down: shorter than the escape that says so.
                match index - line {
                    down @ 0..=3 => frame.push_str(&"\n".repeat(down)),
                    down => {
                        let _ = write!(frame, "\u{1b}[{down}B");
                    }
                }
            }
            line = index;
            frame.push_str(&self.changed_part(old, new));
        }
        if line < self.drawn.len() {
            let _ = write!(frame, "\u{1b}[{}B", self.drawn.len() - line);
        }
        if self.drawn.iter().ne(rows.iter().take(self.drawn.len())) {
            frame.push('\r');
        }
        for row in rows.iter().skip(self.drawn.len()) {
            frame.push_str(&self.painted(row, 0, usize::MAX));
            frame.push_str("\r\n");
        }
        self.drawn = rows;
    }

    /// Writes the columns in which two rows differ.
    fn changed_part(&self, old: &BoardLine, new: &BoardLine) -> String {
        let (before, after): (Vec<char>, Vec<char>) =
            (old.text.chars().collect(), new.text.chars().collect());
        if old.style != new.style || !(has_plain_columns(&new.text) && has_plain_columns(&old.text)) {
            return format!("\r{}\u{1b}[K", self.painted(new, 0, usize::MAX));
        }
        let first = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
        let last = if before.len() == after.len() {
            let same =
                before.iter().rev().zip(after.iter().rev()).take_while(|(old, new)| old == new).count();
            after.len() - same.min(after.len() - first)
        } else {
            after.len()
        };
        let clear = if after.len() < before.len() { "\u{1b}[K" } else { "" };
        format!("\u{1b}[{}G{}{clear}", first + 1, self.painted(new, first, last))
    }

    /// Some columns of a row, in its colours and without foreign control characters.
    fn painted(&self, row: &BoardLine, first: usize, last: usize) -> String {
        let part: String = row.text.chars().skip(first).take(last.saturating_sub(first)).collect();
        let part = if row.style.is_plain() { part } else { paint(row.style, part) };
        settle(&part, self.colors, Controls::Show)
    }
}

/// Returns true if every character takes one column on every terminal.
fn has_plain_columns(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii() || matches!(letter, '·' | '…'))
}

/// Goes up some rows and takes away everything from there on.
fn erase(frame: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(frame, "\u{1b}[{rows}A\r\u{1b}[J");
    }
}

/// Breaks settled lines at the width of the terminal, so that each takes one row. Colours take no room.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut row = String::new();
        let mut columns = 0;
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            row.push(character);
            if character == '\u{1b}' {
                row.extend(characters.by_ref().take_while(|letter| *letter != 'm'));
                row.push('m');
                continue;
            }
            columns += 1;
            if columns >= width.max(1) {
                lines.push(std::mem::take(&mut row));
                columns = 0;
            }
        }
        if columns > 0 || line.is_empty() || !row.is_empty() {
            lines.push(row);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use anstyle::Style;
    use proptest::prelude::*;

    use super::*;

    /// A terminal, as far as the region uses one.
    struct Terminal {
        rows: Vec<Vec<char>>,
        height: usize,
        row: usize,
        column: usize,
    }

    impl Terminal {
        fn new(height: usize) -> Self {
            Self { rows: vec![Vec::new()], height, row: 0, column: 0 }
        }

        fn feed(&mut self, text: &str) {
            let mut characters = text.chars().peekable();
            while let Some(character) = characters.next() {
                match character {
                    '\r' => self.column = 0,
                    '\n' => {
                        self.row += 1;
                        if self.row == self.rows.len() {
                            self.rows.push(Vec::new());
                        }
                    }
                    '\u{1b}' => {
                        assert_eq!(characters.next(), Some('['));
                        let mut number = String::new();
                        let letter = loop {
                            match characters.next().expect("an escape ends") {
                                digit if digit.is_ascii_digit() => number.push(digit),
                                letter => break letter,
                            }
                        };
                        let count: usize = number.parse().unwrap_or(1);
                        let top = self.rows.len().saturating_sub(self.height);
                        match letter {
                            'A' => self.row = self.row.saturating_sub(count).max(top),
                            'B' => self.row = (self.row + count).min(self.rows.len() - 1),
                            'G' => self.column = count - 1,
                            'K' => self.rows[self.row].truncate(self.column),
                            'J' => {
                                self.rows.truncate(self.row + 1);
                                self.rows[self.row].truncate(self.column);
                            }
                            'L' => {
                                let bottom = self.rows.len();
                                for _ in 0..count {
                                    self.rows.insert(self.row, Vec::new());
                                }
                                self.rows.truncate(bottom);
                                self.column = 0;
                            }
                            'm' => {}
                            other => panic!("escape {other}"),
                        }
                    }
                    character => {
                        let row = &mut self.rows[self.row];
                        while row.len() < self.column {
                            row.push(' ');
                        }
                        if self.column < row.len() {
                            row[self.column] = character;
                        } else {
                            row.push(character);
                        }
                        self.column += 1;
                    }
                }
            }
        }

        fn text(&self) -> Vec<String> {
            let rows = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
            let mut rows: Vec<String> = rows.collect();
            while rows.last().is_some_and(String::is_empty) {
                rows.pop();
            }
            rows
        }
    }

    fn row(text: &str) -> BoardLine {
        BoardLine { text: text.to_owned(), style: Style::new() }
    }

    #[test]
    fn a_timer_that_moves_on_costs_a_few_bytes() {
        let mut region = Region::new(Colors::Keep);
        region.frame(
            "",
            vec![row("  Deployment/web   9s  0 of 2 replicas ready"), row("  1 under way")],
            (80, 24),
        );
        let rows = vec![row("  Deployment/web  10s  0 of 2 replicas ready"), row("  1 under way")];
        let frame = region.frame("", rows, (80, 24));
        assert!(frame.len() < 24, "{frame:?}");
        let rows = vec![row("  Deployment/web  10s  0 of 2 replicas ready"), row("  1 under way · 10s")];
        region.frame("", rows.clone(), (80, 24));
        let frame = region.frame("", vec![rows[0].clone(), row("  1 under way · 11s")], (80, 24));
        assert!(frame.len() < 24, "{frame:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_screen_shows_every_line_and_the_last_rows(
            frames in prop::collection::vec(
                (prop::collection::vec("[a-z]{0,12}", 0..12), prop::collection::vec("[a-c ]{0,8}x", 0..6)), 1..12,
            ),
        ) {
            let (mut terminal, mut region) = (Terminal::new(9), Region::new(Colors::Drop));
            let mut printed: Vec<String> = Vec::new();
            for (above, rows) in frames {
                let text: String = above.iter().map(|line| format!("{line}\n")).collect();
                printed.extend(above);
                terminal.feed(&region.frame(&text, rows.iter().map(|text| row(text)).collect(), (80, 9)));
                let mut expected: Vec<String> = printed.clone();
                expected.extend(rows.iter().map(|row| row.trim_end().to_owned()));
                while expected.last().is_some_and(String::is_empty) {
                    expected.pop();
                }
                prop_assert_eq!(terminal.text(), expected);
            }
        }
    }
}

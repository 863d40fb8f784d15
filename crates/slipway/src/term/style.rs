//! Colours, used sparingly; the writer drops them where they do not belong.

use anstyle::{AnsiColor, Style};

use crate::cli::Color;
use crate::term::escape::mark;

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const HINT: Style = AnsiColor::Cyan.on_default();
pub const ADDED: Style = AnsiColor::Green.on_default();
pub const REMOVED: Style = AnsiColor::Red.on_default();

/// Settles for the whole process whether colours are used. `auto` follows the terminal and NO_COLOR.
pub fn choose(color: Color) {
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Wraps `text` in a style, which stays a mark until the stream is known.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    mark(&style.render().to_string()) + &text.to_string() + &mark(&style.render_reset().to_string())
}

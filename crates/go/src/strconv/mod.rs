//! Go's strconv: numbers and quoted strings to text and back.

mod float;
mod parse;
mod quote;
mod unicode;

pub use float::format_float;
pub use parse::{NumError, parse_float, parse_int, parse_uint};
pub use quote::{
    UnquotedText, can_backquote, quote, quote_ascii, quote_rune, quote_rune_ascii, unquote, unquote_char,
};
pub use unicode::{is_letter_or_digit, is_print};

/// The first rune of `s` and its length, U+FFFD and 1 for a bad byte.
#[inline]
pub fn decode(s: &[u8]) -> (char, usize) {
    let (c, len) = quote::decode_char(s);
    (c.unwrap_or('\u{fffd}'), len)
}

//! Lines of a journal with a checksum, so that damage is found where it is.
//!
//! A sealed line is a JSON object whose last field is `"sum"`: a hash of the sum before it and of all bytes in
//! front of the field. A line that changed, went missing or moved breaks the chain at that place. Lines without
//! a sum were written by earlier versions and are taken as they are.

use sha2::{Digest, Sha256};

const FIELD: &[u8] = b",\"sum\":\"";
const DIGITS: usize = 16;
const END: &[u8] = b"\"}";

/// The checksum of the last sealed line, which the next one continues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain(Vec<u8>);

impl Chain {
    fn next(&self, body: &[u8]) -> Vec<u8> {
        let hash = Sha256::new().chain_update(&self.0).chain_update(body).finalize();
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        let digits = hash.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        digits.take(DIGITS).collect()
    }

    /// Adds the checksum and the line break to an object; `line` is its text.
    pub(crate) fn seal(&mut self, line: &mut Vec<u8>) {
        line.pop();
        self.0 = self.next(line);
        line.extend_from_slice(FIELD);
        line.extend_from_slice(&self.0);
        line.extend_from_slice(END);
        line.push(b'\n');
    }

    /// Checks a line without its line break; gives whether it is what was written.
    pub(crate) fn check(&mut self, line: &[u8]) -> bool {
        let Some((body, sum)) = split(line) else { return true };
        let expected = self.next(body);
        let same = expected == sum;
        self.0 = expected;
        same
    }
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_suffix(END)?;
    let (rest, sum) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    Some((rest.strip_suffix(FIELD)?, sum))
}

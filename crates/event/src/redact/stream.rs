//! Masking in a stream of chunks.

use std::io::{self, Write};

use super::{MASK, Redactor};

/// Masks secrets on their way to another writer, also when a chunk ends in the middle of one.
///
/// It holds back only what could be the beginning of a secret: usually nothing. [`Write::flush`]
/// passes on what is decided and keeps the rest; [`RedactingWriter::finish`] (or dropping it) ends
/// the stream and passes on everything.
pub struct RedactingWriter<W: Write> {
    redactor: Redactor,
    /// `None` once finished.
    out: Option<W>,
    held: Vec<u8>,
    /// The last byte passed on, so that a short secret is known to stand alone.
    before: Option<u8>,
    /// True if a mask was the last thing written: masks that touch become one.
    after_mask: bool,
}

/// The part of the stream a text is: the last one, or one that more may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    End,
    More,
}

impl<W: Write> RedactingWriter<W> {
    pub(super) fn new(redactor: Redactor, out: W) -> Self {
        Self { redactor, out: Some(out), held: Vec::new(), before: None, after_mask: false }
    }

    /// Ends the stream and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass_on(Edge::End)?;
        let mut out = self.out.take().ok_or_else(|| io::Error::other("the stream is finished"))?;
        out.flush()?;
        Ok(out)
    }

    fn pass_on(&mut self, edge: Edge) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let Some(matcher) = self.redactor.matcher() else {
            out.write_all(&self.held)?;
            self.before = self.held.last().copied().or(self.before);
            self.held.clear();
            return Ok(());
        };
        let context = usize::from(self.before.is_some());
        let mut text = Vec::with_capacity(self.held.len() + 1);
        text.extend(self.before);
        text.extend_from_slice(&self.held);
        let undecided = match edge {
            Edge::End => 0,
            Edge::More => matcher.undecided(&text),
        };
        let safe = (text.len() - undecided).max(context);
        let mut decided = safe;
        let mut masked = Vec::with_capacity(text.len());
        let mut from = context;
        for range in matcher.find(&text, context).into_iter().take_while(|range| range.start < safe) {
            masked.extend_from_slice(&text[from..range.start]);
            if range.start > from || !self.after_mask {
                masked.extend_from_slice(MASK.as_bytes());
            }
            self.after_mask = true;
            from = range.end;
            decided = decided.max(range.end);
        }
        if decided > from {
            masked.extend_from_slice(&text[from..decided]);
            self.after_mask = false;
        }
        drop(matcher);
        out.write_all(&masked)?;
        if decided > context {
            self.before = Some(text[decided - 1]);
        }
        self.held = text.split_off(decided);
        Ok(())
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(chunk);
        self.pass_on(Edge::More)?;
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<W: Write> Drop for RedactingWriter<W> {
    fn drop(&mut self) {
        // Whoever cares about failures calls `finish`.
        let _ = self.pass_on(Edge::End);
        if let Some(out) = &mut self.out {
            let _ = out.flush();
        }
    }
}

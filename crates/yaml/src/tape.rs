//! Tokens to a tape: one document as a flat list of nodes.
//!
//! A collection knows where it ends on the tape, an alias knows its target, and nothing is resolved
//! yet. Every reader (trees, serde, Helm's conversion) walks the same tape, and dropping it never
//! recurses however deep the document nests.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::{ErrorStage, SyntaxError};
use crate::scan::{ScalarStyle, Scanner, TextMark, Token, TokenKind};

type Result<T> = std::result::Result<T, Box<SyntaxError>>;

pub(crate) const CORE_TAG: &str = "tag:yaml.org,2002:";
/// The message for collections that nest too deeply, in Go's words.
pub(crate) const TOO_DEEP: &str = "exceeded max depth";

#[derive(Debug)]
pub(crate) enum ItemContent<'a> {
    Scalar { value: Cow<'a, str>, style: ScalarStyle },
    Seq,
    Map,
    Alias { name: &'a str, target: u32 },
}

#[derive(Debug)]
pub(crate) struct TapeItem<'a> {
    pub(crate) content: ItemContent<'a>,
    pub(crate) tag: Option<Box<str>>,
    pub(crate) start: TextMark,
    pub(crate) end: u32,
    /// The index on the tape of what follows this node.
    pub(crate) next: u32,
    pub(crate) flow: bool,
}

impl TapeItem<'_> {
    /// Returns true if a scalar's type is to be found from its text.
    pub(crate) fn is_implicit(&self) -> bool {
        match (&self.content, &self.tag) {
            (ItemContent::Scalar { style, .. }, None) => *style == ScalarStyle::Plain,
            (_, Some(tag)) => &**tag == "!",
            _ => false,
        }
    }

    /// Returns true if this is the key of a merge.
    pub(crate) fn is_merge(&self) -> bool {
        let ItemContent::Scalar { value, .. } = &self.content else { return false };
        value == "<<"
            && (self.is_implicit()
                || self.tag.as_deref().is_some_and(|tag| tag.strip_prefix(CORE_TAG) == Some("merge")))
    }
}

/// One document; the root is the first item.
#[derive(Debug, Default)]
pub(crate) struct Tape<'a> {
    pub(crate) items: Vec<TapeItem<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum ParserState {
    BlockSequence,
    IndentlessSequence,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequence { first: bool },
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingKey { first: bool },
    FlowMappingValue { empty: bool },
}

/// Reads documents one by one.
pub(crate) struct Parser<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    max_depth: usize,
    started: bool,
    /// The first place that is no text at all, and what is wrong there.
    forbidden: Option<(usize, &'static str)>,
    tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    anchors: HashMap<&'a str, u32>,
    states: Vec<ParserState>,
    open: Vec<(u32, TextMark)>,
    /// The end of the last node that was read.
    last_end: u32,
    tape: Tape<'a>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, max_depth: usize) -> Self {
        let forbidden = first_forbidden(text.as_bytes()).map(|at| (at, "control characters are not allowed"));
        Self {
            text,
            scanner: Scanner::new(text, max_depth),
            max_depth,
            started: false,
            forbidden,
            tags: Vec::new(),
            anchors: HashMap::new(),
            states: Vec::new(),
            open: Vec::new(),
            last_end: 0,
            tape: Tape::default(),
        }
    }

    /// Reads a text that is UTF-8 only up to `text`'s end.
    pub(crate) fn with_broken_end(text: &'a str, problem: &'static str, max_depth: usize) -> Self {
        let mut parser = Self::new(text, max_depth);
        parser.forbidden = parser.forbidden.or(Some((text.len(), problem)));
        parser
    }

    /// Reads the next document, if there is one.
    pub(crate) fn next_document(&mut self) -> Result<Option<Tape<'a>>> {
        // Go checks characters a block at a time, so a mistake in an earlier block is reported first.
        const BLOCK: usize = 512;
        let document = self.read_document();
        if let Some((at, problem)) = self.forbidden {
            let reached = match &document {
                Ok(_) => self.scanner.offset(),
                Err(error) => self.scanner.offset().max(error.mark.offset as usize),
            };
            if reached >= at / BLOCK * BLOCK {
                return Err(self.forbidden_error(at, problem));
            }
        }
        document
    }

    fn forbidden_error(&self, at: usize, problem: &str) -> Box<SyntaxError> {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let mark = TextMark {
            offset: at as u32,
            index: 0,
            line: before.matches('\n').count() as u32,
            column: before[line_start..].chars().count() as u32,
        };
        Box::new(SyntaxError {
            origin: ErrorStage::Reader,
            context: "",
            context_mark: TextMark::default(),
            problem: problem.into(),
            mark,
        })
    }

    fn read_document(&mut self) -> Result<Option<Tape<'a>>> {
        if !self.started {
            self.scanner.take()?;
        } else {
            while matches!(self.scanner.peek()?.kind, TokenKind::DocumentEnd) {
                self.scanner.take()?;
            }
        }
        let first = !std::mem::replace(&mut self.started, true);
        self.tags.clear();
        self.anchors.clear();
        // Most streams are one document, and most nodes take more than a dozen bytes of text.
        let expected = if first { self.text.len().min(1 << 20) / 16 } else { 64 };
        self.tape = Tape { items: Vec::with_capacity(expected + 4) };
        match &self.scanner.peek()?.kind {
            TokenKind::StreamEnd => return Ok(None),
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective { .. }
            | TokenKind::DocumentStart => {
                self.read_directives()?;
                let token = self.scanner.peek()?;
                let (kind, mark) = (&token.kind, token.start);
                if !matches!(kind, TokenKind::DocumentStart) {
                    return Err(self.error_at(
                        "",
                        TextMark::default(),
                        "did not find expected <document start>",
                        mark,
                    ));
                }
                let end = self.scanner.take()?.end;
                if matches!(
                    self.scanner.peek()?.kind,
                    TokenKind::VersionDirective { .. }
                        | TokenKind::TagDirective { .. }
                        | TokenKind::DocumentStart
                        | TokenKind::DocumentEnd
                        | TokenKind::StreamEnd
                ) {
                    self.empty_scalar(end);
                } else {
                    self.read_root()?;
                }
            }
            _ if first => self.read_root()?,
            _ => {
                let mark = self.scanner.peek()?.start;
                return Err(self.error_at(
                    "",
                    TextMark::default(),
                    "did not find expected <document start>",
                    mark,
                ));
            }
        }
        if matches!(self.scanner.peek()?.kind, TokenKind::DocumentEnd) {
            self.scanner.take()?;
        }
        Ok(Some(std::mem::take(&mut self.tape)))
    }

    fn error_at(
        &self,
        context: &'static str,
        context_mark: TextMark,
        problem: &str,
        mark: TextMark,
    ) -> Box<SyntaxError> {
        Box::new(SyntaxError {
            origin: ErrorStage::Parser,
            context,
            context_mark,
            problem: problem.into(),
            mark,
        })
    }

    fn read_directives(&mut self) -> Result<()> {
        let mut version = false;
        loop {
            match &self.scanner.peek()?.kind {
                TokenKind::VersionDirective { .. } | TokenKind::TagDirective { .. } => {}
                _ => return Ok(()),
            }
            let token = self.scanner.take()?;
            match token.kind {
                TokenKind::VersionDirective { major, minor } => {
                    if version {
                        return Err(self.error_at(
                            "",
                            TextMark::default(),
                            "found duplicate %YAML directive",
                            token.start,
                        ));
                    }
                    if major != 1 || minor != 1 {
                        return Err(self.error_at(
                            "",
                            TextMark::default(),
                            "found incompatible YAML document",
                            token.start,
                        ));
                    }
                    version = true;
                }
                TokenKind::TagDirective { handle, prefix } => {
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Err(self.error_at(
                            "",
                            TextMark::default(),
                            "found duplicate %TAG directive",
                            token.start,
                        ));
                    }
                    self.tags.push((handle, prefix));
                }
                _ => {}
            }
        }
    }

    fn read_root(&mut self) -> Result<()> {
        self.states.clear();
        self.open.clear();
        self.read_node(true, false)?;
        while let Some(state) = self.states.pop() {
            self.run_state(state)?;
        }
        Ok(())
    }

    fn push(&mut self, content: ItemContent<'a>, tag: Option<Box<str>>, start: TextMark, end: u32) -> u32 {
        let index = self.tape.items.len() as u32;
        self.last_end = end;
        self.tape.items.push(TapeItem { content, tag, start, end, next: index + 1, flow: false });
        index
    }

    fn empty_scalar(&mut self, mark: TextMark) {
        let value = Cow::Borrowed("");
        self.push(ItemContent::Scalar { value, style: ScalarStyle::Plain }, None, mark, mark.offset);
    }

    fn close_collection(&mut self, end: u32) {
        if let Some((index, _)) = self.open.pop() {
            let next = self.tape.items.len() as u32;
            // A block collection ends with its last node, not with the blank lines behind it.
            let item = &mut self.tape.items[index as usize];
            item.next = next;
            item.end = if item.flow { end } else { self.last_end.max(item.start.offset) };
            self.last_end = item.end;
        }
    }

    fn context_mark(&self) -> TextMark {
        self.open.last().map_or_else(TextMark::default, |(_, mark)| *mark)
    }

    fn read_node(&mut self, block: bool, indentless: bool) -> Result<()> {
        let token = self.scanner.peek()?;
        let start = token.start;
        if let TokenKind::Alias(name) = token.kind {
            let token = self.scanner.take()?;
            let Some(target) = self.anchors.get(name).copied() else {
                return Err(SyntaxError::composer_error(
                    start,
                    format!("unknown anchor '{name}' referenced"),
                ));
            };
            self.push(ItemContent::Alias { name, target }, None, start, token.end.offset);
            return Ok(());
        }
        let mut anchor = None;
        let mut tag = None;
        let mut end = start;
        for _ in 0..2 {
            match &self.scanner.peek()?.kind {
                TokenKind::Anchor(name) if anchor.is_none() => {
                    anchor = Some(*name);
                    end = self.scanner.take()?.end;
                }
                TokenKind::Tag { .. } if tag.is_none() => {
                    let token = self.scanner.take()?;
                    end = token.end;
                    if let TokenKind::Tag { handle, suffix } = token.kind {
                        tag = Some((handle, suffix, token.start));
                    }
                }
                _ => break,
            }
        }
        // Go reads on before it looks the tag up: a mistake in the next token comes first.
        self.scanner.peek()?;
        let tag = match tag {
            Some((handle, suffix, at)) => Some(self.resolve_tag(&handle, &suffix, start, at)?),
            None => None,
        };
        if let Some(name) = anchor {
            self.anchors.insert(name, self.tape.items.len() as u32);
        }
        let token = self.scanner.peek()?;
        let content_start = token.start;
        match &token.kind {
            TokenKind::BlockEntry if indentless => {
                let start = if anchor.is_some() || tag.is_some() { start } else { content_start };
                self.open_collection(ItemContent::Seq, tag, start, false, ParserState::IndentlessSequence)?;
            }
            TokenKind::Scalar { .. } => {
                let Token { kind, end, .. } = self.scanner.take()?;
                if let TokenKind::Scalar { value, style } = kind {
                    self.push(ItemContent::Scalar { value, style }, tag, content_start, end.offset);
                }
            }
            TokenKind::FlowSequenceStart => {
                self.scanner.take()?;
                let state = ParserState::FlowSequence { first: true };
                self.open_collection(ItemContent::Seq, tag, content_start, true, state)?;
            }
            TokenKind::FlowMappingStart => {
                self.scanner.take()?;
                let state = ParserState::FlowMappingKey { first: true };
                self.open_collection(ItemContent::Map, tag, content_start, true, state)?;
            }
            TokenKind::BlockSequenceStart if block => {
                self.scanner.take()?;
                self.open_collection(
                    ItemContent::Seq,
                    tag,
                    content_start,
                    false,
                    ParserState::BlockSequence,
                )?;
            }
            TokenKind::BlockMappingStart if block => {
                self.scanner.take()?;
                self.open_collection(
                    ItemContent::Map,
                    tag,
                    content_start,
                    false,
                    ParserState::BlockMappingKey,
                )?;
            }
            _ if anchor.is_some() || tag.is_some() => {
                let value = Cow::Borrowed("");
                self.push(ItemContent::Scalar { value, style: ScalarStyle::Plain }, tag, end, end.offset);
            }
            _ => {
                let context = if block { "while parsing a block node" } else { "while parsing a flow node" };
                return Err(self.error_at(
                    context,
                    start,
                    "did not find expected node content",
                    content_start,
                ));
            }
        }
        Ok(())
    }

    fn open_collection(
        &mut self,
        content: ItemContent<'a>,
        tag: Option<Box<str>>,
        start: TextMark,
        flow: bool,
        state: ParserState,
    ) -> Result<()> {
        if self.open.len() >= self.max_depth {
            let problem = format!("{TOO_DEEP} of {}", self.max_depth);
            return Err(self.error_at("", TextMark::default(), &problem, start));
        }
        let index = self.push(content, tag, start, start.offset);
        // Until it is closed a collection has no end: an alias to it from inside is a loop.
        self.tape.items[index as usize].next = u32::MAX;
        self.tape.items[index as usize].flow = flow;
        self.open.push((index, start));
        self.states.push(state);
        Ok(())
    }

    fn resolve_tag(&self, handle: &str, suffix: &str, start: TextMark, at: TextMark) -> Result<Box<str>> {
        if handle.is_empty() {
            return Ok(suffix.into());
        }
        let prefix = match self.tags.iter().find(|(known, _)| known == handle) {
            Some((_, prefix)) => prefix,
            None if handle == "!" => "!",
            None if handle == "!!" => CORE_TAG,
            None => {
                return Err(self.error_at("while parsing a node", start, "found undefined tag handle", at));
            }
        };
        Ok(format!("{prefix}{suffix}").into())
    }

    fn run_state(&mut self, state: ParserState) -> Result<()> {
        match state {
            ParserState::BlockSequence => self.block_sequence(),
            ParserState::IndentlessSequence => self.indentless_sequence(),
            ParserState::BlockMappingKey => self.block_mapping_key(),
            ParserState::BlockMappingValue => self.block_mapping_value(),
            ParserState::FlowSequence { first } => self.flow_sequence(first),
            ParserState::FlowPairKey => self.flow_pair_key(),
            ParserState::FlowPairValue => self.flow_pair_value(),
            ParserState::FlowPairEnd => {
                self.close_collection(self.last_end);
                Ok(())
            }
            ParserState::FlowMappingKey { first } => self.flow_mapping_key(first),
            ParserState::FlowMappingValue { empty } => self.flow_mapping_value(empty),
        }
    }

    fn block_sequence(&mut self) -> Result<()> {
        let token = self.scanner.peek()?;
        let mark = token.start;
        match token.kind {
            TokenKind::BlockEntry => {
                let end = self.scanner.take()?.end;
                self.states.push(ParserState::BlockSequence);
                if matches!(self.scanner.peek()?.kind, TokenKind::BlockEntry | TokenKind::BlockEnd) {
                    self.empty_scalar(end);
                    return Ok(());
                }
                self.read_node(true, false)
            }
            TokenKind::BlockEnd => {
                self.scanner.take()?;
                self.close_collection(mark.offset);
                Ok(())
            }
            _ => Err(self.error_at(
                "while parsing a block collection",
                self.context_mark(),
                "did not find expected '-' indicator",
                mark,
            )),
        }
    }

    fn indentless_sequence(&mut self) -> Result<()> {
        let token = self.scanner.peek()?;
        let mark = token.start;
        if !matches!(token.kind, TokenKind::BlockEntry) {
            self.close_collection(mark.offset);
            return Ok(());
        }
        let end = self.scanner.take()?.end;
        self.states.push(ParserState::IndentlessSequence);
        if matches!(
            self.scanner.peek()?.kind,
            TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
        ) {
            self.empty_scalar(end);
            return Ok(());
        }
        self.read_node(true, false)
    }

    fn block_mapping_key(&mut self) -> Result<()> {
        let token = self.scanner.peek()?;
        let mark = token.start;
        match token.kind {
            TokenKind::Key => {
                let end = self.scanner.take()?.end;
                self.states.push(ParserState::BlockMappingValue);
                if matches!(
                    self.scanner.peek()?.kind,
                    TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
                ) {
                    self.empty_scalar(end);
                    return Ok(());
                }
                self.read_node(true, true)
            }
            TokenKind::BlockEnd => {
                self.scanner.take()?;
                self.close_collection(mark.offset);
                Ok(())
            }
            _ => Err(self.error_at(
                "while parsing a block mapping",
                self.context_mark(),
                "did not find expected key",
                mark,
            )),
        }
    }

    fn block_mapping_value(&mut self) -> Result<()> {
        self.states.push(ParserState::BlockMappingKey);
        let token = self.scanner.peek()?;
        let mark = token.start;
        if !matches!(token.kind, TokenKind::Value) {
            self.empty_scalar(mark);
            return Ok(());
        }
        let end = self.scanner.take()?.end;
        if matches!(self.scanner.peek()?.kind, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd) {
            self.empty_scalar(end);
            return Ok(());
        }
        self.read_node(true, true)
    }

    fn flow_sequence(&mut self, first: bool) -> Result<()> {
        if !first && !matches!(self.scanner.peek()?.kind, TokenKind::FlowSequenceEnd) {
            let token = self.scanner.peek()?;
            let mark = token.start;
            if !matches!(token.kind, TokenKind::FlowEntry) {
                return Err(self.error_at(
                    "while parsing a flow sequence",
                    self.context_mark(),
                    "did not find expected ',' or ']'",
                    mark,
                ));
            }
            self.scanner.take()?;
        }
        let token = self.scanner.peek()?;
        let mark = token.start;
        match token.kind {
            TokenKind::FlowSequenceEnd => {
                let end = self.scanner.take()?.end;
                self.close_collection(end.offset);
                Ok(())
            }
            TokenKind::Key => {
                self.scanner.take()?;
                self.states.push(ParserState::FlowSequence { first: false });
                self.open_collection(ItemContent::Map, None, mark, true, ParserState::FlowPairKey)
            }
            _ => {
                self.states.push(ParserState::FlowSequence { first: false });
                self.read_node(false, false)
            }
        }
    }

    fn flow_pair_key(&mut self) -> Result<()> {
        self.states.push(ParserState::FlowPairValue);
        let token = self.scanner.peek()?;
        let end = token.end;
        if matches!(token.kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd) {
            // Go drops the token here, and so drops the pair's value.
            self.scanner.take()?;
            self.empty_scalar(end);
            return Ok(());
        }
        self.read_node(false, false)
    }

    fn flow_pair_value(&mut self) -> Result<()> {
        self.states.push(ParserState::FlowPairEnd);
        if matches!(self.scanner.peek()?.kind, TokenKind::Value) {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.kind, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd) {
                return self.read_node(false, false);
            }
        }
        let mark = self.scanner.peek()?.start;
        self.empty_scalar(mark);
        Ok(())
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<()> {
        if !first && !matches!(self.scanner.peek()?.kind, TokenKind::FlowMappingEnd) {
            let token = self.scanner.peek()?;
            let mark = token.start;
            if !matches!(token.kind, TokenKind::FlowEntry) {
                return Err(self.error_at(
                    "while parsing a flow mapping",
                    self.context_mark(),
                    "did not find expected ',' or '}'",
                    mark,
                ));
            }
            self.scanner.take()?;
        }
        match self.scanner.peek()?.kind {
            TokenKind::FlowMappingEnd => {
                let end = self.scanner.take()?.end;
                self.close_collection(end.offset);
                Ok(())
            }
            TokenKind::Key => {
                self.scanner.take()?;
                self.states.push(ParserState::FlowMappingValue { empty: false });
                let token = self.scanner.peek()?;
                let mark = token.start;
                if matches!(token.kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd) {
                    self.empty_scalar(mark);
                    return Ok(());
                }
                self.read_node(false, false)
            }
            _ => {
                self.states.push(ParserState::FlowMappingValue { empty: true });
                self.read_node(false, false)
            }
        }
    }

    fn flow_mapping_value(&mut self, empty: bool) -> Result<()> {
        self.states.push(ParserState::FlowMappingKey { first: false });
        if !empty && matches!(self.scanner.peek()?.kind, TokenKind::Value) {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd) {
                return self.read_node(false, false);
            }
        }
        let mark = self.scanner.peek()?.start;
        self.empty_scalar(mark);
        Ok(())
    }
}

/// The first character YAML does not allow in a text.
pub(crate) fn first_forbidden(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while from < bytes.len() {
        let word = &bytes[from..bytes.len().min(from + 8)];
        let is_plain = word.try_into().is_ok_and(|word| is_plain(u64::from_le_bytes(word)));
        let suspect = if is_plain { None } else { word.iter().position(|byte| is_suspect(*byte)) };
        let Some(found) = suspect else {
            from += word.len();
            continue;
        };
        let at = from + found;
        let next = |ahead: usize| bytes.get(at + ahead).copied().unwrap_or(0);
        let fine = match bytes[at] {
            0xC2 => next(1) == 0x85 || next(1) >= 0xA0,
            0xEF => !(next(1) == 0xBF && next(2) >= 0xBE),
            _ => false,
        };
        if !fine {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Returns true if eight bytes are printable ASCII and line feeds, as most of a text is. Each sum sets the highest bit of
/// the bytes it is about and never overflows into the next one, as long as no byte is above 0x7F.
fn is_plain(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGHEST: u64 = ONES * 0x80;
    let delete = word.wrapping_add(ONES);
    let printable = word.wrapping_add(ONES * 0x60);
    let no_line_feed = (word ^ (ONES * 0x0A)).wrapping_add(ONES * 0x7F);
    (word | delete | (!printable & no_line_feed)) & HIGHEST == 0
}

/// Returns true if a byte is, or may start, a forbidden character.
fn is_suspect(byte: u8) -> bool {
    (byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r')
        | (byte == 0x7F)
        | (byte == 0xC2)
        | (byte == 0xEF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_characters_are_found_wherever_they_stand() {
        for byte in 0..=0xFF_u8 {
            for at in 0..20 {
                for around in [b"a: \n\t\r ~".as_slice(), "é€: \u{feff}".as_bytes()] {
                    let mut text: Vec<u8> = around.iter().copied().cycle().take(at).collect();
                    text.push(byte);
                    text.extend(around);
                    let next = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
                    let is_forbidden = match byte {
                        b'\t' | b'\n' | b'\r' => false,
                        0..0x20 | 0x7F => true,
                        0xC2 => next(1) != 0x85 && next(1) < 0xA0,
                        0xEF => next(1) == 0xBF && next(2) >= 0xBE,
                        _ => false,
                    };
                    // A character that was cut off says nothing of this byte.
                    if first_forbidden(&text[..at]).is_none() && text[..at].last() != Some(&0xC2) {
                        assert_eq!(first_forbidden(&text) == Some(at), is_forbidden, "{text:?} at {at}");
                    }
                }
            }
        }
    }
}

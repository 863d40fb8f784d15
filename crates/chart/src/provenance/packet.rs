//! OpenPGP packets, as many of them as signatures and keyrings need (RFC 9580).

use crate::error::ChartError;

/// One packet: its kind and content.
pub(super) struct Packet<'b> {
    pub(super) tag: u8,
    pub(super) body: std::borrow::Cow<'b, [u8]>,
}

pub(super) fn fail<T>(text: impl Into<String>) -> Result<T, ChartError> {
    Err(ChartError::Publish(text.into()))
}

fn cut_off() -> ChartError {
    ChartError::Publish("the OpenPGP data is cut off".into())
}

/// A reader that never goes past the end.
#[derive(Clone, Copy)]
pub(super) struct ByteReader<'b>(pub(super) &'b [u8]);

impl<'b> ByteReader<'b> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'b [u8], ChartError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, ChartError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn number(&mut self, bytes: usize) -> Result<usize, ChartError> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    /// A number of any size, without leading zeros.
    pub(super) fn mpi(&mut self) -> Result<&'b [u8], ChartError> {
        let bits = self.number(2)?;
        self.take(bits.div_ceil(8))
    }
}

/// Takes a stream of packets apart.
pub(super) fn packets(bytes: &[u8]) -> Result<Vec<Packet<'_>>, ChartError> {
    let mut rest = ByteReader(bytes);
    let mut all = Vec::new();
    while !rest.0.is_empty() {
        let head = rest.byte()?;
        if head & 0x80 == 0 {
            return fail("this is not OpenPGP data");
        }
        if head & 0x40 == 0 {
            let length = match head & 3 {
                0 => rest.number(1)?,
                1 => rest.number(2)?,
                2 => rest.number(4)?,
                _ => rest.0.len(),
            };
            all.push(Packet { tag: head >> 2 & 0xf, body: rest.take(length)?.into() });
            continue;
        }
        let mut parts: Vec<&[u8]> = Vec::new();
        loop {
            let first = rest.number(1)?;
            let (length, partial) = match first {
                0..192 => (first, false),
                192..224 => (((first - 192) << 8) + rest.number(1)? + 192, false),
                255 => (rest.number(4)?, false),
                _ => (1 << (first & 0x1f), true),
            };
            parts.push(rest.take(length)?);
            if !partial {
                break;
            }
        }
        let body = match parts.as_slice() {
            [one] => (*one).into(),
            parts => parts.concat().into(),
        };
        all.push(Packet { tag: head & 0x3f, body });
    }
    Ok(all)
}

/// Wraps content into a packet.
pub(super) fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc0 | tag];
    length(body.len(), &mut out);
    out.extend_from_slice(body);
    out
}

pub(super) fn length(length: usize, out: &mut Vec<u8>) {
    match length {
        0..192 => out.push(length as u8),
        192..8384 => out.extend([(((length - 192) >> 8) + 192) as u8, (length - 192) as u8]),
        _ => {
            out.push(255);
            out.extend((length as u32).to_be_bytes());
        }
    }
}

/// A number of any size as OpenPGP writes it.
pub(super) fn mpi(bytes: &[u8], out: &mut Vec<u8>) {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    let bits = bytes.first().map_or(0, |first| bytes.len() * 8 - first.leading_zeros() as usize);
    out.extend((bits as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The checksum under armour.
fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = 0x00b7_04ce_u32;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc & 0x00ff_ffff
}

/// Text armour around binary data.
pub(super) fn armour(kind: &str, bytes: &[u8]) -> String {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let mut text = format!("-----BEGIN {kind}-----\n\n");
    let encoded = engine.encode(bytes);
    for line in encoded.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push('=');
    text.push_str(&engine.encode(&crc24(bytes).to_be_bytes()[1..]));
    text.push_str(&format!("\n-----END {kind}-----"));
    text
}

/// The binary data under armour of that kind.
pub(super) fn unarmour(text: &str, kind: &str) -> Result<Vec<u8>, ChartError> {
    use base64::Engine as _;
    let bad = || ChartError::Publish(format!("the {kind} block is damaged"));
    let (_, rest) = text.split_once(&format!("-----BEGIN {kind}-----")).ok_or_else(bad)?;
    let (block, _) = rest.split_once("-----END").ok_or_else(bad)?;
    // Headers end with an empty line.
    let lines: Vec<&str> = block.lines().map(str::trim_end).collect();
    let start = lines.iter().skip(1).position(|line| line.is_empty()).map_or(0, |at| at + 1);
    let mut data = String::new();
    let mut checksum = None;
    for line in &lines[start.min(lines.len())..] {
        match line.strip_prefix('=') {
            Some(sum) => checksum = Some(sum),
            None => data.push_str(line),
        }
    }
    let engine = base64::engine::general_purpose::STANDARD;
    let bytes = engine.decode(data).map_err(|_| bad())?;
    if let Some(sum) = checksum
        && engine.decode(sum).ok().as_deref() != Some(&crc24(&bytes).to_be_bytes()[1..])
    {
        return Err(bad());
    }
    Ok(bytes)
}

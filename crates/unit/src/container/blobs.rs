//! Contents of a unit, each kept once under its hash. Contents are compressed together: the files of a chart and the
//! objects rendered from them repeat each other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::{self, Write as _};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, params};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::UnitError;

/// Contents are compressed in portions of about this size.
const PACK_SIZE: usize = 32 << 20;
/// The most all contents of a unit, or all of its ledger, may have once unpacked.
pub(crate) const LARGEST_CONTENT: u64 = 1 << 30;
/// Compresses about as well as a packed chart, and a good deal faster than the chart renders.
const LEVEL: i32 = 3;
/// Matches reach back over a whole pack.
const WINDOW_LOG: u32 = 25;

/// The SHA-256 hash of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash(pub(crate) [u8; 32]);

impl ContentHash {
    pub(crate) fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut hash = [0_u8; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a SHA-256 hash"))
    }
}

/// Contents to be written, in the order they were added. A thread compresses them meanwhile: that takes about as long as
/// rendering the chart they come from.
#[derive(Debug)]
pub(crate) struct BlobWriter {
    order: Vec<(ContentHash, u64)>,
    known: HashSet<ContentHash>,
    to_packer: Sender<Arc<[u8]>>,
    packer: JoinHandle<io::Result<PackedContents>>,
}

impl BlobWriter {
    /// Starts to take contents.
    pub(crate) fn start() -> Result<Self, UnitError> {
        let (to_packer, contents) = mpsc::channel();
        let packer = thread::Builder::new().spawn(move || pack_contents(&contents));
        let packer = packer.map_err(UnitError::io("start", Path::new("a compression")))?;
        Ok(Self { order: Vec::new(), known: HashSet::new(), to_packer, packer })
    }

    /// Keeps a content, once.
    pub(crate) fn add(&mut self, content: impl Into<Arc<[u8]>>) -> ContentHash {
        let content = content.into();
        let hash = ContentHash::of(&content);
        self.add_hashed(hash, content);
        hash
    }

    /// Keeps a content whose hash is known, once.
    pub(crate) fn add_hashed(&mut self, hash: ContentHash, content: Arc<[u8]>) {
        if self.known.insert(hash) {
            self.order.push((hash, content.len() as u64));
            // A packer that stopped says why when it is asked for its packs.
            let _ = self.to_packer.send(content);
        }
    }

    pub(crate) fn rows(&self) -> Vec<(ContentHash, u64)> {
        let mut rows = self.order.clone();
        rows.sort_unstable();
        rows
    }

    /// Writes packs and rows.
    pub(crate) fn write(self, connection: &Connection) -> Result<(), UnitError> {
        let failed = UnitError::database;
        drop(self.to_packer);
        let packed = self.packer.join().unwrap_or_else(|panic| resume_unwind(panic));
        let packed = packed.map_err(UnitError::io("compress", Path::new("contents")))?;
        for (id, pack) in (1_i64..).zip(&packed.packs) {
            let hash = ContentHash::of(&pack.data);
            let row = params![id, pack.codec, pack.size as i64, hash.0.as_slice(), pack.data];
            let sql = "INSERT INTO packs (id, codec, size, sha256, data) VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.execute(sql, row).map_err(failed("write contents"))?;
        }
        let sql = "INSERT INTO blobs (sha256, size, pack, start) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = connection.prepare(sql).map_err(failed("write contents"))?;
        for ((hash, size), place) in self.order.iter().zip(&packed.places) {
            let row = params![hash.0.as_slice(), *size as i64, place.pack, place.start as i64];
            statement.execute(row).map_err(failed("write contents"))?;
        }
        Ok(())
    }
}

/// Contents in packs, with the place of each in the order they came.
#[derive(Debug, Default)]
struct PackedContents {
    packs: Vec<Pack>,
    places: Vec<BlobPlace>,
}

#[derive(Debug)]
struct Pack {
    codec: &'static str,
    size: usize,
    data: Vec<u8>,
}

/// Compresses contents as they come.
fn pack_contents(contents: &Receiver<Arc<[u8]>>) -> io::Result<PackedContents> {
    let mut packed = PackedContents::default();
    let mut open: Option<OpenPack> = None;
    for content in contents {
        if let Some(full) = open.take_if(|pack| pack.size > 0 && pack.size + content.len() > PACK_SIZE) {
            packed.packs.push(full.finish()?);
        }
        let pack = match &mut open {
            Some(pack) => pack,
            None => open.insert(OpenPack::start()?),
        };
        // An empty content is nowhere; it is said to be at the start.
        let (id, start) =
            if content.is_empty() { (1, 0) } else { (packed.packs.len() as i64 + 1, pack.size) };
        packed.places.push(BlobPlace { pack: id, start, size: content.len() });
        pack.push(content)?;
    }
    packed.packs.extend(open.map(OpenPack::finish).transpose()?);
    Ok(packed)
}

/// A pack that takes contents.
struct OpenPack {
    encoder: zstd::Encoder<'static, Vec<u8>>,
    contents: Vec<Arc<[u8]>>,
    size: usize,
}

impl OpenPack {
    fn start() -> io::Result<Self> {
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
        encoder.window_log(WINDOW_LOG)?;
        Ok(Self { encoder, contents: Vec::new(), size: 0 })
    }

    fn push(&mut self, content: Arc<[u8]>) -> io::Result<()> {
        self.encoder.write_all(&content)?;
        self.size += content.len();
        self.contents.push(content);
        Ok(())
    }

    fn finish(self) -> io::Result<Pack> {
        let packed = self.encoder.finish()?;
        let (codec, data) =
            if packed.len() < self.size { ("zstd", packed) } else { ("raw", self.contents.concat()) };
        Ok(Pack { codec, size: self.size, data })
    }
}

/// Every content of an opened unit, unpacked and checked against its hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlobStore {
    packs: BTreeMap<i64, Arc<[u8]>>,
    places: HashMap<ContentHash, BlobPlace>,
}

#[derive(Clone, Copy, Debug)]
struct BlobPlace {
    pack: i64,
    start: usize,
    size: usize,
}

impl BlobStore {
    /// Reads and checks all contents: every hash is right, every pack is made of contents and nothing else.
    pub(crate) fn read(connection: &Connection) -> Result<Self, UnitError> {
        let packs = read_packs(connection)?;
        let failed = UnitError::database;
        let wrong = |what: &str| UnitError::tampered("blobs", what);
        let mut places = HashMap::new();
        let mut covered: BTreeMap<i64, Vec<(usize, usize)>> = BTreeMap::new();
        let sql = "SELECT sha256, size, pack, start FROM blobs ORDER BY sha256";
        let mut statement = connection.prepare(sql).map_err(failed("read contents"))?;
        let mut rows = statement.query([]).map_err(failed("read contents"))?;
        while let Some(row) = rows.next().map_err(failed("read contents"))? {
            let hash: [u8; 32] = row.get(0).map_err(|_| wrong("has a row of the wrong kind"))?;
            let number = |index: usize| -> Result<i64, UnitError> {
                row.get(index).map_err(|_| wrong("has a row of the wrong kind"))
            };
            let (size, pack, start) = (number(1)?, number(2)?, number(3)?);
            let (Ok(size), Ok(start)) = (usize::try_from(size), usize::try_from(start)) else {
                return Err(wrong("has a content with a size below zero"));
            };
            if size == 0 && (pack, start) != (1, 0) {
                return Err(wrong("has an empty content that is somewhere"));
            }
            let content = packs.get(&pack).and_then(|all| all.get(start..start.checked_add(size)?));
            let content = content.ok_or_else(|| wrong("names a content that is not there"))?;
            if ContentHash::of(content).0 != hash {
                return Err(wrong("has a content with another hash"));
            }
            places.insert(ContentHash(hash), BlobPlace { pack, start, size });
            covered.entry(pack).or_default().push((start, size));
        }
        for (id, content) in &packs {
            let mut parts = covered.remove(id).unwrap_or_default();
            parts.sort_unstable();
            let mut end = 0;
            for (start, size) in parts {
                if start != end {
                    return Err(UnitError::tampered("packs", "holds more than the contents"));
                }
                end = start + size;
            }
            if end != content.len() {
                return Err(UnitError::tampered("packs", "holds more than the contents"));
            }
        }
        Ok(Self { packs, places })
    }

    pub(crate) fn get(&self, hash: &ContentHash) -> Result<&[u8], UnitError> {
        let place = self.places.get(hash);
        let content =
            place.and_then(|place| self.packs.get(&place.pack)?.get(place.start..place.start + place.size));
        content.ok_or_else(|| UnitError::tampered("blobs", format!("lacks the content {hash}")))
    }

    pub(crate) fn text(&self, hash: &ContentHash) -> Result<&str, UnitError> {
        let text = std::str::from_utf8(self.get(hash)?);
        text.map_err(|_| UnitError::tampered("blobs", format!("has a content that is no text: {hash}")))
    }
}

fn read_packs(connection: &Connection) -> Result<BTreeMap<i64, Arc<[u8]>>, UnitError> {
    let failed = UnitError::database;
    let wrong = |what: &str| UnitError::tampered("packs", what);
    let mut packs = BTreeMap::new();
    let mut total = 0_u64;
    let sql = "SELECT id, codec, size, sha256, data FROM packs ORDER BY id";
    let mut statement = connection.prepare(sql).map_err(failed("read contents"))?;
    let mut rows = statement.query([]).map_err(failed("read contents"))?;
    while let Some(row) = rows.next().map_err(failed("read contents"))? {
        let of_kind = |_| wrong("has a row of the wrong kind");
        let (id, codec): (i64, String) = (row.get(0).map_err(of_kind)?, row.get(1).map_err(of_kind)?);
        let size: i64 = row.get(2).map_err(of_kind)?;
        let hash: [u8; 32] = row.get(3).map_err(of_kind)?;
        let data = row.get_ref(4).map_err(of_kind)?;
        let data = data.as_blob().map_err(|_| wrong("has a row of the wrong kind"))?;
        if ContentHash::of(data).0 != hash {
            return Err(wrong("has another hash"));
        }
        total = total.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        if total > LARGEST_CONTENT {
            return Err(wrong("holds more than 1 GiB"));
        }
        let size = usize::try_from(size).map_err(|_| wrong("has a size below zero"))?;
        let content = match codec.as_str() {
            "raw" => data.to_vec(),
            "zstd" => unpack(data, size).map_err(|_| wrong("cannot be unpacked"))?,
            _ => return Err(wrong("is packed in an unknown way")),
        };
        if content.len() != size {
            return Err(wrong("has another size"));
        }
        packs.insert(id, content.into());
    }
    Ok(packs)
}

/// Unpacks at most `size` bytes.
fn unpack(data: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let mut decompressor = zstd::bulk::Decompressor::new()?;
    decompressor.set_parameter(zstd::zstd_safe::DParameter::WindowLogMax(WINDOW_LOG))?;
    decompressor.decompress(data, size)
}

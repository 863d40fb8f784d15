//! Servers on loopback ports that answer as a test says and remember what they were asked.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The server's own name, as the client calls it.
    pub(crate) host: String,
    pub(crate) authorization: Option<String>,
    pub(crate) content: String,
}

/// A status line, further header lines, and the content.
pub(crate) type Reply = (&'static str, String, Vec<u8>);

/// A server and what it was asked so far.
pub(crate) struct Host {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Host {
    pub(crate) async fn start(reply: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (reply, log) = (Arc::new(reply), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (reply, log) = (Arc::clone(&reply), Arc::clone(&log));
                tokio::spawn(async move { answer(stream, &*reply, &log).await });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Whether anything secret came here.
    pub(crate) fn saw_secrets(&self) -> bool {
        self.seen().iter().any(|seen| {
            seen.authorization.is_some()
                || seen.content.contains("refresh_token")
                || seen.path.contains("secret")
        })
    }
}

async fn answer(
    mut stream: TcpStream,
    reply: &(dyn Fn(&Seen) -> Reply + Send + Sync),
    log: &Mutex<Vec<Seen>>,
) {
    let Some(seen) = read(&mut stream).await else { return };
    log.lock().unwrap().push(seen.clone());
    let (status, extra, out) = reply(&seen);
    let length = out.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{extra}\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
    if seen.method != "HEAD" {
        let _ = stream.write_all(&out).await;
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    let head = loop {
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let header = |name: &str| {
        text.lines()
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut content = bytes[head + 4..].to_vec();
    while content.len() < length {
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        content.extend_from_slice(&chunk[..read]);
    }
    let mut words = text.split(' ');
    Some(Seen {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        host: header("host").unwrap_or_default(),
        authorization: header("authorization"),
        content: String::from_utf8_lossy(&content).into_owned(),
    })
}

/// The misbehaviour of a server that takes connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stall {
    /// Never says a word.
    Silent,
    /// Answers, then never sends the content it announced.
    SilentAfterHead,
    /// Sends its head, then bytes one by one, without end.
    Endless,
}

pub(crate) async fn stall(kind: Stall) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let head: &[u8] = match kind {
                Stall::Silent => {
                    open.push(stream);
                    continue;
                }
                Stall::SilentAfterHead => b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
                Stall::Endless => b"HTTP/1.1 200 OK\r\n\r\n",
            };
            if read(&mut stream).await.is_none() || stream.write_all(head).await.is_err() {
                continue;
            }
            if let Stall::Endless = kind {
                tokio::spawn(async move {
                    while stream.write_all(b"x").await.is_ok() {
                        tokio::task::yield_now().await;
                    }
                });
            } else {
                open.push(stream);
            }
        }
    });
    address
}

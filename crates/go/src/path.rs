//! Slash-separated paths as Go's `path` (and `path/filepath` on Unix) treats them.

/// The shortest equivalent of a path by lexical processing alone.
pub fn clean(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    let rooted = path[0] == b'/';
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match kept.last() {
                Some(&last) if last != b".." => {
                    kept.pop();
                }
                _ if rooted => {}
                _ => kept.push(part),
            },
            _ => kept.push(part),
        }
    }
    let mut out = if rooted { b"/".to_vec() } else { Vec::new() };
    out.extend_from_slice(&kept.join(&b'/'));
    if out.is_empty() { b".".to_vec() } else { out }
}

/// The last element, without trailing slashes.
pub fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let path = &path[..end];
    let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    if path[start..].is_empty() { b"/" } else { &path[start..] }
}

/// All but the last element, cleaned.
pub fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    clean(&path[..end])
}

/// The suffix from the last dot of the last element.
pub fn ext(path: &[u8]) -> &[u8] {
    for (at, &byte) in path.iter().enumerate().rev() {
        match byte {
            b'.' => return &path[at..],
            b'/' => break,
            _ => {}
        }
    }
    b""
}

/// Tells whether the path starts at the root.
pub fn is_abs(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
}

//! Paths as files write them: relative to the declaring file, shown relative to the root.

use std::path::{Component, Path, PathBuf};

/// A path without `.` and `..`, as far as that can be told without looking at the disk.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            Component::ParentDir if normal.has_root() => {}
            part => normal.push(part),
        }
    }
    normal
}

/// A path under `root` relative to it with `/`; any other as it is.
pub(crate) fn shown(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => slashes(below),
        Err(_) => slashes(path),
    }
}

fn slashes(path: &Path) -> String {
    let text = path.to_string_lossy();
    if std::path::MAIN_SEPARATOR == '/' {
        text.into_owned()
    } else {
        text.replace(std::path::MAIN_SEPARATOR, "/")
    }
}

/// A kubeconfig as plans store it: as written, but a relative path relative to the root.
pub(crate) fn kubeconfig(dir: &str, written: &str) -> String {
    if written.starts_with('~') || Path::new(written).is_absolute() {
        return written.to_owned();
    }
    slashes(&normal(&Path::new(dir).join(written)))
}

/// A path of a stored plan as one to open: `~` is `home`, what is relative starts at `root`.
pub fn expand(root: &Path, home: Option<&Path>, stored: &str) -> PathBuf {
    match (stored.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => normal(&root.join(stored)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_dots() {
        for (path, expected) in
            [("/a/./b/../c", "/a/c"), ("../x", "../x"), ("a/../../x", "../x"), ("/..", "/"), ("./a", "a")]
        {
            assert_eq!(normal(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn kubeconfigs_stay_as_written_unless_relative() {
        assert_eq!(kubeconfig("a/b", "~/.kube/x"), "~/.kube/x");
        assert_eq!(kubeconfig("a/b", "../kube.yaml"), "a/kube.yaml");
        let home = Some(Path::new("/home/ann"));
        assert_eq!(expand(Path::new("/r"), home, "~/.kube/x"), Path::new("/home/ann/.kube/x"));
        assert_eq!(expand(Path::new("/r"), home, "a/kube.yaml"), Path::new("/r/a/kube.yaml"));
    }
}

//! A digest changes with what a source is made of, and with nothing else.

use slipway_source::SourceDigests;

use crate::support::{ABOUT, folder, write};

#[test]
fn a_directory_has_another_digest_when_a_file_of_it_changes() {
    let place = folder(&[
        ("demo/Chart.yaml", ABOUT),
        ("demo/.helmignore", "*.bak\n"),
        ("demo/values.yaml", "a: 1\n"),
    ]);
    let path = place.path().join("demo");
    let digest = || SourceDigests::new().of(&path).expect("is readable");
    let first = digest();
    for left_out in ["demo/old.bak", "demo/.git/HEAD", "demo/.slipway/run"] {
        write(place.path(), left_out, "x");
        assert_eq!(digest(), first, "{left_out}");
    }
    write(place.path(), "demo/values.yaml", "a: 2\n");
    assert_ne!(digest(), first);
    let kept = SourceDigests::new();
    let before = kept.of(&path).expect("is readable");
    write(place.path(), "demo/values.yaml", "a: 3\n");
    assert_eq!(kept.of(&path).expect("is readable"), before, "each is read once");
    assert!(SourceDigests::new().of(&place.path().join("nowhere")).is_err());
}

//! "Did you mean": the known name closest to a mistyped one.

/// Finds the candidate nearest to `name`, if any is near enough to be worth suggesting.
///
/// Near enough means a Damerau–Levenshtein distance (adjacent swaps count once) of at most a third of
/// the longer name, ignoring case; ties go to the candidate that sorts first, so the answer does not
/// depend on the order of `candidates`.
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate == name {
            continue;
        }
        let letters: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        let allowed = (wanted.len().max(letters.len()) / 3).max(1);
        // A name of one letter that is another letter has nothing in common with it.
        if wanted.len().min(letters.len()) <= 1 && !wanted.iter().any(|letter| letters.contains(letter)) {
            continue;
        }
        if wanted.len().abs_diff(letters.len()) > allowed {
            continue;
        }
        let distance = edit_distance(&wanted, &letters);
        if distance <= allowed && best.is_none_or(|found| (distance, candidate) < found) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitute.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_close() {
        let known = ["replicas", "image", "namespace", "db", "web"];
        for (typed, expected) in [
            ("replica", Some("replicas")),
            ("Image", Some("image")),
            ("imgae", Some("image")),
            ("namespcae", Some("namespace")),
            ("bd", Some("db")),
            ("webb", Some("web")),
            ("w", None),
            ("zzz", None),
            ("", None),
            ("image", None),
        ] {
            assert_eq!(nearest_name(typed, known), expected, "{typed}");
        }
    }

    #[test]
    fn one_letter_is_not_close_to_another() {
        assert_eq!(nearest_name("b", ["a", "c"]), None);
        assert_eq!(nearest_name("B", ["a", "b"]), Some("b"));
    }

    #[test]
    fn ties_do_not_depend_on_order() {
        assert_eq!(nearest_name("bat", ["cat", "bar"]), Some("bar"));
        assert_eq!(nearest_name("bat", ["bar", "cat"]), Some("bar"));
    }
}

//! `~/.aws/credentials` and `~/.aws/config`: sections of settings.

use std::collections::BTreeMap;

/// The settings of one section.
pub(crate) type Profile = BTreeMap<String, String>;

/// Finds a profile; `config` names sections `[profile NAME]`, `credentials` `[NAME]`.
pub(crate) fn find_profile(text: &str, name: &str) -> Option<Profile> {
    find_section(text, |section| section.strip_prefix("profile ").map_or(section, str::trim) == name)
}

/// Finds a session of single sign-on: `[sso-session NAME]`.
pub(crate) fn find_sso_session(text: &str, name: &str) -> Option<Profile> {
    find_section(text, |section| section.strip_prefix("sso-session ").is_some_and(|own| own.trim() == name))
}

fn find_section(text: &str, is_wanted: impl Fn(&str) -> bool) -> Option<Profile> {
    let mut found: Option<Profile> = None;
    let mut is_inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some((section, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            is_inside = is_wanted(section.trim());
            if is_inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (is_inside, line.split_once('=')) {
            found.get_or_insert_default().insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_found_in_both_spellings() {
        let text = "[default]\nregion = a\n# x\n[profile dev]\nregion=b\naws_access_key_id = k\n[dev2]\nregion=c\n\
                    [sso-session dev]\nsso_region = d\n";
        assert_eq!(find_profile(text, "default").unwrap()["region"], "a");
        assert_eq!(find_profile(text, "dev").unwrap()["aws_access_key_id"], "k");
        assert_eq!(find_profile(text, "dev2").unwrap()["region"], "c");
        assert_eq!(find_profile(text, "none"), None);
        assert_eq!(find_sso_session(text, "dev").unwrap()["sso_region"], "d");
        assert_eq!(find_sso_session(text, "dev2"), None);
    }
}

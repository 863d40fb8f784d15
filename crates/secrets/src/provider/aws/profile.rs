//! Profiles of `~/.aws`: where their keys come from, and the roles they go through.
//!
//! A profile has keys, a program that prints keys, a login of single sign-on, or a role to assume with the keys of
//! another profile or of the machine.

use std::path::{Path, PathBuf};

use super::ini::{Profile, find_profile, find_sso_session};
use super::sigv4::AwsKeys;
use crate::provider::build::BuildContext;
use crate::provider::{ErrorCode, ProviderError};

/// A role to assume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AwsRole {
    pub(crate) arn: String,
    pub(crate) external_id: Option<String>,
    pub(crate) session_name: Option<String>,
}

/// The first keys of a profile, and the roles that are assumed with them one after the other.
pub(crate) struct ProfileChain {
    pub(crate) first: ProfileKeys,
    pub(crate) roles: Vec<AwsRole>,
}

/// The place the keys of a profile come from.
pub(crate) enum ProfileKeys {
    Own(AwsKeys),
    /// A command line that prints keys (`credential_process`).
    Program(Vec<String>),
    SingleSignOn(SsoLogin),
    WebIdentity {
        file: PathBuf,
        role: AwsRole,
    },
    Environment,
    Container,
    Machine,
}

/// A login of single sign-on, made by `aws sso login`.
pub(crate) struct SsoLogin {
    pub(crate) profile: String,
    pub(crate) region: String,
    pub(crate) account: String,
    pub(crate) role: String,
    /// The name of the cached token is the SHA-1 of this.
    pub(crate) cache_key: String,
}

/// The user's AWS files.
pub(crate) struct ProfileFiles {
    texts: Vec<String>,
}

impl ProfileFiles {
    pub(crate) fn read(context: &BuildContext) -> Self {
        let environment = &context.environment;
        let file = |variable: &str, usual: &str| {
            environment.text(variable).map(PathBuf::from).or_else(|| environment.in_home(usual))
        };
        let files =
            [file("AWS_CONFIG_FILE", ".aws/config"), file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")];
        let read = |path: &Path| slipway_problem::read_text_file(path).ok();
        Self { texts: files.iter().flatten().filter_map(|path| read(path)).collect() }
    }

    /// The settings of a profile in both files.
    pub(crate) fn profile(&self, name: &str) -> Option<Profile> {
        self.merged(|text| find_profile(text, name))
    }

    fn merged(&self, find: impl Fn(&str) -> Option<Profile>) -> Option<Profile> {
        self.texts.iter().filter_map(|text| find(text)).reduce(|mut all, next| {
            all.extend(next);
            all
        })
    }

    /// Follows a profile to its first keys; none if it has neither keys nor a way to some.
    pub(crate) fn chain(&self, name: &str) -> Result<Option<ProfileChain>, ProviderError> {
        let mut roles = Vec::new();
        let mut seen = vec![name.to_owned()];
        let mut name = name.to_owned();
        loop {
            let profile = self.profile(&name).ok_or_else(|| {
                problem(format!("there is no AWS profile `{name}`"))
                    .hint("profiles are in ~/.aws/config and ~/.aws/credentials")
            })?;
            let get = |key: &str| profile.get(key).filter(|value| !value.is_empty()).cloned();
            let Some(arn) = get("role_arn") else {
                let first = self.own_keys(&name, &profile)?;
                roles.reverse();
                return Ok(first.map(|first| ProfileChain { first, roles }));
            };
            if get("mfa_serial").is_some() {
                return Err(problem(format!("the AWS profile `{name}` asks for a code (mfa_serial)"))
                    .hint("export keys of a session: `aws configure export-credentials --profile NAME`"));
            }
            let role =
                AwsRole { arn, external_id: get("external_id"), session_name: get("role_session_name") };
            let source = get("source_profile");
            let first = match (get("web_identity_token_file"), get("credential_source").as_deref(), &source) {
                (Some(file), _, _) => {
                    Some(ProfileKeys::WebIdentity { file: file.into(), role: role.clone() })
                }
                (None, None, None) => {
                    return Err(problem(format!(
                        "the AWS profile `{name}` has a role and no source of keys"
                    ))
                    .hint("give it `source_profile`, `credential_source` or `web_identity_token_file`"));
                }
                (None, None, Some(source)) if *source == name => self.own_keys(&name, &profile)?,
                (None, None, Some(_)) => None,
                (None, Some("Environment"), _) => Some(ProfileKeys::Environment),
                (None, Some("EcsContainer"), _) => Some(ProfileKeys::Container),
                (None, Some("Ec2InstanceMetadata"), _) => Some(ProfileKeys::Machine),
                (None, Some(_), _) => {
                    return Err(problem(format!(
                        "the AWS profile `{name}` has an unknown credential_source"
                    ))
                    .hint("one of Environment, EcsContainer, Ec2InstanceMetadata"));
                }
            };
            // A web identity becomes the role by itself.
            if !matches!(first, Some(ProfileKeys::WebIdentity { .. })) {
                roles.push(role);
            }
            if let Some(first) = first {
                roles.reverse();
                return Ok(Some(ProfileChain { first, roles }));
            }
            let Some(source) = source.filter(|source| *source != name) else { return Ok(None) };
            if seen.contains(&source) {
                return Err(problem(format!("the AWS profiles {} use each other", seen.join(", ")))
                    .hint("one of them needs keys of its own"));
            }
            seen.push(source.clone());
            name = source;
        }
    }

    /// Keys a profile has without a role.
    fn own_keys(&self, name: &str, profile: &Profile) -> Result<Option<ProfileKeys>, ProviderError> {
        let get = |key: &str| profile.get(key).filter(|value| !value.is_empty()).cloned();
        if let (Some(id), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key")) {
            return Ok(Some(ProfileKeys::Own(AwsKeys {
                access_key_id: id,
                secret_access_key: secret.into(),
                session_token: get("aws_session_token").map(Into::into),
                expires: None,
            })));
        }
        if let (Some(account), Some(role)) = (get("sso_account_id"), get("sso_role_name")) {
            return self.sso_login(name, profile, account, role).map(Some);
        }
        let Some(line) = get("credential_process") else { return Ok(None) };
        let words = split_words(&line).ok_or_else(|| {
            problem(format!("the credential_process of the AWS profile `{name}` has an open quote"))
                .hint("close it, or write a program without arguments")
        })?;
        Ok(Some(ProfileKeys::Program(words)))
    }

    fn sso_login(
        &self,
        name: &str,
        profile: &Profile,
        account: String,
        role: String,
    ) -> Result<ProfileKeys, ProviderError> {
        let missing = |what: &str| {
            problem(format!("the AWS profile `{name}` has no {what}"))
                .hint("set it up again: `aws configure sso`")
        };
        let get = |key: &str| profile.get(key).cloned();
        let (region, cache_key) = match get("sso_session") {
            Some(session) => {
                let settings = self
                    .merged(|text| find_sso_session(text, &session))
                    .ok_or_else(|| missing("section of its sso_session"))?;
                (settings.get("sso_region").cloned(), Some(session))
            }
            None => (get("sso_region"), get("sso_start_url")),
        };
        Ok(ProfileKeys::SingleSignOn(SsoLogin {
            profile: name.to_owned(),
            region: region.ok_or_else(|| missing("sso_region"))?,
            account,
            role,
            cache_key: cache_key.ok_or_else(|| missing("sso_start_url"))?,
        }))
    }
}

fn problem(reason: String) -> ProviderError {
    ProviderError::new(ErrorCode::Config, reason)
}

/// Splits a command line as a shell does, with quotes and without anything else of a shell. None for an open quote.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(character),
            (_, '\\') => word.get_or_insert_default().push(characters.next()?),
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> ProfileFiles {
        ProfileFiles { texts: vec![text.to_owned()] }
    }

    #[test]
    fn roles_are_followed_to_the_first_keys() {
        let files = files(
            "[profile prod]\nrole_arn = arn:prod\nsource_profile = hub\nexternal_id = e\n\
             [profile hub]\nrole_arn = arn:hub\nsource_profile = base\n\
             [profile base]\naws_access_key_id = AKID\naws_secret_access_key = s\n",
        );
        let chain = files.chain("prod").unwrap().unwrap();
        assert!(matches!(chain.first, ProfileKeys::Own(keys) if keys.access_key_id == "AKID"));
        let arns: Vec<&str> = chain.roles.iter().map(|role| role.arn.as_str()).collect();
        assert_eq!(arns, ["arn:hub", "arn:prod"], "the hub is assumed first");
        assert_eq!(chain.roles[1].external_id.as_deref(), Some("e"));
    }

    #[test]
    fn profiles_without_a_way_to_keys_say_so() {
        for (text, expected) in [
            (
                "[a]\nrole_arn = r\nsource_profile = b\n[b]\nrole_arn = r\nsource_profile = a\n",
                "use each other",
            ),
            ("[a]\nrole_arn = r\nsource_profile = none\n", "no AWS profile `none`"),
            ("[a]\nrole_arn = r\n", "no source of keys"),
            ("[a]\nrole_arn = r\ncredential_source = Moon\n", "unknown credential_source"),
            ("[a]\nrole_arn = r\nsource_profile = a\nmfa_serial = m\n", "asks for a code"),
            (
                "[a]\nsso_account_id = 1\nsso_role_name = r\nsso_session = s\n",
                "no section of its sso_session",
            ),
            ("[a]\nsso_account_id = 1\nsso_role_name = r\nsso_start_url = u\n", "no sso_region"),
            ("[a]\ncredential_process = 'x\n", "open quote"),
        ] {
            let error = files(text).chain("a").map(|_| ()).unwrap_err();
            assert!(error.reason.contains(expected) && error.hint.is_some(), "{text}: {error}");
        }
        assert!(files("[a]\nregion = r\n").chain("a").unwrap().is_none());
    }

    #[test]
    fn command_lines_are_split_at_spaces_outside_of_quotes() {
        for (line, expected) in [
            ("a b", Some(vec!["a", "b"])),
            ("  '/opt/my tool'  --x=\"1 2\" '' ", Some(vec!["/opt/my tool", "--x=1 2", ""])),
            (r#"a\ b "c\"d""#, Some(vec!["a b", "c\"d"])),
            ("'open", None),
        ] {
            let expected: Option<Vec<String>> =
                expected.map(|words| words.into_iter().map(str::to_owned).collect());
            assert_eq!(split_words(line), expected, "{line}");
        }
    }
}

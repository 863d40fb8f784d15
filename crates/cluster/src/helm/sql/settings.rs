//! Connection strings of PostgreSQL: a URL, or `key=value` words, as libpq and Helm's library read them.
//!
//! Where both differ, Helm's library counts, so that one string means the same to Helm and to us: without `sslmode` a
//! connection is encrypted, the default host is `localhost`, and a keyword that neither knows is a setting of the
//! session (`search_path`). Nothing here repeats a value in an error.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};

/// The time to open a connection in, unless the string says.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const APPLICATION: &str = "slipway";

/// Keywords that change nothing for us: forms of values that only Helm's library knows, and Kerberos, which a server
/// has to ask for.
const WITHOUT_EFFECT: &[&str] = &[
    "binary_parameters",
    "disable_prepared_binary_result",
    "fallback_application_name",
    "gssencmode",
    "gsslib",
    "krbspn",
    "krbsrvname",
    "sslcompression",
];
/// Keywords whose meaning would be lost without notice.
const UNSUPPORTED: &[&str] = &[
    "passfile",
    "replication",
    "require_auth",
    "requirepeer",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcrl",
    "sslcrldir",
    "sslinline",
    "sslpassword",
];

/// The reason a connection string cannot be used. No value of the string is part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionStringError {
    #[error("after the keyword that begins at character {0} there is no `=`")]
    NoEquals(usize),
    #[error("a quoted value is not closed")]
    OpenQuote,
    #[error("the string ends with a backslash")]
    LoneBackslash,
    #[error("the URL has an address in brackets that is not closed")]
    OpenBracket,
    #[error("a part of the URL is not UTF-8 once its percent signs are decoded")]
    NotText,
    #[error("a parameter of the URL has no `=`")]
    NoParameterValue,
    #[error("`{keyword}` is not {expected}")]
    Value { keyword: &'static str, expected: &'static str },
    #[error("`{0}` is not supported")]
    Unsupported(&'static str),
    #[error("there are {ports} ports for {hosts} hosts")]
    Ports { hosts: usize, ports: usize },
    #[error("`sslcert` and `sslkey` belong together")]
    HalfCertificate,
}

/// The encryption of a connection, in libpq's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    /// Plain, and encrypted if that is refused.
    Allow,
    /// Encrypted, and plain if that fails.
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The authorities that vouch for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RootCertificates {
    System,
    File(PathBuf),
}

/// The checks of a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    Nothing,
    /// An authority vouches for it.
    Authority(RootCertificates),
    /// The same, and it names the host.
    AuthorityAndName(RootCertificates),
}

/// A certificate to log in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientIdentity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// A connection string that was understood.
#[derive(Clone)]
pub struct SqlSettings {
    pub(super) config: Config,
    pub(super) mode: SslMode,
    pub(super) verification: Verification,
    pub(super) identity: Option<ClientIdentity>,
    /// The server, for messages: `db.example.com:5432/helm`.
    pub(super) place: String,
    password: Option<SecretString>,
}

impl fmt::Debug for SqlSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlSettings").field("place", &self.place).finish_non_exhaustive()
    }
}

impl SqlSettings {
    /// Reads a connection string. `user` is who connects if the string does not say, and `defaults` are values of keywords it
    /// does not name.
    pub fn parse(
        text: &SecretString,
        user: &str,
        defaults: &[(&str, SecretString)],
    ) -> Result<SqlSettings, ConnectionStringError> {
        let mut words = read_words(text.expose_secret())?;
        for (keyword, value) in defaults {
            if !words.iter().any(|(known, _)| known == keyword) {
                words.push(((*keyword).to_owned(), value.expose_secret().to_owned()));
            }
        }
        build_settings(words, user)
    }

    /// The password of the string, which nobody is to see.
    pub fn password(&self) -> Option<&SecretString> {
        self.password.as_ref()
    }
}

/// The keywords of a connection string with their values; the last of a keyword counts.
fn read_words(text: &str) -> Result<Vec<(String, String)>, ConnectionStringError> {
    let url = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    match url {
        Some(rest) => read_url(rest),
        None => read_key_values(text),
    }
}

fn decode(text: &str) -> Result<String, ConnectionStringError> {
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| ConnectionStringError::NotText)?;
    Ok(decoded.into_owned())
}

/// Reads what follows the scheme: `user:password@host:port,host:port/dbname?keyword=value`.
fn read_url(rest: &str) -> Result<Vec<(String, String)>, ConnectionStringError> {
    let mut words = Vec::new();
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = match authority.rsplit_once('@') {
        None => authority,
        Some((login, hosts)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            words.push(("user".to_owned(), decode(user)?));
            if let Some(password) = password {
                words.push(("password".to_owned(), decode(password)?));
            }
            hosts
        }
    };
    if !hosts.is_empty() {
        let (mut names, mut ports) = (Vec::new(), Vec::new());
        for host in hosts.split(',') {
            let (name, port) = split_port(host)?;
            names.push(decode(name)?);
            ports.push(port.to_owned());
        }
        words.push(("host".to_owned(), names.join(",")));
        if ports.iter().any(|port| !port.is_empty()) {
            words.push(("port".to_owned(), ports.join(",")));
        }
    }
    if !name.is_empty() {
        words.push(("dbname".to_owned(), decode(name)?));
    }
    for parameter in query.into_iter().flat_map(|query| query.split('&')).filter(|part| !part.is_empty()) {
        let (keyword, value) = parameter.split_once('=').ok_or(ConnectionStringError::NoParameterValue)?;
        words.push((decode(keyword)?, decode(value)?));
    }
    Ok(words)
}

/// Splits the port from a host of a URL, which may be an address in brackets.
fn split_port(host: &str) -> Result<(&str, &str), ConnectionStringError> {
    if let Some(rest) = host.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(ConnectionStringError::OpenBracket)?;
        return Ok((address, port.strip_prefix(':').unwrap_or(port)));
    }
    Ok(host.rsplit_once(':').unwrap_or((host, "")))
}

/// Reads `host=db user='who ever' password=it\'s`.
fn read_key_values(text: &str) -> Result<Vec<(String, String)>, ConnectionStringError> {
    let mut words = Vec::new();
    let mut signs = text.chars().enumerate().peekable();
    loop {
        while signs.next_if(|(_, sign)| sign.is_whitespace()).is_some() {}
        let Some(&(start, _)) = signs.peek() else { return Ok(words) };
        let mut keyword = String::new();
        while let Some((_, sign)) = signs.next_if(|(_, sign)| *sign != '=' && !sign.is_whitespace()) {
            keyword.push(sign);
        }
        while signs.next_if(|(_, sign)| sign.is_whitespace()).is_some() {}
        if signs.next_if(|(_, sign)| *sign == '=').is_none() {
            return Err(ConnectionStringError::NoEquals(start + 1));
        }
        while signs.next_if(|(_, sign)| sign.is_whitespace()).is_some() {}
        let is_quoted = signs.next_if(|(_, sign)| *sign == '\'').is_some();
        let mut value = String::new();
        loop {
            match signs.next() {
                None if is_quoted => return Err(ConnectionStringError::OpenQuote),
                None => break,
                Some((_, '\\')) => {
                    value.push(signs.next().ok_or(ConnectionStringError::LoneBackslash)?.1);
                }
                Some((_, '\'')) if is_quoted => break,
                Some((_, sign)) if !is_quoted && sign.is_whitespace() => break,
                Some((_, sign)) => value.push(sign),
            }
        }
        words.push((keyword, value));
    }
}

/// Reads a number of seconds or tries; libpq takes what is not positive as not given.
fn count(keyword: &'static str, text: &str) -> Result<Option<u32>, ConnectionStringError> {
    let wrong = ConnectionStringError::Value { keyword, expected: "a whole number" };
    let number: i64 = text.trim().parse().map_err(|_| wrong.clone())?;
    if number <= 0 {
        return Ok(None);
    }
    u32::try_from(number).map(Some).map_err(|_| wrong)
}

fn seconds(keyword: &'static str, text: &str) -> Result<Option<Duration>, ConnectionStringError> {
    Ok(count(keyword, text)?.map(|number| Duration::from_secs(number.into())))
}

/// A setting of the session as the server reads it among its options, which spaces separate.
fn session_option(keyword: &str, value: &str) -> String {
    let mut text = format!(" -c {keyword}=");
    for sign in value.chars() {
        if sign.is_whitespace() || sign == '\\' {
            text.push('\\');
        }
        text.push(sign);
    }
    text
}

fn build_settings(words: Vec<(String, String)>, user: &str) -> Result<SqlSettings, ConnectionStringError> {
    let wrong = |keyword, expected| Err(ConnectionStringError::Value { keyword, expected });
    let mut config = Config::new();
    let (mut application, mut connect_timeout) = (APPLICATION.to_owned(), Some(CONNECT_TIMEOUT));
    let (mut hosts, mut addresses, mut ports) = (String::new(), String::new(), String::new());
    let (mut login, mut name, mut password) = (user.to_owned(), None, None);
    let (mut mode, mut roots) = (SslMode::Require, None);
    let (mut certificate, mut key) = (None, None);
    let (mut options, mut session) = (String::new(), String::new());
    for (keyword, value) in words {
        if value.is_empty() {
            continue;
        }
        match keyword.as_str() {
            "host" => hosts = value,
            "hostaddr" => addresses = value,
            "port" => ports = value,
            "user" => login = value,
            "password" => password = Some(SecretString::from(value)),
            "dbname" => name = Some(value),
            "sslmode" => {
                mode = match value.as_str() {
                    "disable" => SslMode::Disable,
                    "allow" => SslMode::Allow,
                    "prefer" => SslMode::Prefer,
                    "require" => SslMode::Require,
                    "verify-ca" => SslMode::VerifyCa,
                    "verify-full" => SslMode::VerifyFull,
                    _ => {
                        let expected = "one of disable, allow, prefer, require, verify-ca and verify-full";
                        return wrong("sslmode", expected);
                    }
                };
            }
            "sslrootcert" if value == "system" => roots = Some(RootCertificates::System),
            "sslrootcert" => roots = Some(RootCertificates::File(value.into())),
            "sslcert" => certificate = Some(PathBuf::from(value)),
            "sslkey" => key = Some(PathBuf::from(value)),
            // Without the name of the server in the greeting of TLS some proxies do not know it; nobody needs it left out.
            "sslsni" => {}
            "connect_timeout" => connect_timeout = seconds("connect_timeout", &value)?,
            "application_name" => application = value,
            "options" => options = value,
            "client_encoding" => {
                if !["utf8", "utf-8", "auto"].contains(&value.to_lowercase().as_str()) {
                    return wrong("client_encoding", "UTF8, the only encoding of records");
                }
            }
            "target_session_attrs" => {
                let attributes = match value.as_str() {
                    "any" => TargetSessionAttrs::Any,
                    "read-write" | "primary" => TargetSessionAttrs::ReadWrite,
                    _ => return wrong("target_session_attrs", "`any`, `primary` or `read-write`"),
                };
                config.target_session_attrs(attributes);
            }
            "load_balance_hosts" => {
                let balance = match value.as_str() {
                    "disable" => LoadBalanceHosts::Disable,
                    "random" => LoadBalanceHosts::Random,
                    _ => return wrong("load_balance_hosts", "`disable` or `random`"),
                };
                config.load_balance_hosts(balance);
            }
            "channel_binding" if value == "require" => {
                return Err(ConnectionStringError::Unsupported("channel_binding=require"));
            }
            "channel_binding" => {}
            "keepalives" => {
                config.keepalives(value.trim() != "0");
            }
            "keepalives_idle" => {
                if let Some(time) = seconds("keepalives_idle", &value)? {
                    config.keepalives_idle(time);
                }
            }
            "keepalives_interval" => {
                if let Some(time) = seconds("keepalives_interval", &value)? {
                    config.keepalives_interval(time);
                }
            }
            "keepalives_count" => {
                if let Some(number) = count("keepalives_count", &value)? {
                    config.keepalives_retries(number);
                }
            }
            "tcp_user_timeout" => {
                if let Some(number) = count("tcp_user_timeout", &value)? {
                    config.tcp_user_timeout(Duration::from_millis(number.into()));
                }
            }
            other => {
                if let Some(unsupported) = UNSUPPORTED.iter().find(|known| **known == other) {
                    return Err(ConnectionStringError::Unsupported(unsupported));
                }
                if !WITHOUT_EFFECT.contains(&other) {
                    session.push_str(&session_option(other, &value));
                }
            }
        }
    }
    let place = add_servers(&mut config, &hosts, &addresses, &ports)?;
    if config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_))) {
        // Nobody listens in on a socket of this machine, and servers do not encrypt it.
        mode = SslMode::Disable;
    }
    config.application_name(application);
    if let Some(time) = connect_timeout {
        config.connect_timeout(time);
    }
    if let Some(password) = &password {
        config.password(password.expose_secret());
    }
    let name = name.unwrap_or_else(|| login.clone());
    let place = format!("{place}/{name}");
    config.user(login).dbname(name).options(format!("{options}{session}").trim());
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(ClientIdentity { certificate, key }),
        (None, None) => None,
        _ => return Err(ConnectionStringError::HalfCertificate),
    };
    let verification = match (mode, roots) {
        (SslMode::Disable | SslMode::Allow | SslMode::Prefer, _) | (SslMode::Require, None) => {
            Verification::Nothing
        }
        // An authority that is named is asked, as libpq has done since there was nothing else.
        (SslMode::Require | SslMode::VerifyCa, roots) => {
            Verification::Authority(roots.unwrap_or(RootCertificates::System))
        }
        (SslMode::VerifyFull, roots) => {
            Verification::AuthorityAndName(roots.unwrap_or(RootCertificates::System))
        }
    };
    Ok(SqlSettings { config, mode, verification, identity, place, password })
}

/// Adds the servers to ask, in turn, and says the first of them.
fn add_servers(
    config: &mut Config,
    hosts: &str,
    addresses: &str,
    ports: &str,
) -> Result<String, ConnectionStringError> {
    let list = |text: &str| -> Vec<String> {
        let parts = text.split(',').map(|part| part.trim().to_owned());
        if text.is_empty() { Vec::new() } else { parts.collect() }
    };
    let (mut hosts, addresses, ports) = (list(hosts), list(addresses), list(ports));
    if hosts.is_empty() {
        // Encryption wants a name, if only the address's.
        hosts = if addresses.is_empty() { vec!["localhost".to_owned()] } else { addresses.clone() };
    }
    let count = hosts.len();
    if !addresses.is_empty() && addresses.len() != count {
        let expected = "a list as long as that of `host`";
        return Err(ConnectionStringError::Value { keyword: "hostaddr", expected });
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(ConnectionStringError::Ports { hosts: count, ports: ports.len() });
    }
    let first = hosts.first().cloned().unwrap_or_default();
    for host in hosts {
        config.host(if host.is_empty() { "localhost".to_owned() } else { host });
    }
    for address in addresses {
        let expected = "an address such as 10.0.0.1";
        let wrong = |_| ConnectionStringError::Value { keyword: "hostaddr", expected };
        config.hostaddr(address.parse::<IpAddr>().map_err(wrong)?);
    }
    let mut place = first;
    for (index, port) in ports.iter().enumerate() {
        let port = match port.as_str() {
            "" => 5432,
            port => {
                let expected = "a number from 1 to 65535";
                let wrong = ConnectionStringError::Value { keyword: "port", expected };
                port.parse().ok().filter(|port: &u16| *port > 0).ok_or(wrong)?
            }
        };
        config.port(port);
        if index == 0 {
            place = format!("{place}:{port}");
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SqlSettings, ConnectionStringError> {
        SqlSettings::parse(&text.into(), "me", &[])
    }

    /// Hosts, ports, user, password and database in one line.
    fn describe(settings: &SqlSettings) -> String {
        let config = &settings.config;
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let password = config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        format!(
            "{} {:?} {} {} {} {:?}",
            hosts.join(","),
            config.get_ports(),
            config.get_user().unwrap_or_default(),
            password.as_deref().unwrap_or("-"),
            config.get_dbname().unwrap_or_default(),
            settings.mode,
        )
    }

    #[test]
    fn both_forms_are_read() {
        for (text, expected) in [
            ("", "localhost [] me - me Require"),
            ("postgres://", "localhost [] me - me Require"),
            ("postgresql://db/helm", "db [] me - helm Require"),
            ("postgres://u:p%40ss%2F@db:6432/helm?sslmode=disable", "db [6432] u p@ss/ helm Disable"),
            ("postgres://u:a@b@db/helm", "db [] u a@b helm Require"),
            ("postgres://[::1]:5433/h?sslmode=prefer", "::1 [5433] me - h Prefer"),
            ("postgres://[::1]/h", "::1 [] me - h Require"),
            ("postgres://u@a:1,b:2/h?sslmode=allow", "a,b [1, 2] u - h Allow"),
            ("postgres://u@a,b:2/h", "a,b [5432, 2] u - h Require"),
            ("postgres:///h?host=/run/postgresql&user=x", "/run/postgresql [] x - h Disable"),
            ("postgres://%2Frun%2Fpostgresql/h", "/run/postgresql [] me - h Disable"),
            (
                "host=db port=6432 user=u password=p dbname=helm sslmode=verify-full",
                "db [6432] u p helm VerifyFull",
            ),
            (r"  host = db  password = 'it\'s a \\secret' ", r"db [] me it's a \secret me Require"),
            (r"host=db password=a\ b", "db [] me a b me Require"),
            ("host=db password=''", "db [] me - me Require"),
            ("host=a,b port=5432", "a,b [5432] me - me Require"),
            ("host=/tmp sslmode=require", "/tmp [] me - me Disable"),
            ("hostaddr=10.0.0.1", "10.0.0.1 [] me - me Require"),
            ("host=a host=b", "b [] me - me Require"),
            ("host=db passwort", "after the keyword that begins at character 9 there is no `=`"),
            ("host=db password='x", "a quoted value is not closed"),
            (r"password=x\", "the string ends with a backslash"),
            ("postgres://[::1/h", "the URL has an address in brackets that is not closed"),
            ("postgres://db/h?sslmode", "a parameter of the URL has no `=`"),
            ("postgres://u:%ff@db", "a part of the URL is not UTF-8 once its percent signs are decoded"),
            ("port=none", "`port` is not a number from 1 to 65535"),
            ("host=a,b port=1,2,3", "there are 3 ports for 2 hosts"),
            (
                "sslmode=yes",
                "`sslmode` is not one of disable, allow, prefer, require, verify-ca and verify-full",
            ),
            ("sslcert=a.pem", "`sslcert` and `sslkey` belong together"),
            ("service=prod", "`service` is not supported"),
            ("channel_binding=require", "`channel_binding=require` is not supported"),
            ("client_encoding=LATIN1", "`client_encoding` is not UTF8, the only encoding of records"),
        ] {
            let told = match parse(text) {
                Ok(settings) => describe(&settings),
                Err(error) => error.to_string(),
            };
            assert_eq!(told, expected, "{text}");
        }
    }

    #[test]
    fn unknown_keywords_are_settings_of_the_session() {
        let text =
            r"search_path='helm, public' options='-c geqo=off' binary_parameters=yes gssencmode=disable";
        let settings = parse(text).unwrap();
        assert_eq!(settings.config.get_options(), Some(r"-c geqo=off -c search_path=helm,\ public"));
        let settings = parse("postgres://db/h?statement_timeout=5s&application_name=ci").unwrap();
        assert_eq!(settings.config.get_options(), Some("-c statement_timeout=5s"));
        assert_eq!(settings.config.get_application_name(), Some("ci"));
    }

    #[test]
    fn certificates_are_checked_as_the_mode_says() {
        let file = || RootCertificates::File("ca.pem".into());
        for (text, expected) in [
            ("sslmode=prefer sslrootcert=ca.pem", Verification::Nothing),
            ("sslmode=require", Verification::Nothing),
            ("sslmode=require sslrootcert=ca.pem", Verification::Authority(file())),
            ("sslmode=verify-ca sslrootcert=ca.pem", Verification::Authority(file())),
            ("sslmode=verify-ca", Verification::Authority(RootCertificates::System)),
            ("sslmode=verify-full sslrootcert=ca.pem", Verification::AuthorityAndName(file())),
            (
                "sslmode=verify-full sslrootcert=system",
                Verification::AuthorityAndName(RootCertificates::System),
            ),
        ] {
            assert_eq!(parse(text).unwrap().verification, expected, "{text}");
        }
    }

    #[test]
    fn what_the_string_leaves_out_comes_from_the_defaults() {
        let defaults = [("host", "pg".into()), ("password", "hidden".into()), ("sslmode", "disable".into())];
        let settings = SqlSettings::parse(&"host=db".into(), "me", &defaults).unwrap();
        assert_eq!(describe(&settings), "db [] me hidden me Disable");
        assert_eq!(settings.password().map(ExposeSecret::expose_secret), Some("hidden"));
        assert!(!format!("{settings:?}").contains("hidden"), "{settings:?}");
    }
}

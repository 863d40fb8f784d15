//! `slipway chart secret`: keys, encrypted values and files in the format of werf and Nelm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::secret::{self, EncryptionKey};
use slipway_problem::{Problem, read_file, read_text_file};
use slipway_source::KeySource;

use crate::cli::Output;
use crate::config::Variable;
use crate::exit::SecretError;
use crate::files;
use crate::helm;
use crate::session::Session;
use crate::term::{output, show};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// The key values and files are encrypted with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Values files, whose scalars are encrypted one by one
    #[command(subcommand)]
    Values(FileCommand),
    /// Files encrypted as a whole
    #[command(subcommand)]
    File(FileCommand),
}

#[derive(Debug, clap::Subcommand)]
pub enum KeyCommand {
    /// Print a new key
    Create,
    /// Encrypt secret-values.yaml, secret/ and the given values files anew with another key
    Rotate {
        /// Values files besides secret-values.yaml
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The same as FILE; separate with commas
        #[arg(long, value_name = "FILE", value_delimiter = ',', hide_short_help = true)]
        secret_values: Vec<PathBuf>,
        /// The chart
        #[arg(long, value_name = "DIR", default_value = ".")]
        chart: PathBuf,
        /// The key until now
        #[arg(long, value_name = "HEX", env = "WERF_OLD_SECRET_KEY", hide_env_values = true)]
        old_secret_key: String,
        /// The key from now on, instead of --secret-key
        #[arg(long, value_name = "HEX", conflicts_with = "secret_key", hide_short_help = true)]
        new_secret_key: Option<String>,
        #[command(flatten)]
        key: KeyFlag,
    },
}

#[derive(Debug, clap::Subcommand)]
pub enum FileCommand {
    /// Encrypt a file, or standard input
    Encrypt(Through),
    /// Decrypt a file, or standard input
    Decrypt(Through),
    /// Decrypt, open in $EDITOR, encrypt; what did not change keeps its ciphertext
    Edit {
        /// The encrypted file; made when it is not there
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        key: KeyFlag,
    },
}

#[derive(Debug, clap::Args)]
pub struct Through {
    /// The file; standard input if not given
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE", visible_alias = "output-file")]
    save_output_to: Option<PathBuf>,
    #[command(flatten)]
    key: KeyFlag,
}

/// Where the key comes from.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyFlag {
    /// The secret key [default: $WERF_SECRET_KEY, .werf_secret_key, ~/.werf/global_secret_key]
    #[arg(long, value_name = "HEX", hide_env_values = true)]
    pub secret_key: Option<String>,

    /// Directory to look for .werf_secret_key in [default: .]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub secret_work_dir: Option<PathBuf>,
}

impl KeyFlag {
    /// The key's text, from wherever it is kept; none if it is nowhere.
    pub fn text(&self) -> Option<String> {
        let variables = [Variable::SecretKey, Variable::NelmSecretKey, Variable::WerfSecretKey];
        let given = self.secret_key.clone().or_else(|| variables.into_iter().find_map(Variable::text));
        let found = given.or_else(|| {
            let own = self.secret_work_dir.clone().unwrap_or_default().join(".werf_secret_key");
            let places = [own, helm::user_home().join(".werf/global_secret_key")];
            places.iter().find_map(|path| read_text_file(path).ok())
        });
        found.iter().for_each(|key| output::hide(key.trim()));
        found
    }

    /// The key, from wherever it is kept; none if it is nowhere.
    pub fn find(&self) -> Result<Option<EncryptionKey>, slipway_chart::ChartError> {
        self.text().map(|text| EncryptionKey::parse(&text)).transpose()
    }

    fn need(&self) -> anyhow::Result<EncryptionKey> {
        match self.find()? {
            Some(key) => Ok(key),
            None => Err(SecretError(Problem::error("there is no secret key").hint(
                "set WERF_SECRET_KEY, or write one to .werf_secret_key: `slipway chart secret key create`",
            ))
            .into()),
        }
    }
}

impl KeySource for KeyFlag {
    fn find_key(&self) -> Result<Option<EncryptionKey>, slipway_chart::ChartError> {
        self.find()
    }
}

/// Values or a whole file.
#[derive(Clone, Copy)]
enum Form {
    Values,
    File,
}

impl Form {
    fn encrypt(self, plain: &[u8], key: &EncryptionKey) -> anyhow::Result<Vec<u8>> {
        Ok(match self {
            Self::Values => secret::encrypt_values(text(plain)?, key)?.into_bytes(),
            Self::File => secret::encrypt_file(plain, key)?.into_bytes(),
        })
    }

    fn decrypt(self, encrypted: &[u8], key: &EncryptionKey) -> anyhow::Result<Vec<u8>> {
        Ok(match self {
            Self::Values => secret::decrypt_values(text(encrypted)?, key)?.into_bytes(),
            Self::File => secret::decrypt_file(text(encrypted)?, key)?,
        })
    }
}

fn text(bytes: &[u8]) -> anyhow::Result<&str> {
    std::str::from_utf8(bytes).context("the file is not UTF-8 text")
}

/// Encrypted files that have a new key.
#[derive(Serialize, JsonSchema)]
pub struct RotatedFiles {
    files: Vec<PathBuf>,
}

pub fn run(command: &Command, session: &Session) -> anyhow::Result<()> {
    match command {
        Command::Key(KeyCommand::Create) => show::data(format!("{}\n", EncryptionKey::generate())),
        Command::Key(KeyCommand::Rotate {
            files,
            secret_values,
            chart,
            old_secret_key,
            new_secret_key,
            key,
        }) => {
            output::hide(old_secret_key.trim());
            let key = match new_secret_key {
                Some(new) => KeyFlag { secret_key: Some(new.clone()), ..KeyFlag::default() },
                None => key.clone(),
            };
            let files: Vec<PathBuf> = files.iter().chain(secret_values).cloned().collect();
            rotate(chart, &files, &EncryptionKey::parse(old_secret_key)?, &key.need()?, session)
        }
        Command::Values(command) => file(command, Form::Values),
        Command::File(command) => file(command, Form::File),
    }
}

fn file(command: &FileCommand, form: Form) -> anyhow::Result<()> {
    match command {
        FileCommand::Encrypt(through) => pass(through, files::replace, |bytes, key| form.encrypt(bytes, key)),
        FileCommand::Decrypt(through) => {
            pass(through, files::replace_private, |bytes, key| form.decrypt(bytes, key))
        }
        FileCommand::Edit { file, key } => edit(file, &key.need()?, form),
    }
}

fn pass(
    through: &Through,
    save: impl FnOnce(&Path, &[u8]) -> anyhow::Result<()>,
    change: impl FnOnce(&[u8], &EncryptionKey) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    let key = through.key.need()?;
    let bytes = files::read_input(&through.file)?;
    let changed = change(&bytes, &key)?;
    match &through.save_output_to {
        Some(path) => save(path, &changed),
        None => show::data(changed),
    }
}

fn edit(path: &Path, key: &EncryptionKey, form: Form) -> anyhow::Result<()> {
    let old = match read_file(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    let plain = old.as_deref().map(|bytes| form.decrypt(bytes, key)).transpose()?.unwrap_or_default();
    // A directory only the user can enter, gone when this returns.
    let folder = tempfile::tempdir()?;
    let name = path.file_name().unwrap_or_default();
    let working = folder.path().join(name);
    fs::write(&working, &plain)?;
    let editor = [Variable::Visual, Variable::Editor].into_iter().find_map(Variable::value);
    let editor = editor.map_or_else(|| "vi".to_owned(), |editor| editor.to_string_lossy().into_owned());
    let mut words = editor.split_whitespace();
    let status = Program::new(words.next().unwrap_or("vi"))
        .args(words)
        .arg(&working)
        .status()
        .with_context(|| format!("run {editor}"))?;
    if !status.success() {
        bail!("{editor} failed, so nothing was changed: {status}");
    }
    let edited = files::read(&working)?;
    if edited == plain && old.is_some() {
        return Ok(());
    }
    let encrypted = match (form, &old) {
        (Form::Values, Some(old)) => secret::encrypt_edited(text(&edited)?, text(old)?, key)?.into_bytes(),
        _ => form.encrypt(&edited, key)?,
    };
    files::replace(path, &encrypted)
}

fn rotate(
    chart: &Path,
    extra: &[PathBuf],
    old: &EncryptionKey,
    new: &EncryptionKey,
    session: &Session,
) -> anyhow::Result<()> {
    let mut changed: Vec<(PathBuf, String)> = Vec::new();
    let values = chart.join("secret-values.yaml");
    let usual = values.is_file().then_some(values);
    for path in usual.iter().chain(extra) {
        let failed = || format!("rotate {}", path.display());
        let text = read_text_file(path).with_context(failed)?;
        changed.push((path.clone(), secret::rotate_values(&text, old, new).with_context(failed)?));
    }
    let mut folders = vec![chart.join("secret")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry?.path();
            let failed = || format!("rotate {}", path.display());
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = read_text_file(&path).with_context(failed)?;
            changed.push((path.clone(), secret::rotate_file(&text, old, new).with_context(failed)?));
        }
    }
    // Everything could be decrypted: only now is anything written.
    changed.sort();
    let mut rotated = RotatedFiles { files: Vec::new() };
    for (path, text) in changed {
        files::replace(&path, text.as_bytes())?;
        if session.output() == Output::Table {
            show::print(&format!("{}\n", path.display()))?;
        }
        rotated.files.push(path);
    }
    show::show(session.output(), &rotated, |_| String::new())
}

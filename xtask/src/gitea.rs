//! A real Gitea on a free port, with one administrator and a token of theirs.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{peers, shell};

/// The administrator's name, and their password.
pub const USER: &str = "promoter";
pub const PASSWORD: &str = "promoter-password-1";
const PATIENCE: Duration = Duration::from_secs(120);

/// A running Gitea; it ends when dropped.
pub struct Gitea {
    child: Child,
    pub root: String,
    pub token: String,
}

impl Gitea {
    /// Starts one with its files in a directory, which is wiped.
    pub fn start(directory: &Path) -> Result<Self> {
        let program = peers::gitea()?;
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = directory.join("app.ini");
        fs::write(&settings, app_ini(directory, &program.source, port))?;
        let gitea = |words: &[&str]| {
            let mut command = Command::new(&program.binary);
            command.args(words).arg("--config").arg(&settings).current_dir(directory);
            command.env("GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT", "true").env("HOME", directory);
            command.env("GITEA_WORK_DIR", directory).env("NO_PROXY", "127.0.0.1");
            command
        };
        shell::output(&mut gitea(&["migrate"]))?;
        let create =
            ["admin", "user", "create", "--admin", "--must-change-password=false", "--username", USER];
        let create = [&create[..], &["--password", PASSWORD, "--email", "promoter@example.com"]].concat();
        shell::output(&mut gitea(&create))?;
        let token =
            ["admin", "user", "generate-access-token", "--raw", "--scopes", "all", "--token-name", "t"];
        let token = shell::output(&mut gitea(&[&token[..], &["--username", USER]].concat()))?;
        let log = File::create(directory.join("gitea.log"))?;
        let mut web = gitea(&["web"]);
        web.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = web.spawn().context("start gitea")?;
        let token = token.lines().last().unwrap_or_default().trim().to_owned();
        let mut started = Self { child, root: format!("http://127.0.0.1:{port}"), token };
        started.wait(port, &directory.join("gitea.log"))?;
        Ok(started)
    }

    fn wait(&mut self, port: u16, log: &Path) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("gitea ended while starting: {status}\n{}", fs::read_to_string(log)?);
            }
            if began.elapsed() > PATIENCE {
                bail!("gitea did not become ready in {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Gitea {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, and the files it serves.
pub struct GiteaProgram {
    pub binary: PathBuf,
    pub source: PathBuf,
}

fn app_ini(directory: &Path, source: &Path, port: u16) -> String {
    let (directory, source) = (directory.display(), source.display());
    format!(
        "RUN_MODE = prod\nWORK_PATH = {directory}\n\
         [server]\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\nROOT_URL = http://127.0.0.1:{port}/\n\
         DISABLE_SSH = true\nOFFLINE_MODE = true\nSTATIC_ROOT_PATH = {source}\nAPP_DATA_PATH = {directory}/data\n\
         [database]\nDB_TYPE = sqlite3\nPATH = {directory}/gitea.db\n\
         [repository]\nROOT = {directory}/repositories\nDEFAULT_BRANCH = main\n\
         [security]\nINSTALL_LOCK = true\nSECRET_KEY = conformance-conformance\nPASSWORD_HASH_ALGO = pbkdf2\n\
         [oauth2]\nENABLED = false\n\
         [indexer]\nISSUE_INDEXER_TYPE = db\n\
         [webhook]\nALLOWED_HOST_LIST = loopback\nDELIVER_TIMEOUT = 10\n\
         [service]\nDISABLE_REGISTRATION = true\n\
         [cron]\nENABLED = false\n\
         [log]\nMODE = console\nLEVEL = Warn\n"
    )
}

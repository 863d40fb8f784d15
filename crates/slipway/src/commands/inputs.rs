//! What a chart is rendered with besides plain values: encrypted values and files, a post-renderer.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use slipway_chart::SchemaSource;
use slipway_chart::net::RemoteSchemas;
use slipway_gotmpl::RenderLimits;
use slipway_process::{ProcessGroup, Program, ProgramLimits};
use slipway_source::{Decryption, PostRenderError, PostRenderer};

use super::chart::secret::KeyFlag;
use super::release::flags::time;
use crate::helm;

/// Encrypted values and files of werf and Nelm.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Secrets")]
pub struct SecretFlags {
    /// Encrypted values file besides the chart's secret-values.yaml; `--set` wins over it
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub secret_values: Vec<PathBuf>,

    /// Leave encrypted values and files encrypted
    #[arg(long)]
    pub no_decrypt_secrets: bool,

    #[command(flatten)]
    pub key: KeyFlag,
}

impl SecretFlags {
    /// What becomes of encrypted values and files.
    pub fn decryption(&self) -> Decryption {
        if self.no_decrypt_secrets {
            return Decryption::LeaveEncrypted;
        }
        Decryption::Decrypt(Arc::new(self.key.clone()))
    }
}

/// Bounds on rendering a chart.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rendering")]
pub struct TemplateFlags {
    /// Time limit for a chart's templates, 0 for none [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    template_timeout: Option<Duration>,

    /// Fetch schemas that values.schema.json refers to by address
    #[arg(long)]
    allow_remote_schemas: bool,
}

impl TemplateFlags {
    pub fn limits(&self) -> RenderLimits {
        let limits = RenderLimits::default();
        match self.template_timeout {
            Some(time) => RenderLimits { time: Some(time).filter(|time| !time.is_zero()), ..limits },
            None => limits,
        }
    }

    /// Where schemas come from that are not in the chart, if they may be fetched.
    pub fn schemas(&self) -> Option<Arc<dyn SchemaSource>> {
        self.allow_remote_schemas
            .then(|| Arc::new(RemoteSchemas::new(helm::network())) as Arc<dyn SchemaSource>)
    }
}

/// The most a post-renderer may print.
const LARGEST_OUTPUT: usize = 256 << 20;

/// A program between rendering and everything after.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rendering")]
pub struct PostRenderFlags {
    /// Program every manifest is passed through
    #[arg(long, value_name = "PROGRAM")]
    post_renderer: Option<PathBuf>,

    /// Argument for the post-renderer; repeat for more
    #[arg(long, value_name = "ARG", requires = "post_renderer", allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,
}

impl PostRenderFlags {
    /// What manifests pass through, if anything.
    pub fn post_renderer(&self) -> Option<Arc<dyn PostRenderer>> {
        let (program, args) = (self.post_renderer.clone()?, self.post_renderer_args.clone());
        Some(Arc::new(ProgramFilter { program, args }))
    }
}

/// A program that reads manifests and prints others.
struct ProgramFilter {
    program: PathBuf,
    args: Vec<String>,
}

impl PostRenderer for ProgramFilter {
    fn rewrite(&self, manifests: Vec<u8>) -> Result<Vec<u8>, PostRenderError> {
        filter(&self.program, &self.args, &manifests, LARGEST_OUTPUT).map_err(PostRenderError)
    }
}

/// Passes text through a program that may answer with so many bytes.
fn filter(program: &Path, args: &[String], text: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let limits = ProgramLimits { time: None, output: most, notes: most };
    let filter = Program::new(program).args(args).pass_environment().group(ProcessGroup::Inherited);
    let output = filter.limits(limits).input(text).run_blocking().map_err(|error| match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })?;
    if !output.is_success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, said.trim_end()));
    }
    Ok(output.stdout)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_post_renderer_without_end_is_stopped() {
        let error = filter(Path::new("yes"), &[], b"a: 1\n", 1000).unwrap_err();
        assert_eq!(error, "yes wrote more than 1000 bytes");
        assert_eq!(filter(Path::new("cat"), &[], b"a: 1\n", 5), Ok(b"a: 1\n".to_vec()));
        let failed = filter(Path::new("sh"), &["-c".into(), "echo why >&2; exit 3".into()], b"", 5);
        assert_eq!(failed.unwrap_err(), "exit status: 3: why");
    }
}

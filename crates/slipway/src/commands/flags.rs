//! Flags several commands share, under Helm's names.

use std::io::Read;
use std::path::Path;

use slipway_chart::{Capabilities, Error, KubeVersion, UserValues};

/// Values given by the user.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Values")]
pub struct ValueFlags {
    /// Values file, `-` for standard input; repeat or separate with commas
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',')]
    pub values: Vec<String>,

    /// Set a value: `a.b=1,list[0]=x`
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Set a value that is always a string
    #[arg(long, value_name = "KEY=VALUE")]
    pub set_string: Vec<String>,

    /// Set a value to the content of a file
    #[arg(long, value_name = "KEY=FILE")]
    pub set_file: Vec<String>,

    /// Set a value given as JSON
    #[arg(long, value_name = "KEY=JSON")]
    pub set_json: Vec<String>,

    /// Set a value to the text as it stands
    #[arg(long, value_name = "KEY=TEXT")]
    pub set_literal: Vec<String>,
}

impl ValueFlags {
    /// Reads the files and keeps the rest, in Helm's order.
    pub fn collect(&self) -> Result<UserValues, Error> {
        let mut values = UserValues {
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_json: self.set_json.clone(),
            set_literal: self.set_literal.clone(),
            ..UserValues::default()
        };
        for file in &self.values {
            if file == "-" {
                let mut content = Vec::new();
                std::io::stdin()
                    .lock()
                    .read_to_end(&mut content)
                    .map_err(|error| Error::Values(format!("cannot read standard input: {error}")))?;
                values.files.push((file.clone(), content));
            } else {
                values.read_file(Path::new(file))?;
            }
        }
        Ok(values)
    }
}

/// What the cluster is said to be capable of.
#[derive(Debug, Default, clap::Args)]
pub struct CapabilityFlags {
    /// Kubernetes version templates see
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,

    /// API versions templates see besides the usual ones
    #[arg(short = 'a', long, value_name = "VERSIONS", value_delimiter = ',')]
    pub api_versions: Vec<String>,
}

impl CapabilityFlags {
    pub fn capabilities(&self) -> Result<Capabilities, Error> {
        let mut capabilities = Capabilities::default();
        if let Some(version) = &self.kube_version {
            capabilities.kube_version = KubeVersion::parse(version)?;
        }
        Ok(capabilities.with_api_versions(self.api_versions.iter().cloned()))
    }
}

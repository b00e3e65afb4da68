//! `cutover init`: a repository to start from, and what a control plane needs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::connection::ClusterArgs;
use super::{example, output};
use crate::cluster::install_crds;
use crate::error::Result;

#[derive(Args, Debug)]
pub struct Init {
    /// Where to write the repository
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Install the CRDs of cutover in the Karmada API server instead
    #[arg(long, conflicts_with = "dir")]
    cluster: bool,
    #[command(flatten)]
    connection: ClusterArgs,
}

impl Init {
    pub async fn run(self) -> Result<ExitCode> {
        if self.cluster {
            let cluster = self.connection.connect().await?;
            for name in install_crds(&cluster).await? {
                output::data(format!("{name}\n"))?;
            }
            output::note(format!("installed in {}", cluster.server()));
        } else {
            example::write(&self.dir)?;
            for (path, _) in example::FILES {
                output::data(format!("{}\n", self.dir.join(path).display()))?;
            }
            output::note("next: git init, commit, and `cutover validate`; README.md says how to go on");
        }
        Ok(ExitCode::SUCCESS)
    }
}

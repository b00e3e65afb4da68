//! `cutover init`: a repository to start from, and what a control plane needs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::connection::ClusterArgs;
use super::{example, output};
use cutover_cluster::{Cluster, Installed, install_crds};
use cutover_controller::reconcile::intents::install_fence;
use cutover_core::error::Result;
use cutover_core::intent::admission::Outcome;

#[derive(Args, Debug)]
pub struct Init {
    /// Where to write the repository
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Install the CRDs of cutover and its admission policies in the Karmada API server instead
    #[arg(long, conflicts_with = "dir")]
    cluster: bool,
    /// Who will reconcile and may write claims and pins, as the API server calls them; default: who installs
    #[arg(long, value_name = "USER", requires = "cluster")]
    reconciler: Vec<String>,
    /// Install no admission policies
    #[arg(long, requires = "cluster", conflicts_with = "reconciler")]
    no_fence: bool,
    #[command(flatten)]
    connection: ClusterArgs,
}

impl Init {
    pub async fn run(self) -> Result<ExitCode> {
        if self.cluster {
            let cluster = self.connection.connect().await?;
            apply(&install_crds(&cluster).await?)?;
            if !self.no_fence {
                self.fence(&cluster).await?;
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

    async fn fence(&self, cluster: &Cluster) -> Result<()> {
        let mut reconcilers = self.reconciler.clone();
        if reconcilers.is_empty() {
            reconcilers.push(cluster.whoami().await?);
        }
        let Some(fence) = install_fence(cluster, &reconcilers).await? else {
            output::note(
                "no admission fence: this API server knows no ValidatingAdmissionPolicy (migrations are safe without)",
            );
            return Ok(());
        };
        apply(&fence.objects)?;
        let names = reconcilers.join(", ");
        output::note(format!(
            "claims and pins are written by {names} alone; `cutover run` as another user needs --reconciler here"
        ));
        match fence.in_force {
            Outcome::Refused => output::note("the admission fence was tried: it refuses"),
            Outcome::Accepted => {
                output::note(
                    "the admission fence was tried, and does not refuse yet: each migration tries it again",
                );
            }
            Outcome::Unknown(why) => output::note(format!("the admission fence could not be tried: {why}")),
        }
        Ok(())
    }
}

fn apply(installed: &[Installed]) -> Result<()> {
    for Installed { object, change } in installed {
        output::data(format!("{object} {change}\n"))?;
    }
    Ok(())
}

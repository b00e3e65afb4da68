//! The flags that say where the cluster and the repository are.

use std::path::PathBuf;

use clap::Args;

use crate::cluster::{self, Cluster, ConnectOptions};
use crate::error::Result;

/// Which Karmada API server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Cluster options")]
pub struct ClusterArgs {
    /// The kubeconfig of the Karmada API server; default: KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it; default: the current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterArgs {
    /// Finds the API server; sends nothing yet.
    pub async fn connect(&self) -> Result<Cluster> {
        let options = ConnectOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..ConnectOptions::default()
        };
        Ok(cluster::connect(&options).await?)
    }
}

//! `cutover sandbox`: a Karmada of its own for kubectl and for trying things out.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;

use super::{output, signal};
use cutover_base::without_number;
use cutover_cluster::{ConnectOptions, connect, install_crds};
use cutover_core::error::{Error, Result};
use cutover_sandbox::api::label_name_mistake;
use cutover_sandbox::karmada::Features;
use cutover_sandbox::world::{Kubeconfigs, World, WorldOptions};

/// How long Karmada lets the name of a cluster be.
const LONGEST_NAME: usize = 48;

#[derive(Args, Debug)]
pub struct Sandbox {
    /// The port of the Karmada API server on this machine; 0: any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where the kubeconfigs are written [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The member clusters
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "east,west,north",
        value_parser = member
    )]
    members: Vec<String>,
    /// Evict workloads from clusters with a `NoExecute` taint, as Karmada does with this flag
    #[arg(long)]
    enable_no_execute_taint_eviction: bool,
}

/// Reads the name of a member: one that Karmada takes.
fn member(name: &str) -> Result<String, String> {
    if name.len() > LONGEST_NAME || label_name_mistake(name).is_some() {
        return Err(format!(
            "a cluster's name has lower case letters, digits and '-' inside, at most {LONGEST_NAME}"
        ));
    }
    Ok(name.to_owned())
}

impl Sandbox {
    pub async fn run(self) -> Result<ExitCode> {
        let mut names = std::collections::BTreeSet::new();
        if let Some(twice) = self.members.iter().find(|name| !names.insert(name.as_str())) {
            return Err(Error::user(format!("--members names {twice} twice")));
        }
        let mut temporary = None;
        let dir = match self.dir {
            Some(dir) => dir,
            None => {
                let made = tempfile::tempdir().map_err(|error| no_temporary(&error))?;
                temporary.insert(made).path().to_owned()
            }
        };
        let (_world, kubeconfigs) = start(
            WorldOptions {
                members: self.members,
                features: Features {
                    no_execute_eviction: self.enable_no_execute_taint_eviction,
                    ..Features::default()
                },
                ..WorldOptions::default()
            },
            self.port,
            &dir,
        )
        .await?;
        output::data(format!("{}\n", kubeconfigs.control.display()))?;
        let kubeconfig = kubeconfigs.control.display();
        output::note("A Karmada control plane is served; its members:");
        for (name, path) in &kubeconfigs.members {
            output::note(format!("  {name:<8} {}", path.display()));
        }
        output::note(format!(
            "\nLook at it, and let a reconciler work on it:\n  \
             kubectl --kubeconfig {kubeconfig} get clusters\n  \
             kubectl --kubeconfig {kubeconfig} get flinkdeployments,resourcebindings,works,migrations -A -w\n  \
             cutover run --repo PATH --kubeconfig {kubeconfig}\n\n\
             Ctrl-C ends it; nothing is kept."
        ));
        signal::asked_to_end().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Says that there is no place for temporary files, as in a container whose root can't be written.
pub fn no_temporary(error: &std::io::Error) -> Error {
    let why = error.to_string();
    // What follows is the name of a directory that there is not.
    let why = why.split(" (os error ").next().unwrap_or_default();
    let place = std::env::temp_dir();
    Error::user(format!(
        "cannot make a temporary directory in {}: {why}",
        place.display()
    ))
    .hint("name one that can be written: TMPDIR=DIR in the environment, or --dir DIR")
}

/// Starts a world with cutover's CRDs in it and serves it on this machine.
pub async fn start(options: WorldOptions, port: u16, dir: &std::path::Path) -> Result<(World, Kubeconfigs)> {
    std::fs::create_dir_all(dir).map_err(|error| {
        let why = error.to_string();
        Error::user(format!("cannot make {}: {}", dir.display(), without_number(&why)))
    })?;
    let world = World::start(WorldOptions {
        seed: fastrand::u64(..),
        start: Timestamp::now(),
        // That of Flink's chart: the example's job runs under it.
        service_accounts: vec!["flink".to_owned()],
        ..options
    });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let kubeconfigs = world.serve(address, dir).await.map_err(|error| {
        let why = error.to_string();
        let why = without_number(&why);
        Error::user(format!("cannot serve the sandbox at {address}: {why}")).hint("pass another --port")
    })?;
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfigs.control.clone()),
        ..ConnectOptions::default()
    };
    install_crds(&connect(&options).await?).await?;
    Ok((world, kubeconfigs))
}

//! `cutover status`: what intents are doing, from the Karmada API server.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::connection::ClusterArgs;
use super::{output, signal};
use crate::api::{self, Migration};
use crate::cluster::{Answer, Cluster, Lookup, Observer, Served, Watched};
use crate::error::{Error, Kind, Result};
use crate::name::Gvk;
use crate::report::{Overview, status_json, status_text};

#[derive(Args, Debug)]
pub struct Status {
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Go on, and print again whenever something has changed
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// How long changes are gathered before they are printed.
const GATHER: Duration = Duration::from_millis(50);
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

impl Status {
    pub async fn run(self) -> Result<ExitCode> {
        let cluster = self.cluster.connect().await?;
        let gvk = Gvk::new(api::API_VERSION, "Migration");
        let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
            return Err(Error::user(format!("{} does not serve {gvk}", cluster.server()))
                .hint("install the CRDs: cutover init --cluster"));
        };
        output::data(self.render(&overview(&cluster, &served).await?)?)?;
        if self.watch {
            self.follow(&cluster, &served).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn follow(&self, cluster: &Cluster, served: &Served) -> Result<()> {
        let observer = Observer::new(cluster.clone());
        let mut changes = observer.changes();
        observer.watch(Watched::all(served.gvk.clone()));
        let mut shown = String::new();
        loop {
            let heard = tokio::select! {
                () = signal::asked_to_end() => return Ok(()),
                heard = changes.recv() => heard,
            };
            if matches!(heard, Err(tokio::sync::broadcast::error::RecvError::Closed)) {
                return Ok(());
            }
            tokio::time::sleep(GATHER).await;
            while changes.try_recv().is_ok() {}
            let text = self.render(&overview(cluster, served).await?)?;
            if text != shown {
                let clear = std::io::stdout().is_terminal() && self.output == Format::Text;
                output::data(format!("{}{text}", if clear { CLEAR } else { "" }))?;
                shown = text;
            }
        }
    }

    fn render(&self, overview: &Overview) -> Result<String> {
        match self.output {
            Format::Text => Ok(status_text(overview)),
            Format::Json => Ok(status_json(overview)? + "\n"),
        }
    }
}

async fn overview(cluster: &Cluster, served: &Served) -> Result<Overview> {
    let read = cluster.reader().list(served, None, None).await;
    let objects = match read.answer {
        Answer::Found(objects) => objects,
        Answer::NotFound => Vec::new(),
        Answer::Unknown { why } => return Err(Error::new(Kind::Unreachable, why)),
    };
    let migrations: Result<Vec<Migration>, _> = objects.into_iter().map(serde_json::from_value).collect();
    Ok(Overview {
        migrations: migrations.map_err(|error| {
            Error::user(format!(
                "a Migration has another form than this release knows: {error}"
            ))
            .hint("are CRDs and cutover of the same release?")
        })?,
        ..Overview::default()
    })
}

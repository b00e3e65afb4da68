//! `cutover version`: what this program is, and what it was built and tested for.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::output::{self, OUTPUT};
use cutover_core::api;
use cutover_core::error::{Error, Result};

/// The commit that a release is made of; the release workflow names it.
const COMMIT: Option<&str> = option_env!("CUTOVER_COMMIT");
/// The Kubernetes whose types are built in, and whose API server the tests run on (tools/go.mod, k8s-openapi in Cargo.toml).
pub const KUBERNETES: &str = "1.36";
/// The Karmada that the end-to-end suite runs on (.github/workflows/e2e.yml).
pub const KARMADA: &str = "1.18";

#[derive(Args, Debug)]
pub struct Version {
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    version: &'static str,
    /// None of a program that somebody built.
    commit: Option<&'static str>,
    kubernetes: &'static str,
    karmada: &'static str,
    api_version: &'static str,
}

impl Version {
    pub fn run(&self) -> Result<ExitCode> {
        let document = Document {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT,
            kubernetes: KUBERNETES,
            karmada: KARMADA,
            api_version: api::API_VERSION,
        };
        match self.output {
            Format::Text => output::data(text(&document))?,
            Format::Json => {
                let json = serde_json::to_string_pretty(&document)
                    .map_err(|error| Error::internal(format!("the version cannot be written: {error}")))?;
                output::json(json + "\n")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(document: &Document) -> String {
    format!(
        "cutover {}\ncommit: {}\nKubernetes: {}\nKarmada: {}\nAPI: {}\n",
        document.version,
        document.commit.unwrap_or("unknown (not a release)"),
        document.kubernetes,
        document.karmada,
        document.api_version,
    )
}

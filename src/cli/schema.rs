//! `cutover schema`: JSON Schemas for editors, CRDs for clusters.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{example, output};
use cutover_core::error::{Error, Result};
use cutover_core::generated;

#[derive(Args, Debug)]
pub struct SchemaCommand {
    /// Print the JSON Schema of one kind: `config` (cutover.yaml), `migration`, `status`, …; none: list them
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    /// Write schemas/*.json and deploy/crds/*.yaml into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "kind")]
    dir: Option<PathBuf>,
}

impl SchemaCommand {
    pub fn run(self) -> Result<ExitCode> {
        if let Some(dir) = self.dir {
            for (path, content) in generated::files()? {
                example::write_file(&dir.join(&path), &content)?;
                output::data(format!("{path}\n"))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let schemas = generated::json_schemas()?;
        let names = || schemas.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.kind.map(|kind| kind.to_lowercase()) {
            Some(kind) => match schemas.get(&kind) {
                Some(schema) => output::json(format!("{schema:#}\n"))?,
                None => {
                    return Err(Error::user(format!("there is no schema of {kind}"))
                        .hint(format!("there is one of {}", names())));
                }
            },
            None => output::data(schemas.keys().map(|name| name.clone() + "\n").collect::<String>())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

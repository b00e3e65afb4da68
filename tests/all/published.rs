//! The definitions of this project beside those that Karmada and Flink's operator publish.
//!
//! They are no part of the project: the tests read them from a folder `shared/karmada/crds` in one of the folders that
//! this one is in, and are left out where there is none.

mod generate;
mod kinds;
mod round_trip;
mod shapes;
mod written;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use cutover::sandbox::api::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

/// Definitions by name.
type Definitions = BTreeMap<String, Value>;

/// Returns what is published, unless it isn't there; then a note on stderr names the test that was left out.
fn published(test: &str) -> Option<Definitions> {
    let Some(folder) = folder() else {
        // Not `eprintln!`, which the test harness keeps to itself when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "left out: {test}: no folder shared/karmada/crds"
        );
        return None;
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
    });
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).unwrap());
    Some(named(texts.flat_map(|text| documents(&text))))
}

fn folder() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = here.ancestors().map(|above| above.join("shared/karmada/crds"));
    folders.into_iter().find(|folder| folder.is_dir())
}

fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .filter(Value::is_object)
        .collect()
}

/// Returns the definitions of the sandbox, and of tests on a real API server.
fn ours() -> Definitions {
    named(cutover::sandbox::world::crds::control_plane())
}

fn named(definitions: impl IntoIterator<Item = Value>) -> Definitions {
    definitions
        .into_iter()
        .map(|definition| {
            (
                definition["metadata"]["name"].as_str().unwrap().to_owned(),
                definition,
            )
        })
        .collect()
}

/// Returns a version of a definition; without a name, the one that objects are stored in.
fn version<'a>(definition: &'a Value, name: Option<&str>) -> Option<&'a Value> {
    let mut versions = definition["spec"]["versions"].as_array().unwrap().iter();
    versions.find(|version| name.map_or(version["storage"] == true, |name| version["name"] == name))
}

/// Returns the schema of a definition, as the sandbox's API server reads it.
fn schema(definition: &Value) -> Schema {
    Schema::of_crd(&version(definition, None).unwrap()["schema"]["openAPIV3Schema"]).unwrap()
}

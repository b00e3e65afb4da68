//! Generated files are what they would be generated as now. `CUTOVER_GENERATE=1` writes them.

use std::path::Path;

use cutover::config::Config;

fn assert_fresh(path: &str, content: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("CUTOVER_GENERATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == content,
        "{} is stale: CUTOVER_GENERATE=1 cargo test --test all generated",
        path.display()
    );
}

#[test]
fn the_schema_of_the_configuration_is_fresh() {
    let schema = serde_json::to_string_pretty(&Config::schema()).unwrap();
    assert_fresh("schemas/config.json", &format!("{schema}\n"));
}

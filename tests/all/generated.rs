//! Generated files are what they would be generated as now. `just gen` writes them.

use std::path::Path;

use cutover::generated;

#[test]
fn generated_files_are_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stale: Vec<String> = Vec::new();
    let files = generated::files().unwrap();
    for (path, content) in &files {
        if std::fs::read_to_string(root.join(path)).unwrap_or_default() != *content {
            stale.push(path.clone());
        }
    }
    for folder in ["schemas", "deploy/crds"] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten() {
            let path = format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy());
            if !files.contains_key(&path) {
                stale.push(path);
            }
        }
    }
    assert!(
        stale.is_empty(),
        "stale: {stale:?}; run: cargo run -- schema --dir ."
    );
}

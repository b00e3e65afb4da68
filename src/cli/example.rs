//! The example repository, in the binary: what `init` writes and `demo` plays with.

use std::io::Write;
use std::path::Path;

use cutover_base::without_number;
use cutover_core::error::{Error, Result};

macro_rules! files {
    ($($path:literal)*) => {
        &[$(($path, include_str!(concat!("../../examples-repo/", $path)))),*]
    };
}

/// Path and content of every file of `examples-repo`.
pub const FILES: &[(&str, &str)] = files![
    "README.md"
    "cutover.yaml"
    "intents/examples/orders-to-west.yaml"
    "namespaces/shop.yaml"
    "policies/orders.yaml"
    "policies/storefront.yaml"
    "workloads/orders.yaml"
    "workloads/storefront.yaml"
];

/// Writes the repository into a directory, and nothing at all when one of its files is there already.
pub fn write(dir: &Path) -> Result<()> {
    if let Some((path, _)) = FILES.iter().find(|(path, _)| dir.join(path).exists()) {
        return Err(
            Error::user(format!("{} is there already", dir.join(path).display()))
                .hint("name an empty directory: cutover init DIR"),
        );
    }
    for (path, content) in FILES {
        write_file(&dir.join(path), content)?;
    }
    Ok(())
}

/// Writes a new file and the directories above it.
pub fn write_file(path: &Path, content: &str) -> Result<()> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::File::create(path))
        .and_then(|mut file| file.write_all(content.as_bytes()));
    written.map_err(|error| {
        let why = error.to_string();
        Error::user(format!(
            "cannot write {}: {}",
            path.display(),
            without_number(&why)
        ))
    })
}

//! What several test files share: the crate `testing`, and here what starts the program, whose place only an integration test
//! knows.

use std::path::Path;

pub use cutover_testing::*;

pub mod cluster_kind;
pub mod commands;
pub mod replica;
pub mod served;
pub mod terminal;

/// Returns whether a file is what it is made of now. `CUTOVER_ACCEPT=1` writes it.
pub fn is_fresh(path: &Path, fresh: &str) -> bool {
    if std::env::var_os("CUTOVER_ACCEPT").is_some() {
        std::fs::write(path, fresh).unwrap();
    }
    std::fs::read_to_string(path).is_ok_and(|there| there == fresh)
}

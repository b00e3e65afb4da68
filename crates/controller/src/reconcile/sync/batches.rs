//! How many files are read at a time: all syncs of a repository share one mirror.

use cutover_base::budget::Limit;
use cutover_git::{self as repo, Change, Repo};

/// How many files are read with one handle of the mirror, one after the other.
pub(super) const BATCH: usize = 512;
/// How many bytes they have, but for a file that has more alone: all syncs of a repository take turns, a batch at a time, so
/// this is what one of them may have to wait for another's files.
const BATCH_BYTES: usize = 1 << 20;
/// How many batches are read at a time.
pub(super) const READERS: usize = 2;

/// Returns how many bytes of each file are going to be read: of what is too large by itself, none.
pub(super) async fn sizes(repo: &Repo, files: &[Change]) -> Result<Vec<usize>, repo::Error> {
    let most = repo.budget().of(Limit::FileBytes);
    let sizes = repo.sizes(files.iter().map(|file| file.blob).collect()).await?;
    let read = |size: usize| if size <= most { size } else { 0 };
    Ok(sizes.into_iter().map(read).collect())
}

/// Cuts files into what is read in one turn.
pub(super) fn batches(files: Vec<Change>, sizes: &[usize]) -> Vec<Vec<Change>> {
    let mut batches: Vec<Vec<Change>> = Vec::new();
    let mut bytes = 0;
    for (file, size) in files.into_iter().zip(sizes) {
        bytes += size;
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes <= BATCH_BYTES => batch.push(file),
            _ => {
                bytes = *size;
                batches.push(vec![file]);
            }
        }
    }
    batches
}

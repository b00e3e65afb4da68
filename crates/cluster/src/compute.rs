//! Computing that may take a while, without holding up what else the runtime does.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does what takes a while but waits for nothing: another thread of the runtime goes on with the other tasks meanwhile, so that
/// Leases are renewed and signals are heard. Only the task that calls it stands still.
pub fn off_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A runtime of one thread, as tests have, can't hand its tasks on.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn other_tasks_go_on_while_something_is_computed() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (others, done) = mpsc::channel();
        let computed = runtime.spawn(async move {
            // It stands behind this task in the queue of the only worker.
            tokio::spawn(async move { others.send(()) });
            off_the_runtime(|| done.recv_timeout(Duration::from_secs(10)))
        });
        assert_eq!(runtime.block_on(computed).unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_computes_where_it_is() {
        assert_eq!(off_the_runtime(|| 1), 1);
    }
}

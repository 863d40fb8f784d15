//! The lines of a run's log on standard output, as they are written: what `-o json` prints is the record.

use std::time::Duration;

use slipway_stack::record::Store;

use crate::cli::Output;
use crate::term::show;

/// The pause between two looks at the log.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Follows the log of a run while it is carried out.
pub struct Follower<'a> {
    store: &'a Store,
    run_id: String,
    output: Output,
}

impl<'a> Follower<'a> {
    /// Follows a run; nothing is printed unless the output is JSON.
    pub fn new(store: &'a Store, run_id: &str, output: Output) -> Self {
        Self { store, run_id: run_id.to_owned(), output }
    }

    /// Prints the lines of the log until the work is done, the last ones included.
    pub async fn follow<T>(self, work: impl Future<Output = T>) -> T {
        if self.output != Output::Json {
            return work.await;
        }
        let mut work = std::pin::pin!(work);
        // Whatever an earlier invocation wrote is not of this one.
        let mut printed = self.store.events(&self.run_id).len();
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.print(&mut printed);
                    return done;
                }
                () = tokio::time::sleep(LOOK_EVERY) => self.print(&mut printed),
            }
        }
    }

    fn print(&self, printed: &mut usize) {
        let events = self.store.events(&self.run_id);
        for event in events.iter().skip(*printed) {
            // Whoever closed the output wants no more lines; the run goes on.
            let _ = show::line(event);
        }
        *printed = events.len().max(*printed);
    }
}

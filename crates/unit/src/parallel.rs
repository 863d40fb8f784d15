//! The same work for many items, on all cores.

use std::iter;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does the work for every item, each core taking the next item that is left. The results have the items' order.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let places = iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let taken = places.map_while(|place| Some((place, work(items.get(place)?))));
        taken.collect::<Vec<(usize, R)>>()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(8);
    let mut results = thread::scope(|scope| {
        let threads: Vec<_> = (1..workers).map(|_| scope.spawn(take)).collect();
        let mut results = take();
        for thread in threads {
            results.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

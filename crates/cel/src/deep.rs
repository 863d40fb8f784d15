//! Stack space for expressions nested as deep as the limits allow.

/// Stack that one level needs at most.
const RED_ZONE: usize = 96 << 10;
/// Stack that is added when less is left.
const SEGMENT: usize = 1 << 20;

/// Runs one level deeper, on more stack when little is left: callers run on threads of any size.
#[inline]
pub(crate) fn deeper<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, SEGMENT, level)
}

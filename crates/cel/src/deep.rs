//! Room on the stack for what is nested as deep as the limits allow.

/// What one level may need at most.
const RED_ZONE: usize = 96 << 10;
/// What is added when that is not left.
const SEGMENT: usize = 1 << 20;

/// Goes one level deeper, on more stack when little is left: callers run on threads of any size.
#[inline]
pub(crate) fn deeper<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, SEGMENT, level)
}

//! The process group of a program: what ends together.

/// The process group a program runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessGroup {
    /// A group of its own: whatever it starts ends with it, and a terminal's Ctrl-C does not reach it.
    #[default]
    Own,
    /// Ours: it may ask at the terminal, and only the program itself is ended.
    Inherited,
}

/// Ends a group once it is dropped.
pub(crate) struct GroupGuard(Option<u32>);

impl GroupGuard {
    pub(crate) fn new(group: ProcessGroup, leader: Option<u32>) -> Self {
        Self(leader.filter(|_| group == ProcessGroup::Own))
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) =
            self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // A group without members is gone already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

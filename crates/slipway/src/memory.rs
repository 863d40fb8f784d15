//! Memory that holds secrets.

/// Keeps values of secrets out of core dumps and away from other programs of the same user, for the rest of the process.
/// Where the system refuses, the work goes on: it is a second line of defence.
pub fn keep_out_of_dumps() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Core).maximum;
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

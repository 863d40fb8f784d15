//! The report of a panic: a bug of ours, told like everything else.

use std::panic::PanicHookInfo;

use crate::term::style::{ERROR, paint};

/// Says that there is a bug, through the writer that masks and never fails.
pub fn report_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("no message");
    say!("{} this is a bug in slipway: {message}{place}", paint(ERROR, "error:"));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::term::output;

    const SECRETS: [&str; 3] =
        ["s3nt1nel-canary-plain", "s3nt1nel-line-one\ns3nt1nel-line-two\n", "s3nt1nel\"it's\\a/canary+"];
    /// Set in the process that panics.
    const CHILD: &str = "SLIPWAY_TEST_PANICS";

    /// Panics wherever work happens, with secrets in the message.
    fn panic_everywhere() {
        let redactor = slipway_event::Redactor::new();
        for secret in SECRETS {
            redactor.register(secret);
        }
        output::mask_with(&redactor);
        std::panic::set_hook(Box::new(report_panic));
        let text = SECRETS.join(" and ");
        let debugged = text.clone();
        let _ = std::thread::spawn(move || panic!("in a thread: {text}")).join();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let task = runtime.spawn(async move { panic!("in a task: {debugged:?}") });
        let error = runtime.block_on(task).unwrap_err();
        // A panic that is reported again by whoever waited for the work.
        say!("the task failed: {error}");
        let caught = std::panic::catch_unwind(|| {
            let wrong: Result<(), String> = std::hint::black_box(Err(SECRETS.join(", ")));
            wrong.expect("it works");
        });
        assert!(caught.is_err());
        output::finish_messages();
    }

    #[test]
    fn the_report_of_a_panic_holds_no_secret() {
        if crate::config::environment().iter().any(|(name, _)| name == CHILD) {
            return panic_everywhere();
        }
        let itself = std::env::current_exe().unwrap();
        let name = "panic::tests::the_report_of_a_panic_holds_no_secret";
        let ran = Command::new(itself)
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .env("RUST_BACKTRACE", "full")
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!(text.matches("this is a bug in slipway").count(), 3, "{text}");
        assert!(text.contains("the task failed"), "{text}");
        assert!(!text.contains("s3nt1nel"), "{text}");
        assert!(ran.status.success(), "{text}");
    }
}

//! Log lines on standard error, chosen by `OUTBOARD_LOG`.

use tracing_subscriber::EnvFilter;

/// Starts logging. Without the variable only warnings are shown: a healthy start prints nothing.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("OUTBOARD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    // A logger that somebody else has set stays.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(true).try_init();
}

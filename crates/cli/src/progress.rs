//! A spinner for what takes long, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Work that is done faster shows nothing.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Shows a spinner from [`PATIENCE`] on until it is dropped.
pub(crate) struct Spinner {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Spinner {
    /// Starts to watch work that `message` describes.
    pub(crate) fn start(message: String) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { thread: None };
        }
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || spin(&receiver, message));
        Self { thread: Some((sender, thread)) }
    }
}

fn spin(done: &Receiver<()>, message: String) {
    if done.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TICK);
    // Ends when the sender is dropped.
    let _ = done.recv();
    bar.finish_and_clear();
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

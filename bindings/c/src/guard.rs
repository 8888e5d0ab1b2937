//! What every function needs: no unwinding into C, a client that is there, messages for people.

use crate::c7x_client;
use outboard_host::client::{Client, ClientError, strerror};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, PoisonError};

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// What a function returns that broke down: a fault of this library.
const BROKEN: c_int = -libc::EPROTO;

/// Carries out a function; one that breaks down returns `broken`.
pub(crate) fn guarded<T>(broken: T, function: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|_| {
        let _ = catch_unwind(|| {
            remember("a fault of the library; please report it with what is on standard error");
        });
        broken
    })
}

/// Carries out a request of a client and turns its result into a number.
///
/// # Safety
/// `client` is NULL or open, and is not closed meanwhile.
pub(crate) unsafe fn with_client(
    client: *mut c7x_client,
    what: &str,
    request: impl FnOnce(&mut Client) -> Result<(), ClientError>,
) -> c_int {
    guarded(BROKEN, || {
        // SAFETY: the caller's promise.
        let Some(client) = (unsafe { client.as_ref() }) else {
            return fail(what, &ClientError::Arguments("the client is NULL".to_owned()));
        };
        let mut client = client.client.lock().unwrap_or_else(PoisonError::into_inner);
        match request(&mut client) {
            Ok(()) => 0,
            Err(error) => fail(what, &error),
        }
    })
}

/// Asks a client something that cannot fail; `none` without one.
///
/// # Safety
/// As [`with_client`].
pub(crate) unsafe fn read<T: Copy>(client: *mut c7x_client, none: T, ask: impl FnOnce(&mut Client) -> T) -> T {
    guarded(none, || {
        // SAFETY: the caller's promise.
        let Some(client) = (unsafe { client.as_ref() }) else { return none };
        ask(&mut client.client.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// Writes through a pointer unless it is NULL.
///
/// # Safety
/// `to` is NULL or valid for writes.
pub(crate) unsafe fn store<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller's promise; C callers may point into packed structures.
        unsafe { to.write_unaligned(value) };
    }
}

/// Reports a failure and returns its number.
pub(crate) fn fail(what: &str, error: &ClientError) -> c_int {
    let number = error.number();
    let help = error.help();
    say(&format!("{what}: {error}"));
    if !help.is_empty() {
        say(&format!("  help: {help}"));
    }
    remember(&error.to_string());
    number
}

fn remember(message: &str) {
    let message: Vec<u8> = message.bytes().filter(|byte| *byte != 0).collect();
    LAST.with(|last| *last.borrow_mut() = CString::new(message).unwrap_or_default());
}

/// The message of the last failure of this thread.
pub(crate) fn last_message() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// A line for people, marked as the original marks its own.
pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().lock().write_all(format!("c7x: {line}\n").as_bytes());
}

/// The text of a number as a C string that lives as long as the process.
pub(crate) fn text_of(number: c_int) -> &'static CStr {
    static TEXTS: LazyLock<Mutex<HashMap<&'static str, &'static CStr>>> = LazyLock::new(Mutex::default);
    guarded(c"Unknown error", || {
        let text = strerror(number);
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        // There are a few dozen texts, made once each.
        *texts.entry(text).or_insert_with(|| Box::leak(CString::new(text).unwrap_or_default().into_boxed_c_str()))
    })
}

//! The client that a session and everything made from it share.

use outboard_host::client::{Client, ClientError};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// A client; `None` once the session is closed.
#[derive(Debug)]
pub(crate) struct Core(Mutex<Option<Client>>);

impl Core {
    pub(crate) fn new(client: Client) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(client))))
    }

    /// Whether the session is open. Waits for a call that is under way.
    pub(crate) fn is_open(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// Does something with the client, without the interpreter's lock: nobody who waits for the client may hold it.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Client) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(client) = held.as_mut() else { return Err(Box::new((ClientError::Closed, String::new()))) };
            act(client).map_err(|error| Box::new((error, client.text().text().into_owned())))
        });
        done.map_err(|failed| crate::errors::raised(py, &failed.0, &failed.1))
    }

    /// Takes the client out; `None` when that was done before.
    pub(crate) fn take(&self, py: Python<'_>) -> Option<Client> {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

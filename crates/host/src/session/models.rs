//! Weights that a device keeps beside its modules: MODEL_LOAD and MODEL_UNLOAD.

use super::{Session, check_file_size, device_oom};
use crate::Error;
use outboard_wire::{MessageType, ModelLoad, ModelLoadReply, ModelUnload, Status};
use std::path::Path;
use zerocopy::IntoBytes;

/// Weights in device memory, as the device names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Number by which calls refer to it; 0 is never one.
    pub id: u32,
    /// Constants the file held.
    pub constants: u32,
}

impl Session {
    /// Loads a `weights.bin` file into the device.
    ///
    /// # Errors
    /// The file cannot be read or does not fit, the device cannot parse it or has no room, or it is lost.
    pub fn load_model_file(&mut self, path: &Path) -> Result<Model, Error> {
        let unreadable = |source| Error::ReadFile { path: path.to_owned(), source };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        check_file_size(&name, std::fs::metadata(path).map_err(unreadable)?.len())?;
        self.load_model(&std::fs::read(path).map_err(unreadable)?, &name)
    }

    /// Loads the bytes of a `weights.bin` file into the device; `name` is for reports.
    ///
    /// # Errors
    /// As [`Session::load_model_file`], but for the file.
    pub fn load_model(&mut self, file: &[u8], name: &str) -> Result<Model, Error> {
        check_file_size(name, file.len() as u64)?;
        self.ensure_running()?;
        self.stage(file)?;
        let request = ModelLoad::new(self.link.next_seq(), u32::try_from(file.len()).unwrap_or(u32::MAX));
        let limit = self.options.deadlines.load;
        let reply = self.request(MessageType::ModelLoad, request.as_bytes(), limit, Some(name))?;
        self.capture_text(None)?;
        match reply.status() {
            Some(Status::Success) => {
                let loaded = reply.parse(ModelLoadReply::parse)?;
                Ok(Model { id: loaded.model_id.get(), constants: loaded.num_constants.get() })
            }
            Some(Status::NoMem) => {
                let oom = reply.parse(ModelLoadReply::parse)?;
                Err(device_oom(oom.oom_requested.get(), oom.oom_free.get(), oom.oom_total.get()))
            }
            _ => Err(reply.refusal(self.text.text().into_owned())),
        }
    }

    /// Takes weights out of the device.
    ///
    /// # Errors
    /// The device does not know the id, or is lost.
    pub fn unload_model(&mut self, id: u32) -> Result<(), Error> {
        self.ensure_running()?;
        let request = ModelUnload::new(self.link.next_seq(), id);
        let limit = self.options.deadlines.request;
        self.request(MessageType::ModelUnload, request.as_bytes(), limit, None)?.success()
    }
}

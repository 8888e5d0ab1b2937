//! Target `host`: a session against a device that says and writes what the input tells it to.

use crate::signature::Signature;
use outboard_host::{
    Answer, Deadlines, DeviceMemory, Echo, Error, Input, IoSizes, Model, Module, Responder, RunOptions, Session,
    SessionOptions, in_process,
};
use outboard_tensor::Tensor;
use outboard_wire::SharedMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Calls of one input.
const MOST_CALLS: usize = 64;
/// Replies of the device to one message.
const MOST_REPLIES: usize = 20;

/// The input, read by the session's caller and by its device in turns.
#[derive(Clone)]
struct Script(Arc<Mutex<(Vec<u8>, usize)>>);

impl Script {
    fn new(data: &[u8]) -> Self {
        Self(Arc::new(Mutex::new((data.to_vec(), 0))))
    }

    /// The next byte; `None` at the end.
    fn byte(&self) -> Option<u8> {
        self.bytes(1).first().copied()
    }

    /// The next bytes, as many as there are.
    fn bytes(&self, count: usize) -> Vec<u8> {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (data, at) = &mut *script;
        let end = at.saturating_add(count).min(data.len());
        let bytes = data.get(*at..end).unwrap_or_default().to_vec();
        *at = end;
        bytes
    }

    /// The next number of 32 bits, with zeros behind the end.
    fn word(&self) -> u32 {
        let mut word = [0; 4];
        let bytes = self.bytes(4);
        word[..bytes.len()].copy_from_slice(&bytes);
        u32::from_le_bytes(word)
    }
}

/// A device that is right until the script has it otherwise.
struct Hostile {
    echo: Echo,
    script: Script,
}

impl Responder for Hostile {
    fn answer(&mut self, message: &[u8], memory: DeviceMemory<'_>) -> Answer {
        let Answer::Replies(mut replies) = self.echo.answer(message, memory) else { return Answer::Leave };
        while let Some(trick) = self.script.byte() {
            match trick % 16 {
                // Change a word of the reply: lengths, statuses, counts, addresses.
                1..=6 => {
                    let (at, word) = (usize::from(self.script.byte().unwrap_or(0)) * 4, self.script.word());
                    let reply = replies.last_mut();
                    if let Some(room) = reply.and_then(|reply| reply.get_mut(at..at + 4)) {
                        room.copy_from_slice(&word.to_le_bytes());
                    }
                }
                // Scribble over shared memory.
                7 | 8 => {
                    let (at, word) = (u64::from(self.script.word()), self.script.word());
                    let _ = memory.write(SharedMap::CARVEOUT.base + at % SharedMap::CARVEOUT.size, &word.to_le_bytes());
                }
                9 => {
                    let len = usize::from(self.script.byte().unwrap_or(0)) * 3;
                    replies.push(self.script.bytes(len));
                }
                10 => replies.extend(replies.last().cloned()),
                11 => replies.clear(),
                12 => {
                    let len = usize::from(self.script.byte().unwrap_or(0)) * 3;
                    replies.last_mut().into_iter().for_each(|reply| reply.truncate(len));
                }
                13 => return Answer::Leave,
                _ => break,
            }
            replies.truncate(MOST_REPLIES);
        }
        Answer::Replies(replies)
    }

    fn restart(&mut self) {
        self.echo.restart();
    }
}

/// Runs a session of calls; every call must end in a result or an error of its own.
///
/// # Panics
/// When the session breaks a promise: an output outside of what was promised for it.
#[must_use]
pub fn run(data: &[u8]) -> u64 {
    let script = Script::new(data);
    let io = IoSizes { input_bytes: 256, output_bytes: 512, num_inputs: 1, num_outputs: 1, exact: false };
    let device = Hostile { echo: Echo::declaring(io), script: script.clone() };
    let mut signature = Signature::default();
    let Ok(transport) = in_process(device) else { return 0 };
    let deadlines = Deadlines::all(Duration::from_secs(1));
    let mut session = match Session::open(transport, SessionOptions { deadlines }) {
        Ok(session) => session,
        Err(error) => {
            signature.word(error.code());
            return signature.value();
        }
    };
    let mut caller = Caller { script, modules: Vec::new(), models: Vec::new() };
    // What the last two calls came to: how a call ends depends on what the one before it left behind.
    let mut last = [Signature::default(); 2];
    for _ in 0..MOST_CALLS {
        let Some(call) = caller.script.byte() else { break };
        last = [last[1], outcome(&caller.call(&mut session, call))];
    }
    let _ = session.close();
    last.iter().for_each(|outcome| signature.word(&outcome.value().to_string()));
    signature.value()
}

fn outcome(result: &Result<&'static str, Error>) -> Signature {
    let mut signature = Signature::default();
    match result {
        Ok(what) => signature.word(what),
        Err(error) => {
            signature.word(error.code());
            signature.message(&error.to_string());
        }
    }
    signature
}

/// A program that uses a session.
struct Caller {
    script: Script,
    modules: Vec<Module>,
    models: Vec<Model>,
}

impl Caller {
    fn call(&mut self, session: &mut Session, call: u8) -> Result<&'static str, Error> {
        match call % 12 {
            0 => {
                self.modules.push(session.load(&[1; 100], "module")?);
                Ok("loaded")
            }
            1..=4 => self.infer(session, call),
            5 => session.status().map(|_| "status"),
            6 => session.ping().map(|_| "ping"),
            7 => match self.modules.pop() {
                Some(module) => session.unload(module).map(|()| "unloaded"),
                None => Ok("no module"),
            },
            8 => {
                let message = self.script.bytes(usize::from(call));
                session.exchange_raw(&message).map(|_| "raw")
            }
            9 => {
                let (input, output) = (u64::from(self.script.word()), u64::from(self.script.word()));
                session.reserve_io(input % (1 << 24), output % (1 << 24)).map(|()| "reserved")
            }
            10 => {
                self.models.push(session.load_model(&[2; 100], "model")?);
                Ok("model loaded")
            }
            _ => match self.models.pop() {
                Some(model) => session.unload_model(model.id).map(|()| "model unloaded"),
                None => Ok("no model"),
            },
        }
    }

    fn infer(&mut self, session: &mut Session, call: u8) -> Result<&'static str, Error> {
        let Some(module) = self.modules.last() else { return Ok("no module") };
        let count = usize::from(call >> 4);
        let values: Vec<f32> = (0..count).map(|value| f32::from(u8::try_from(value).unwrap_or(0))).collect();
        let Ok(shape) = format!("{count}").parse() else { return Ok("no shape") };
        let Ok(tensor) = Tensor::from_values(shape, &values) else { return Ok("no tensor") };
        let inputs = vec![Input::from(&tensor); usize::from(call % 12)];
        let options = RunOptions { repeat: u16::from(call & 1), ..RunOptions::default() };
        let outputs = session.run_with(module, &inputs, &options)?;
        for (position, view) in outputs.views().enumerate() {
            // Every byte of every output is looked at: none may lie outside of the window.
            let bytes = view.bytes().iter().fold(0u8, |sum, byte| sum ^ byte);
            assert_eq!(outputs.to_tensor(position).is_some(), outputs.view(position).is_some(), "{bytes}");
        }
        let _ = outputs.text().text().len();
        Ok("inferred")
    }
}

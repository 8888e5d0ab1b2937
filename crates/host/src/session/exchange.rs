//! One request, its reply: sequence numbers, strays, deadlines.

use crate::{DeviceLost, Error, Event, Loss, Transport, Wait};
use outboard_wire::{Header, MAX_MESSAGE, MalformedMessage, MessageType, PingReply, Status, Version};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// A reply whose sequence number and type are right. Nothing else about it has been checked.
pub(super) struct Reply {
    request: MessageType,
    header: Header,
    message: Message,
}

/// The bytes of a message.
pub(super) struct Message {
    bytes: [u8; MAX_MESSAGE],
    len: usize,
}

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// Why there is no reply.
pub(super) enum NoReply {
    /// The request failed; the device goes on.
    Failed(Error),
    /// The device is gone.
    Lost(Box<Loss>),
    /// The deadline passed.
    TimedOut,
}

impl From<Error> for NoReply {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Reply {
    pub(super) fn status(&self) -> Option<Status> {
        self.header.status()
    }

    /// The error for a status that has no meaning of its own.
    pub(super) fn refusal(&self, detail: String) -> Error {
        Error::Refused { request: self.request.name(), status: self.header.status_code.get(), detail }
    }

    /// Success, or the refusal.
    pub(super) fn success(&self) -> Result<(), Error> {
        if self.status() == Some(Status::Success) { Ok(()) } else { Err(self.refusal(String::new())) }
    }

    /// Reads a message struct of it. A refusal that is only a header is reported as the refusal, not as a short message.
    pub(super) fn parse<T>(&self, parse: impl FnOnce(&[u8]) -> Result<T, MalformedMessage>) -> Result<T, Error> {
        parse(self.message.bytes()).map_err(|malformed| match (self.success(), malformed) {
            (Err(refusal), _) => refusal,
            (Ok(()), MalformedMessage::Short { got, need, .. }) => {
                Error::ShortMessage { request: self.request.name(), got, need }
            }
            (Ok(()), other) => Error::OutputRejected { index: 0, reason: other.to_string() },
        })
    }
}

/// The way to the device, and the last sequence number that went over it.
pub(super) struct Link {
    pub(super) transport: Box<dyn Transport>,
    seq: u32,
}

impl Link {
    pub(super) fn new(transport: Box<dyn Transport>) -> Self {
        Self { transport, seq: 0 }
    }

    /// Starts the device and asks for its version, before anything else: an older firmware must be recognised before it is sent
    /// what it cannot know. A device that fails is ended.
    pub(super) fn start(&mut self, boot: Duration, request: Duration) -> Result<Version, Error> {
        let what = format!("the device `{}` to start and announce its service", self.transport.device());
        self.transport.start(&Wait::start(&what, boot))?;
        let greeted = match self.ping(request) {
            Ok((reply, _)) if reply.version().major() == Version::CURRENT.major() => Ok(reply.version()),
            Ok((reply, _)) => Err(Error::VersionMismatch { device: reply.version(), host: Version::CURRENT }),
            Err(NoReply::Failed(error)) => Err(error),
            Err(NoReply::Lost(loss)) => Err(Box::new(DeviceLost::new(*loss, "PING", |_| None)).into()),
            Err(NoReply::TimedOut) => Err(Error::Timeout { awaited: "the answer to PING".to_owned(), after: request }),
        };
        if greeted.is_err() {
            self.transport.kill();
        }
        greeted
    }

    /// Asks for version and uptime; returns how long the answer took, too.
    pub(super) fn ping(&mut self, limit: Duration) -> Result<(PingReply, Duration), NoReply> {
        let request = Header::request(MessageType::Ping, self.next_seq(), 16);
        let start = Instant::now();
        let reply = self.request(MessageType::Ping, request.as_bytes(), limit)?;
        let took = start.elapsed();
        Ok((reply.parse(PingReply::parse)?, took))
    }

    /// The sequence number of the next request.
    pub(super) fn next_seq(&mut self) -> u32 {
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }

    /// Sends a request that carries the last sequence number and waits for its reply.
    pub(super) fn request(&mut self, kind: MessageType, message: &[u8], limit: Duration) -> Result<Reply, NoReply> {
        tracing::trace!(request = kind.name(), seq = self.seq, "send");
        self.transport.send(message)?;
        let wait = Wait::start(kind.name(), limit);
        loop {
            let message = self.receive(&wait)?;
            let Ok(header) = Header::parse(message.bytes()) else {
                return Err(Error::ShortMessage { request: kind.name(), got: message.len, need: Header::SIZE }.into());
            };
            let (got, seq) = (header.kind.get(), header.seq.get());
            if seq != self.seq {
                tracing::warn!(expected = self.seq, seq, "discarded a late reply of type {got:#x}");
                continue;
            }
            // Older firmware refuses a short INFER_LARGE under its own code.
            if got != kind.reply_code() && got != (kind.code() | 0x1000) {
                return Err(Error::UnknownReply { request: kind.name(), expected: kind.reply_code(), got }.into());
            }
            return Ok(Reply { request: kind, header, message });
        }
    }

    /// The next message, whatever it is.
    pub(super) fn receive(&mut self, wait: &Wait<'_>) -> Result<Message, NoReply> {
        // A device that floods the host with strays must not hold it beyond the deadline.
        if wait.is_over() {
            return Err(NoReply::TimedOut);
        }
        let mut bytes = [0; MAX_MESSAGE];
        match self.transport.receive(&mut bytes, wait.until())? {
            Event::Message(len) => Ok(Message { bytes, len }),
            Event::TimedOut => Err(NoReply::TimedOut),
            Event::Lost => Err(NoReply::Lost(Box::new(self.transport.loss()))),
        }
    }
}

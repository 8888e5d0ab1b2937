//! Passing shared memory objects between processes over a Unix socket: a line of text with descriptors attached.
//!
//! No wait is endless: [`connect`] gives the connection, and every read and write of it, a limit.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with,
};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Most descriptors of one line.
const DESCRIPTORS: usize = 4;
/// Longest line, in bytes.
const LINE: usize = 4096;

/// Connects to whoever listens at `path`. The connection, and each read and write of the stream, take at most `patience`.
///
/// # Errors
/// Nobody listens there, or he has not taken the connection in time.
pub fn connect(path: &Path, patience: Duration) -> Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(patience))?;
    }
    rustix::net::connect(&socket, &address).map_err(|error| match error {
        Errno::AGAIN => Error::new(ErrorKind::TimedOut, format!("not accepted within {} s", patience.as_secs_f32())),
        other => other.into(),
    })?;
    Ok(socket.into())
}

/// Sends a line of text with objects attached to its first byte.
///
/// # Errors
/// The line is too long or has line breaks, there are too many objects, or the peer is gone.
pub fn send_objects(stream: &UnixStream, line: &str, objects: &[&dyn AsFd]) -> Result<()> {
    if line.len() >= LINE || line.contains('\n') || objects.len() > DESCRIPTORS {
        return Err(Error::new(ErrorKind::InvalidInput, "a line with objects is one short line with few objects"));
    }
    let descriptors: Vec<BorrowedFd<'_>> = objects.iter().map(|object| object.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let text = format!("{line}\n");
    let sent = rustix::net::sendmsg(stream, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    match text.as_bytes().get(sent..) {
        Some(rest) => std::io::Write::write_all(&mut &*stream, rest),
        None => Ok(()),
    }
}

/// Receives a line of text and what is attached to it. An empty line means that the peer has closed the connection.
///
/// # Errors
/// The line is too long or no text, or the connection broke or timed out.
pub fn receive_objects(stream: &UnixStream) -> Result<(String, Vec<OwnedFd>)> {
    let mut line = Vec::new();
    let mut objects = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // A byte at a time: what follows the line belongs to the caller's next read.
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                objects.extend(descriptors);
            }
        }
        if got.bytes == 0 {
            return Ok((String::new(), Vec::new()));
        }
        line.extend(byte);
        if line.len() > LINE {
            return Err(Error::new(ErrorKind::InvalidData, "the peer sends a line without end"));
        }
    }
    let text = String::from_utf8(line).map_err(|_| Error::new(ErrorKind::InvalidData, "the peer sends no text"))?;
    Ok((text.trim_end().to_owned(), objects))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::{Mapping, Object};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_that_accepts_nobody_does_not_hold_a_client_up() {
        let folder = std::env::temp_dir().join(format!("outboard-connect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let limit = Duration::from_millis(20);
        let first = connect(&path, limit).unwrap();
        let refused = connect(&path, limit).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{refused}");
        assert_eq!(receive_objects(&first).unwrap_err().kind(), ErrorKind::WouldBlock, "reads have the limit, too");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn objects_arrive_with_their_line_and_share_memory() {
        let (a, b) = UnixStream::pair().unwrap();
        let (one, two) = (Object::create("one", 4096).unwrap(), Object::create("two", 8192).unwrap());
        send_objects(&a, "OK 42", &[&one, &two]).unwrap();
        send_objects(&a, "NEXT", &[]).unwrap();
        let (line, objects) = receive_objects(&b).unwrap();
        assert_eq!((line.as_str(), objects.len()), ("OK 42", 2));
        Mapping::of(&one).unwrap().write(7, b"x").unwrap();
        let passed = Object::from_fd(objects.into_iter().next().unwrap()).unwrap();
        let mut seen = [0];
        Mapping::of(&passed).unwrap().read(7, &mut seen).unwrap();
        assert_eq!(&seen, b"x");
        assert_eq!(receive_objects(&b).unwrap().0, "NEXT");
        drop(a);
        assert_eq!(receive_objects(&b).unwrap().0, "");
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (a, b) = UnixStream::pair().unwrap();
        std::io::Write::write_all(&mut &a, &[b'x'; LINE + 10]).unwrap();
        assert_eq!(receive_objects(&b).unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(send_objects(&a, "two\nlines", &[]).is_err());
    }
}

//! Synchronises in the wrong direction, which would lose what the host wrote.
use outboard_host::{Buffer, Error, Host, Transport};

fn lose(from: &mut dyn Transport, buffer: Buffer<Host>) -> Result<Buffer<Host>, Error> {
    Ok(from.take_back(buffer)?)
}

fn main() {}

//! Looks at a buffer before it was taken back.
use outboard_host::{Buffer, Error, Host, Transport};

fn look(to: &mut dyn Transport, buffer: Buffer<Host>) -> Result<u8, Error> {
    let given = to.hand_over(buffer)?;
    Ok(given.bytes(0, 1)?[0])
}

fn main() {}

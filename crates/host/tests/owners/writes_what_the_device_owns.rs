//! Writes to a buffer that the device may be reading.
use outboard_host::{Buffer, Error, Host, Transport};

fn fill(to: &mut dyn Transport, buffer: Buffer<Host>) -> Result<(), Error> {
    let mut given = to.hand_over(buffer)?;
    given.write(0, &[1])
}

fn main() {}

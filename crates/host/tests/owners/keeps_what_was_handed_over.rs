//! Goes on using the host's buffer after it was given to the device.
use outboard_host::{Buffer, Error, Host, Transport};

fn keep(to: &mut dyn Transport, mut buffer: Buffer<Host>) -> Result<(), Error> {
    let _given = to.hand_over(buffer)?;
    buffer.write(0, &[1])
}

fn main() {}

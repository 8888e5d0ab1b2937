//! Fills an input that was handed over and not taken back.
use outboard_host::{Error, InputBuffer, Session};

fn fill(session: &mut Session, buffer: InputBuffer) -> Result<(), Error> {
    let given = session.hand_over(buffer)?;
    session.input_bytes_mut(&given)?.fill(1);
    Ok(())
}

fn main() {}

//! Looks at the outputs of a call when the next one has given their window to the device.
use outboard_host::{Error, Module, Session};

fn late(session: &mut Session, module: &Module) -> Result<usize, Error> {
    let first = session.run(module, &[])?;
    session.run(module, &[])?;
    Ok(first.len())
}

fn main() {}

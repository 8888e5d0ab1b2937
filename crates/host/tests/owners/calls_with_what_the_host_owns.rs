//! Calls a module with a buffer that was not handed over.
use outboard_host::{Error, Input, InputBuffer, Module, Session};

fn call(session: &mut Session, module: &Module, buffer: InputBuffer) -> Result<(), Error> {
    session.run(module, &[Input::from(&buffer)])?;
    Ok(())
}

fn main() {}

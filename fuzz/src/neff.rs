//! Targets `neff` and `seq`: containers and what is in them, and streams of instructions.

use outboard_neff::metaneff::MetaNeff;
use outboard_neff::seq::{Dialect, Events, Instruction, SLOT, inspect as inspect_stream};
use outboard_neff::{Neff, RuntimeVersion, inspect, inspect_part, verify};

use crate::signature::Signature;

/// Target `neff`: reads a container in every way, and every part of it on its own.
#[must_use]
pub fn neff(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    let mut outcome = |result: Result<usize, String>| match result {
        Ok(count) => signature.count(count),
        Err(message) => signature.message(&message),
    };
    outcome(inspect(data).map(|report| report.to_string().len()).map_err(|error| error.to_string()));
    outcome(verify(data, RuntimeVersion::default()).map(|report| report.members).map_err(|error| error.to_string()));
    if let Ok(neff) = Neff::parse(data) {
        outcome(neff.verify_hash().map(|()| 0).map_err(|error| error.to_string()));
    }
    for name in ["part.json", "model.metaneff"] {
        outcome(inspect_part(name, data).map(|part| usize::from(part.is_some())).map_err(|error| error.to_string()));
    }
    if let Ok(message) = MetaNeff::decode(data) {
        outcome(Ok(message.encode().len()));
    }
    signature.value()
}

/// Target `seq`: what is decoded encodes to an instruction that reads the same.
///
/// # Panics
///
/// When that does not hold.
#[must_use]
pub fn seq(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    for dialect in [Dialect::V1, Dialect::V2] {
        let report = inspect_stream(data, dialect);
        signature.count(report.slots.len());
        report.problems.iter().for_each(|problem| signature.message(problem));
        for slot in data.as_chunks::<SLOT>().0 {
            match Instruction::decode(slot, dialect) {
                Ok(instruction) => {
                    let again = instruction.encode_with(&Events::decode(slot, dialect), dialect);
                    assert_eq!(
                        Instruction::decode(&again, dialect),
                        Ok(instruction),
                        "an instruction reads the same again"
                    );
                    signature.word("sound");
                }
                Err(error) => signature.message(&error.to_string()),
            }
        }
    }
    signature.value()
}

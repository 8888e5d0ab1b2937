//! Fuzz targets of this crate: functions that take any bytes, must return, and must keep the promises.
//!
//! Each returns a signature of what happened, as those of `outboard_ucode::fuzz` do.

use outboard_ucode::fuzz::Signature;

use crate::metaneff::MetaNeff;
use crate::seq::{Dialect, Events, Instruction, SLOT, encode_chain, inspect as inspect_stream};
use crate::{Neff, PackOptions, Packager, RuntimeVersion, inspect, inspect_part, pack, verify};

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

/// Inputs to start from: containers of both packagers, and a stream.
#[must_use]
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let members = [
        ("kelf-a.json", r#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"target":"*"}"#),
        ("sg00/def.json", r#"{"name":"g","var":{"y":{"var_id":0,"type":"output"}},"ucode_lib":"ucode_lib.json"}"#),
        (
            "ucode_lib.json",
            r#"[{"library":"l.so","version":"1.0","functions":[{"name":"f","opcode":133,"sub_opcode":0}]}]"#,
        ),
        ("l.so", "not a library"),
    ]
    .map(|(name, data)| (name.to_owned(), data.as_bytes().to_vec()));
    let packed = |packager| pack(&members, &PackOptions { packager, ..PackOptions::default() }).unwrap_or_default();
    let stream = encode_chain(3, &[], &[], crate::seq::PayloadCount::Compiler).concat();
    vec![("raw", packed(Packager::Raw)), ("gzip", packed(Packager::Gzip)), ("stream", stream)]
}

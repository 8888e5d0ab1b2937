//! Addresses that were given away, on a device whose caches are not coherent: every call syncs what it needs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::client::{Client, RawData, RawTensor};
use outboard_host::{Session, SessionOptions, SimOptions, simulated};
use support::{device_program, module};

#[test]
fn inputs_written_through_an_address_reach_the_device_and_outputs_are_seen_through_one() {
    let options = SimOptions { program: Some(device_program().to_owned()), incoherent: true, ..SimOptions::default() };
    let session = Session::open(simulated(options).unwrap(), SessionOptions::default()).unwrap();
    let mut client = Client::over(session);
    let handle = client.load(&module("incoherent.out", "echo.c")).unwrap();
    let (address, offset) = client.create_input(handle, 8).unwrap();
    for round in 0..5u8 {
        // SAFETY: the address was given for eight bytes, and no call runs.
        unsafe { address.write_bytes(round, 8) };
        let input = RawTensor { data: RawData::Window(offset), size: 8, dtype: (1, 8), dims: &[8] };
        let outputs = client.infer(handle, 0, &[input], 0).unwrap();
        let output = outputs.address(0).unwrap();
        // SAFETY: the output has eight bytes, and lasts until the next call.
        assert_eq!(unsafe { std::slice::from_raw_parts(output, 8) }, [round; 8]);
    }
}

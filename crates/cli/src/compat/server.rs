//! `session-run`: one module, many calls. A request is a line of JSON and the bytes it announces; so is a reply.

use super::args::Options;
use super::calls::{self, report};
use super::{Failed, Outcome, complain, device, fail, tensors};
use outboard_host::client::{Client, ClientError, RawData, RawTensor, strerror};
use outboard_tensor::{DType, Shape};
use outboard_wire::{InferFlags, KV_STRIDE, KvLayout, MAX_INPUTS, SharedMap};
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};

/// Longest request line. The original takes 4,095 bytes.
const MAX_LINE: u64 = 1 << 20;
/// The answer to a line that is no request.
const INVALID: &str = "Invalid request format";
/// The answer to inputs that do not fit what is said about them.
const UNPARSED: &str = "Failed to parse inputs";

/// One call, as a request line describes it.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    input_size: u64,
    shape: Option<String>,
    dtype: Option<String>,
    kv: Option<Kv>,
}

/// The caches that a call finds on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kv {
    tensors: usize,
    dims: [i64; 4],
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Infer(Call),
    Reserve {
        input_bytes: u64,
        output_bytes: u64,
    },
    Exit,
    /// No request; this many bytes follow it all the same.
    Invalid {
        payload: u64,
    },
}

pub(super) fn run(options: &Options) -> Outcome {
    let module = options.module().ok_or_else(|| fail("Error: --module file required"))?;
    let mut client = match device::open() {
        Ok(client) => client,
        Err(error) => return Err(report("open", "Failed to open client", &error)),
    };
    let loaded = client.load(&module);
    let handle = loaded.map_err(|error| report("load", strerror(error.number()), &error))?;
    for warning in client.warnings(handle) {
        complain(&format!("warning: {warning}\n"));
    }
    let (mut requests, mut replies) = (std::io::stdin().lock(), std::io::stdout().lock());
    let module = module.display().to_string();
    // A peer that has gone away ends the session as an exit request does.
    let _ = send(&mut replies, &json!({"status": "ready", "module": module}), &[])
        .and_then(|()| serve(&mut client, handle, &mut requests, &mut replies));
    let unloaded = client.unload(handle);
    device::close(client);
    unloaded.map_err(|error| device::explain(&error))
}

/// Answers requests until the peer asks to exit or goes away.
fn serve(
    client: &mut Client,
    handle: u32,
    requests: &mut impl BufRead,
    replies: &mut impl Write,
) -> std::io::Result<()> {
    while let Some(line) = read_line(requests)? {
        match parse(&line) {
            Request::Exit => break,
            Request::Invalid { payload } => {
                std::io::copy(&mut requests.by_ref().take(payload), &mut std::io::sink())?;
                send(replies, &error_line(INVALID), &[])?;
            }
            Request::Reserve { input_bytes, output_bytes } => {
                let line = match client.reserve_io(input_bytes, output_bytes) {
                    Ok(()) => json!({"status": "ok"}),
                    Err(error) => explained(&error),
                };
                send(replies, &line, &[])?;
            }
            Request::Infer(call) => {
                let Some(data) = read_payload(requests, call.input_size)? else { break };
                match infer(client, handle, &call, &data) {
                    Ok(called) => {
                        let line = json!({
                            "status": "ok",
                            "cycles": called.cycles,
                            "num_outputs": called.count,
                            "output_size": called.bytes.len(),
                            "outputs": called.described,
                        });
                        send(replies, &line, &called.bytes)?;
                    }
                    Err(line) => send(replies, &line, &[])?,
                }
            }
        }
    }
    Ok(())
}

fn infer(client: &mut Client, handle: u32, call: &Call, data: &[u8]) -> Result<calls::Called, Value> {
    let cut = tensors::cut(data.len(), call.shape.as_deref(), call.dtype.as_deref()).map_err(|error| {
        complain(&format!("  {error}\n"));
        error_line(UNPARSED)
    })?;
    let mut inputs: Vec<_> = cut.iter().map(|input| input.tensor(data)).collect();
    let mut flags = InferFlags::default();
    if let Some(kv) = &call.kv {
        flags = flags.kv_resident();
        if inputs.len() < kv.tensors && inputs.len() + kv.tensors <= MAX_INPUTS {
            let size = cache_size(client.kv_layout(), &kv.dims).ok_or_else(|| error_line(UNPARSED))?;
            let (code, bits) = DType::Float32.dlpack();
            let cache = RawTensor { data: RawData::Resident, size, dtype: (code.into(), bits.into()), dims: &kv.dims };
            inputs.extend(std::iter::repeat_n(cache, kv.tensors));
        }
    }
    calls::call(client, (handle, 0), &inputs, flags.0).map_err(|error| explained(&error))
}

/// Bytes of one cache: a place of the KV region, or exactly its shape on devices that pack caches.
fn cache_size(layout: KvLayout, dims: &[i64; 4]) -> Option<u64> {
    match layout {
        KvLayout::Fixed => Some(KV_STRIDE),
        KvLayout::Packed => Some(Shape::from_signed(*dims).ok()?.bytes(DType::Float32).ok()? as u64),
    }
}

/// A line without its end; `None` at the end of the requests.
fn read_line(requests: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    requests.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let complete = line.last() == Some(&b'\n');
    if !complete {
        // Too long for a request, or the last one: the rest of the line belongs to it.
        let mut rest = Vec::new();
        while requests.by_ref().take(MAX_LINE).read_until(b'\n', &mut rest)? > 0 && rest.last() != Some(&b'\n') {
            rest.clear();
        }
        if !rest.is_empty() {
            line.clear();
        }
    }
    Ok(Some(line))
}

/// The bytes behind a request; `None` when the peer went away before they were complete. More than a device can share is drained.
fn read_payload(requests: &mut impl BufRead, size: u64) -> std::io::Result<Option<Vec<u8>>> {
    let kept = size.min(SharedMap::CARVEOUT.size);
    let mut data = Vec::new();
    let got = requests.by_ref().take(kept).read_to_end(&mut data)? as u64;
    let drained = std::io::copy(&mut requests.by_ref().take(size - kept), &mut std::io::sink())?;
    Ok((got + drained == size).then_some(data))
}

fn send(replies: &mut impl Write, line: &Value, bytes: &[u8]) -> std::io::Result<()> {
    let mut message = format!("{line}\n").into_bytes();
    message.extend_from_slice(bytes);
    replies.write_all(&message)?;
    replies.flush()
}

fn error_line(text: &str) -> Value {
    json!({"status": "error", "error": text})
}

/// The reply of the original; what its text leaves out goes to standard error.
fn explained(error: &ClientError) -> Value {
    let Failed = device::explain(error);
    error_line(strerror(error.number()))
}

/// Reads a request line.
fn parse(line: &[u8]) -> Request {
    let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(line) else {
        return Request::Invalid { payload: 0 };
    };
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let or = |name: &str, default: u64| fields.get(name).map_or(Some(default), Value::as_u64);
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let invalid = Request::Invalid { payload: number("input_size").unwrap_or(0) };
    let known = match fields.get("op").map(Value::as_str) {
        Some(Some("exit")) => Some(Request::Exit),
        Some(Some("reserve_io")) => number("input_bytes")
            .zip(number("output_bytes"))
            .map(|(input_bytes, output_bytes)| Request::Reserve { input_bytes, output_bytes }),
        None | Some(Some("infer")) => number("num_inputs").zip(number("input_size")).and_then(|(_, input_size)| {
            let resident = match fields.get("kv_resident") {
                None => false,
                Some(Value::Bool(resident)) => *resident,
                Some(value) => value.as_i64()? != 0,
            };
            let dim = |name, default| or(name, default).and_then(|dim| i64::try_from(dim).ok());
            let kv = Kv {
                tensors: usize::try_from(or("kv_num_tensors", 60)?).ok()?,
                dims: [1, dim("kv_num_heads", 3)?, dim("kv_max_cache_len", 256)?, dim("kv_head_dim", 64)?],
            };
            Some(Request::Infer(Call {
                input_size,
                shape: text("shape"),
                dtype: text("dtype"),
                kv: resident.then_some(kv),
            }))
        }),
        Some(_) => None,
    };
    known.unwrap_or(invalid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_with_the_defaults_of_the_original() {
        let plain = Call { input_size: 4, shape: None, dtype: None, kv: None };
        assert_eq!(parse(br#"{"num_inputs":1,"input_size":4}"#), Request::Infer(plain));
        let Request::Infer(call) = parse(
            br#"{"op":"infer","num_inputs":2,"input_size":12,"shape":"1;1","dtype":"float32;int64","kv_resident":1}"#,
        ) else {
            panic!("no call")
        };
        assert_eq!(call.kv, Some(Kv { tensors: 60, dims: [1, 3, 256, 64] }));
        assert_eq!((call.shape.as_deref(), call.dtype.as_deref()), (Some("1;1"), Some("float32;int64")));
        assert_eq!(parse(br#"{"op":"exit"}"#), Request::Exit);
        let reserve = parse(br#"{"op":"reserve_io","input_bytes":1,"output_bytes":2}"#);
        assert_eq!(reserve, Request::Reserve { input_bytes: 1, output_bytes: 2 });
    }

    #[test]
    fn what_is_no_request_still_says_how_many_bytes_follow() {
        for (line, payload) in [
            (&b"hello"[..], 0),
            (b"[1]", 0),
            (br#"{"op":"infer","input_size":7}"#, 7),
            (br#"{"op":"dance","num_inputs":1,"input_size":9}"#, 9),
            (br#"{"op":1}"#, 0),
            (br#"{"num_inputs":1,"input_size":-4}"#, 0),
            (br#"{"num_inputs":1,"input_size":3,"kv_resident":"yes"}"#, 3),
            (br#"{"op":"reserve_io","input_bytes":1}"#, 0),
        ] {
            assert_eq!(parse(line), Request::Invalid { payload }, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn lines_that_are_too_long_are_read_to_their_end() {
        let mut requests = vec![b'x'; usize::try_from(MAX_LINE + MAX_LINE / 2).unwrap()];
        requests.extend_from_slice(b"\n{}\nlast");
        let mut requests = &requests[..];
        assert_eq!(read_line(&mut requests).unwrap(), Some(Vec::new()));
        assert_eq!(read_line(&mut requests).unwrap(), Some(b"{}\n".to_vec()));
        assert_eq!(read_line(&mut requests).unwrap(), Some(b"last".to_vec()));
        assert_eq!(read_line(&mut requests).unwrap(), None);
    }

    #[test]
    fn a_payload_that_ends_early_is_none() {
        assert_eq!(read_payload(&mut &b"abc"[..], 4).unwrap(), None);
        assert_eq!(read_payload(&mut &b"abcd!"[..], 4).unwrap(), Some(b"abcd".to_vec()));
    }
}

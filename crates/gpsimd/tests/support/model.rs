//! Models with custom operations, written member by member.

use outboard_gpsimd::PoolTarget;
use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_neff::seq::{
    Arg, ArgTensor, Dialect, DmaTrigger, ElementType, Events, Instruction, ModifyPoolConfig, PayloadCount, Shape,
    Storage, UPDATE_INCREMENT, encode_chain,
};
use outboard_neff::{PackOptions, pack};
use serde_json::{Value, json};

/// A model before it is packed.
#[derive(Clone)]
pub struct Model {
    pub definition: Value,
    pub manifest: Value,
    pub stream: Vec<u8>,
    pub library: Vec<u8>,
}

/// On-chip addresses of the operand and the result.
pub const X: u32 = 0x1000;
pub const Y: u32 = 0x8000;

fn record(address: u32, count: usize) -> Arg {
    let mut dims = [0; 8];
    dims[0] = u16::try_from(count).unwrap();
    let elements = u32::try_from(count).unwrap();
    let storage = Storage::Sbuf { address, elements, partitions: 1, block: elements };
    Arg::Tensor(ArgTensor { dtype: ElementType::FP32, shape: Shape::Inline8(dims), storage })
}

fn trigger(queue: &str) -> [u8; 64] {
    Instruction::DmaTrigger(DmaTrigger { queue: queue.to_owned(), use_raw_count: 0, block_id: 0 }).encode()
}

fn block(queue: &str, from: &str, to: &str, bytes: usize) -> Value {
    json!({"id": 0, "queue": queue, "from": from, "to": to, "from_sizes": [bytes], "from_steps": [1],
           "to_sizes": [bytes], "to_steps": [1]})
}

/// relu of `count` floats: load the library, move the input on chip, run function 0, move the result out, signal.
pub fn relu(library: &[u8], count: usize) -> Model {
    let bounds = *PoolTarget::default().bounds();
    let size = prelink(&PrelinkRequest::new(library, &bounds)).unwrap().staged_size();
    let load = ModifyPoolConfig::load(0, 0, u32::try_from(size).unwrap());
    let mut stream = Instruction::ModifyPoolConfig(load).encode().to_vec();
    stream.extend(trigger("q_in"));
    stream.extend(encode_chain(0, &[record(Y, count)], &[record(X, count)], PayloadCount::Compiler).concat());
    stream.extend(Instruction::Other { opcode: 0xa2, body: vec![0; 52] }.encode());
    stream.extend(trigger("q_out"));
    let events = Events { update_mode: UPDATE_INCREMENT, update_index: 11, ..Events::default() };
    stream.extend(Instruction::EventSemaphore.encode_with(&events, Dialect::V2));
    let bytes = 4 * count;
    let var = |id: u64, kind: &str, offset: u32| {
        json!({"var_id": id, "type": kind, "size": bytes, "dtype": "float32", "framework_shape": [count],
               "backing_variable_off": offset})
    };
    let definition = json!({
        "name": "sg00",
        "var": {
            "x": var(0, "input", 0), "x_sb": var(1, "state-buffer", X),
            "y_sb": var(2, "state-buffer", Y), "y": var(3, "output", 0),
        },
        "dma_queue": {"q_in": {"owner": "pool", "semaphore": 1, "type": "in"},
                      "q_out": {"owner": "pool", "semaphore": 2, "type": "out"}},
        "ucode_lib": "ucode_lib.json",
        "pool": {"dma": [block("q_in", "x", "x_sb", bytes), block("q_out", "y_sb", "y", bytes)], "instr": "pool.bin",
                 "name": "pool_array_json"},
        "version": "0.6",
    });
    let manifest = json!({"ucode_lib": [{
        "library": "relu.so", "ulib_to_ucode_version": "1.21.1.0", "ulib_to_isa_version": "1.0.2520.0",
        "cpu_id": 0, "total_cpus": 8,
        "functions": [{"name": "relu_forward", "opcode": 133, "sub_opcode": 0},
                      {"name": "relu_backward", "opcode": 133, "sub_opcode": 1}],
    }]});
    Model { definition, manifest, stream, library: library.to_vec() }
}

impl Model {
    /// The same model with another shape in its operand's record.
    pub fn with_operand(&self, shape: Shape, elements: u32) -> Self {
        const CHAIN: usize = 2 * 64;
        let storage = Storage::Sbuf { address: X, elements, partitions: 1, block: elements };
        let operand = Arg::Tensor(ArgTensor { dtype: ElementType::FP32, shape, storage });
        let count = self.definition["var"]["y"]["framework_shape"][0].as_u64().unwrap();
        let result = record(Y, usize::try_from(count).unwrap());
        let chain = encode_chain(0, &[result], &[operand], PayloadCount::Compiler).concat();
        let mut stream = self.stream.clone();
        stream.splice(CHAIN..CHAIN + chain.len(), chain);
        Self { stream, ..self.clone() }
    }

    /// The container with its one library.
    pub fn pack(&self) -> Vec<u8> {
        self.container(&self.manifest, &[("relu.so".to_owned(), self.library.clone())])
    }

    /// The container with a library of one file for each core.
    pub fn pack_fixed(&self, files: &[&[u8]]) -> Vec<u8> {
        let names = (0..files.len()).map(|core| format!("relu_cpu{core}.so"));
        let mut manifest = json!({"ucode_lib": []});
        for (core, name) in names.clone().enumerate() {
            let mut entry = self.manifest["ucode_lib"][0].clone();
            entry["library"] = json!(name);
            entry["cpu_id"] = json!(core);
            manifest["ucode_lib"].as_array_mut().unwrap().push(entry);
        }
        let libraries: Vec<_> = names.zip(files).map(|(name, file)| (name, file.to_vec())).collect();
        self.container(&manifest, &libraries)
    }

    fn container(&self, manifest: &Value, libraries: &[(String, Vec<u8>)]) -> Vec<u8> {
        let kelf =
            json!({"graphs": [{"definition": "sg00/def.json", "name": "sg00"}], "version": "0.5", "target": "*"});
        let mut members = vec![
            ("kelf-a.json".to_owned(), serde_json::to_vec(&kelf).unwrap()),
            ("neff.json".to_owned(), b"{}".to_vec()),
            ("sg00/def.json".to_owned(), serde_json::to_vec(&self.definition).unwrap()),
            ("sg00/pool.bin".to_owned(), self.stream.clone()),
            ("sg00/ucode_lib.json".to_owned(), serde_json::to_vec(manifest).unwrap()),
        ];
        members.extend(libraries.iter().map(|(name, bytes)| (format!("sg00/{name}"), bytes.clone())));
        pack(&members, &PackOptions::default()).unwrap()
    }
}

//! Arguments: bound by the setup, pulled in order, published at the end.

use crate::fault::device_assert;
use crate::global::{Global, memw};
use crate::number::{Number, number};
use crate::{file_io, memcpy, start, tensor};
use customop::abi::{
    ArgExtractor, ArgParser, ArgTensor, MAX_ARGS, Scalar, Tensor, UTensor, arg_type, scalar_tag, shape_form,
};
use customop::dtype::ScalarType;

const NO_TENSOR: ArgTensor = ArgTensor {
    location: 0,
    shape_form: 0,
    dtype: 0,
    reserved0: [0; 5],
    shape: [0; 4],
    storage: [0; 4],
    reserved1: [0; 8],
};

#[unsafe(export_name = "arg_parser")]
static PARSER: Global<ArgParser> = Global::new(ArgParser {
    extractor: ArgExtractor {
        num_args: 0,
        max_args: MAX_ARGS as u32,
        args: [NO_TENSOR; MAX_ARGS],
        arg_types: [0; MAX_ARGS],
    },
    curr_arg: 0,
    pad: 0,
});
#[unsafe(export_name = "get_dst_tensor_called")]
static DST_CALLED: Global<u8> = Global::new(0);
#[unsafe(export_name = "retval")]
static RETVAL: Global<*const ArgTensor> = Global::new(core::ptr::null());

/// Starts an operation: binds the arguments; the first one is the result if there is one.
#[unsafe(export_name = "_Z14customop_setupb")]
extern "C" fn customop_setup(has_return: bool) {
    memcpy::init_dma_queue();
    DST_CALLED.set(0);
    // SAFETY: the scratch map is there from the boot on; the parser is a variable of this core.
    let parser = unsafe {
        let parser = &mut *PARSER.as_ptr();
        parser.extractor = (&raw const (*start::scratch_map()).args).read();
        parser
    };
    device_assert!(parser.extractor.num_args <= MAX_ARGS as u32, "arg_extractor.hpp:16: num_args_ < max_args_");
    parser.curr_arg = u32::from(has_return);
    RETVAL.set(core::ptr::null());
    if has_return {
        device_assert!(parser.extractor.num_args > 0, "arg_parser.hpp:66: curr_arg_ < num_args: no result was passed");
        RETVAL.set(&raw const parser.extractor.args[0]);
    }
}

/// Pulls the next argument.
#[unsafe(export_name = "_ZN9ArgParser14next_ucode_argI7UTensorEET_v")]
extern "C" fn next_ucode_arg(parser: &mut ArgParser) -> UTensor {
    let index = parser.curr_arg as usize;
    device_assert!(parser.curr_arg < parser.extractor.num_args, "arg_parser.hpp:66: curr_arg_ < num_args");
    device_assert!(
        parser.extractor.arg_types.get(index) == Some(&arg_type::TENSOR),
        "arg_parser.hpp:67: arg_types_[curr_arg_] == TENSOR"
    );
    parser.curr_arg += 1;
    let record = parser.extractor.args.get(index).copied().unwrap_or(NO_TENSOR);
    UTensor { xt_ptr: 0, pad: 0, record }
}

fn next() -> ArgTensor {
    // SAFETY: the parser is a variable of this core.
    next_ucode_arg(unsafe { &mut *PARSER.as_ptr() }).record
}

/// The next argument as a tensor.
#[unsafe(export_name = "_Z20customop_next_tensorv")]
extern "C" fn customop_next_tensor() -> Tensor {
    tensor::of_record(&next())
}

/// The only element of the next argument.
fn next_number() -> Number {
    let record = next();
    let (dims, rank) = record.dims();
    let one = rank == 1 && dims[0] == 1;
    if record.shape_form == shape_form::INLINE_4D {
        device_assert!(one, "utypes.hpp:172: Cannot create an at::Scalar. Argument has more than 1 element");
    } else {
        device_assert!(one, "utypes.hpp:178: Cannot create an at::Scalar. Argument has more than 1 element");
    }
    let Some(scalar_type) = ScalarType::of_isa(record.dtype) else {
        crate::fault::fail("utypes.hpp:59: Invalid datatype. Note that complex scalars and qints are not supported")
    };
    number(scalar_type, tensor::read_element(&record, scalar_type.size()))
}

/// The next argument as a number of either kind.
#[unsafe(export_name = "_Z20customop_next_scalarv")]
extern "C" fn customop_next_scalar() -> Scalar {
    match next_number() {
        Number::Int(value) => Scalar { tag: scalar_tag::INT, bits: value as u64, ..Scalar::default() },
        Number::Float(value) => {
            Scalar { tag: scalar_tag::DOUBLE, bits: f64::from(value).to_bits(), ..Scalar::default() }
        }
    }
}

/// The next argument as a 32-bit integer.
#[unsafe(export_name = "_Z17customop_next_intv")]
extern "C" fn customop_next_int() -> i32 {
    customop_next_longlong() as i32
}

/// The next argument as a 64-bit integer.
#[unsafe(export_name = "_Z22customop_next_longlongv")]
extern "C" fn customop_next_longlong() -> i64 {
    match next_number() {
        Number::Int(value) => value,
        Number::Float(value) => value as i64,
    }
}

/// The next argument as a binary32.
#[unsafe(export_name = "_Z19customop_next_floatv")]
extern "C" fn customop_next_float() -> f32 {
    match next_number() {
        Number::Int(value) => value as f32,
        Number::Float(value) => value,
    }
}

/// The record of the result.
fn retval() -> ArgTensor {
    let retval = RETVAL.get();
    device_assert!(!retval.is_null(), "wrapper_api.cpp: customop_setup(true) comes before the result is used");
    // SAFETY: it points into the parser, which the setup has filled.
    unsafe { *retval }
}

/// Publishes a result, unless the kernel has asked for the destination and written it itself.
#[unsafe(export_name = "_Z22customop_return_tensorRN2at6TensorE")]
extern "C" fn customop_return_tensor(result: &Tensor) {
    if DST_CALLED.get() == 0 {
        let mut record = UTensor { xt_ptr: 0, pad: 0, record: retval() };
        tensor::copy(&mut record, result);
    }
}

/// The destination of the result.
#[unsafe(export_name = "_Z14get_dst_tensorv")]
extern "C" fn get_dst_tensor() -> Tensor {
    DST_CALLED.set(1);
    tensor::of_record(&retval())
}

/// Ends an operation: streams and stores reach memory.
#[unsafe(export_name = "_Z16customop_cleanupv")]
extern "C" fn customop_cleanup() {
    file_io::fsync(2);
    file_io::fsync(1);
    memw();
}

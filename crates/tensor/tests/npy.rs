//! `.npy` files: what numpy writes is read, what is written is what numpy writes, and no bytes make the reader fail otherwise
//! than by an error.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_tensor::{DType, NpyError, Shape, ShapeError, Tensor, TensorError};
use proptest::prelude::*;

/// A file of the given version with this header text and these data bytes.
fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY".to_vec();
    file.extend([version, 0]);
    match version {
        1 => file.extend(u16::try_from(header.len()).unwrap().to_le_bytes()),
        _ => file.extend(u32::try_from(header.len()).unwrap().to_le_bytes()),
    }
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

fn refused(file: &[u8]) -> NpyError {
    match Tensor::from_npy(file).unwrap_err() {
        TensorError::Npy(error) => error,
        other => panic!("{other:?}"),
    }
}

/// What numpy 2 writes for `np.arange(6, dtype=np.float32).reshape(2, 3)`: 118 bytes of header text, data at byte 128.
fn numpy_file() -> Vec<u8> {
    let header = format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    let data: Vec<u8> = (0u8..6).flat_map(|value| f32::from(value).to_le_bytes()).collect();
    file(1, &header, &data)
}

#[test]
fn a_file_of_numpy_is_read_and_written_back_byte_for_byte() {
    let golden = numpy_file();
    let tensor = Tensor::from_npy(&golden).unwrap();
    assert_eq!((tensor.dtype(), tensor.shape().dims()), (DType::Float32, &[2, 3][..]));
    assert_eq!(tensor.values::<f32>(), Some(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    assert_eq!(tensor.view().to_npy().unwrap(), golden);
}

#[test]
fn versions_2_and_3_quotes_orders_of_keys_and_old_integers_are_read() {
    for (version, header) in [
        (2, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }\n"),
        (3, "{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<i2\"}"),
        (1, "  { 'shape' : ( 2 ) , 'descr':'<i2','fortran_order':True}   \n"),
    ] {
        let tensor = Tensor::from_npy(&file(version, header, &[1, 0, 255, 255])).unwrap();
        assert_eq!(tensor.values::<i16>(), Some(vec![1, -1]), "{header}");
    }
}

#[test]
fn scalars_and_empty_arrays_are_arrays_too() {
    let scalar = Tensor::from_npy(&file(1, "{'descr': '|b1', 'fortran_order': False, 'shape': ()}", &[1])).unwrap();
    assert_eq!((scalar.shape().ndim(), scalar.values::<bool>()), (0, Some(vec![true])));
    let empty = Tensor::from_npy(&file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (3, 0)}", &[])).unwrap();
    assert_eq!(empty.shape().dims(), [3, 0]);
}

#[test]
fn big_endian_and_fortran_ordered_files_become_little_endian_rows() {
    // The matrix [[1, 2, 3], [4, 5, 6]], column by column, high byte first.
    let data: Vec<u8> = [1u16, 4, 2, 5, 3, 6].into_iter().flat_map(u16::to_be_bytes).collect();
    let tensor = Tensor::from_npy(&file(1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3)}", &data)).unwrap();
    assert_eq!(tensor.values::<u16>(), Some(vec![1, 2, 3, 4, 5, 6]));
    // Three dimensions: element (i, j, k) of a 2x2x2 cube lies at i + 2 j + 4 k.
    let cube = Tensor::from_npy(&file(
        1,
        "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2)}",
        &[0, 1, 2, 3, 4, 5, 6, 7],
    ));
    assert_eq!(cube.unwrap().values::<u8>(), Some(vec![0, 4, 2, 6, 1, 5, 3, 7]));
}

#[test]
fn what_is_not_a_npy_file_is_refused_by_name() {
    assert_eq!(refused(b""), NpyError::NotNpy);
    assert_eq!(refused(b"PK\x03\x04 a zip"), NpyError::NotNpy);
    assert_eq!(refused(b"\x93NUMPY"), NpyError::Truncated { need: 10, got: 6 });
    assert_eq!(refused(b"\x93NUMPY\x04\x00\x00\x00"), NpyError::Version { major: 4, minor: 0 });
    assert_eq!(refused(b"\x93NUMPY\x01\x00\x10\x00{"), NpyError::Truncated { need: 26, got: 11 });
    assert_eq!(refused(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), NpyError::HeaderTooLong { len: 0xFFFF_FFFF });
}

#[test]
fn headers_that_are_not_the_dictionary_of_the_format_are_refused_with_the_byte() {
    for (header, offset, expected) in [
        ("", 10, "`{`"),
        ("[]", 10, "`{`"),
        ("{'descr' '<f4'}", 19, "`:`"),
        ("{'descr': '<f4", 21, "the end of a string"),
        ("{'descr': '<f4' 'shape': ()}", 26, "`,` or `}`"),
        ("{'descr': '<\\x664'}", 21, "a string of plain ASCII"),
        ("{'fortran_order': 1}", 28, "True or False"),
        ("{'shape': [2]}", 20, "a tuple of dimensions"),
        ("{'shape': (-1,)}", 21, "a dimension that fits this machine"),
        ("{'shape': (99999999999999999999,)}", 21, "a dimension that fits this machine"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} import os", 64, "nothing but blanks"),
    ] {
        assert_eq!(refused(&file(1, header, &[])), NpyError::Syntax { offset, expected }, "{header}");
    }
}

#[test]
fn keys_that_are_unknown_doubled_or_missing_are_named() {
    for (header, key, problem) in [
        ("{'descr': '<f4', 'fortran_order': False}", "shape", "missing"),
        ("{'shape': (), 'fortran_order': False}", "descr", "missing"),
        ("{'shape': (), 'shape': ()}", "shape", "given twice"),
        ("{'evil': ()}", "evil", "unknown"),
    ] {
        assert_eq!(refused(&file(1, header, &[])), NpyError::Key { key: key.into(), problem }, "{header}");
    }
}

#[test]
fn element_types_a_device_cannot_be_given_are_refused_by_name() {
    for descr in
        ["'<c8'", "'|S4'", "'<U3'", "'|O'", "'<f3'", "'=f4'", "'f4'", "'|i4'", "'<M8[ns]'", "''", "[('a', '<f4')]"]
    {
        let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ()}}");
        assert!(matches!(refused(&file(1, &header, &[0; 8])), NpyError::Descr { .. }), "{descr}");
    }
}

#[test]
fn data_that_is_short_or_long_and_shapes_that_overflow_are_refused() {
    let golden = numpy_file();
    assert!(matches!(refused(&golden[..golden.len() - 1]), NpyError::DataSize { need: 24, got: 23, .. }));
    let long = [&golden[..], &[0]].concat();
    assert!(matches!(refused(&long), NpyError::DataSize { need: 24, got: 25, .. }));
    let huge = "{'descr': '<f8', 'fortran_order': True, 'shape': (4294967296, 4294967296)}";
    assert!(matches!(refused(&file(1, huge, &[])), NpyError::Shape(ShapeError::Overflow { .. })));
    let deep = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({})}}", "1,".repeat(33));
    assert!(matches!(refused(&file(1, &deep, &[0])), NpyError::Shape(ShapeError::TooManyDims { count: 33 })));
}

#[test]
fn bfloat16_cannot_be_written_and_the_error_says_what_can() {
    let tensor = Tensor::zeros(DType::BFloat16, Shape::scalar()).unwrap();
    assert_eq!(
        tensor.view().to_npy().unwrap_err().to_string(),
        "a .npy file cannot hold bfloat16: write a raw file (.bin) instead"
    );
}

fn any_tensor() -> impl Strategy<Value = Tensor> {
    let dtype =
        prop::sample::select(DType::ALL.iter().copied().filter(|dtype| *dtype != DType::BFloat16).collect::<Vec<_>>());
    (dtype, prop::collection::vec(0usize..5, 0..5)).prop_flat_map(|(dtype, dims)| {
        let shape = Shape::new(&dims).unwrap();
        let len = shape.bytes(dtype).unwrap();
        prop::collection::vec(any::<u8>(), len).prop_map(move |bytes| Tensor::new(dtype, shape.clone(), bytes).unwrap())
    })
}

proptest! {
    #[test]
    fn every_tensor_survives_the_way_through_a_file(tensor in any_tensor()) {
        let file = tensor.view().to_npy().unwrap();
        prop_assert_eq!(file.len() % 64, tensor.bytes().len() % 64);
        prop_assert_eq!(Tensor::from_npy(&file).unwrap(), tensor);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Tensor::from_npy(&bytes);
        let _ = Tensor::from_npy(&[&b"\x93NUMPY\x01\x00\x40\x00"[..], &bytes].concat());
    }

    #[test]
    fn a_changed_or_shortened_file_is_read_or_refused_but_never_fatal(
        tensor in any_tensor(), at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut file = tensor.view().to_npy().unwrap();
        let at = at.index(file.len());
        file[at] = value;
        let _ = Tensor::from_npy(&file);
        let _ = Tensor::from_npy(&file[..cut.index(file.len())]);
    }
}

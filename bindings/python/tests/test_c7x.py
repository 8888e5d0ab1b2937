"""The virtual machine of the original's Python interface: its own tests, on the simulated device."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import pytest
from c_modules import EXAMPLES, X, build, expected
from support import outboard_program

from outboard import c7x
from outboard.c7x import C7xError, C7xVirtualMachine, TensorDesc

pytestmark = pytest.mark.usefixtures("device")


def library() -> str:
    """The C library: $OUTBOARD_C7X_LIBRARY, or that of the build the program is from."""
    named = os.environ.get("OUTBOARD_C7X_LIBRARY")
    folder = outboard_program().parent
    candidates = [Path(named)] if named else [place / c7x.LIBRARY for place in (folder, folder / "deps")]
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    raise FileNotFoundError(
        f"no C library at {', '.join(map(str, candidates))}: "
        "run cargo build -p outboard-capi, or set OUTBOARD_C7X_LIBRARY"
    )


def machine(module: Path | str) -> C7xVirtualMachine:
    return C7xVirtualMachine(module, library())


class TestStructLayout:
    def test_c7x_tensor_desc_size(self) -> None:
        assert ctypes.sizeof(TensorDesc) == 80

    def test_c7x_tensor_desc_field_offsets(self) -> None:
        offsets = [getattr(TensorDesc, name).offset for name, *_ in TensorDesc._fields_]
        assert offsets == [0, 8, 16, 20, 24, 28, 32]

    @pytest.mark.parametrize(
        "name", "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
    )
    def test_dtype_mapping_round_trips(self, name: str) -> None:
        code, bits = c7x._code_and_bits(np.dtype(name))
        assert c7x._dtype(code, bits) == np.dtype(name)

    def test_types_the_device_does_not_have_are_refused(self) -> None:
        for name in ("complex64", "U4", "datetime64[s]", "longdouble"):
            with pytest.raises(TypeError):
                c7x._code_and_bits(np.dtype(name))
        with pytest.raises(TypeError):
            c7x._dtype(4, 16)


class TestAPIContract:
    def test_init_bad_so_raises(self) -> None:
        with pytest.raises(RuntimeError, match=r"Cannot load /nowhere/lib\.so"):
            C7xVirtualMachine("x.out", "/nowhere/lib.so")

    def test_init_bad_module_lazy(self) -> None:
        vm = machine("/nowhere/lib0.out")
        with pytest.raises(FileNotFoundError, match=r"/nowhere/lib0\.out"):
            vm["main"](X)

    def test_a_module_that_cannot_be_loaded_says_why(self, folder: Path) -> None:
        broken = build(EXAMPLES / "faults/missing_symbol.c", folder)
        with pytest.raises(C7xError, match=r"(?s)Dynamic load failed \(rc=-9\).*c7x_no_such_kernel") as raised:
            machine(broken)["main"](X)
        assert raised.value.number == -9

    def test_a_device_that_is_not_there_says_so(self, echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OUTBOARD_DEVICE", "sim:/nowhere/dsp")
        with pytest.raises(RuntimeError, match="Cannot open the device: the standing device at /nowhere/dsp"):
            machine(echo)["main"](X)

    def test_is_loaded_before_first_call(self, echo: Path) -> None:
        assert not machine(echo).is_loaded

    def test_close_is_idempotent(self, echo: Path) -> None:
        vm = machine(echo)
        vm.close()
        vm["main"](X)
        vm.close()
        vm.close()
        assert not vm.is_loaded

    def test_getitem_returns_callable(self, echo: Path) -> None:
        assert callable(machine(echo)["anything"])

    def test_context_manager_closes_on_exit(self, echo: Path) -> None:
        with machine(echo) as vm:
            vm["main"](X)
            assert vm.is_loaded
        assert not vm.is_loaded


class TestC7xVMInference:
    def test_standard_inference_matches_cpu(self, d4: Path) -> None:
        with machine(d4) as vm:
            probabilities, top = vm["main"](X)
            np.testing.assert_allclose(probabilities, expected()[0], atol=1e-6)
            assert (probabilities.shape, probabilities.dtype, top.tolist()) == ((1, 4), np.float32, [expected()[1]])
            assert vm.last_cycles > 0

    def test_repeated_inference_consistent(self, d4: Path) -> None:
        with machine(d4) as vm:
            first = vm["main"](X)[0]
            for _ in range(3):
                np.testing.assert_array_equal(vm["main"](X)[0], first)

    def test_any_factory_takes_the_path_of_a_module(self, d4: Path) -> None:
        for path in (str(d4), d4):
            with machine(path) as vm:
                assert len(vm["main"](X)) == 2

    @pytest.mark.parametrize("dtype", "float16 float64 int8 int64 uint16 bool".split())
    def test_tensors_of_every_type_and_shape_come_back(self, echo: Path, dtype: str) -> None:
        with machine(echo) as vm:
            for shape in [(), (3,), (2, 0), (1, 2, 1, 3, 1, 2)]:
                x = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
                y = vm["main"](x)
                assert (y.dtype, y.shape) == (x.dtype, x.shape)
                np.testing.assert_array_equal(y, x)

    def test_arrays_with_gaps_and_of_other_byte_orders_are_sent_right(self, echo: Path) -> None:
        with machine(echo) as vm:
            x = np.arange(12, dtype=np.int32).reshape(3, 4)
            for odd in (x.T, x[::2, ::-1], x.astype(">i4")):
                np.testing.assert_array_equal(vm["main"](odd), odd)

    def test_what_speaks_dlpack_is_taken(self, echo: Path) -> None:
        class Foreign:
            def __dlpack__(self, **options: object) -> object:
                return X.__dlpack__(**options)

            def __dlpack_device__(self) -> tuple[int, int]:
                return X.__dlpack_device__()

        with machine(echo) as vm:
            np.testing.assert_array_equal(vm["main"](Foreign()), X)

    def test_inputs_that_cannot_be_sent_are_refused(self, echo: Path, d4: Path) -> None:
        with machine(echo) as vm:
            with pytest.raises(ValueError, match="at most 6 dimensions"):
                vm["main"](np.zeros((1,) * 7))
            with pytest.raises(TypeError):
                vm["main"](np.zeros(1, dtype=complex))
            with pytest.raises(ValueError, match="1 to 128 inputs"):
                vm["main"]()
            assert len(vm["main"](*[np.uint8(i) for i in range(128)])) == 128
        with machine(d4) as vm, pytest.raises(C7xError):
            vm["main"](X, X)


class TestRunNocopy:
    def test_returns_views_that_equal_the_standard_run(self, d4: Path) -> None:
        with machine(d4) as vm:
            standard = vm["main"](X)
            views = vm.run_nocopy(X)
            assert vm.last_nocopy_outputs is views
            for view, copy in zip(views, standard, strict=True):
                assert isinstance(view, np.ndarray) and not view.flags.owndata
                np.testing.assert_array_equal(view, copy)

    def test_the_next_call_overwrites_a_view(self, echo: Path) -> None:
        with machine(echo) as vm:
            view = vm.run_nocopy(X)
            vm.run_nocopy(X + 1)
            np.testing.assert_array_equal(view, X + 1)

    def test_a_view_may_be_the_input_of_the_next_call(self, echo: Path) -> None:
        with machine(echo) as vm:
            np.testing.assert_array_equal(vm.run_nocopy(vm.run_nocopy(X)), X)

    def test_a_view_outlives_its_machine(self, echo: Path) -> None:
        vm = machine(echo)
        view = vm.run_nocopy(X)
        vm.close()
        del vm
        gc.collect()
        assert view.sum() is not None and view.shape == X.shape


class TestCreateInput:
    def test_shape_dtype_and_slots(self, echo: Path) -> None:
        with machine(echo) as vm:
            vm.reserve_io(4096, 4096)
            created = [vm.create_input((1, 5), "float32"), vm.create_input((3,), np.int8)]
            assert [(array.shape, array.dtype.name) for array in created] == [((1, 5), "float32"), ((3,), "int8")]
            assert len(vm.input_slots) == 2 and vm.input_slots[0] is created[0]
            distance = created[1].ctypes.data - created[0].ctypes.data
            assert distance == 64, "inputs start at multiples of 64"

    def test_inference_matches_the_standard_path(self, d4: Path) -> None:
        with machine(d4) as vm:
            x = vm.create_input(X.shape, X.dtype)
            x[:] = X
            np.testing.assert_array_equal(vm["main"](x)[0], vm["main"](X)[0])
            np.testing.assert_array_equal(x, X)
            np.testing.assert_array_equal(vm.run_nocopy(x)[0], vm["main"](X)[0])

    def test_no_room_is_an_error(self, echo: Path) -> None:
        with machine(echo) as vm:
            vm.reserve_io(1024, 1024)
            vm.create_input((100,), "uint8")
            with pytest.raises(RuntimeError, match="no room for an input of 4000 bytes"):
                vm.create_input((1000,), "float32")
            with pytest.raises(C7xError, match="already in use"):
                vm.reserve_io(4096, 4096)
            with pytest.raises(ValueError, match="no shape"):
                vm.create_input((1,) * 7)

    def test_close_resets_slots(self, echo: Path) -> None:
        vm = machine(echo)
        vm.create_input((4,))
        vm.close()
        assert vm.input_slots == []

"""Sessions of the extension module, on the simulated device."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest
from c_modules import EXAMPLES, MODULES, X, build, expected

import outboard
from outboard import errors
from outboard.build.notes import manifest_note
from outboard.build.tensors import DTYPES, TensorSpec

pytestmark = pytest.mark.usefixtures("device")


class TestSession:
    def test_a_session_answers_and_ends_once(self) -> None:
        with outboard.Session() as session:
            assert (session.device, session.is_open) == ("sim", True)
            assert session.ping()["version"] == "3.0.0" and session.ping()["round_trip"] > 0
            assert session.status()["jobs_completed"] == 0
        assert not session.is_open
        session.close()
        with pytest.raises(errors.SessionClosed):
            session.ping()

    def test_devices_that_are_not_there_are_named_and_never_replaced(self) -> None:
        with pytest.raises(errors.NoDevice, match="/nowhere/dsp") as raised:
            outboard.Session("sim:/nowhere/dsp")
        assert raised.value.code == "OB0329" and raised.value.help
        with pytest.raises(errors.NoDevice, match=r"no-such\.dsp"):
            outboard.Session("rpmsg:no-such.dsp")
        with pytest.raises(errors.RequestError, match="`gpu` names no device"):
            outboard.Session("gpu")
        with pytest.raises(ValueError, match="positive number of seconds"):
            outboard.Session(timeout=0)
        with pytest.raises(ValueError, match="of the session's own"):
            outboard.Session("rpmsg", incoherent=True)

    def test_the_environment_names_the_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OUTBOARD_DEVICE", "sim:/nowhere/dsp")
        with pytest.raises(errors.NoDevice):
            outboard.Session()
        with outboard.Session("sim") as session:
            assert session.is_open

    def test_a_module_that_never_returns_ends_at_the_deadline_and_the_next_one_works(
        self, folder: Path, d4: Path
    ) -> None:
        with outboard.Session(timeout=0.5) as session:
            endless = session.load(build(EXAMPLES / "faults/infinite_loop.c", folder))
            with pytest.raises(TimeoutError) as raised:
                endless(np.zeros(1, np.float32))
            assert isinstance(raised.value, errors.DeadlineError) and raised.value.code == "OB0302"
            with session.load(d4) as module:
                assert len(module(X)) == 2

    def test_a_crash_is_named_with_its_function_and_recovered_from(self, folder: Path, d4: Path) -> None:
        with outboard.Session() as session:
            bad = session.load(build(EXAMPLES / "faults/null_dereference.c", folder))
            with pytest.raises(errors.DeviceLost, match="SIGSEGV"):
                bad(np.zeros(1, np.float32))
            with pytest.raises(errors.StaleModule):
                bad(np.zeros(1, np.float32))
            bad.unload()
            assert len(session.load(d4)(X)) == 2


class TestModule:
    def test_a_model_answers_what_its_formulas_say(self, d4: Path) -> None:
        with outboard.Session() as session, session.load(d4) as module:
            probabilities, top = module(X)
            np.testing.assert_allclose(probabilities, expected()[0], atol=1e-6)
            assert (probabilities.shape, probabilities.dtype, top.tolist()) == ((1, 4), np.float32, [expected()[1]])
            assert module.last_cycles > 0 and module.is_loaded and module.name == "d4.out"
            assert module.io_bytes is not None and module.warnings == []
        assert not module.is_loaded

    def test_failures_have_names(self, folder: Path, d4: Path, echo: Path) -> None:
        with outboard.Session() as session:
            with pytest.raises(errors.LoadFailed, match="c7x_no_such_kernel") as raised:
                session.load(build(EXAMPLES / "faults/missing_symbol.c", folder))
            assert (raised.value.kind, raised.value.number) == ("load_failed", -9)
            with pytest.raises(FileNotFoundError, match="/nowhere"):
                session.load("/nowhere/lib0.out")
            with session.load(d4) as module, pytest.raises(errors.InputMismatch):
                module(X, X)
            with session.load(echo) as module:
                for wrong in (np.zeros(1, complex), np.array(["x"]), np.zeros(1, "datetime64[s]"), object()):
                    with pytest.raises(TypeError):
                        module(wrong)
                with pytest.raises(errors.RequestError, match="at most 6"):
                    module(np.zeros((1,) * 7))
                with pytest.raises(errors.RequestError, match="1 to 128 inputs"):
                    module()
                assert len(module(*[np.uint8(i) for i in range(128)])) == 128

    @pytest.mark.parametrize(
        "dtype", "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
    )
    def test_arrays_of_every_type_and_shape_come_back(self, echo: Path, dtype: str) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            for shape in [(), (3,), (2, 0), (1, 2, 1, 3, 1, 2)]:
                x = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
                for y in (module(x), module.run_nocopy(x)):
                    assert (y.dtype, y.shape) == (x.dtype, x.shape)
                    np.testing.assert_array_equal(y, x)

    def test_arrays_with_gaps_lists_and_other_byte_orders_are_sent_right(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            x = np.arange(12, dtype=np.int32).reshape(3, 4)
            for odd in (x.T, x[::2, ::-1], x.astype(">i4"), x.tolist(), 7, 2.5):
                np.testing.assert_array_equal(module(odd), odd)

    def test_copies_are_the_callers_and_views_are_the_devices(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            copy, view = module(X), module.run_nocopy(X)
            copy[:] = 7
            assert not view.flags.writeable and not view.flags.owndata
            np.testing.assert_array_equal(module.run_nocopy(view), X)
            module.run_nocopy(X + 1)
            np.testing.assert_array_equal(view, X + 1)
            np.testing.assert_array_equal(copy, np.full_like(X, 7))

    def test_a_view_outlives_its_session(self, echo: Path) -> None:
        session = outboard.Session()
        view = session.load(echo).run_nocopy(X)
        session.close()
        del session
        gc.collect()
        assert view.shape == X.shape and view.sum() is not None

    def test_what_a_module_prints_is_kept_also_when_it_fails(self, folder: Path) -> None:
        with outboard.Session() as session, session.load(build(MODULES / "double.c", folder)) as module:
            with pytest.raises(errors.CallFailed) as raised:
                module(X)
            assert raised.value.text == "double: expected one int64 tensor\n"
            assert module(np.arange(3)).tolist() == [0, 2, 4]

    def test_a_repeated_run_runs_again(self, folder: Path) -> None:
        with outboard.Session() as session, session.load(build(MODULES / "double.c", folder)) as module:
            assert module.run(np.arange(3), repeat=3).tolist() == [0, 8, 16]

    def test_inputs_may_be_named_where_the_module_names_them(self, folder: Path, echo: Path) -> None:
        specs = [TensorSpec("x", DTYPES["float32"], (1, 2)), TensorSpec("n", DTYPES["int64"], ())]
        notes = folder / "named.S"
        data = ",".join(map(str, manifest_note("named", specs, specs)))
        notes.write_text(
            f'.section .note.outboard,"a",%note\n.balign 4\n.byte {data}\n.section .note.GNU-stack,"",%progbits\n'
        )
        x, n = np.ones((1, 2), np.float32), np.int64(7)
        with outboard.Session() as session:
            with session.load(build(MODULES / "echo.c", folder, notes, name="named")) as module:
                assert [(spec.name, spec.dtype, spec.shape) for spec in module.inputs] == [
                    ("x", "float32", [1, 2]),
                    ("n", "int64", []),
                ]
                assert [spec.name for spec in module.outputs] == ["x", "n"]
                for answer in (module(n=n, x=x), module({"x": x, "n": n}), module.run_nocopy({"x": x, "n": n})):
                    assert (answer[0].tolist(), answer[1].tolist()) == ([[1.0, 1.0]], 7)
                with pytest.raises(TypeError, match="input `n` is missing"):
                    module(x=x)
                with pytest.raises(TypeError, match="has the inputs x, n"):
                    module(x=x, n=n, z=x)
                with pytest.raises(TypeError, match="in their order or by name"):
                    module(x, n=n)
                with pytest.raises(errors.InputMismatch, match="expected"):
                    module(x, x)
            with session.load(echo) as module, pytest.raises(TypeError, match=r"echo\.out does not name its inputs"):
                module(x=X)

    def test_threads_take_turns(self, d4: Path) -> None:
        with outboard.Session() as session, session.load(d4) as module:
            results: list[np.ndarray] = []

            def work() -> None:
                for _ in range(20):
                    results.append(module(X)[0])

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(results) == 80 and all(np.array_equal(result, results[0]) for result in results)


class Foreign:
    """A tensor of a library that is not numpy: it speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray, versions: bool = True, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.versions, self.device = array, versions, device

    def __dlpack__(self, **options: object) -> object:
        if options and not self.versions:
            raise TypeError("unexpected argument")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class TestDLPack:
    @pytest.mark.parametrize("versions", [True, False])
    def test_tensors_of_other_libraries_go_in(self, echo: Path, versions: bool) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            for array in (X, X.transpose(2, 0, 1), X[:, :, ::2], np.array(3.0), np.zeros((0, 3), np.int8)):
                np.testing.assert_array_equal(module(Foreign(array, versions)), array)
            readonly = X.copy()
            readonly.flags.writeable = False
            if versions:
                np.testing.assert_array_equal(module(Foreign(readonly)), X)

    def test_tensors_of_other_devices_are_refused(self, echo: Path) -> None:
        with (
            outboard.Session() as session,
            session.load(echo) as module,
            pytest.raises(BufferError, match="move it to the CPU"),
        ):
            module(Foreign(X, device=(2, 0)))

    def test_outputs_go_out_with_their_flags(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            view = outboard_tensor(module, X)
            assert view.readonly and view.__dlpack_device__() == (1, 0)
            taken = np.from_dlpack(view)
            np.testing.assert_array_equal(taken, X)
            assert not taken.flags.writeable
            with pytest.raises(BufferError, match="read-only"):
                view.__dlpack__()
            for asked in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
                with pytest.raises(BufferError):
                    view.__dlpack__(max_version=(1, 0), **asked)
            # A capsule that nobody consumes is ended by the interpreter.
            capsule = view.__dlpack__(max_version=(1, 0))
            del capsule
            gc.collect()

    def test_types_that_numpy_does_not_have_travel_by_dlpack(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            buffer = module.input((4,), "bfloat16")
            tensor = buffer.tensor
            assert (tensor.dtype, tensor.shape, tensor.nbytes) == ("bfloat16", (4,), 8)
            with pytest.raises(AttributeError, match="numpy has no bfloat16"):
                _ = tensor.__array_interface__
            del tensor
            buffer.hand_over()
            answer = module(buffer)
            assert isinstance(answer, outboard.Tensor) and answer.dtype == "bfloat16" and not answer.readonly
            # Back in, as another library would hand it over.
            again = module(answer)
            assert (again.dtype, again.shape) == ("bfloat16", (4,))


def outboard_tensor(module: outboard.Module, x: np.ndarray) -> outboard.Tensor:
    """The tensor behind the view of an output."""
    base = module.run_nocopy(x)
    while not isinstance(base, outboard.Tensor):
        base = base.base
    return base


class TestZeroCopy:
    def test_a_call_with_a_staged_input_and_run_nocopy_moves_no_tensor_byte(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            session.reserve_io(4096, 4096)
            x = module.create_input(X.shape, X.dtype)
            x[:] = X
            buffer = module.input(X.shape, X.dtype)
            buffer.fill(X + 1)
            buffer.hand_over()
            np.testing.assert_array_equal(module.run_nocopy(x), X)
            np.testing.assert_array_equal(module.run_nocopy(buffer), X + 1)
            assert session.traffic == (0, 0)
            module(X)
            assert session.traffic == (X.nbytes, X.nbytes)

    def test_inputs_made_on_the_device_start_at_multiples_of_64_and_are_seen_by_the_next_call(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            session.reserve_io(4096, 4096)
            first, second = module.create_input((1, 5)), module.create_input((3,), np.int8)
            assert (first.dtype, first.shape, second.dtype) == (np.float32, (1, 5), np.int8)
            assert second.ctypes.data - first.ctypes.data == 64
            for value in (1, 2):
                first[:] = value
                np.testing.assert_array_equal(module(first, second)[0], np.full((1, 5), value, np.float32))
            with pytest.raises(errors.WindowTooSmall):
                module.create_input((1 << 20,))
            with pytest.raises(errors.CapacityFixed):
                session.reserve_io(1 << 20, 0)


class TestOwners:
    def test_p13_a_buffer_on_the_wrong_side_raises(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            buffer = module.input((4,), "uint8")
            assert buffer.owner == "host"
            buffer.fill([1, 2, 3, 4])
            with pytest.raises(errors.WrongOwner, match="input 0 of the call belongs to the host"):
                module(buffer)
            with pytest.raises(errors.WrongOwner, match="belongs to the host"):
                buffer.take_back()
            buffer.hand_over()
            assert buffer.owner == "device" and module(buffer).tolist() == [1, 2, 3, 4]
            for reach in (lambda: buffer.array, lambda: buffer.tensor, lambda: buffer.fill(0), buffer.hand_over):
                with pytest.raises(errors.WrongOwner, match="belongs to the device"):
                    reach()
            buffer.take_back()
            assert buffer.array.tolist() == [1, 2, 3, 4]

    def test_p13_a_buffer_is_not_handed_over_while_it_can_be_reached(self, echo: Path) -> None:
        with outboard.Session() as session, session.load(echo) as module:
            buffer = module.input((4,), "uint8")
            array = buffer.array
            part, tensor = array[1:], np.from_dlpack(buffer.tensor)
            del array
            with pytest.raises(errors.WrongOwner, match="2 array"):
                buffer.hand_over()
            del part, tensor
            gc.collect()
            buffer.hand_over()

    def test_p13_the_same_steps_work_with_caches_that_are_not_coherent(self, folder: Path, echo: Path) -> None:
        double = build(MODULES / "double.c", folder)
        with outboard.Session("sim", incoherent=True) as session, session.load(double) as module:
            buffer = module.input((2,), "int64")
            buffer.fill([3, 5])
            buffer.hand_over()
            assert module(buffer).tolist() == [6, 10]
            buffer.take_back()
            assert buffer.array.tolist() == [6, 10], "the module wrote its input"
            module.unload()
            with session.load(echo) as other:
                x = other.create_input((3,), "uint8")
                for value in (1, 2):
                    x[:] = value
                    assert other.run_nocopy(x).tolist() == [value] * 3

    def test_a_buffer_of_a_module_that_was_unloaded_is_stale(self, echo: Path) -> None:
        with outboard.Session() as session:
            module = session.load(echo)
            buffer = module.input((4,), "uint8")
            buffer.hand_over()
            module.unload()
            with session.load(echo) as again, pytest.raises(errors.StaleBuffer):
                again(buffer)


def test_caches_stay_on_the_device_between_calls(folder: Path) -> None:
    with outboard.Session() as session, session.load(build(MODULES / "kv.c", folder)) as module:
        caches, resident = [np.zeros(128, np.float32)] * 3, [outboard.Resident((128,))] * 3
        for step in range(20):
            inputs = (np.float32([step * 0.25 - 3]), np.int64([step]))
            y, *caches = module(*inputs, *caches)
            kept = module.run(*inputs, *(resident if step else [np.zeros(128, np.float32)] * 3), kv_resident=True)
            np.testing.assert_array_equal(kept, y)

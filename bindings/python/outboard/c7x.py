"""Modules of C7x devices, called with numpy arrays: the virtual machine of the original's Python interface.

It is a layer over the C library ``libc7x_arm_runtime.so`` (``docs/reference/c-api.md``), whose environment names the
device; nothing but numpy is needed. Arrays of other libraries are taken through DLPack or ``__array__``::

    with C7xVirtualMachine("lib0.out") as vm:
        y = vm["main"](x)               # a copy, or a list of them
        y = vm.run_nocopy(x)            # a view, which the next call overwrites
        z = vm.create_input((1, 64), "float32")   # lives on the device: filled in place, never copied
    cache = Resident((1, 4, 64, 16))          # what the call before left on the device
    y = vm.run_resident(x, cache)             # returns the first output; the device keeps the others
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

__all__ = ["C7xError", "C7xVirtualMachine", "Resident", "TensorDesc", "find_library"]

LIBRARY = "libc7x_arm_runtime.so"
MAX_DIMS = 6
MAX_TENSORS = 128
KV_RESIDENT = 1 << 16

# DLPack's codes of the kinds of numpy's element types.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_BITS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "b": (8,)}


class TensorDesc(ctypes.Structure):
    """``c7x_tensor_desc_t``: 80 bytes."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("data_size", ctypes.c_size_t),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_int32),
        ("dtype_bits", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_DIMS),
    )


@dataclass(frozen=True)
class Resident:
    """An input that is on the device already: the next of the outputs that a resident call has kept, in their order."""

    shape: tuple[int, ...]
    dtype: str = "float32"


class C7xError(RuntimeError):
    """A function failed: the library's ``number``, the original's ``text`` for it, and what happened in ``detail``."""

    def __init__(self, what: str, number: int, text: str, detail: str) -> None:
        super().__init__(f"{what}: {text} (rc={number}): {detail}")
        self.number = number
        self.text = text
        self.detail = detail


_HANDLES: dict[str, ctypes.CDLL] = {}


def find_library(so_path: str = LIBRARY) -> str:
    """What to load for a name: a path is taken as it is, then comes a copy in this package, then the system's."""
    if "/" in so_path:
        return so_path
    bundled = Path(__file__).parent / "lib" / so_path
    return str(bundled) if bundled.is_file() else so_path


def _load_library(so_path: str) -> ctypes.CDLL:
    found = find_library(so_path)
    if found not in _HANDLES:
        try:
            library = ctypes.CDLL(found)
            _declare(library)
        except (OSError, AttributeError) as error:
            raise RuntimeError(f"Cannot load {so_path}: {error}") from error
        _HANDLES[found] = library
    return _HANDLES[found]


def _declare(library: ctypes.CDLL) -> None:
    """Tells ctypes the types of the functions; AttributeError when one is missing."""
    pointer, text, u32, c_int = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_int
    number, count, cycles = ctypes.POINTER(u32), ctypes.POINTER(c_int), ctypes.POINTER(ctypes.c_uint64)
    tensors = ctypes.POINTER(TensorDesc)
    infer = [pointer, u32, u32, tensors, c_int, tensors, c_int, count, cycles, u32]
    functions: list[tuple[str, Any, list[Any]]] = [
        ("c7x_client_open", pointer, []),
        ("c7x_client_close", None, [pointer]),
        ("c7x_client_dyn_load", c_int, [pointer, text, number]),
        ("c7x_client_dyn_unload", c_int, [pointer, u32]),
        ("c7x_client_reserve_io", c_int, [pointer, ctypes.c_uint64, ctypes.c_uint64]),
        ("c7x_client_create_input", pointer, [pointer, u32, ctypes.c_size_t]),
        ("c7x_client_infer_n", c_int, infer),
        ("c7x_strerror", text, [c_int]),
        ("c7x_last_error", text, []),
    ]
    for name, result, arguments in functions:
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments


class _Client:
    """A connection with a module. It ends when nothing refers to it any more: neither a machine nor an array."""

    def __init__(self, library: ctypes.CDLL, module: Path) -> None:
        self.library = library
        self.pointer = library.c7x_client_open()
        if not self.pointer:
            raise RuntimeError(f"Cannot open the device: {self.detail()}")
        handle = ctypes.c_uint32()
        self.handle: int | None = None
        self.check(f"Cannot load {module}", library.c7x_client_dyn_load(self.pointer, os.fsencode(module), handle))
        self.handle = handle.value

    def detail(self) -> str:
        message: bytes = self.library.c7x_last_error()
        return message.decode(errors="replace")

    def check(self, what: str, number: int) -> None:
        if number != 0:
            text: bytes = self.library.c7x_strerror(number)
            raise C7xError(what, number, text.decode(), self.detail())

    def unload(self) -> None:
        if self.handle is not None:
            handle, self.handle = self.handle, None
            self.library.c7x_client_dyn_unload(self.pointer, handle)

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self.unload()
            self.library.c7x_client_close(self.pointer)
            self.pointer = None

    def array(self, address: int, size: int, dtype: np.dtype[Any], shape: Sequence[int]) -> np.ndarray:
        """An array over memory of the device; it keeps the connection."""
        buffer: Any = (ctypes.c_char * size).from_address(address) if size else (ctypes.c_char * 0)()
        buffer._client = self
        return np.frombuffer(buffer, dtype=dtype).reshape(shape)


def _code_and_bits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """DLPack's code and bits of an element type. Types the device does not have are refused, not taken for others."""
    bits = dtype.itemsize * 8
    if bits not in _BITS.get(dtype.kind, ()):
        raise TypeError(f"elements of type {dtype} cannot be sent to the device")
    return _CODES[dtype.kind], bits


def _dtype(code: int, bits: int) -> np.dtype[Any]:
    """The element type with this code and these bits."""
    kind = _KINDS.get(code)
    if kind is None or bits not in _BITS[kind]:
        raise TypeError(f"the module returned elements that numpy does not have: code {code}, {bits} bits")
    return np.dtype(f"{kind}{bits // 8}")


def _as_array(value: Any) -> np.ndarray:
    """A tensor of any library as an array: row-major, without gaps, in the byte order of this machine."""
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            value = np.from_dlpack(value)
        elif hasattr(value, "numpy") and callable(value.numpy):
            value = value.numpy()
    array = np.asarray(value)
    # ascontiguousarray would give a scalar a dimension.
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _described(array: np.ndarray | Resident) -> TensorDesc:
    if isinstance(array, Resident):
        blank = np.broadcast_to(np.empty((), dtype=array.dtype), array.shape)
        described = _described(blank)
        described.data = None
        return described
    if array.ndim > MAX_DIMS:
        raise ValueError(f"a tensor has at most {MAX_DIMS} dimensions, not {array.ndim}")
    code, bits = _code_and_bits(array.dtype)
    # A null pointer with a size would mean a tensor of the device's cache.
    address = array.ctypes.data if array.nbytes else None
    shape = (ctypes.c_int64 * MAX_DIMS)(*array.shape)
    return TensorDesc(address, array.nbytes, array.ndim, code, bits, 0, shape)


class C7xVirtualMachine:
    """A module and its device. The device is opened and the module loaded by the first use.

    ``so_path`` names the C library: a path, or a name that is looked for in this package, then by the system. Results
    are numpy arrays, or TVM's when the program has imported TVM. A machine is not for several threads at once.

    Raises RuntimeError when the library cannot be loaded; the first use raises FileNotFoundError when there is no such
    module and RuntimeError (:class:`C7xError`) when the device cannot be opened or refuses the module.
    """

    def __init__(self, module_path: str | os.PathLike[str], so_path: str = LIBRARY) -> None:
        self._module = Path(module_path)
        self._library = _load_library(so_path)
        self._client: _Client | None = None
        self._cycles = 0
        #: Arrays made by :meth:`create_input`, in their order.
        self.input_slots: list[np.ndarray] = []
        #: What the last :meth:`run_nocopy` returned.
        self.last_nocopy_outputs: list[np.ndarray] = []

    @property
    def is_loaded(self) -> bool:
        """Whether the module is on the device."""
        return self._client is not None

    @property
    def last_cycles(self) -> int:
        """Cycles of the last call; 0 before the first."""
        return self._cycles

    def _loaded(self) -> _Client:
        if self._client is None:
            if not self._module.is_file():
                raise FileNotFoundError(f"no module at {self._module}")
            self._client = _Client(self._library, self._module)
        return self._client

    def _call(self, inputs: Sequence[Any], flags: int = 0) -> list[np.ndarray]:
        if not 1 <= len(inputs) <= MAX_TENSORS:
            raise ValueError(f"a call has 1 to {MAX_TENSORS} inputs, not {len(inputs)}")
        arrays = [value if isinstance(value, Resident) else _as_array(value) for value in inputs]
        described = (TensorDesc * len(arrays))(*map(_described, arrays))
        outputs = (TensorDesc * MAX_TENSORS)()
        count, cycles = ctypes.c_int(), ctypes.c_uint64()
        client = self._loaded()
        number = self._library.c7x_client_infer_n(
            client.pointer, client.handle, 0, described, len(arrays), outputs, MAX_TENSORS, count, cycles, flags
        )
        client.check("The call failed", number)
        self._cycles = cycles.value
        return [
            client.array(out.data, out.data_size, _dtype(out.dtype_code, out.dtype_bits), out.shape[: out.ndim])
            for out in outputs[: count.value]
        ]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The module's entry, under any name: takes tensors and returns a copy of its output, or a list of copies."""

        def entry(*inputs: Any) -> Any:
            copies = [_for_caller(output.copy()) for output in self._call(inputs)]
            return copies[0] if len(copies) == 1 else copies

        return entry

    def run_nocopy(self, *inputs: Any) -> Any:
        """Calls the module; returns its output, or a list, where the device left it: the next call overwrites it."""
        self.last_nocopy_outputs = self._call(inputs)
        return self.last_nocopy_outputs[0] if len(self.last_nocopy_outputs) == 1 else self.last_nocopy_outputs

    def run_resident(self, *inputs: Any) -> Any:
        """Calls a module with caches; returns a copy of its first output. The device keeps the others, in their order.

        An input is a tensor, or :class:`Resident` for one that the call before has left: the first of them is the
        second output of that call, the next one the third. The first call gives the caches their beginning.
        """
        outputs = self._call(inputs, KV_RESIDENT)
        return _for_caller(outputs[0].copy())

    def create_input(self, shape: Sequence[int], dtype: Any = "float32") -> np.ndarray:
        """An array in memory of the device, to be filled in place: calls with it copy nothing.

        RuntimeError when there is no room.
        """
        array = np.dtype(dtype)
        _code_and_bits(array)
        if len(shape) > MAX_DIMS or any(dim < 0 for dim in shape):
            raise ValueError(f"{tuple(shape)} is no shape of at most {MAX_DIMS} dimensions")
        size = array.itemsize
        for dim in shape:
            size *= int(dim)
        client = self._loaded()
        address = self._library.c7x_client_create_input(client.pointer, client.handle, size)
        if not address:
            raise RuntimeError(f"no room for an input of {size} bytes: {client.detail()}")
        created = client.array(address, size, array, shape)
        self.input_slots.append(created)
        return created

    def reserve_io(self, input_bytes: int, output_bytes: int) -> None:
        """Makes room for calls that need more than the module declares; before the first call or ``create_input``."""
        client = self._loaded()
        client.check(
            "reserve_io failed", self._library.c7x_client_reserve_io(client.pointer, input_bytes, output_bytes)
        )

    def close(self) -> None:
        """Unloads the module and closes the device; again does nothing.

        Arrays that are still referred to keep their memory, and with it the connection.
        """
        client, self._client = self._client, None
        self.input_slots = []
        self.last_nocopy_outputs = []
        if client is not None:
            client.unload()

    def __enter__(self) -> C7xVirtualMachine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _for_caller(array: np.ndarray) -> Any:
    """TVM's own array for programs that use TVM."""
    tvm = sys.modules.get("tvm")
    runtime = getattr(tvm, "runtime", None)
    make = getattr(runtime, "tensor", None) or getattr(getattr(tvm, "nd", None), "array", None)
    return array if make is None else make(array)

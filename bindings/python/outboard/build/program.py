"""A lowered model as a straight line of kernel calls over buffers.

Reshapes disappear here: the result of one is the same buffer under another shape. Tuples disappear too. What is left is
a list of steps, each of which calls one kernel with whole buffers, and the buffers the model gives back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tvm import relax, tirx
from tvm.ir import Call, Expr, GenericConst, GlobalVar, Op, Tuple, TupleGetItem, TupleType, Var

from .errors import BuildError
from .onnx_import import Imported
from .relax_lower import LoweredModule
from .relax_simplify import RESHAPES
from .tensors import DTYPES, MAX_DIMS, DType, TensorSpec

MAX_OUTPUTS = 128
"""Elements that an array object can hold."""


@dataclass(eq=False)
class Buffer:
    """Memory for one tensor. ``place`` says whose: the caller's input, a constant, an output, or workspace."""

    dtype: DType
    elements: int
    place: str
    index: int = 0
    """Number of the input, constant or output."""

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True)
class Step:
    """One kernel call. The arguments are the kernel's inputs, then its results."""

    kernel: str
    arguments: tuple[Buffer, ...]
    results: int
    nodes: tuple[str, ...]
    """The ONNX nodes this step computes."""


@dataclass(frozen=True)
class Copy:
    """Copies a whole buffer: an output that is an input, a constant, or an output already."""

    source: Buffer
    target: Buffer


@dataclass
class ConstantPool:
    """Constants of several programs; equal ones are one."""

    arrays: list[np.ndarray] = field(default_factory=list)
    _places: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def place(self, array: np.ndarray) -> int:
        """The number of a constant, which is added when it is new."""
        key = (str(array.dtype), hashlib.sha256(array.tobytes()).digest())
        if key not in self._places:
            self._places[key] = len(self.arrays)
            self.arrays.append(array)
        return self._places[key]


@dataclass
class Program:
    """A model: its inputs, constants, kernels and steps."""

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    input_buffers: list[Buffer] = field(default_factory=list)
    output_buffers: list[Buffer] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    kernels: dict[str, tirx.PrimFunc] = field(default_factory=dict)
    steps: list[Step | Copy] = field(default_factory=list)
    _numbers: dict[tuple[str, bytes], Buffer] = field(default_factory=dict)

    def constant(self, array: np.ndarray) -> Buffer:
        """The buffer of a constant; equal ones are one."""
        dtype = _dtype(str(array.dtype))
        key = (dtype.name, hashlib.sha256(array.tobytes()).digest())
        if key not in self._numbers:
            self._numbers[key] = Buffer(dtype, array.size, "constant", len(self.constants))
            self.constants.append(np.ascontiguousarray(array))
        return self._numbers[key]

    def constant_arguments(self, kernel: str) -> frozenset[int]:
        """The arguments of a kernel that are constants in every call of it."""
        calls = [step.arguments for step in self.steps if isinstance(step, Step) and step.kernel == kernel]
        places = [{i for i, buffer in enumerate(call) if buffer.place == "constant"} for call in calls]
        return frozenset(set.intersection(*places)) if places else frozenset()

    def replace_constant(self, kernel: str, argument: int, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Puts a changed constant in the place of one argument, in every call of a kernel."""
        for number, step in enumerate(self.steps):
            if isinstance(step, Step) and step.kernel == kernel:
                changed = self.constant(change(self.constants[step.arguments[argument].index]))
                arguments = (*step.arguments[:argument], changed, *step.arguments[argument + 1 :])
                self.steps[number] = replace(step, arguments=arguments)

    def number_constants(self) -> None:
        """Drops constants that are no longer used, and numbers the others in the order of their first use."""
        used: list[Buffer] = []
        for step in self.steps:
            for buffer in step.arguments if isinstance(step, Step) else (step.source,):
                if buffer.place == "constant" and buffer not in used:
                    used.append(buffer)
        self.constants = [self.constants[buffer.index] for buffer in used]
        for index, buffer in enumerate(used):
            buffer.index = index

    def share_constants(self, pool: ConstantPool) -> None:
        """Puts the constants into a pool that several programs share; their numbers are then those of the pool."""
        places = [pool.place(array) for array in self.constants]
        moved: set[Buffer] = set()
        for step in self.steps:
            for buffer in step.arguments if isinstance(step, Step) else (step.source,):
                if buffer.place == "constant" and buffer not in moved:
                    moved.add(buffer)
                    buffer.index = places[buffer.index]


def flatten(
    lowered: LoweredModule, imported: Imported, inputs: Sequence[TensorSpec], output_names: Sequence[str]
) -> Program:
    """The program of a module that relax_lower.py has lowered."""
    return _Flattener(lowered, imported, inputs).program(output_names)


@dataclass(frozen=True)
class _Tensor:
    """A value: a buffer seen with a shape."""

    buffer: Buffer
    shape: tuple[int, ...]


class _Flattener:
    def __init__(self, lowered: LoweredModule, imported: Imported, inputs: Sequence[TensorSpec]) -> None:
        self._module = lowered.module
        self._nodes = lowered.nodes
        self._imported = imported
        self._program = Program(list(inputs), [])
        self._values: dict[Var, _Tensor | list[_Tensor]] = {}

    def program(self, output_names: Sequence[str]) -> Program:
        main = self._module["main"]
        for index, (parameter, spec) in enumerate(zip(main.params, self._program.inputs, strict=True)):
            buffer = Buffer(spec.dtype, spec.elements, "input", index)
            self._program.input_buffers.append(buffer)
            self._values[parameter] = _Tensor(buffer, spec.shape)
        for block in main.body.blocks:
            for binding in block.bindings:
                self._bind(binding)
        self._outputs(list(self._flat(main.body.body)), output_names)
        return self._program

    def _bind(self, binding: relax.Binding) -> None:
        label = self._imported.label_of(binding.var.name)
        try:
            self._values[binding.var] = self._value(binding.value)
        except BuildError as error:
            if error.node is None and label is not None:
                raise BuildError(error.message, node=label, hint=error.hint) from error
            raise

    def _value(self, expr: Expr) -> _Tensor | list[_Tensor]:
        if isinstance(expr, Var):
            return self._values[expr]
        if isinstance(expr, GenericConst):
            return self._constant(expr.value.numpy())
        if isinstance(expr, Tuple):
            return list(self._flat(expr))
        if isinstance(expr, TupleGetItem):
            items = self._value(expr.tuple_value)
            return items[expr.index] if isinstance(items, list) else items
        if isinstance(expr, Call) and isinstance(expr.op, Op):
            if expr.op.name in RESHAPES:
                return _Tensor(self._tensor(expr.args[0]).buffer, _static_shape(expr.ty))
            if expr.op.name == "relax.call_tir":
                return self._call(expr)
            raise BuildError(f"the operation {expr.op.name} cannot be compiled")
        if isinstance(expr, relax.If):
            raise BuildError("a branch on a value that is known only at run time cannot be compiled")
        raise BuildError(f"a {type(expr).__name__} in the model cannot be compiled")

    def _tensor(self, expr: Expr) -> _Tensor:
        value = self._value(expr)
        if isinstance(value, list):
            raise BuildError("a tuple stands where a tensor is needed")
        return value

    def _flat(self, expr: Expr) -> Iterator[_Tensor]:
        if isinstance(expr, Tuple):
            for field_ in expr.fields:
                yield from self._flat(field_)
            return
        value = self._value(expr)
        yield from value if isinstance(value, list) else [value]

    def _constant(self, array: np.ndarray) -> _Tensor:
        return _Tensor(self._program.constant(array), array.shape)

    def _call(self, call: Call) -> _Tensor | list[_Tensor]:
        callee = call.args[0]
        if not isinstance(callee, GlobalVar):
            raise BuildError(f"a call of {callee} cannot be compiled")
        function = self._module[callee]
        if not isinstance(function, tirx.PrimFunc):
            raise BuildError(f"a call of {callee.name_hint} cannot be compiled")
        arguments = list(self._flat(call.args[1]))
        types = call.ty.fields if isinstance(call.ty, TupleType) else [call.ty]
        results = []
        for ty in types:
            shape = _static_shape(ty)
            results.append(
                _Tensor(Buffer(_dtype(str(ty.dtype)), int(np.prod(shape, dtype=np.int64)), "workspace"), shape)
            )
        if len(arguments) + len(results) != len(function.params):
            raise BuildError(f"{callee.name_hint} takes values that are not tensors")
        self._program.kernels[callee.name_hint] = function
        buffers = tuple(tensor.buffer for tensor in (*arguments, *results))
        nodes = self._nodes.get(callee.name_hint, ())
        self._program.steps.append(Step(callee.name_hint, buffers, len(results), nodes))
        return results if isinstance(call.ty, TupleType) else results[0]

    def _outputs(self, tensors: Sequence[_Tensor], names: Sequence[str]) -> None:
        if len(tensors) > MAX_OUTPUTS:
            raise BuildError(f"the model has {len(tensors)} outputs; a module gives at most {MAX_OUTPUTS}")
        if len(names) != len(tensors):
            raise BuildError(f"the model has {len(names)} outputs, of which {len(tensors)} were imported")
        for index, (tensor, name) in enumerate(zip(tensors, names, strict=True)):
            if len(tensor.shape) > MAX_DIMS:
                raise BuildError(
                    f'output "{name}" has {len(tensor.shape)} dimensions; a module gives at most {MAX_DIMS}'
                )
            buffer = tensor.buffer
            if buffer.place != "workspace":
                target = Buffer(buffer.dtype, buffer.elements, "output", index)
                self._program.steps.append(Copy(buffer, target))
                buffer = target
            buffer.place, buffer.index = "output", index
            self._program.output_buffers.append(buffer)
            self._program.outputs.append(TensorSpec(name, buffer.dtype, tensor.shape))


def _dtype(name: str) -> DType:
    dtype = DTYPES.get(name)
    if dtype is None:
        raise BuildError(f"values of type {name} cannot be compiled")
    return dtype


def _static_shape(ty: relax.TensorType) -> tuple[int, ...]:
    return tuple(int(dim) for dim in ty.shape.values)

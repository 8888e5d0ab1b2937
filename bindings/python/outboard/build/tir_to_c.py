"""Flat loop programs as C functions of raw, restricted pointers.

TVM's own C generator prints floating-point constants with seven digits and knows neither ``restrict`` nor unroll
hints; this printer keeps every constant exact, gives signed arithmetic on data the wrapping it has in ONNX, and writes
C that a person can follow. It reads what tir_lower.py leaves: serial, unrolled and vectorised loops, flat buffers and
scalar expressions. Anything else is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from tvm import tirx
from tvm.ir import Call, Expr, Op, PrimType, StringImm, TensorLoad, Var
from tvm.tirx import stmt as st

from .c_math import FLOAT_FUNCTIONS, OWN_FUNCTIONS, integer_function
from .errors import BuildError
from .tir_analysis import choice_of, is_dot4, reads_memory, walk

LOCAL_BYTES = 4096
"""Arrays up to this size live on the stack, so that accumulators stay in registers; larger ones in the workspace."""

C_TYPES = {
    "bool": "uint8_t",
    "float16": "outboard_half",
    "float32": "float",
    "float64": "double",
    **{f"{u}int{bits}": f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)},
}
SUFFIXES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    **{f"int{b}": f"i{b}" for b in (8, 16, 32, 64)},
    **{f"uint{b}": f"u{b}" for b in (8, 16, 32, 64)},
    "bool": "u8",
}

_WRITTEN_OUT = 16
"""Loops of at most so many steps may be written out whole by a C compiler (GCC: max-completely-peel-times)."""

# Precedence of C operators, the higher the tighter.
_ATOM, _UNARY, _MUL, _ADD, _SHIFT, _LESS, _EQUAL, _BAND, _BXOR, _BOR, _AND, _OR, _COND = range(13, 0, -1)
_Text = tuple[str, int]

_ARITHMETIC: dict[type, tuple[str, int]] = {
    tirx.Add: ("+", _ADD),
    tirx.Sub: ("-", _ADD),
    tirx.Mul: ("*", _MUL),
    tirx.Div: ("/", _MUL),
    tirx.Mod: ("%", _MUL),
}
_COMPARISONS: dict[type, tuple[str, int]] = {
    tirx.EQ: ("==", _EQUAL),
    tirx.NE: ("!=", _EQUAL),
    tirx.LT: ("<", _LESS),
    tirx.LE: ("<=", _LESS),
    tirx.GT: (">", _LESS),
    tirx.GE: (">=", _LESS),
    tirx.And: ("&&", _AND),
    tirx.Or: ("||", _OR),
}
_BITWISE: dict[str, tuple[str, int]] = {
    "bitwise_and": ("&", _BAND),
    "bitwise_or": ("|", _BOR),
    "bitwise_xor": ("^", _BXOR),
    "shift_left": ("<<", _SHIFT),
    "shift_right": (">>", _SHIFT),
}
_BITWISE_NODES: dict[type, str] = {
    tirx.expr.BitwiseAnd: "bitwise_and",
    tirx.expr.BitwiseOr: "bitwise_or",
    tirx.expr.BitwiseXor: "bitwise_xor",
    tirx.expr.LShift: "shift_left",
    tirx.expr.RShift: "shift_right",
}


@dataclass(frozen=True)
class Scratch:
    """Memory a kernel needs beside its tensors: an extra parameter, planned in the workspace."""

    name: str
    nbytes: int


@dataclass(frozen=True)
class KernelC:
    """A kernel in C: its parameters in order (tensors, then scratch) and its body."""

    parameters: tuple[str, ...]
    scratch: tuple[Scratch, ...]
    body: tuple[str, ...]
    externs: frozenset[str]
    """Prototypes of the library functions it calls."""
    vectors: frozenset[tuple[str, int]]
    """Element types and lanes of the vector types it uses."""
    dot_lanes: frozenset[int] = frozenset()
    """Lanes of the integer products of four bytes that it uses; 1 for those of single words."""

    def definition(self, name: str) -> str:
        head = f"OUTBOARD_KERNEL void {name}("
        lines = [head + ", ".join(self.parameters) + ") {"]
        if len(lines[0]) > 118:
            lines = [head, *(f"    {p}," for p in self.parameters[:-1]), f"    {self.parameters[-1]}) {{"]
        return "\n".join([*lines, *self.body, "}"])


def print_kernel(function: tirx.PrimFunc) -> KernelC:
    """Prints one lowered function."""
    return _Printer(function).kernel()


def _dtype(expr: Expr) -> str:
    ty = expr.ty
    if not isinstance(ty, PrimType):
        raise BuildError(f"an expression of type {ty} cannot be written in C")
    return str(ty.dtype)


def _lanes(dtype: str) -> tuple[str, int]:
    """``float32x4`` as its element type and the number of elements."""
    element, _, lanes = dtype.partition("x")
    return element, int(lanes or 1)


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def float_text(value: float, dtype: str) -> str:
    """The shortest C literal that has exactly this value.

    >>> float_text(0.1, "float64"), float_text(float(np.float32(0.1)), "float32"), float_text(-math.inf, "float32")
    ('0.1', '0.1f', '-OUTBOARD_INFINITY')
    """
    if math.isnan(value):
        return "OUTBOARD_NAN"
    if math.isinf(value):
        return "-OUTBOARD_INFINITY" if value < 0 else "OUTBOARD_INFINITY"
    if dtype == "float64":
        return repr(value)
    text = repr(float(np.format_float_scientific(np.float32(value), unique=True)))
    return f"(outboard_half){text}f" if dtype == "float16" else f"{text}f"


def integer_text(value: int, dtype: str) -> str:
    """A C literal of this value and type."""
    if dtype in ("int64", "uint64"):
        if value == -(2**63):
            return "INT64_MIN"
        return f"{value}{'u' if dtype == 'uint64' else ''}ll" if not -(2**31) < value < 2**31 else f"{value}"
    if value == -(2**31):
        return "INT32_MIN"
    return f"{value}u" if dtype == "uint32" else f"{value}"


def _choice_before(loop: st.For) -> tuple[Expr, st.For, st.For] | None:
    """The condition of a loop whose every step stores one of two values, and the loops that store the one or the other.

    Only for loops that the C compiler does not write out, which would make the condition a part of the loop around.
    """
    store, extent = loop.body, loop.extent
    if not isinstance(store, st.BufferStore) or loop.kind != st.ForKind.SERIAL:
        return None
    if not isinstance(extent, tirx.IntImm) or int(extent.value) <= _WRITTEN_OUT:
        return None
    parts = choice_of(store.value)
    if parts is None or any(isinstance(e, Var) and e.same_as(loop.loop_var) for e in walk(parts[0])):
        return None
    then, otherwise = (_with_body(loop, st.BufferStore(store.buffer, value, store.indices)) for value in parts[1:])
    return parts[0], then, otherwise


def _with_body(loop: st.For, body: st.Stmt) -> st.For:
    return st.For(
        loop.loop_var, loop.min, loop.extent, loop.kind, body, loop.thread_binding, loop.annotations, loop.step
    )


@dataclass
class _Printer:
    function: tirx.PrimFunc
    lines: list[str] = field(default_factory=list)
    scratch: list[tuple[Scratch, str]] = field(default_factory=list)
    externs: set[str] = field(default_factory=set)
    vectors: set[tuple[str, int]] = field(default_factory=set)
    dot_lanes: set[int] = field(default_factory=set)
    has_words: bool = False
    in_branch: bool = False
    """Whether the current statement is under a condition."""
    is_marked: bool = False
    """Whether the current expression is marked already as one that reads under a condition."""
    depth: int = 1
    _names: dict[Var, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=lambda: set(_RESERVED))
    _stored: set[Var] = field(default_factory=set)
    _elements: dict[Var, str] = field(default_factory=dict)

    def kernel(self) -> KernelC:
        for parameter in self.function.params:
            self._name(parameter)
            self._elements[parameter] = str(parameter.ty.dtype.dtype)
            if isinstance(parameter.ty.elem_offset, Var):
                self._names[parameter.ty.elem_offset] = "0"  # tensors begin where their pointers point
        self._statement(self.function.body)
        parameters = []
        for parameter in self.function.params:
            const = "" if parameter in self._stored else "const "
            parameters.append(f"{const}{C_TYPES[self._elements[parameter]]} *restrict {self._names[parameter]}")
        parameters += [f"{c_type} *restrict {scratch.name}" for scratch, c_type in self.scratch]
        return KernelC(
            tuple(parameters),
            tuple(scratch for scratch, _ in self.scratch),
            tuple(self.lines),
            frozenset(self.externs),
            frozenset(self.vectors),
            frozenset(self.dot_lanes | ({1} if self.has_words else set())),
        )

    # ---- names and lines

    def _name(self, var: Var) -> str:
        if var not in self._names:
            base = re.sub(r"\W", "_", var.name) or "v"
            base = base if base[0].isalpha() else f"v{base}"
            name, number = base, 1
            while name in self._taken:
                name, number = f"{base}_{number}", number + 1
            self._taken.add(name)
            self._names[var] = name
        return self._names[var]

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _block(self, head: str, body: Callable[[], None], tail: str = "}") -> None:
        self._line(head + " {")
        self.depth += 1
        body()
        self.depth -= 1
        self._line(tail)

    # ---- statements

    def _statement(self, s: st.Stmt) -> None:
        handler = _STATEMENTS.get(type(s))
        if handler is None:
            raise BuildError(f"a {type(s).__name__} statement cannot be written in C")
        handler(self, s)

    def _sequence(self, s: st.SeqStmt) -> None:
        for part in s.seq:
            self._statement(part)

    def _for(self, s: st.For) -> None:
        choice = _choice_before(s)
        if choice is not None:
            condition, then, otherwise = choice
            self._either(self._index(condition), lambda: self._loop(then), lambda: self._loop(otherwise))
        else:
            self._loop(s)

    def _loop(self, s: st.For) -> None:
        var, c_type = self._name(s.loop_var), C_TYPES[_dtype(s.loop_var)]
        start = self._index(s.min)
        end = self._index(s.min + s.extent) if start != "0" else self._index(s.extent)
        step = "++" + var if s.step is None else f"{var} += {self._index(s.step)}"
        if s.kind == st.ForKind.UNROLLED:
            self._line(f"#pragma GCC unroll {max(int(s.extent), 1)}")
        elif s.kind == st.ForKind.VECTORIZED:
            self._line("#pragma GCC ivdep")
        self._block(f"for ({c_type} {var} = {start}; {var} < {end}; {step})", lambda: self._statement(s.body))

    def _while(self, s: st.While) -> None:
        self._block(f"while ({self._index(s.condition)})", lambda: self._statement(s.body))

    def _if(self, s: st.IfThenElse) -> None:
        condition = self._conditional(s.condition, True, _COND, is_one=self.in_branch)
        outer, self.in_branch = self.in_branch, True
        has_else = s.else_case is not None
        self._either(
            condition,
            lambda: self._statement(s.then_case),
            (lambda: self._statement(s.else_case)) if has_else else None,
        )
        self.in_branch = outer

    def _either(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None) -> None:
        self._block(f"if ({condition})", then, "}" if otherwise is None else "} else {")
        if otherwise is not None:
            self.depth += 1
            otherwise()
            self.depth -= 1
            self._line("}")

    def _bind(self, s: st.Bind) -> None:
        self._line(f"const {C_TYPES[_dtype(s.var)]} {self._name(s.var)} = {self._root(s.value)};")

    def _store(self, s: st.BufferStore) -> None:
        place = self._element(s.buffer, s.indices)
        self._mark_stored(s.buffer)
        self._line(f"{place} = {self._root(s.value)};")

    def _mark_stored(self, buffer: Var) -> None:
        name = self._names[buffer]
        self._stored.update(var for var, other in self._names.items() if other == name)

    def _alloc(self, s: st.AllocBuffer) -> None:
        dtype = str(s.buffer.ty.dtype.dtype)
        count = math.prod(int(dim) for dim in s.buffer.ty.shape)
        name, c_type = self._name(s.buffer), C_TYPES[dtype]
        self._elements[s.buffer] = dtype
        nbytes = count * np.dtype(dtype).itemsize
        if nbytes > LOCAL_BYTES:
            self.scratch.append((Scratch(name, nbytes), c_type))
        else:
            self._line(f"{c_type} {name}[{max(count, 1)}] __attribute__((aligned(64)));")

    def _declare(self, s: st.DeclBuffer) -> None:
        """A buffer over memory that has a name already: the same pointer, or one of another type."""
        source = s.data.args[0] if isinstance(s.data, Call) and s.data.op.name == "tirx.buffer_data" else s.data
        if not isinstance(source, Var) or source not in self._names:
            raise BuildError(f"the buffer {s.buffer.name} over {s.data} cannot be written in C")
        dtype = str(s.buffer.ty.dtype.dtype)
        self._elements[s.buffer] = dtype
        if self._elements.get(source, dtype) == dtype:
            self._names[s.buffer] = self._names[source]
        else:
            pointer = f"{C_TYPES[dtype]} *"
            self._line(f"{pointer}const {self._name(s.buffer)} = ({pointer}){self._names[source]};")
            self._stored.add(source)

    def _evaluate(self, s: st.Evaluate) -> None:
        if isinstance(s.value, Call):
            self._line(f"{self._value(s.value)};")

    def _attribute(self, s: st.AttrStmt) -> None:
        self._statement(s.body)

    # ---- expressions

    def _index(self, e: Expr) -> str:
        """An index, a bound or a condition on them: plain C arithmetic, which does not overflow."""
        return self._expr(e, index=True)[0]

    def _value(self, e: Expr) -> str:
        """A value: signed arithmetic wraps, narrow arithmetic keeps its width."""
        return self._expr(e, index=False)[0]

    def _root(self, e: Expr) -> str:
        """What is stored or bound: integers made of loop variables alone are indices, all else is a value."""
        index = _is_integer(_dtype(e)) and not reads_memory(e)
        return self._conditional(e, index, _COND, is_one=self.in_branch and _lanes(_dtype(e))[1] == 1)

    def _conditional(self, e: Expr, index: bool, least: int, is_one: bool = True) -> str:
        """An operand that is computed under a condition (if it ``is_one``): marked where it reads memory."""
        if self.is_marked or not is_one or not reads_memory(e):
            return self._operand(e, index, least)
        self.is_marked = True
        text = self._expr(e, index)[0]
        self.is_marked = False
        return f"OUTBOARD_READ({text})"

    def _operand(self, e: Expr, index: bool, least: int) -> str:
        text, precedence = self._expr(e, index)
        return text if precedence >= least else f"({text})"

    def _element(self, buffer: Var, indices: Sequence[Expr]) -> str:
        if len(indices) != 1:
            raise BuildError(f"the buffer {buffer.name} has {len(indices)} indices after flattening")
        if isinstance(indices[0], tirx.expr.Ramp):
            return self._vector_element(buffer, indices[0])
        return f"{self._names[buffer]}[{self._conditional(indices[0], True, _COND, is_one=self.in_branch)}]"

    def _vector_element(self, buffer: Var, ramp: tirx.expr.Ramp) -> str:
        if int(ramp.stride) != 1:
            raise BuildError(f"vectors of {buffer.name} that are not contiguous cannot be written in C")
        vector = self._vector(self._elements[buffer], int(ramp.lanes))
        return f"*({vector} *)({self._names[buffer]} + {self._operand(ramp.base, True, _ADD + 1)})"

    def _vector(self, element: str, lanes: int) -> str:
        """The name of a vector type."""
        self.vectors.add((element, lanes))
        return f"{SUFFIXES[element]}x{lanes}"

    def _expr(self, e: Expr, index: bool) -> _Text:
        if _lanes(_dtype(e))[1] > 1:
            return self._vector_expr(e)
        if isinstance(e, Var):
            return self._name(e), _ATOM
        if isinstance(e, tirx.IntImm):
            text = integer_text(int(e.value), _dtype(e))
            return text, _UNARY if text.startswith("-") else _ATOM
        if isinstance(e, tirx.FloatImm):
            text = float_text(float(e.value), _dtype(e))
            return text, _UNARY if text[0] in "-(" else _ATOM
        if isinstance(e, TensorLoad):
            return self._element(e.source, e.indices), _ATOM
        kind = type(e)
        if kind in _ARITHMETIC:
            return self._arithmetic(e, index)
        if kind in _COMPARISONS:
            operator, precedence = _COMPARISONS[kind]
            # Operands one level tighter: && inside || and comparisons of comparisons get their parentheses.
            least = precedence + 1
            first = self._operand(e.a, index, least)
            second = self._conditional(e.b, index, least, is_one=operator in ("&&", "||"))
            return f"{first} {operator} {second}", precedence
        if kind in (tirx.Min, tirx.Max):
            name = f"{'min' if kind is tirx.Min else 'max'}_{SUFFIXES[_dtype(e)]}"
            return f"{name}({self._expr(e.a, index)[0]}, {self._expr(e.b, index)[0]})", _ATOM
        if kind in _BITWISE_NODES:
            return self._bitwise(_BITWISE_NODES[kind], _dtype(e), (e.a, e.b), index)
        if isinstance(e, tirx.expr.BitwiseNot):
            return self._narrow(f"~{self._operand(e.a, index, _UNARY)}", _UNARY, _dtype(e))
        if isinstance(e, tirx.Not):
            return f"!{self._operand(e.a, index, _UNARY)}", _UNARY
        if isinstance(e, tirx.Cast):
            return self._cast(e.value, _dtype(e), index)
        choice = choice_of(e)
        if choice is not None:
            return self._choose(*choice, index)
        if isinstance(e, Call):
            return self._call(e, index)
        if isinstance(e, tirx.expr.Let):
            # The value takes the place of the name; the C compiler computes it once.
            self._names[e.var] = f"({self._expr(e.value, index)[0]})"
            return self._expr(e.body, index)
        raise BuildError(f"a {kind.__name__} expression cannot be written in C")

    def _vector_expr(self, e: Expr) -> _Text:
        element, lanes = _lanes(_dtype(e))
        vector = self._vector(element, lanes)
        if isinstance(e, TensorLoad):
            return self._element(e.source, e.indices).replace("*(", "*(const ", 1), _UNARY
        if isinstance(e, tirx.expr.Broadcast):
            return f"splat_{vector}({self._value(e.value)})", _ATOM
        if isinstance(e, tirx.Cast):
            return f"__builtin_convertvector({self._value(e.value)}, {vector})", _ATOM
        if isinstance(e, tirx.Min | tirx.Max):
            name = "min" if isinstance(e, tirx.Min) else "max"
            return f"{name}_{vector}({self._value(e.a)}, {self._value(e.b)})", _ATOM
        if is_dot4(e):
            return self._dot4(e, f"({vector}){{0}}")
        if isinstance(e, tirx.Add) and is_dot4(e.b):
            return self._dot4(e.b, self._value(e.a))
        if isinstance(e, tirx.Add | tirx.Sub | tirx.Mul):
            operator, precedence = _ARITHMETIC[type(e)]
            text = f"{self._operand(e.a, False, precedence)} {operator} {self._operand(e.b, False, precedence + 1)}"
            return text, precedence
        raise BuildError(f"a vector {type(e).__name__} cannot be written in C")

    def _dot4(self, e: Call, total: str) -> _Text:
        """A sum and the products of four bytes of one word with four of another."""
        lanes = _lanes(_dtype(e))[1]
        self.dot_lanes.add(lanes)
        name = "outboard_dot4" if lanes == 1 else f"dot4_{self._vector('int32', lanes)}"
        return f"{name}({total}, {self._value(e.args[0])}, {self._value(e.args[1])})", _ATOM

    def _arithmetic(self, e: tirx.expr.BinaryOpExpr, index: bool) -> _Text:
        operator, precedence = _ARITHMETIC[type(e)]
        dtype = _dtype(e)
        if operator == "+" and is_dot4(e.b):
            return self._dot4(e.b, self._value(e.a))
        if operator == "%" and not _is_integer(dtype):
            return self._library("fmod", e, (e.a, e.b))
        if not index and dtype in ("int32", "int64") and operator in "+-*":
            unsigned = f"(u{C_TYPES[dtype]})"
            a, b = (self._operand(x, index, _UNARY) for x in (e.a, e.b))
            return f"({C_TYPES[dtype]})({unsigned}{a} {operator} {unsigned}{b})", _UNARY
        if not index and dtype in ("int32", "int64") and operator in "/%":
            name = "div" if operator == "/" else "mod"
            return f"{name}_{SUFFIXES[dtype]}({self._value(e.a)}, {self._value(e.b)})", _ATOM
        text = f"{self._operand(e.a, index, precedence)} {operator} {self._operand(e.b, index, precedence + 1)}"
        return self._narrow(text, precedence, dtype)

    def _narrow(self, text: str, precedence: int, dtype: str) -> _Text:
        """Brings what C computed as an int back to the width the operation has."""
        if dtype in ("int8", "uint8", "int16", "uint16", "float16", "bool"):
            return f"({C_TYPES[dtype]})({text})", _UNARY
        return text, precedence

    def _bitwise(self, name: str, dtype: str, operands: Sequence[Expr], index: bool) -> _Text:
        if name.startswith("shift") and not index:
            return f"{name}_{SUFFIXES[dtype]}({self._value(operands[0])}, {self._value(operands[1])})", _ATOM
        operator, precedence = _BITWISE[name]
        a, b = (self._operand(x, index, precedence + 1) for x in operands)
        return self._narrow(f"{a} {operator} {b}", precedence, dtype)

    def _cast(self, value: Expr, dtype: str, index: bool) -> _Text:
        source = _dtype(value)
        if dtype == "bool":
            return f"{self._operand(value, index, _EQUAL + 1)} != 0", _EQUAL
        text = self._operand(value, index, _UNARY)
        if source.startswith("float") and dtype in ("int8", "uint8", "int16", "uint16"):
            # By way of a type that holds the value: what does not fit then wraps instead of being undefined.
            return f"({C_TYPES[dtype]})(int32_t){text}", _UNARY
        if source.startswith("float") and dtype == "uint32":
            return f"(uint32_t)(int64_t){text}", _UNARY
        if source == "bool" and index:
            return self._expr(value, index)
        return f"({C_TYPES[dtype]}){text}", _UNARY

    def _choose(self, condition: Expr, then: Expr, otherwise: Expr, index: bool) -> _Text:
        parts = [self._operand(condition, True, _COND + 1)]
        parts += [self._conditional(x, index, _COND + 1) for x in (then, otherwise)]
        return "{} ? {} : {}".format(*parts), _COND

    def _call(self, e: Call, index: bool) -> _Text:
        if not isinstance(e.op, Op):
            raise BuildError(f"a call of {e.op} cannot be written in C")
        name, args = e.op.name.rpartition(".")[2], list(e.args)
        if is_dot4(e):
            return self._dot4(e, "0")
        if name == "likely":
            return self._expr(args[0], index)
        if name in _BITWISE:
            return self._bitwise(name, _dtype(e), args, index)
        if name == "bitwise_not":
            return self._narrow(f"~{self._operand(args[0], index, _UNARY)}", _UNARY, _dtype(e))
        if name == "large_uint_imm":
            return f"{(int(args[1].value) << 32) + int(args[0].value)}ull", _ATOM
        if name in ("isnan", "isinf", "isfinite"):
            return f"__builtin_{name}({self._float_operand(args[0])})", _ATOM
        if name == "reinterpret":
            return f"bits_{SUFFIXES[_dtype(args[0])]}_{SUFFIXES[_dtype(e)]}({self._value(args[0])})", _ATOM
        if name in ("call_pure_extern", "call_extern"):
            callee = args[0].value if isinstance(args[0], StringImm) else str(args[0])
            if callee.startswith("outboard_"):  # a function of kernel_support.h or integer_support.h
                self.has_words |= callee == "outboard_word"
                return f"{callee}({', '.join(self._value(a) for a in args[1:])})", _ATOM
            return self._library(callee.removesuffix("f") if _dtype(e) != "float64" else callee, e, args[1:])
        return self._library(name, e, args)

    def _library(self, name: str, e: Expr, args: Sequence[Expr]) -> _Text:
        dtype = _dtype(e)
        if _is_integer(dtype):
            function = integer_function(name, dtype)
            if function is None:
                raise BuildError(f"the function {name} of {dtype} values cannot be written in C")
            return f"{function}({', '.join(self._value(a) for a in args)})", _ATOM
        base = FLOAT_FUNCTIONS.get(name)
        if base is None:
            raise BuildError(f"the function {name} of {dtype} values cannot be written in C")
        if dtype == "float64":
            callee, c_type = base, "double"
        else:
            callee, c_type = OWN_FUNCTIONS.get(base, f"{base}f"), "float"
        if callee not in OWN_FUNCTIONS.values():
            self.externs.add(f"{c_type} {callee}({', '.join([c_type] * len(args))});")
        text = f"{callee}({', '.join(self._float_operand(a) for a in args)})"
        return (f"(outboard_half){text}", _UNARY) if dtype == "float16" else (text, _ATOM)

    def _float_operand(self, e: Expr) -> str:
        return f"(float){self._operand(e, False, _UNARY)}" if _dtype(e) == "float16" else self._value(e)


_STATEMENTS: dict[type, Callable[[_Printer, st.Stmt], None]] = {
    st.SeqStmt: _Printer._sequence,
    st.For: _Printer._for,
    st.While: _Printer._while,
    st.IfThenElse: _Printer._if,
    st.Bind: _Printer._bind,
    st.BufferStore: _Printer._store,
    st.AllocBuffer: _Printer._alloc,
    st.DeclBuffer: _Printer._declare,
    st.Evaluate: _Printer._evaluate,
    st.AttrStmt: _Printer._attribute,
}

# Names a variable of a kernel may not have: the language's, and the file's own helpers.
_RESERVED: frozenset[str] = frozenset(
    (
        "auto break case char const continue default do double else enum extern float for goto if inline int long "
        "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
        "asm typeof main printf memcpy memset memmove memcmp"
    ).split()
) | {f"{name}{suffix}" for name in FLOAT_FUNCTIONS.values() for suffix in ("", "f")}

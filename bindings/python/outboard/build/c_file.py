"""Writes a program as one C file: the ABI, the kernels, one call a step, and the entry of the contract."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import memory
from .package_data import data_text
from .program import Buffer, Copy, Program, Step
from .tensors import DTYPES, DType, TensorSpec
from .tir_to_c import C_TYPES, SUFFIXES, KernelC

# Headers of the compiler itself; a kernel's variables keep clear of what the file defines at file scope, all of which
# begins with outboard_, OUTBOARD_, TVM or k<number>_, v<number>k<number>_.
_KERNEL_NAME_LENGTH = 56
_LAYER_NAME_LENGTH = 96

_MOST_LAYERS = 1024
"""Steps that a layer profile counts; what comes after them runs uncounted."""


@dataclass(frozen=True)
class CFile:
    """The text, and what its inferences need."""

    text: str
    workspace_bytes: int


@dataclass(frozen=True)
class Variant:
    """A program and its kernels. The variants of a file differ in the sizes of dimensions only."""

    program: Program
    kernels: dict[str, KernelC]


def render(
    model_name: str,
    builder: str,
    variants: Sequence[Variant],
    constants: Sequence[np.ndarray],
    constant_indices: Sequence[int],
    profile_layers: bool = False,
) -> CFile:
    """The C file of programs that share ``constants``, whose places in weights.bin are ``constant_indices``.

    With ``profile_layers`` it counts the cycles of every step, and has a function that prints them.
    """
    layouts = [_Workspace(variant.program, variant.kernels) for variant in variants]
    prefixes = [""] if len(variants) == 1 else [f"v{number}" for number in range(len(variants))]
    names = [_kernel_names(variant.program, prefix) for variant, prefix in zip(variants, prefixes, strict=True)]
    kernels = [kernel for variant in variants for kernel in variant.kernels.values()]
    parts = [
        _banner(model_name, builder, variants),
        *_what_kernels_need(kernels),
        _definitions(model_name, variants, constants, constant_indices, [layout.nbytes for layout in layouts]),
        "/* ---- Kernels ---- */\n",
        *(
            f"{variant.kernels[kernel].definition(name)}\n"
            for variant, its_names in zip(variants, names, strict=True)
            for kernel, name in its_names.items()
        ),
        _profile(variants[0].program, names[0]) if profile_layers else "",
        "/* ---- The model ---- */\n",
        *(
            _run(number, variant, its_names, layout, profile_layers)
            for number, (variant, its_names, layout) in enumerate(zip(variants, names, layouts, strict=True))
        ),
        _RUN,
        _dispatch(len(variants)),
        "#ifndef OUTBOARD_LEVEL\n",
        data_text("levels.c"),
        data_text("entry.c"),
        "#endif\n",
    ]
    return CFile("\n".join(part for part in parts if part), max(layout.nbytes for layout in layouts))


def render_choices(choices: Sequence[KernelC]) -> str:
    """A C file of kernels with the same parameters, and a function that times them: data/tune.c."""
    names = [f"outboard_choice_{number}" for number in range(len(choices))]
    calls = [
        f"  if (choice == {number}) {{\n"
        f"    {name}({', '.join(f'a[{place}]' for place in range(len(choice.parameters)))});\n  }}"
        for number, (name, choice) in enumerate(zip(names, choices, strict=True))
    ]
    parts = [
        *_what_kernels_need(choices),
        *(f"{choice.definition(name)}\n" for name, choice in zip(names, choices, strict=True)),
        "static void outboard_call(int32_t choice, void *const *a) {",
        *calls,
        "}",
        data_text("tune.c"),
    ]
    return "\n".join(part for part in parts if part)


def _what_kernels_need(kernels: Sequence[KernelC]) -> list[str]:
    """What stands before kernels in a C file."""
    halves = any("outboard_half" in line for k in kernels for line in (*k.parameters, *k.body))
    return [
        "#define OUTBOARD_USES_HALF 1\n" if halves else "",
        data_text("outboard_tvm_abi.h"),
        data_text("kernel_support.h"),
        _vectors(kernels),
        _integer_products(kernels),
        _externs(kernels),
    ]


def c_string(text: str) -> str:
    """A C string literal; everything but plain ASCII becomes octal escapes.

    >>> print(c_string('a"b\\\\?'))
    "a\\"b\\\\\\077"
    """
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return '"' + plain.replace("\\042", '\\"').replace("\\134", "\\\\") + '"'


def _comment(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text.replace("*/", "* /").replace("/*", "/ *"))


def _banner(model_name: str, builder: str, variants: Sequence[Variant]) -> str:
    lines = [f"/* {_comment(model_name)}, written by {builder}.", " *"]
    for number, variant in enumerate(variants):
        if len(variants) > 1:
            lines.append(f" * variant {number}:")
        for kind, tensors in (("input", variant.program.inputs), ("output", variant.program.outputs)):
            lines += [f' * {kind} {i} "{_comment(t.name)}" {t}' for i, t in enumerate(tensors)]
    return "\n".join([*lines, " */"]) + "\n"


def _vectors(kernels: Sequence[KernelC]) -> str:
    types = sorted({vector for kernel in kernels for vector in kernel.vectors})
    return "\n".join(f"OUTBOARD_VECTOR({C_TYPES[t]}, {SUFFIXES[t]}, {lanes})" for t, lanes in types) + "\n" * bool(
        types
    )


def _integer_products(kernels: Sequence[KernelC]) -> str:
    """The products of bytes that the kernels use, for their vector types."""
    lanes = sorted({lanes for kernel in kernels for lanes in kernel.dot_lanes})
    uses = [f"OUTBOARD_DOT4({n})" for n in lanes if n > 1]
    return "\n".join([data_text("integer_support.h"), *uses, ""]) if lanes else ""


def _externs(kernels: Sequence[KernelC]) -> str:
    prototypes = sorted({prototype for kernel in kernels for prototype in kernel.externs})
    return "\n".join(["/* The device's mathematical library. */", *prototypes, ""]) if prototypes else ""


def _definitions(
    model_name: str,
    variants: Sequence[Variant],
    arrays: Sequence[np.ndarray],
    indices: Sequence[int],
    workspaces: Sequence[int],
) -> str:
    program, rooms = variants[0].program, ", ".join(map(str, workspaces))
    name = json.dumps(re.sub(r"[^\w.+-]", "_", model_name))
    constants = [
        f"    {{{index}, {_c_dtype(DTYPES[str(array.dtype)])}, {array.size}}},"
        for index, array in zip(indices, arrays, strict=True)
    ]
    return "\n".join(
        [
            f"#define OUTBOARD_MODEL {name}",
            "enum {",
            f"  OUTBOARD_VARIANTS = {len(variants)}, /* the sizes of dimensions that are bounded rather than fixed */",
            f"  OUTBOARD_INPUTS = {len(program.inputs)},",
            f"  OUTBOARD_OUTPUTS = {len(program.outputs)},",
            f"  OUTBOARD_CONSTANTS = {len(arrays)},",
            "};",
            f"static const uint64_t outboard_workspace_bytes[OUTBOARD_VARIANTS] = {{{rooms}}};",
            "",
            "typedef struct {",
            "  const char *name;",
            "  int64_t bytes;",
            "  int64_t shape[6];",
            "  int32_t ndim;",
            "  DLDataType dtype;",
            "  uint8_t is_bool;",
            "} OutboardTensor;",
            "",
            "typedef struct {",
            "  int32_t index; /* in weights.bin */",
            "  DLDataType dtype;",
            "  int64_t elements;",
            "} OutboardConstant;",
            "",
            *_tensor_table("outboard_inputs", "OUTBOARD_INPUTS", [v.program.inputs for v in variants]),
            *_tensor_table("outboard_outputs", "OUTBOARD_OUTPUTS", [v.program.outputs for v in variants]),
            "static const OutboardConstant outboard_constants[OUTBOARD_CONSTANTS + 1] = {",
            *constants,
            "    {0},",
            "};",
            "",
        ]
    )


_DL_CODES = {0: "DL_INT", 1: "DL_UINT", 2: "DL_FLOAT", 4: "DL_BFLOAT"}


def _c_dtype(dtype: DType) -> str:
    return f"{{{_DL_CODES[dtype.code]}, {dtype.bits}, 1}}"


def _tensor_table(name: str, size: str, variants: Sequence[Sequence[TensorSpec]]) -> list[str]:
    lines = [f"static const OutboardTensor {name}[OUTBOARD_VARIANTS][{size} + 1] = {{"]
    for tensors in variants:
        rows = [
            f"     {{{c_string(t.name)}, {t.nbytes}, {{{', '.join(map(str, t.shape or (0,)))}}}, {len(t.shape)}, "
            f"{_c_dtype(t.dtype)}, {int(t.dtype.name == 'bool')}}},"
            for t in tensors
        ]
        lines += ["    {", *rows, "     {0}},"]
    return [*lines, "};"]


def _kernel_names(program: Program, prefix: str) -> dict[str, str]:
    """A C name for each kernel: its place in the model and the operations it does."""
    names: dict[str, str] = {}
    for step in program.steps:
        if isinstance(step, Step) and step.kernel not in names:
            plain = re.sub(r"\W", "_", step.kernel.removeprefix("fused_")).replace("tir_", "")
            names[step.kernel] = f"{prefix}k{len(names):03d}_{plain[:_KERNEL_NAME_LENGTH].rstrip('_')}"
    return names


class _Workspace:
    """Where each temporary of the program and each scratch array of its kernels lies."""

    def __init__(self, program: Program, kernels: dict[str, KernelC]) -> None:
        spans: dict[Buffer, list[int]] = {}
        blocks: list[memory.Block] = []
        keys: list[Buffer | tuple[int, str]] = []
        for number, step in enumerate(program.steps):
            for buffer in step.arguments if isinstance(step, Step) else (step.source, step.target):
                if buffer.place == "workspace":
                    spans.setdefault(buffer, [number, number])[1] = number
            if isinstance(step, Step):
                for scratch in kernels[step.kernel].scratch:
                    keys.append((number, scratch.name))
                    blocks.append(memory.Block(scratch.nbytes, number, number))
        for buffer, (first, last) in spans.items():
            keys.append(buffer)
            blocks.append(memory.Block(buffer.nbytes, first, last))
        layout = memory.plan(blocks)
        self.nbytes = layout.nbytes
        self._offsets = dict(zip(keys, layout.offsets, strict=True))

    def of_buffer(self, buffer: Buffer) -> str:
        return f"w + {self._offsets[buffer]}"

    def of_scratch(self, step: int, name: str) -> str:
        return f"w + {self._offsets[step, name]}"


def _profile(program: Program, names: dict[str, str]) -> str:
    """What the layer profile needs: the name of each step."""
    steps = program.steps[:_MOST_LAYERS]
    labels = ["copy" if isinstance(s, Copy) else _comment(" + ".join(s.nodes) or names[s.kernel]) for s in steps]
    table = [f"    {c_string(label[:_LAYER_NAME_LENGTH])}," for label in labels]
    head = [f"enum {{ OUTBOARD_LAYERS = {max(len(steps), 1)} }};", ""]
    rows = ["static const char *const outboard_layer_names[OUTBOARD_LAYERS] = {", *(table or ['    "",']), "};", ""]
    return "\n".join([*head, *rows]) + data_text("profile.c")


_RUN = """/* With OUTBOARD_LEVEL this file is one of the levels of a portable module: its kernels and no entry. */
#ifdef OUTBOARD_LEVEL
#define OUTBOARD_RUN                                  \\
  __attribute__((visibility("hidden"))) void OUTBOARD_LEVEL(int32_t, void *const *, void *const *, void *const *, \\
                                                            unsigned char *);                       \\
  void OUTBOARD_LEVEL
#else
#define OUTBOARD_RUN static void outboard_run_here
#endif
"""


def _dispatch(count: int) -> str:
    lines = [
        "OUTBOARD_RUN(int32_t variant, void *const *in, void *const *c, void *const *out, unsigned char *w) {",
        "  switch (variant) {",
    ]
    for number in range(count):
        lines += [f"    case {number}:", f"      outboard_run_{number}(in, c, out, w);", "      break;"]
    return "\n".join([*lines, "  }", "}", ""])


def _run(number: int, variant: Variant, names: dict[str, str], layout: _Workspace, profile: bool) -> str:
    program, kernels = variant.program, variant.kernels
    lines = [
        "/* in: inputs, c: constants, out: outputs, w: workspace */",
        f"static void outboard_run_{number}(void *const *in, void *const *c, void *const *out, unsigned char *w) {{",
        "  (void)in, (void)c, (void)out, (void)w;",
    ]

    def place(buffer: Buffer) -> str:
        if buffer.place == "workspace":
            return f"(void *)({layout.of_buffer(buffer)})"
        return f"{ {'input': 'in', 'constant': 'c', 'output': 'out'}[buffer.place] }[{buffer.index}]"

    if profile:
        lines.append("  outboard_layers_begun = outboard_layers_done = 0;")
    for number, step in enumerate(program.steps):
        is_counted = profile and number < _MOST_LAYERS
        begin, end = (f"  outboard_{word}_layer({number});" for word in ("begin", "end"))
        if isinstance(step, Copy):
            copy = f"  memcpy({place(step.target)}, {place(step.source)}, {step.source.nbytes});"
            lines += [begin, copy, end] if is_counted else [copy]
            continue
        arguments = [place(buffer) for buffer in step.arguments]
        arguments += [f"(void *)({layout.of_scratch(number, s.name)})" for s in kernels[step.kernel].scratch]
        lines += [f"  /* {_comment(node)} */" for node in step.nodes]
        call = f"  {names[step.kernel]}({', '.join(arguments)});"
        lines += [begin, call, end] if is_counted else [call]
    return "\n".join([*lines, "}", ""])

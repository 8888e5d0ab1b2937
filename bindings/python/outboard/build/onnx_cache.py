"""Caches of a model that may stay on the device: inputs and outputs in pairs, docs/reference/models.md, "Caches".

The device keeps the outputs behind the first one, in their order, and gives them to the next call as the inputs that
have no data, in their order. So a model with caches gives one result first, then each cache in the order of its input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from .errors import BuildError
from .onnx_load import graph_inputs
from .tensors import TensorSpec

SLOT_BYTES = 196_608
MOST_SLOTS = 60
"""What the original firmware keeps: so many tensors of at most so many bytes."""


@dataclass(frozen=True)
class Cache:
    """The position of a cache among the inputs, and among the outputs."""

    input: int
    output: int


def order_outputs(model: onnx.ModelProto, options: Sequence[str]) -> tuple[str, ...]:
    """Puts the outputs of ``model`` into the order a resident call needs; gives the inputs that are caches.

    ``options`` are ``PAST=PRESENT``, names of an input and an output, or ``auto``, which pairs inputs with ``past`` in
    their names with the outputs that have ``present`` in that place.
    """
    inputs = [value.name for value in graph_inputs(model)]
    outputs = {value.name: value for value in model.graph.output}
    pairs = _pairs(inputs, list(outputs), options)
    if not pairs:
        return ()
    others = [name for name in outputs if name not in pairs.values()]
    if len(others) != 1:
        raise BuildError(
            f"a model with caches gives one result beside them, and this one has {len(others)}: {', '.join(others)}",
            hint="the device keeps every output but the first: name the other caches, or drop outputs from the model",
        )
    caches = tuple(name for name in inputs if name in pairs)
    ordered = [outputs[name] for name in (others[0], *(pairs[name] for name in caches))]
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in ordered]
    del model.graph.output[:]
    model.graph.output.extend(copies)
    return caches


def _pairs(inputs: Sequence[str], outputs: Sequence[str], options: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for option in options:
        if option == "auto":
            found = _by_name(inputs, outputs)
            if not found:
                raise BuildError(
                    'no input "past…" has an output "present…"', hint="name the pairs: --cache PAST=PRESENT"
                )
            pairs.update(found)
            continue
        past, equals, present = option.partition("=")
        if not equals:
            raise BuildError(f'--cache "{option}" is not PAST=PRESENT', hint="or auto, which pairs by names")
        for kind, name, names in (("input", past, inputs), ("output", present, outputs)):
            if name not in names:
                raise BuildError(
                    f'--cache "{option}": the model has no {kind} "{name}"', hint=f"its {kind}s: {', '.join(names)}"
                )
        pairs[past] = present
    if len(set(pairs.values())) != len(pairs):
        raise BuildError("two caches have the same output")
    return pairs


def _by_name(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """``past_key_values.0.key`` and ``present.0.key``, ``past_k_1`` and ``present_k_1``."""
    by_rest = {re.sub(r"present(_key_values)?", "*", name): name for name in outputs if "present" in name}
    rests = {name: re.sub(r"past(_key_values)?", "*", name) for name in inputs if "past" in name}
    return {name: by_rest[rest] for name, rest in rests.items() if rest in by_rest}


def caches(names: Sequence[str], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[Cache, ...]:
    """The pairs of a built model, whose caches keep their shape from call to call."""
    found = []
    for place, name in enumerate(names, start=1):
        index = next(i for i, spec in enumerate(inputs) if spec.name == name)
        before, after = inputs[index], outputs[place]
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            raise BuildError(
                f'the cache "{name}" is {before} as an input and {after} as the output "{after.name}"',
                hint="a cache that stays on the device has one shape: write rows into it (TensorScatter, ScatterND) "
                "instead of adding them at its end",
            )
        if before.bounds:
            raise BuildError(f'the cache "{name}" is {before}: a cache that stays on the device has one size')
        found.append(Cache(index, place))
    return tuple(found)


def beyond_the_original(inputs: Sequence[TensorSpec], pairs: Sequence[Cache]) -> str | None:
    """What of these caches the original firmware could not keep, in a sentence; None when it could."""
    if len(pairs) > MOST_SLOTS:
        return f"{len(pairs)} caches; a board keeps at most {MOST_SLOTS}"
    large = next((inputs[c.input] for c in pairs if inputs[c.input].nbytes > SLOT_BYTES), None)
    if large is None:
        return None
    return f'the cache "{large.name}" has {large.nbytes:,} bytes; a board keeps {SLOT_BYTES:,} of each'

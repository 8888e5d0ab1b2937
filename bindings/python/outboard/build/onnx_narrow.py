"""Takes narrow types out of a graph: what has one is carried by a wider type, and decoded where it is computed with.

Operators that only move elements move the carriers. All others get float32 (integers: their carriers), and their
results are encoded again, which rounds once, as ONNX's own definition of a float type says. Integers of few bits are
wrapped by Cast and saturated by QuantizeLinear.

Encoding and decoding are two operators of the domain ``outboard``, which onnx_operators.py compiles.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper, shape_inference

from .errors import BuildError
from .narrow_types import BY_NAME, NARROW, Integer, Narrow
from .onnx_facts import Facts, attributes, operand
from .onnx_load import node_label
from .onnx_nodes import NodeBuilder
from .onnx_quantised import dequantise, quantise
from .onnx_simplify import infer_shapes, replace_nodes, subgraphs

DOMAIN = "outboard"
DECODE, ENCODE = "OutboardDecode", "OutboardEncode"

# Operators that move elements and never look at them. Pad fills with zero, whose code is zero in every format but one.
_MOVES = frozenset(
    """Identity Reshape Transpose Concat Slice Squeeze Unsqueeze Flatten Expand Tile Gather GatherElements GatherND
    Split Where ReverseSequence Compress DepthToSpace SpaceToDepth Shape Size Pad Trilu ScatterND ScatterElements
    Dropout""".split()
)


def widen(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` without narrow types; the model itself when it has none. Shapes of inputs must be fixed."""
    if not _has_narrow_types(model):
        return model
    _register()
    model = infer_shapes(onnx.ModelProto.FromString(model.SerializeToString()))
    graph = model.graph
    pass_ = _Pass(Facts.of(model))
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(graph.node):
        try:
            nodes.extend(pass_.node(node))
        except BuildError as error:
            raise BuildError(error.message, node=error.node or node_label(node, index), hint=error.hint) from error
    replace_nodes(graph, nodes)
    for tensor in graph.initializer:
        _carry_tensor(tensor)
    for value in (*graph.input, *graph.output):
        narrow = NARROW.get(value.type.tensor_type.elem_type)
        if narrow:
            value.type.tensor_type.elem_type = narrow.carrier
    del graph.value_info[:]
    if not any(o.domain == DOMAIN for o in model.opset_import):
        model.opset_import.add(domain=DOMAIN, version=1)
    return model


def _has_narrow_types(model: onnx.ModelProto) -> bool:
    graph = model.graph
    types = {v.type.tensor_type.elem_type for v in (*graph.input, *graph.output, *graph.value_info)}
    types.update(tensor.data_type for tensor in graph.initializer)
    inner = {a.i for n in graph.node if n.op_type in ("Cast", "QuantizeLinear") for a in n.attribute}
    return not NARROW.keys().isdisjoint(types | inner)


def _carry_tensor(tensor: onnx.TensorProto) -> None:
    narrow = NARROW.get(tensor.data_type)
    if narrow:
        tensor.CopyFrom(numpy_helper.from_array(narrow.carried(numpy_helper.to_array(tensor)), tensor.name))


class _Pass:
    """Goes through the nodes of a graph; knows what has been decoded already."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._decoded: dict[str, str] = {}

    def _narrow(self, name: str) -> Narrow | None:
        return NARROW.get(self._facts.types.get(name, 0))

    def node(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """The nodes that take the place of one."""
        touched = [name for name in (*node.input, *node.output) if name and self._narrow(name)]
        if not touched and not any(NARROW.get(a.i) for a in node.attribute if a.name in ("to", "output_dtype")):
            return [node]
        if any(True for _ in subgraphs(node)):
            raise BuildError("a branch or loop around values of narrow types cannot be compiled")
        g = NodeBuilder(node.name or next(iter(node.output)))
        if node.op_type in _MOVES and not self._looks_at_elements(node):
            return [node]
        if node.op_type in ("Cast", "CastLike"):
            self._cast(g, node)
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            self._quantisation(g, node)
        elif node.op_type == "BitCast":
            return [self._bit_cast(node)]
        elif node.op_type == "Constant":
            return [_carried_constant(node)]
        else:
            self._compute(g, node)
        return g.nodes

    def _looks_at_elements(self, node: onnx.NodeProto) -> bool:
        """Whether an operator that only moves elements in most forms computes with them in this one."""
        reduction = attributes(node).get("reduction", b"none")
        fills = node.op_type in ("Pad", "Trilu") and self._facts.types.get(node.input[0]) == TensorProto.FLOAT8E8M0
        return fills or reduction not in (b"none", "none")

    def _decode(self, g: NodeBuilder, name: str) -> str:
        """A value in float32, or the carrier of a narrow integer, which holds the value itself."""
        narrow = self._narrow(name)
        if narrow is None or isinstance(narrow.format, Integer):
            return name
        if name not in self._decoded:
            self._decoded[name] = g.add(DECODE, name, domain=DOMAIN, format=narrow.name)
        return self._decoded[name]

    def _cast(self, g: NodeBuilder, node: onnx.NodeProto) -> None:
        options = attributes(node)
        like = operand(node, 1) if node.op_type == "CastLike" else None
        target = self._facts.types.get(like, 0) if like else int(str(options.get("to", 0)))
        value, output = node.input[0], node.output[0]
        source = self._facts.types.get(value, 0)
        narrow = NARROW.get(target)
        if source == target:
            g.add("Identity", value, to=output)
            return
        decoded = self._decode(g, value)
        if narrow is None:
            g.cast(decoded, target, to=output)
            return
        kept = NARROW.get(source)
        held = source if kept is None else kept.carrier if isinstance(kept.format, Integer) else TensorProto.FLOAT
        if isinstance(narrow.format, Integer):
            _wrap(g, decoded, held, narrow, output)
            return
        self._encode(g, decoded, held, narrow, output, options)

    def _bit_cast(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """The same bits: those of the carriers, which have as many unless elements are smaller than a byte."""
        for narrow in filter(None, (self._narrow(node.input[0]), self._narrow(node.output[0]))):
            if isinstance(narrow.format, Integer) or narrow.name == "float4_e2m1fn":
                raise BuildError(f"the bits of {narrow.name} values cannot be read as another type")
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        for attribute in copy.attribute:
            if attribute.name == "to" and attribute.i in NARROW:
                attribute.i = NARROW[attribute.i].carrier
        return copy

    def _encode(
        self, g: NodeBuilder, value: str, held: int, narrow: Narrow, to: str, options: dict[str, object] | None = None
    ) -> None:
        given = options or {}
        mode = given.get("round_mode", b"up")
        if held != TensorProto.FLOAT:
            value = g.cast(value, TensorProto.FLOAT)
        saturate = int(str(given.get("saturate", 1)))
        g.add(ENCODE, value, to=to, domain=DOMAIN, format=narrow.name, saturate=saturate, round_mode=mode)

    def _quantisation(self, g: NodeBuilder, node: onnx.NodeProto) -> None:
        plain = onnx.NodeProto.FromString(node.SerializeToString())
        if node.op_type == "DequantizeLinear":
            plain.input[:] = [self._decode(g, name) if name else "" for name in node.input]
            narrow_result = self._narrow(node.output[0])
            out = self._facts.types.get(node.output[0], TensorProto.FLOAT)
            shape = self._facts.shape(node.input[0])
            target = g.name("Dequantised") if narrow_result else node.output[0]
            result_type = TensorProto.FLOAT if narrow_result else out
            dequantise(g, plain, shape, self._facts.shape(node.input[1]), result_type, target)
            if narrow_result:
                self._encode(g, target, TensorProto.FLOAT, narrow_result, node.output[0])
            return
        kind = self._facts.types.get(node.output[0], 0)
        plain.input[:] = [self._decode(g, name) if name else "" for name in node.input]
        narrow = NARROW.get(kind)
        shapes = self._facts.shape(node.input[0]), self._facts.shape(node.input[1])
        if narrow is None:
            quantise(g, plain, *shapes, kind, None, node.output[0])
        elif isinstance(narrow.format, Integer):
            limits = (narrow.format.least, narrow.format.most)
            quantise(g, plain, *shapes, narrow.carrier, limits, node.output[0])
        else:
            scaled = g.name("Scaled")
            quantise(g, plain, *shapes, TensorProto.FLOAT, None, scaled)
            self._encode(g, scaled, TensorProto.FLOAT, narrow, node.output[0], attributes(node))

    def _compute(self, g: NodeBuilder, node: onnx.NodeProto) -> None:
        """Any other operator: in float32, its results encoded."""
        plain = onnx.NodeProto.FromString(node.SerializeToString())
        plain.input[:] = [self._decode(g, name) if name else "" for name in node.input]
        for attribute in plain.attribute:
            if attribute.name == "dtype" and attribute.i in NARROW:
                attribute.i = TensorProto.FLOAT
            elif attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type in NARROW:
                values = numpy_helper.to_array(attribute.t).astype("float32")
                attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
        results = [(name, self._narrow(name)) for name in node.output]
        plain.output[:] = [g.name(f"wide{i}") if narrow else name for i, (name, narrow) in enumerate(results)]
        g.nodes.append(plain)
        for wide, (name, narrow) in zip(plain.output, results, strict=True):
            if narrow is None:
                continue
            if isinstance(narrow.format, Integer):
                raise BuildError(f"values of type {narrow.name} can be converted and moved, not computed with")
            self._encode(g, wide, TensorProto.FLOAT, narrow, name)


def _wrap(g: NodeBuilder, value: str, held: int, narrow: Narrow, to: str) -> None:
    """The low bits of an integer, read with or without sign."""
    bits = narrow.format
    assert isinstance(bits, Integer)
    if held == TensorProto.BOOL:
        g.cast(value, narrow.carrier, to=to)
        return
    whole = value if held == TensorProto.INT32 else g.cast(value, TensorProto.INT32)
    modulus, offset = (g.constant(np.asarray(n, np.int32)) for n in (1 << bits.bits, -bits.least))
    low = g.add("Sub", g.add("Mod", g.add("Add", whole, offset), modulus), offset)
    g.cast(low, narrow.carrier, to=to)


def _carried_constant(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto.FromString(node.SerializeToString())
    for attribute in copy.attribute:
        if attribute.name == "value":
            _carry_tensor(attribute.t)
    return copy


def _register() -> None:
    """Makes the two operators known to ONNX's shape inference."""
    if defs.has(ENCODE, DOMAIN):
        return
    schema = defs.OpSchema
    carriers = ["tensor(uint8)", "tensor(uint16)"]
    text = [schema.Attribute("format", schema.AttrType.STRING, "the narrow type", required=True)]
    rounding = [
        schema.Attribute("saturate", schema.AttrType.INT, "as of Cast", required=True),
        schema.Attribute("round_mode", schema.AttrType.STRING, "as of Cast", required=True),
    ]
    for name, source, target, options in (
        (DECODE, carriers, ["tensor(float)"], text),
        (ENCODE, ["tensor(float)"], carriers, text + rounding),
    ):
        operator = schema(
            name,
            DOMAIN,
            1,
            inputs=[schema.FormalParameter("x", "S")],
            outputs=[schema.FormalParameter("y", "T")],
            type_constraints=[("S", source, ""), ("T", target, "")],
            attributes=options,
        )
        operator.set_type_and_shape_inference_function(_infer)
        defs.register_schema(operator)


def _infer(context: shape_inference.InferenceContext) -> None:
    given = context.get_input_type(0)
    result = onnx.TypeProto()
    result.CopyFrom(given)
    if given.tensor_type.elem_type == TensorProto.FLOAT:
        name = helper.get_attribute_value(context.get_attribute("format")).decode()
        result.tensor_type.elem_type = BY_NAME[name].carrier
    else:
        result.tensor_type.elem_type = TensorProto.FLOAT
    context.set_output_type(0, result)

"""LSTM, GRU and RNN as the matrix products and activations they stand for, one group of nodes a time step.

The products with the input are done for all steps at once. Formulas and defaults: the ONNX operator reference.
"""

from __future__ import annotations

import onnx
from onnx import helper

from .errors import BuildError
from .onnx_nodes import NodeBuilder

_MOST_STEPS = 1024


class _Recurrent:
    """What the three operators share: attributes, directions, sequence layout and the loop over time."""

    gates = 1
    default_activations: tuple[str, ...] = ("Tanh",)
    states = 1

    def __init__(self, node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> None:
        self.node = node
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self.graph = NodeBuilder(node.name or node.output[0])
        if node.input[0] not in shapes or node.input[2] not in shapes:
            raise BuildError("the shapes of its input and weights are not known at build time")
        self.batch_first = bool(self.attributes.get("layout", 0))
        shape = shapes[node.input[0]]
        self.batch, self.steps = (shape[0], shape[1]) if self.batch_first else (shape[1], shape[0])
        self.hidden = int(self.attributes.get("hidden_size", shapes[node.input[2]][2]))
        if self.steps > _MOST_STEPS:
            raise BuildError(f"{self.steps} time steps are too many to write out; the most is {_MOST_STEPS}")
        direction = _text(self.attributes.get("direction", "forward"))
        self.directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self._check_activations()
        if self._input(4):
            raise BuildError("sequences of different lengths (sequence_lens) cannot be compiled")

    def _check_activations(self) -> None:
        given = [_text(a) for a in self.attributes.get("activations", ())]
        per_direction = len(self.default_activations)
        self.activations = given or list(self.default_activations) * len(self.directions)
        unknown = [a for a in self.activations if a not in _ACTIVATIONS]
        if unknown or len(self.activations) != per_direction * len(self.directions):
            raise BuildError(
                f"its activations are {self.activations}",
                hint=f"those that can be compiled: {', '.join(_ACTIVATIONS)}",
            )
        if self.attributes.get("activation_alpha") or self.attributes.get("activation_beta"):
            raise BuildError("activations with parameters of their own cannot be compiled")

    def _input(self, index: int) -> str | None:
        return self.node.input[index] if index < len(self.node.input) and self.node.input[index] else None

    def expand(self) -> list[onnx.NodeProto]:
        """The nodes that compute the operator's outputs."""
        g = self.graph
        x = g.add("Transpose", self.node.input[0], perm=[1, 0, 2]) if self.batch_first else self.node.input[0]
        sequences, finals = [], []
        for number, reverse in enumerate(self.directions):
            sequence, final = self._run(x, number, reverse)
            sequences.append(sequence)
            finals.append(final)
        self._emit_sequence(sequences)
        for state in range(self.states):
            if len(self.node.output) > 1 + state and self.node.output[1 + state]:
                parts = [g.unsqueeze(final[state], 1 if self.batch_first else 0) for final in finals]
                g.concat(parts, 1 if self.batch_first else 0, to=self._result(1 + state))
        return g.nodes

    def _result(self, index: int) -> str:
        return self.node.output[index]

    def _emit_sequence(self, sequences: list[list[str]]) -> None:
        """Y: [steps, directions, batch, hidden], or [batch, steps, directions, hidden] in the other layout."""
        if not self.node.output or not self.node.output[0]:
            return
        g = self.graph
        rows = []
        for step in range(self.steps):
            parts = [g.unsqueeze(sequence[step], 0) for sequence in sequences]
            rows.append(g.unsqueeze(g.concat(parts, 0), 0))
        if self.batch_first:
            g.add("Transpose", g.concat(rows, 0), perm=[2, 0, 1, 3], to=self._result(0))
        else:
            g.concat(rows, 0, to=self._result(0))

    def _direction(self, index: int, number: int) -> str | None:
        """One direction's part of an input whose first axis counts directions."""
        name = self._input(index)
        if name is None:
            return None
        return self.graph.squeeze(self.graph.split(name, len(self.directions), 0)[number], 0)

    def _initial(self, index: int, number: int) -> str:
        g = self.graph
        name = self._input(index)
        if name is None:
            return g.add("Expand", g.floats(0.0), g.ints(self.batch, self.hidden))
        if self.batch_first:
            name = g.add("Transpose", name, perm=[1, 0, 2])
        return g.squeeze(g.split(name, len(self.directions), 0)[number], 0)

    def _run(self, x: str, number: int, reverse: bool) -> tuple[list[str], list[str]]:
        g = self.graph
        weights = self._direction(1, number)
        recurrent = self._direction(2, number)
        if weights is None or recurrent is None:
            raise BuildError("it has no weights")
        bias = self._direction(3, number)
        projected = g.add("MatMul", x, g.add("Transpose", weights, perm=[1, 0]))
        recurrent_bias = None
        if bias is not None:
            input_bias, recurrent_bias = g.split(bias, 2, 0)
            projected = g.add("Add", projected, input_bias)
        steps = [g.squeeze(part, 0) for part in g.split(projected, self.steps, 0)]
        state = [self._initial(5 + i, number) for i in range(self.states)]
        self._prepare(recurrent, recurrent_bias, number)
        outputs: list[str] = [""] * self.steps
        for step in reversed(range(self.steps)) if reverse else range(self.steps):
            state = self._step(steps[step], state)
            outputs[step] = state[0]
        return outputs, state

    def _prepare(self, recurrent: str, bias: str | None, number: int) -> None:
        self.recurrent = self.graph.add("Transpose", recurrent, perm=[1, 0])
        self.bias = bias
        count = len(self.default_activations)
        self.functions = self.activations[number * count : (number + 1) * count]

    def _from_state(self, state: str) -> str:
        product = self.graph.add("MatMul", state, self.recurrent)
        return self.graph.add("Add", product, self.bias) if self.bias else product

    def _activate(self, function: int, value: str) -> str:
        clip = self.attributes.get("clip")
        if clip is not None:
            value = self.graph.add("Clip", value, self.graph.floats(-float(clip)), self.graph.floats(float(clip)))
        return self.graph.add(self.functions[function], value)

    def _step(self, projected: str, state: list[str]) -> list[str]:
        raise NotImplementedError


class _Rnn(_Recurrent):
    def _step(self, projected: str, state: list[str]) -> list[str]:
        return [self._activate(0, self.graph.add("Add", projected, self._from_state(state[0])))]


class _Lstm(_Recurrent):
    gates = 4
    default_activations = ("Sigmoid", "Tanh", "Tanh")
    states = 2

    def _prepare(self, recurrent: str, bias: str | None, number: int) -> None:
        super()._prepare(recurrent, bias, number)
        peepholes = self._direction(7, number)
        self.peepholes = None if peepholes is None else self.graph.split(peepholes, 3, 0)
        self.input_forget = bool(self.attributes.get("input_forget", 0))

    def _step(self, projected: str, state: list[str]) -> list[str]:
        g = self.graph
        hidden, cell = state
        i, o, f, c = g.split(g.add("Add", projected, self._from_state(hidden)), 4, 1)
        i = self._activate(0, self._peep(i, 0, cell))
        f = g.add("Sub", g.floats(1.0), i) if self.input_forget else self._activate(0, self._peep(f, 2, cell))
        cell = g.add("Add", g.add("Mul", f, cell), g.add("Mul", i, self._activate(1, c)))
        o = self._activate(0, self._peep(o, 1, cell))
        return [g.add("Mul", o, self._activate_cell(cell)), cell]

    def _peep(self, gate: str, peephole: int, cell: str) -> str:
        if self.peepholes is None:
            return gate
        return self.graph.add("Add", gate, self.graph.add("Mul", self.peepholes[peephole], cell))

    def _activate_cell(self, cell: str) -> str:
        return self.graph.add(self.functions[2], cell)


class _Gru(_Recurrent):
    gates = 3
    default_activations = ("Sigmoid", "Tanh")

    def _step(self, projected: str, state: list[str]) -> list[str]:
        g = self.graph
        (hidden,) = state
        xz, xr, xh = g.split(projected, 3, 1)
        if self.attributes.get("linear_before_reset", 0):
            hz, hr, hh = g.split(self._from_state(hidden), 3, 1)
            r = self._activate(0, g.add("Add", xr, hr))
            candidate = g.add("Add", xh, g.add("Mul", r, hh))
        else:
            wz, wr, wh = g.split(self.recurrent, 3, 1)
            bz, br, bh = g.split(self.bias, 3, 0) if self.bias else (None, None, None)
            hz, hr = self._gate(hidden, wz, bz), self._gate(hidden, wr, br)
            r = self._activate(0, g.add("Add", xr, hr))
            candidate = g.add("Add", xh, self._gate(g.add("Mul", r, hidden), wh, bh))
        z = self._activate(0, g.add("Add", xz, hz))
        h = self._activate(1, candidate)
        keep = g.add("Mul", z, hidden)
        return [g.add("Add", g.add("Mul", g.add("Sub", g.floats(1.0), z), h), keep)]

    def _gate(self, hidden: str, weights: str, bias: str | None) -> str:
        product = self.graph.add("MatMul", hidden, weights)
        return self.graph.add("Add", product, bias) if bias else product


_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def lstm(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> list[onnx.NodeProto]:
    """Writes out an LSTM."""
    return _Lstm(node, shapes).expand()


def gru(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> list[onnx.NodeProto]:
    """Writes out a GRU."""
    return _Gru(node, shapes).expand()


def rnn(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> list[onnx.NodeProto]:
    """Writes out a simple recurrent network."""
    return _Rnn(node, shapes).expand()

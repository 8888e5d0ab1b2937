"""The benchmark of generated code: it measures what it says, on the smallest of its networks."""

from __future__ import annotations

import json

import onnx
import pytest

from outboard.bench.__main__ import main
from outboard.bench.networks import NETWORKS


def test_a_network_is_timed_beside_onnxruntime_and_answers_as_it_does(capsys) -> None:
    assert main(["--network", "transformer", "--rounds", "1", "--no-vm", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["network"] == "transformer"
    assert figures["difference"] < 1e-4
    assert all(figures[kind] > 0 for kind in ("onnxruntime", "host", "host-native", "build_seconds"))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_are_what_onnx_says_a_model_is(name) -> None:
    model = NETWORKS[name]()
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString() == NETWORKS[name]().SerializeToString(), "the seed is fixed"


def test_numbers_of_rounds_below_one_are_wrong_requests(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--rounds", "0"])
    assert ended.value.code == 1
    assert "--rounds takes a number from 1 on" in capsys.readouterr().err

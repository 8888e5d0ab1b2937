"""The tuning cache: which tile was the fastest, by kernel and target, in a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import BuildError
from .files import cache_folder, write_whole

_WHAT = "tiles of kernels, measured by outboard.build"
_VERSION = 1
_Kinds = type | tuple[type, ...]
_TILE: dict[str, _Kinds] = {
    "column": int,
    "lanes": int,
    "vectors": int,
    "row": (int, type(None)),
    "rows": int,
    "column_first": bool,
}


@dataclass(frozen=True)
class Tuned:
    """What is known about one kernel on one target."""

    kernel: str
    """Its name, for readers."""
    parameters: tuple[str, ...]
    """Its tensors, ``float32[1,56,56,64]``, for readers."""
    tile: Mapping[str, int | bool | None] | None
    """The fields of a :class:`schedule.Tile`; None where the rule's own is the fastest."""
    nanoseconds: int
    """Of one call with this tile."""
    untuned_nanoseconds: int
    """Of one call with the rule's own."""


def default_path() -> Path:
    """Where timings are kept when no file is named."""
    return cache_folder() / "tuning.json"


class TuningCache:
    """A file of timings, or none of it yet. What is added is kept until :meth:`save`."""

    def __init__(self, path: str | os.PathLike[str], must_exist: bool = False) -> None:
        self.path = Path(path)
        self._known = self._read(must_exist)
        self._added: dict[tuple[str, str], Tuned] = {}

    def find(self, target: str, key: str) -> Tuned | None:
        """What is known about a kernel."""
        return self._added.get((target, key)) or self._known.get((target, key))

    def add(self, target: str, key: str, tuned: Tuned) -> None:
        """Adds a kernel, or replaces it."""
        self._added[target, key] = tuned

    def save(self) -> None:
        """Writes the file, whole or not at all, with what others have added to it since it was read."""
        self._known = {**self._read(must_exist=False), **self._added}
        targets: dict[str, dict[str, Any]] = {}
        for (target, key), tuned in sorted(self._known.items()):
            targets.setdefault(target, {})[key] = asdict(tuned)
        text = json.dumps({"what": _WHAT, "version": _VERSION, "targets": targets}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BuildError(f"cannot make the folder {self.path.parent}: {error.strerror}") from error
        write_whole(self.path, f"{text}\n".encode())

    def _read(self, must_exist: bool) -> dict[tuple[str, str], Tuned]:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            if must_exist:
                raise BuildError(f"there is no tuning cache {self.path}", hint="--tune makes one") from None
            return {}
        except OSError as error:
            raise BuildError(f"cannot read the tuning cache {self.path}: {error.strerror}") from error
        try:
            return _entries(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise BuildError(
                f"{self.path} is no tuning cache that this version reads: {error}",
                hint="name another file with --tune-cache, or delete this one and build with --tune",
            ) from error


def _entries(document: Any) -> dict[tuple[str, str], Tuned]:
    """The entries of a file; raises ValueError with what is wrong."""
    if not isinstance(document, dict) or document.get("what") != _WHAT:
        raise ValueError("it does not say that it is one")
    if document.get("version") != _VERSION:
        raise ValueError(f"its version is {document.get('version')!r}, not {_VERSION}")
    return {
        (target, key): _entry(f"{target}, {key}", fields)
        for target, kernels in _object("targets", document.get("targets")).items()
        for key, fields in _object(target, kernels).items()
    }


def _entry(place: str, fields: Any) -> Tuned:
    fields = _object(place, fields)
    parameters, tile = fields.get("parameters"), fields.get("tile")
    if not isinstance(parameters, list) or not all(isinstance(p, str) for p in parameters):
        raise ValueError(f'{place}: "parameters" is not a list of texts')
    numbers = [_field(place, fields, name, int) for name in ("nanoseconds", "untuned_nanoseconds")]
    if tile is not None:
        tile = {name: _field(place, _object(place, tile), name, kind) for name, kind in _TILE.items()}
    return Tuned(_field(place, fields, "kernel", str), tuple(parameters), tile, *numbers)


def _field(place: str, fields: dict[str, Any], name: str, kind: _Kinds) -> Any:
    value = fields.get(name)
    if name not in fields or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f'{place}: "{name}" is {json.dumps(value)}')
    return value


def _object(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place} is not an object")
    return value

"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import BuildError


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file under another name first, so that nobody ever sees half of it."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise BuildError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink()
        raise BuildError(f"cannot write {path}: {error.strerror}") from error


def cache_folder() -> Path:
    """Where this user's caches of Outboard are: ``$OUTBOARD_CACHE``, or a folder of the system's place for caches."""
    named, cache = os.environ.get("OUTBOARD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else (Path(cache) if cache else Path.home() / ".cache") / "outboard"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

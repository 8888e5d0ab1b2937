"""What sessions raise.

Every error has a ``code`` (``outboard explain CODE`` prints its page), a ``kind``, a ``help`` text, the ``number`` that
the C library returns for it, and the ``text`` that the module had printed::

    try:
        module(x)
    except outboard.errors.DeviceLost as lost:
        print(lost, lost.help, lost.text)
"""

from __future__ import annotations

__all__ = [
    "Busy",
    "CallFailed",
    "CapacityFixed",
    "DeadlineError",
    "DeviceError",
    "DeviceLost",
    "Error",
    "InputMismatch",
    "LoadFailed",
    "ModuleError",
    "NoDevice",
    "NoPermission",
    "OutOfMemory",
    "RequestError",
    "SessionClosed",
    "StaleBuffer",
    "StaleModule",
    "UnreadableFile",
    "VersionMismatch",
    "WindowTooSmall",
    "WrongOwner",
]


class Error(RuntimeError):
    """An error of a session."""

    #: Code with a page of its own, such as ``OB0301``; empty for wrong uses of the interface.
    code: str = ""
    #: Name for programs, such as ``device_lost``.
    kind: str = ""
    #: What to do about it.
    help: str = ""
    #: What the C library returns for it.
    number: int = 0
    #: What the module had printed.
    text: str = ""


class RequestError(Error, ValueError):
    """The request cannot be carried out as it was made."""


class DeviceError(Error):
    """The device, or the way to it, failed."""


class ModuleError(Error):
    """The module was judged bad."""


class DeadlineError(Error, TimeoutError):
    """A deadline passed."""


class DeviceLost(DeviceError):
    """The device crashed or vanished. The next load starts it again."""


class NoDevice(DeviceError):
    """There is no such device."""


class NoPermission(DeviceError, PermissionError):
    """A node of the device may not be opened; ``help`` has the udev rule."""


class Busy(DeviceError):
    """The device serves another client."""


class VersionMismatch(DeviceError):
    """Firmware and host speak different protocols; the message says which side to update."""


class OutOfMemory(DeviceError, MemoryError):
    """A pool has no room; the message names it with its figures."""


class CallFailed(DeviceError):
    """The module's entry failed."""


class LoadFailed(ModuleError):
    """The device cannot load the module; the message names every missing symbol."""


class UnreadableFile(RequestError, FileNotFoundError):
    """The file cannot be read."""


class InputMismatch(RequestError):
    """The inputs are not what the module declares. Nothing was sent."""


class WindowTooSmall(RequestError):
    """The tensors do not fit the reserved room; ``help`` says how much to reserve."""


class CapacityFixed(RequestError):
    """Room can be reserved only before the first use of a buffer."""


class StaleModule(RequestError):
    """The module was lost with a crash or a restart, or unloaded."""


class StaleBuffer(RequestError):
    """The buffer was lost with its module or its window."""


class WrongOwner(RequestError):
    """A buffer was used by the side that does not own it."""


class SessionClosed(RequestError):
    """The session is closed."""


_CLASSES: dict[str, type[Error]] = {
    "request": RequestError,
    "device": DeviceError,
    "file": ModuleError,
    "deadline": DeadlineError,
}
_KINDS: dict[str, type[Error]] = {
    "busy": Busy,
    "call_failed": CallFailed,
    "capacity_fixed": CapacityFixed,
    "closed": SessionClosed,
    "device_lost": DeviceLost,
    "input_count": InputMismatch,
    "input_mismatch": InputMismatch,
    "load_failed": LoadFailed,
    "no_device": NoDevice,
    "no_permission": NoPermission,
    "no_standing_device": NoDevice,
    "out_of_memory": OutOfMemory,
    "stale_buffer": StaleBuffer,
    "stale_module": StaleModule,
    "unreadable_file": UnreadableFile,
    "version_mismatch": VersionMismatch,
    "window_too_small": WindowTooSmall,
    "wrong_owner": WrongOwner,
}


def from_native(kind: str, group: str, message: str, code: str | None, number: int, help: str, text: str) -> Error:
    """The exception for an error of the extension module."""
    error = _KINDS.get(kind, _CLASSES.get(group, Error))(f"{code}: {message}" if code else message)
    error.kind, error.code, error.number, error.help, error.text = kind, code or "", number, help, text
    if help and hasattr(error, "add_note"):
        error.add_note(f"help: {help}")
    return error

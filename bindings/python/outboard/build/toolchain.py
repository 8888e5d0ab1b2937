"""The C compiler: finds it, asks it what CPU it compiles for, compiles and links a module.

The flags, and why each is there: docs/reference/models.md, "Compiling".
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

C_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fno-builtin-printf",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-asynchronous-unwind-tables",
)
LINK_FLAGS = (
    "-shared",
    "-nostdlib",
    "-nostartfiles",
    "-Wl,--hash-style=both",
    "-Wl,--build-id=none",
    "-Wl,-z,now",
    "-Wl,-z,relro",
    "-Wl,-z,noexecstack",
    "-Wl,-z,separate-code",
)

TARGETS = ("host", "host-native", "c-only")

# Portable level of each machine, and the names the loader knows each compiler macro by.
_PORTABLE = {"x86-64": "x86-64-v2", "aarch64": "armv8-a"}
# Levels that a portable module has its kernels for as well; data/levels.c chooses between them at run time.
_LEVELS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "x86-64": (("v3", ("-march=x86-64-v3",)), ("v4", ("-march=x86-64-v4", "-mavx512vnni"))),
}
# Vectors that the kernels of a module with levels are written for: bytes, and how many registers there are.
_LEVELLED_VECTORS = (32, 32)
_FEATURES: dict[str, tuple[tuple[str, str], ...]] = {
    "x86-64": (
        ("__SSE3__", "sse3"),
        ("__SSSE3__", "ssse3"),
        ("__SSE4_1__", "sse4.1"),
        ("__SSE4_2__", "sse4.2"),
        ("__POPCNT__", "popcnt"),
        ("__AVX__", "avx"),
        ("__AVX2__", "avx2"),
        ("__BMI__", "bmi1"),
        ("__BMI2__", "bmi2"),
        ("__F16C__", "f16c"),
        ("__FMA__", "fma"),
        ("__LZCNT__", "lzcnt"),
        ("__MOVBE__", "movbe"),
        ("__AVX512F__", "avx512f"),
        ("__AVX512BW__", "avx512bw"),
        ("__AVX512CD__", "avx512cd"),
        ("__AVX512DQ__", "avx512dq"),
        ("__AVX512VL__", "avx512vl"),
        ("__AVX512IFMA__", "avx512ifma"),
        ("__AVX512VBMI__", "avx512vbmi"),
        ("__AVX512VBMI2__", "avx512vbmi2"),
        ("__AVX512VNNI__", "avx512vnni"),
        ("__AVX512BITALG__", "avx512bitalg"),
        ("__AVX512VPOPCNTDQ__", "avx512vpopcntdq"),
        ("__AVX512BF16__", "avx512bf16"),
        ("__AVX512FP16__", "avx512fp16"),
        ("__AVXVNNI__", "avxvnni"),
        ("__GFNI__", "gfni"),
    ),
    "aarch64": (
        ("__ARM_NEON", "neon"),
        ("__ARM_FEATURE_FP16_VECTOR_ARITHMETIC", "fp16"),
        ("__ARM_FEATURE_DOTPROD", "dotprod"),
        ("__ARM_FEATURE_ATOMICS", "lse"),
        ("__ARM_FEATURE_QRDMX", "rdm"),
        ("__ARM_FEATURE_MATMUL_INT8", "i8mm"),
        ("__ARM_FEATURE_BF16", "bf16"),
        ("__ARM_FEATURE_SVE", "sve"),
        ("__ARM_FEATURE_SVE2", "sve2"),
    ),
}


@dataclass(frozen=True)
class Machine:
    """A CPU as the module's note describes it, and the flag that makes the compiler compile for it."""

    arch: str
    march: str
    features: tuple[str, ...]
    vector_bytes: int
    """Width of one vector register, of the widest that the kernels are written for."""
    vector_registers: int
    """How many of them there are."""

    @property
    def is_native(self) -> bool:
        """Whether it is one CPU with all it has, not all CPUs of a level."""
        return self.march == "native"


def level_flags(machine: Machine, levels: bool = True) -> dict[str, tuple[str, ...]]:
    """The compiler flags of each level of a file, by the suffix of its object; the first is for the machine itself.

    A native machine has one level, and so has a file without ``levels``.
    """
    more = _LEVELS.get(machine.arch, ()) if levels and not machine.is_native else ()
    # Products and sums are fused in code for one CPU only; portable code gives the same bits on all.
    contract = "-ffp-contract=fast" if machine.is_native else "-ffp-contract=off"
    here = (contract, f"-march={machine.march}", *(("-DOUTBOARD_LEVELS",) if more else ()))
    return {"": here, **{name: (contract, *flags, f"-DOUTBOARD_LEVEL=outboard_run_{name}") for name, flags in more}}


class Compiler:
    """A C compiler for this machine: ``$CC``, or the first of cc, gcc and clang that is there."""

    def __init__(self, command: str | None = None) -> None:
        chosen = command or os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
        if chosen is None:
            raise BuildError("there is no C compiler", hint="install gcc or clang (Debian: apt install gcc), or set CC")
        self.command = shlex.split(chosen)

    def machine(self, native: bool) -> Machine:
        """What the code is compiled for: the portable level of this machine, or (``native``) all it has."""
        arch = {"x86_64": "x86-64", "amd64": "x86-64", "arm64": "aarch64"}.get(
            platform.machine().lower(), platform.machine().lower()
        )
        if arch not in _PORTABLE:
            raise BuildError(
                f"no simulated device runs on this machine's CPU ({arch})",
                hint="--target c-only writes the C source for another compiler",
            )
        march = "native" if native else _PORTABLE[arch]
        features = self._features(arch, (f"-march={march}",))
        if "avx512f" in features:
            vectors = (64, 32)
        elif "avx" in features:
            vectors = (32, 16)
        else:
            vectors = (16, 16 if arch == "x86-64" else 32)
        if not native and arch in _LEVELS:
            vectors = _LEVELLED_VECTORS
        return Machine(arch, march, features, *vectors)

    def compile_and_link(
        self,
        sources: dict[str, bytes],
        data: dict[str, bytes],
        soname: str,
        machine: Machine,
        levelled: str | None = None,
    ) -> bytes:
        """Compiles ``sources`` (name → text) beside ``data`` (name → bytes) into one shared ELF, and returns it.

        The source ``levelled`` of a portable module is compiled for every level of the CPU.

        File names and the directory do not reach the result: the same input gives the same bytes.
        """
        with tempfile.TemporaryDirectory(prefix="outboard-build-") as directory:
            for name, content in {**sources, **data}.items():
                (Path(directory) / name).write_bytes(content)
            objects = []
            for name in sources:
                for suffix, level in level_flags(machine, levels=name == levelled).items():
                    obj = f"{Path(name).stem}{suffix}.o"
                    self.run([*C_FLAGS, *level, "-I.", "-c", name, "-o", obj], directory)
                    objects.append(obj)
            self.run([*LINK_FLAGS, f"-Wl,-soname,{soname}", *objects, "-lgcc", "-o", "module"], directory)
            return (Path(directory) / "module").read_bytes()

    def best_level(self, machine: Machine) -> tuple[str, ...]:
        """The compiler flags of the best of a machine's levels that this CPU has."""
        has = set(self.machine(native=True).features)
        levels = list(level_flags(machine).values())
        return next((level for level in reversed(levels) if has >= set(self._features(machine.arch, level))), levels[0])

    def library(self, source: str, level: Sequence[str], directory: Path) -> ctypes.CDLL:
        """Compiles a source for a level, and loads it."""
        (directory / "kernels.c").write_text(source)
        self.run([*C_FLAGS, *level, "-shared", "kernels.c", "-o", "kernels.so", "-lm"], str(directory))
        return ctypes.CDLL(str(directory / "kernels.so"))

    def _features(self, arch: str, flags: Sequence[str]) -> tuple[str, ...]:
        """The CPU features that the compiler uses with these flags."""
        text = self.run([*flags, "-dM", "-E", "-x", "c", os.devnull])
        macros = {line.split()[1] for line in text.splitlines() if line.startswith("#define ")}
        return tuple(dict.fromkeys(name for macro, name in _FEATURES[arch] if macro in macros))

    def run(self, arguments: list[str], directory: str | None = None) -> str:
        """Runs the compiler in a directory and gives what it prints; a :class:`BuildError` has its first error."""
        command = [*self.command, *arguments]
        try:
            done = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
            )
        except OSError as error:
            raise BuildError(f"the C compiler {self.command[0]!r} does not start: {error}") from error
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            first = next((line for line in lines if "error" in line), lines[0] if lines else "no message")
            raise BuildError(f"the C compiler failed: {first}", hint=f"the command was: {shlex.join(command)}")
        return done.stdout

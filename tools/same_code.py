"""Compares the machine code of two source trees: `python tools/same_code.py OLD NEW`.

OLD and NEW are folders, or commits of the repository in the current folder. Moves, renames and comments must not change
any function: then results and speed are unchanged, and need no measurement.

GPU  each kernel as PTX for compute capability 9.0, from the sources assembled by the tree's own `kernel_sources`
CPU  each function as GCC assembly, with the flags of the tree's own CMakeLists.txt; once per instruction set

Compared: instructions, their order and constant values. Ignored: numbers of labels and PTX registers, alignment,
function order, the file of a function, and names of file-local functions.

  --names FILE    lines `old new`: identifiers renamed in NEW
  --offsets       accepts other offsets of kernel arguments (GPU) and of memory operands (CPU), for changed argument
                  structs
  --show NAME     diff of the functions whose names contain NAME
  --only gpu|cpu
  --flags FLAGS   additional GCC flags. GCC's inlining budget is per file, so other functions in a file and their order
                  matter; --flags="--param large-unit-insns=1000000000" rules this out

The exit status is 1 where a function differs or exists in one tree only. Needs the extra `test`, CMake, and GCC for
x86-64. Compiler output is cached in the temporary folder.
"""

from __future__ import annotations

import argparse
import collections
import difflib
import functools
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nvrtc

ARCHITECTURE = "compute_90"
SHOWN_LINES = 80
FETCH_SOURCES = """
import json
try:
    from sdfcli.backend.cuda.kernels import COMPILER_OPTIONS, kernel_sources
except ImportError:  # an earlier tree
    from sdfcli.backend.cuda import COMPILER_OPTIONS, kernel_sources
print(json.dumps([COMPILER_OPTIONS, list(dict.fromkeys(kernel_sources().values()))]))
"""


@dataclass
class Function:
    """Normalised lines of code, exact and with masked offsets. «NAME» is a reference to another function.

    exported  the name is visible outside the file
    """

    exact: list[str]
    masked: list[str]
    exported: bool

    def renamed(self, rename: Callable[[str], str]) -> Function:
        """The function with its references renamed."""

        def changed(lines: list[str]) -> list[str]:
            return [
                re.sub("«(.+?)»", lambda match: f"«{rename(match[1])}»", line) if "«" in line else line
                for line in lines
            ]

        return Function(changed(self.exact), changed(self.masked), self.exported)


Functions = dict[str, Function]


def main() -> None:
    """Compares two trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--names", type=Path)
    parser.add_argument("--offsets", action="store_true")
    parser.add_argument("--show", default="")
    parser.add_argument("--only", choices=["gpu", "cpu"])
    parser.add_argument("--flags", type=shlex.split, default=[])
    options = parser.parse_args()
    lines = options.names.read_text().splitlines() if options.names else []
    names = dict(line.split() for line in lines if line.strip())
    same = True
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        trees = [source_tree(given, Path(folder, side)) for side, given in (("old", options.old), ("new", options.new))]
        for kind, compile_tree in (("gpu", gpu_tree), ("cpu", functools.partial(cpu_tree, flags=options.flags))):
            if options.only in (None, kind):
                old, new = (compile_tree(tree, pool) for tree in trees)
                same &= report(kind, compare(old, new, names), options.offsets, options.show)
    sys.exit(0 if same else 1)


def source_tree(given: str, folder: Path) -> Path:
    """A folder, or the files of a commit unpacked into `folder`."""
    if Path(given).is_dir():
        return Path(given).resolve()
    archive = subprocess.run(["git", "archive", "--format=tar", given], check=True, capture_output=True).stdout
    folder.mkdir()
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
    return folder


# Compiling


def gpu_tree(tree: Path, pool: ThreadPoolExecutor) -> Functions:
    """A tree's kernels, by name."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", FETCH_SOURCES]
    options, sources = json.loads(
        subprocess.run(command, env=environment, cwd=tempfile.gettempdir(), check=True, stdout=subprocess.PIPE).stdout
    )
    options += [f"--gpu-architecture={ARCHITECTURE}"]
    return merged(pool.map(lambda source: gpu_functions(ptx(source, options)), sources))


def ptx(source: str, options: list[str]) -> str:
    """A module compiled by NVRTC."""
    text = re.sub(r"//.*|/\*[\s\S]*?\*/", "", source)
    compile_source = lambda: nvrtc.compile_kernels(source, *options, result="PTX").rstrip(b"\0").decode()  # noqa: E731
    return kept((nvrtc.version(), options, text), compile_source)


def cpu_tree(tree: Path, pool: ThreadPoolExecutor, flags: list[str]) -> Functions:
    """A tree's CPU functions, by name and instruction set."""
    found = re.search(r'cmake\.source-dir *= *"(.+)"', (tree / "pyproject.toml").read_text())
    assert found, "no cmake.source-dir in pyproject.toml"
    with tempfile.TemporaryDirectory() as build:
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        definitions = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_COMPILER=g++"]
        configure = ["cmake", *generator, "-S", tree / found[1], "-B", build, *definitions]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
        commands = json.loads(Path(build, "compile_commands.json").read_text())
        return merged(
            pool.map(lambda each: cpu_file([*shlex.split(each["command"]), *flags], each["directory"]), commands)
        )


def cpu_file(command: list[str], folder: str) -> Functions:
    """Functions of one C++ file, from a command that compiles to an object file."""
    target = command.index("-o")
    command = [word for word in command[:target] + command[target + 2 :] if word != "-c"]
    flags = [word for word in command[1:] if "/" not in word]

    def output(*more: str) -> str:
        return subprocess.run([*command, *more], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    version = subprocess.run([command[0], "--version"], check=True, capture_output=True, text=True).stdout
    text = kept((version, flags, output("-E", "-P", "-o", "-")), lambda: output("-S", "-o", "-"))
    instructions = " ".join(flag for flag in flags if flag.startswith("-m"))
    return cpu_functions(text, instructions)


def kept(made_of: object, make: Callable[[], str]) -> str:
    """Compiler output, cached by all its inputs."""
    folder = Path(tempfile.gettempdir(), f"same_code-{os.getuid()}")
    file = folder / hashlib.sha256(repr(made_of).encode()).hexdigest()
    if not file.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as temporary:
            temporary.write(make())
        Path(temporary.name).replace(file)
    return file.read_text()


def merged(parts: Iterable[Functions]) -> Functions:
    """Merges functions of all files. Identical ones become one, others with the same name are numbered."""
    every: Functions = {}
    for part in parts:
        for name, function in part.items():
            numbered = (name if number == 1 else f"{name} #{number}" for number in itertools.count(1))
            free = next(each for each in numbered if each not in every or every[each] == function)
            every[free] = function
    return every


# PTX


def gpu_functions(text: str) -> Functions:
    """A module's kernels."""
    text = re.sub(r"//.*", "", text)
    variables = {
        name: f"[{kind}]" for kind, name in re.findall(r"^(\.(?:shared|global|const)\b.*?)\b(_Z\w+)", text, re.M)
    }
    for name in variables:
        size = re.search(rf"\b{name}(.*);", text)
        variables[name] += size[1] if size else ""
    kernels = re.findall(r"\.(?:entry|func)\s[^(]*?(\w+)\(([^)]*)\)([^{]*)\{\n(.*?)^\}", text, re.M | re.S)
    return {
        name: Function(
            *(normalised_ptx(name, parameters, head + body, variables, masks) for masks in (False, True)), True
        )
        for name, parameters, head, body in kernels
    }


def normalised_ptx(name: str, parameters: str, body: str, variables: dict[str, str], masks: bool) -> list[str]:
    """A kernel's instructions, with registers and labels numbered in order of appearance.

    masks  also number kernel arguments in this way, regardless of offset and load position
    """
    lines = [re.sub(r"\s+", " ", line).strip() for line in body.splitlines()]
    lines = [line for line in lines if line and not re.match(r"\.(reg|loc|file)\b", line)]
    if masks:
        lines = without_loads(lines, f"{name}_param_0")
    else:
        lines.insert(0, " ".join(parameters.split()))
    numbers: dict[str, dict[str, str]] = collections.defaultdict(dict)

    def numbered(match: re.Match[str]) -> str:
        token = match[0]
        if token in variables:
            return "{" + variables[token] + "}" + numbered_as("variable", token)
        return numbered_as(token.rstrip("0123456789") if token[0] != "$" else "$L", token)

    def numbered_as(kind: str, token: str) -> str:
        known = numbers[kind]
        return known.setdefault(token, f"{kind}{len(known)}")

    lines = [line.replace(f"{name}_param_", "parameter ") for line in lines]
    tokens = re.compile(r"%[a-z]+\d+|\$L\w+|@(?:global@)?b\d+@\d+|__local_depot\d+|\b_Z\w+")
    return [tokens.sub(numbered, line) for line in lines]


def without_loads(lines: list[str], parameter: str) -> list[str]:
    """Lines that name arguments directly, @bBITS@OFFSET, in place of the registers that hold them."""
    address = re.compile(rf"mov\.b64 (%\w+), {parameter};")
    load = re.compile(r"ld\.param(?:\.v\d)?\.\w(\d+) \{?([^\[}]+)\}?, \[(%?\w+)(?:\+(\d+))?\];")
    convert = re.compile(r"cvta\.to\.global\.u64 (%\w+), (%\w+);")
    target = re.compile(r"(?:@!?%p\d+ )?(?!st|red)[a-z][\w.]* (?:\{(.+?)\}|(%\w+))")
    targets = [found[1] or found[2] for line in lines if (found := target.match(line))]
    written = collections.Counter(register for each in targets for register in each.split(", "))
    bases = {parameter, *(found[1] for line in lines if (found := address.fullmatch(line)))}
    values: dict[str, str] = {}
    others = []
    for line in lines:
        loaded, converted = load.fullmatch(line), convert.fullmatch(line)
        if loaded and loaded[3] in bases:
            bits, first = int(loaded[1]), int(loaded[4] or 0)
            for k, register in enumerate(loaded[2].split(", ")):
                value = f"@b{bits}@{first + k * bits // 8}"
                if written[register] == 1:
                    values[register] = value
                else:
                    others.append(f"ld.param {register}, {value};")
        elif converted and converted[2] in values and written[converted[1]] == 1:
            values[converted[1]] = f"@global{values[converted[2]]}"
        else:
            others.append(line)
    return [re.sub(r"%\w+", lambda match: values.get(match[0], match[0]), line) for line in others]


# Assembly for x86-64


def cpu_functions(text: str, instructions: str = "") -> Functions:
    """Functions of an assembly file, by name and instruction set flags."""
    code: dict[str, list[str]] = {"": []}
    data: dict[str, list[str]] = {}
    alias: dict[str, str] = {}
    section = function = table = ""
    for line in map(str.strip, text.splitlines()):
        word, _, rest = re.sub(r"\s+", " ", line).partition(" ")
        label = re.fullmatch(r"([^\s\"]+):", line)
        if label and section == "rodata":
            table = label[1]
            data[table] = []
        elif label and section == "text" and not line.startswith(".L"):
            function = label[1].removesuffix(".cold")
            code.setdefault(function, [])
        elif section == "text" and word and (label or word[0] not in ".#"):
            code[function].append(f"{word} {rest}".strip())
        elif section == "rodata" and re.match(r"\.(byte|value|long|quad|zero|string|ascii)\b", word):
            data[table].append(f"{word} {rest}")
        elif word in (".text", ".section"):
            section = next((kind for kind in ("text", "rodata") if f".{kind}" in line.split(",")[0]), "")
        elif word == ".set":
            name, _, value = rest.partition(",")
            alias[name] = value.strip()
    del code[""]
    names = {symbol: f"{name} {instructions}".strip() for symbol, name in demangled(code).items()}
    exported = set(re.findall(r"^\s*\.globl\s+(\S+)", text, re.M))
    return {
        names[symbol]: Function(*normalised_assembly(symbol, lines, names, data, alias), symbol in exported)
        for symbol, lines in code.items()
    }


def demangled(symbols: Iterable[str]) -> dict[str, str]:
    """Demangled C++ names by symbol."""
    symbols = list(symbols)
    filtered = subprocess.run(["c++filt"], input="\n".join(symbols), check=True, capture_output=True, text=True)
    return dict(zip(symbols, filtered.stdout.splitlines(), strict=True))


def normalised_assembly(
    function: str, lines: list[str], names: dict[str, str], data: dict[str, list[str]], alias: dict[str, str]
) -> tuple[list[str], list[str]]:
    """Instructions, exact and masked, with labels numbered in order and constants in place of their labels."""
    symbol = re.compile(r"(?<![%\w.$@])([A-Za-z_.][\w.$]*)(?:\+(\d+))?(@?)")

    def content(label: str, offset: int, size: int | None) -> str:
        while label in alias:
            label, _, more = alias[label].partition("+")
            offset += int(more or 0)
        items = [as_bytes(item) for item in data[label]]
        if None not in items:
            every = "".join(filter(None, items))[2 * offset :]
            return "{" + (every if size is None else every[: 2 * size]) + "}"
        return "{" + symbol.sub(lambda match: named(match, None), "; ".join(data[label])) + f"}}+{offset}"

    def named(match: re.Match[str], size: int | None) -> str:
        label, offset, linked = match[1], match[2], match[3]
        if label == function:
            return "«self»" + linked
        if label in data or (label in alias and label not in names):
            return content(label, int(offset or 0), size if label.startswith(".LC") else None)
        if label in names or linked:
            return f"«{names.get(label, label)}»{linked}"
        return match[0]

    code = []
    for line in lines:
        word, blank, operands = line.partition(" ")
        size = None if word == "lea" else operand_bytes(word, operands)
        code.append(word + blank + symbol.sub(lambda match, size=size: named(match, size), operands))
    used = set(re.findall(r"\.L\w+", "\n".join(line for line in code if not line.endswith(":"))))
    code = [line for line in code if not line.endswith(":") or line[:-1] in used]
    numbers = {line[:-1]: f"L{number}" for number, line in enumerate(line for line in code if line.endswith(":"))}
    exact = [re.sub(r"\.L\w+", lambda match: numbers[match[0]], line) for line in code]
    masks = re.compile(r"-?\d*\((?=[%,](?!rip))|(?<=(?:sub|add)q )\$-?\d+(?=, %rsp)")
    return exact, [masks.sub("D(", line) for line in exact]


def as_bytes(item: str) -> str | None:
    """Data in hexadecimal; None for text or references to labels."""
    word, _, value = item.partition(" ")
    size = {".byte": 1, ".value": 2, ".long": 4, ".quad": 8}.get(word)
    if word == ".zero":
        return "00" * int(value)
    if size is None or not re.fullmatch(r"-?\d+", value):
        return None
    return (int(value) % 256**size).to_bytes(size, "little").hex()


def operand_bytes(word: str, operands: str) -> int:
    """Upper bound of the bytes that an instruction reads of a constant: GCC lets short constants share the start of
    longer ones."""
    if "{1to" in operands:
        return 8 if "pd" in word or word.endswith("q") else 4
    if not word.startswith(("p", "vp")) and re.search("s[sd]", word):
        return 8 if "sd" in word else 4
    if word.endswith(("movd", "broadcastd")):
        return 4
    if word.endswith(("movq", "broadcastq")):
        return 8
    widths = {"%zmm": 64, "%ymm": 32, "%xmm": 16}
    return next((size for register, size in widths.items() if register in operands), 8)


# Comparing


def compare(old: Functions, new: Functions, names: dict[str, str]) -> dict[str, tuple[str, Function, Function]]:
    """For each function `identical`, `offsets`, `different`, `only in OLD` or `only in NEW`, and both versions.

    names  new identifiers by old ones
    """
    identifier = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    respelt: Callable[[str], str] = (lambda text: identifier.sub(lambda match: names[match[0]], text)) if names else str
    old = {respelt(name): function.renamed(respelt) for name, function in old.items()}
    moved = moves(old, new)
    old = {
        moved.get(name, name): function.renamed(lambda each: moved.get(each, each)) for name, function in old.items()
    }
    nothing = Function([], [], False)
    found = {}
    for name in {**old, **new}:
        one, other = old.get(name, nothing), new.get(name, nothing)
        if one is nothing or other is nothing:
            verdict = "only in OLD" if other is nothing else "only in NEW"
        elif one.exact == other.exact:
            verdict = "identical"
        else:
            verdict = "offsets" if one.masked == other.masked else "different"
        found[name] = verdict, one, other
    return found


def moves(old: Functions, new: Functions) -> dict[str, str]:
    """New names of non-exported functions that were renamed or moved to another file, matched by their code."""
    moved: dict[str, str] = {}
    while True:
        taken = set(moved.values())
        free = {
            tuple(function.masked): name
            for name, function in new.items()
            if not function.exported and name not in old and name not in taken
        }
        found = {}
        for name, function in old.items():
            if not function.exported and name not in new and name not in moved:
                code = tuple(function.renamed(lambda each: moved.get(each, each)).masked)
                if code in free:
                    found[name] = free.pop(code)
        if not found:
            return moved
        moved.update(found)


def report(kind: str, found: dict[str, tuple[str, Function, Function]], offsets: bool, show: str) -> bool:
    """Prints a table. Returns whether all functions are the same.

    offsets  compare only the masked code
    """
    allowed = ("identical", "offsets") if offsets else ("identical",)
    for name, (verdict, old, new) in sorted(found.items()):
        if verdict not in allowed:
            print(f"{kind}  {verdict:11}  {name}")
        if verdict != "identical" and show and show in name:
            sides = (old.masked, new.masked) if offsets else (old.exact, new.exact)
            lines = list(difflib.unified_diff(*sides, "OLD", "NEW", n=2, lineterm=""))
            print(*lines[:SHOWN_LINES], *["..."] * (len(lines) > SHOWN_LINES), sep="\n")
    counts = collections.Counter(verdict for verdict, _, _ in found.values())
    print(f"{kind}  {len(found)} functions: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return all(verdict in allowed for verdict, _, _ in found.values())


if __name__ == "__main__":
    main()

"""Cooked fields of scenes: Newton's own importers find each, plain, scaled or mirrored, and it is that of the shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import cook_parts
import shapes
from sdfcli.cook import CookConfig, cook

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("newton", "newton_usd_schemas", "pxr"))),
    reason="needs `pip install newton newton-usd-schemas usd-core`",
)
CELLS = 24
INSTANCE = "instanceable = true\nprepend references = </proto>"
TOOLS = Path(__file__).resolve().parents[2] / "tools"


def seen(*scenes: Path) -> list[list[dict[str, Any]]]:
    """Facts by newton_import.py."""
    program = Path(__file__).parent / "newton_import.py"
    done = subprocess.run(
        [sys.executable, program, *scenes],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TOOLS), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def check(facts: list[dict[str, Any]], count: int, longest: float) -> None:
    """All fields are found, zero at the shape's vertices and negative within."""
    assert len(facts) == count
    for each in facts:
        assert each["found"]
        assert each["surface"] <= longest / CELLS
        assert each["mean"] < 0


def cooked(scene: Path) -> Path:
    folder = scene.parent / "cooked"
    parts = cook(scene, "newton", folder, config=CookConfig(cells=CELLS), cache=scene.parent / "cache")
    assert [part.error for part in parts] == [None] * len(parts)
    return folder / scene.name


@pytest.fixture
def rng() -> np.random.Generator:
    return cook_parts.random()


def sizes(rng: np.random.Generator, mirrored: bool = False) -> str:
    scale = rng.uniform(0.3, 2, 3)
    if mirrored:
        scale[rng.integers(3)] *= -1
    return " ".join(map(repr, scale.tolist()))


def test_urdf_and_mjcf(rng: np.random.Generator, tmp_path: Path) -> None:
    """Meshes of files; cooked scenes have each by the scale's own file."""
    vertices, faces = shapes.star(rng, 1)
    longest = 2 * float(np.ptp(vertices, axis=0).max())
    scales = ["1 1 1", sizes(rng), sizes(rng, mirrored=True)]
    scenes = []
    for kind in ("urdf", "xml"):
        (tmp_path / kind).mkdir()
        trimesh.Trimesh(vertices, faces, process=False).export(tmp_path / kind / "star.stl")
        if kind == "urdf":
            links = [
                f'<link name="l{k}"><collision><geometry><mesh filename="star.stl" scale="{scale}"/></geometry>'
                "</collision></link>"
                for k, scale in enumerate(scales)
            ]
            joints = [
                f'<joint name="j{k}" type="fixed"><parent link="l0"/><child link="l{k}"/></joint>' for k in (1, 2)
            ]
            text = f'<robot name="r">{"".join(links + joints)}</robot>'
        else:
            assets = [f'<mesh name="m{k}" file="star.stl" scale="{scale}"/>' for k, scale in enumerate(scales)]
            geoms = [f'<body><geom type="mesh" mesh="m{k}"/></body>' for k in range(3)]
            text = f"<mujoco><asset>{''.join(assets)}</asset><worldbody>{''.join(geoms)}</worldbody></mujoco>"
        (tmp_path / kind / f"a.{kind}").write_text(text)
        scenes.append(cooked(tmp_path / kind / f"a.{kind}"))
    for facts in seen(*scenes):
        check(facts, 3, longest)


def tuples(rows: Any) -> str:
    return ", ".join(str(tuple(map(float, row))) for row in rows)


def prim(name: str, mesh: tuple[cook_parts.Floats, Any], *lines: str) -> str:
    """A collider of a stage."""
    below = "\n".join(lines)
    return f"""
def Mesh "{name}" (prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]) {{
    point3f[] points = [{tuples(mesh[0])}]
    int[] faceVertexCounts = {[len(face) for face in mesh[1]]}
    int[] faceVertexIndices = {[int(corner) for face in mesh[1] for corner in face]}
    {below}
}}
"""


def moved(**ops: str) -> list[str]:
    """Lines for transforms."""
    kinds = {"rotateXYZ": "double3", "scale": "float3"}
    lines = [f"{kinds[name]} xformOp:{name} = ({', '.join(value.split())})" for name, value in ops.items()]
    order = ", ".join(f'"xformOp:{name}"' for name in ops)
    return [*lines, f"uniform token[] xformOpOrder = [{order}]"]


def xform(kind: str, name: str, body: str, turn: str = "0 0 0", head: str = "", size: float = 1.7) -> str:
    """A prim, turned and scaled."""
    lines = "\n".join(moved(rotateXYZ=turn, scale=f"{size} {size} {size}"))
    return f'{kind} "{name}" ({head}) {{\n{lines}\n{body}\n}}\n'


def test_usd(rng: np.random.Generator, tmp_path: Path) -> None:
    """Meshes of prims, which Newton scales itself; drawn ones have other vertices there."""
    star = shapes.star(rng, 1)
    box = trimesh.creation.box(rng.uniform(0.5, 1.5, 3)).vertices
    order = np.lexsort(box.T[::-1])
    quads = box[order], [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    flat = 'uniform token subdivisionScheme = "none"'
    corner = [
        np.cross(quads[0][face[1]] - quads[0][face[0]], quads[0][face[2]] - quads[0][face[0]]) for face in quads[1]
    ]
    hard = f'normal3f[] normals = [{tuples(np.repeat(corner, 4, axis=0))}] (interpolation = "faceVarying")'
    soft = f'normal3f[] normals = [{tuples(star[0])}] (interpolation = "vertex")'
    outward = star[0][star[1].ravel()]
    outward = outward / np.linalg.norm(outward, axis=1, keepdims=True)
    uneven = outward + 0.3 * rng.normal(size=outward.shape)  # some 25 degrees from each other
    rough = f'normal3f[] primvars:normals = [{tuples(uneven)}] (interpolation = "faceVarying")'
    turn = " ".join(map(repr, rng.uniform(-90, 90, 3).tolist()))
    prims = [
        prim("plain", star),
        prim("flat", star, flat),
        prim("hidden", star, flat, 'uniform token purpose = "guide"'),
        prim("soft", star, flat, soft),
        prim("hard", quads, flat, hard),
        prim("rough", star, rough),
        prim("left", (quads[0], [face[::-1] for face in quads[1]]), 'uniform token orientation = "leftHanded"', hard),
        prim("quads", quads, flat, *moved(scale=sizes(rng, mirrored=True))),
        prim("scaled", star, *moved(scale=sizes(rng))),
        prim("mirrored", star, flat, *moved(rotateXYZ=turn, scale=sizes(rng, mirrored=True))),
        xform("def Xform", "x", prim("nested", star, flat, *moved(scale=sizes(rng, mirrored=True))), turn),
        xform("class Xform", "proto", prim("m", star, flat)),
        *(xform("def", f"i{k}", "", turn, INSTANCE, size) for k, size in enumerate((0.7, 0.7, 1.3))),
    ]
    path = tmp_path / "a.usda"
    path.write_text(f"#usda 1.0\n(\nmetersPerUnit = 1\n)\n{''.join(prims)}")
    (facts,) = seen(cooked(path))
    check(facts, 14, 4 * float(np.ptp(star[0], axis=0).max()))

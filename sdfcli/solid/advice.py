"""Advice for meshes without a clear inside: the flood, and a gap for it."""

from __future__ import annotations

from typing import Any

from sdfcli.backend import Backend, select_backend
from sdfcli.errors import OutOfMemoryError
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import AUTO, FLOOD, GAP
from sdfcli.solid.flood import Unsigned
from sdfcli.solid.gap import smallest

COARSE = 2 * GAP
"""Smallest gap that is tested, in diagonals: half as large, it would take four times as long."""
MOST = 50_000
"""Maximum triangle count for a test, so that it takes no longer than a build."""


def advice_for(mesh: Mesh, backend: Backend, most_memory: int | None = None) -> dict[str, Any]:
    """Sign and gap for a build that makes the mesh a solid, as in a field's info. The gap is the smallest tested one
    that holds, as a fraction of the diagonal; None, untested, above MOST triangles and where memory does not suffice.

    On the CPU: a GPU's first flood would wait for CuPy's compiler."""
    if len(mesh.faces) > MOST:
        return {"sign": FLOOD, "gap": None}
    if backend.name != "cpu":
        backend = select_backend("cpu")
    radius = COARSE * mesh.diagonal
    try:
        with backend.active():
            found = Unsigned.of(mesh, radius, radius, backend, most_memory)
            # Two digits, rounded up: a larger ball holds, too.
            return {"sign": FLOOD, "gap": float(f"{smallest(found, radius, backend) / mesh.diagonal * 1.05:.1e}")}
    except OutOfMemoryError:
        return {"sign": FLOOD, "gap": None}


def advice_text(advice: dict[str, Any]) -> str:
    """Advice as a note. advice: from `advice_for`."""
    gap = AUTO if advice["gap"] is None else f"{advice['gap']:g}"
    return f"signs are doubtful; --sign {advice['sign']} --gap {gap} makes a solid of what is seen from outside"

"""Triangle meshes: loading, checks, repair."""

from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh

__all__ = ["Mesh", "load_mesh"]

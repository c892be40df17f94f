"""Signed distance fields from triangle meshes: adaptive octrees in HDF5, built on the CPU or an NVIDIA GPU."""

from __future__ import annotations

try:
    from sdfcli._version import __version__  # written by the build
except ImportError:  # source tree
    __version__ = "0.1.0"  # equals fallback_version in pyproject.toml

    def _installed() -> list[str]:
        """The installed package's folder, if Python was started in the source tree, which has no compiled kernels."""
        import os
        import sys

        first, *others = [os.path.realpath(folder) for folder in sys.path] or [""]
        tree = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        if first != tree or "SDFCLI_KERNEL_LIBRARY" in os.environ:
            return []
        found = [os.path.join(folder, "sdfcli") for folder in others]
        return [folder for folder in found if os.path.exists(os.path.join(folder, "_version.py"))][:1]

    if _found := _installed():
        __path__ = _found
        from sdfcli._version import __version__

__all__ = [
    "Comparison",
    "Contacts",
    "Deviation",
    "DeviceArrays",
    "Estimate",
    "Field",
    "FieldSequence",
    "FirstContact",
    "Grid",
    "Manifold",
    "MeshCheck",
    "MeshDistance",
    "NearestPoints",
    "PosedMesh",
    "RayHits",
    "Samples",
    "Solid",
    "SphereTree",
    "State",
    "Surface",
    "Thickness",
    "Verification",
    "View",
    "__version__",
    "build",
    "build_sequence",
    "check",
    "compare",
    "comparison_image",
    "contacts",
    "estimate",
    "first_contact",
    "flow",
    "isosurface",
    "load",
    "load_poses",
    "load_sequence",
    "nearest_neighbours",
    "neighbours_within",
    "render",
    "sampler_source",
    "samples",
    "slice_image",
    "solidify",
    "thickness",
    "verify",
]

TYPE_CHECKING = False  # importing `typing` takes longer than this whole module
if TYPE_CHECKING:
    from sdfcli.apps.flow.run import State, flow
    from sdfcli.batch.check import check
    from sdfcli.export.lattice import Grid
    from sdfcli.export.samples import Samples, samples
    from sdfcli.extract.isosurface import isosurface
    from sdfcli.extract.marching_cubes import Surface
    from sdfcli.field.device_arrays import DeviceArrays, sampler_source
    from sdfcli.field.field import Field
    from sdfcli.field.store import load
    from sdfcli.pictures.comparison import comparison_image
    from sdfcli.pictures.posed import PosedMesh
    from sdfcli.pictures.render import render
    from sdfcli.pictures.slice import slice_image
    from sdfcli.pictures.view.page import View
    from sdfcli.pipeline import build
    from sdfcli.quality.check import MeshCheck
    from sdfcli.quality.comparison import Comparison, Deviation, compare
    from sdfcli.quality.estimate import Estimate, estimate
    from sdfcli.quality.verification import Verification, verify
    from sdfcli.quality.walls import Thickness, thickness
    from sdfcli.query.contacts import Contacts, Manifold, contacts
    from sdfcli.query.first_contact import FirstContact, first_contact
    from sdfcli.query.mesh_distance import MeshDistance, NearestPoints, RayHits
    from sdfcli.query.neighbours import nearest_neighbours, neighbours_within
    from sdfcli.query.poses import load_poses
    from sdfcli.query.sphere_tree import SphereTree
    from sdfcli.sequence.build import build_sequence
    from sdfcli.sequence.field_sequence import FieldSequence
    from sdfcli.sequence.file import load_sequence
    from sdfcli.solid.solidify import Solid, solidify

_HOME = {
    "Comparison": "quality.comparison",
    "Contacts": "query.contacts",
    "Deviation": "quality.comparison",
    "DeviceArrays": "field.device_arrays",
    "Estimate": "quality.estimate",
    "Field": "field.field",
    "FieldSequence": "sequence.field_sequence",
    "FirstContact": "query.first_contact",
    "Grid": "export.lattice",
    "Manifold": "query.contacts",
    "MeshCheck": "quality.check",
    "MeshDistance": "query.mesh_distance",
    "NearestPoints": "query.mesh_distance",
    "PosedMesh": "pictures.posed",
    "RayHits": "query.mesh_distance",
    "Samples": "export.samples",
    "Solid": "solid.solidify",
    "SphereTree": "query.sphere_tree",
    "State": "apps.flow.run",
    "Surface": "extract.marching_cubes",
    "Thickness": "quality.walls",
    "Verification": "quality.verification",
    "View": "pictures.view.page",
    "build": "pipeline",
    "build_sequence": "sequence.build",
    "check": "batch.check",
    "compare": "quality.comparison",
    "comparison_image": "pictures.comparison",
    "contacts": "query.contacts",
    "estimate": "quality.estimate",
    "first_contact": "query.first_contact",
    "flow": "apps.flow.run",
    "isosurface": "extract.isosurface",
    "load": "field.store",
    "load_poses": "query.poses",
    "load_sequence": "sequence.file",
    "nearest_neighbours": "query.neighbours",
    "neighbours_within": "query.neighbours",
    "render": "pictures.render",
    "sampler_source": "field.device_arrays",
    "samples": "export.samples",
    "slice_image": "pictures.slice",
    "solidify": "solid.solidify",
    "thickness": "quality.walls",
    "verify": "quality.verification",
}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        # Imports NumPy, trimesh and h5py on first use: `sdfcli --help` is instant.
        if name in _HOME:
            from importlib import import_module

            return getattr(import_module(f"sdfcli.{_HOME[name]}"), name)
        raise AttributeError(f"module 'sdfcli' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

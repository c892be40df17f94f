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
    "Field",
    "FieldSequence",
    "MeshDistance",
    "SphereTree",
    "__version__",
    "build",
    "build_sequence",
    "check",
    "contacts",
    "estimate",
    "first_contact",
    "flow",
    "isosurface",
    "load",
    "load_sequence",
    "nearest_neighbours",
    "render",
    "sampler_source",
    "samples",
    "slice_image",
    "verify",
]

TYPE_CHECKING = False  # importing `typing` takes longer than this whole module
if TYPE_CHECKING:
    from sdfcli.apps.flow.run import flow
    from sdfcli.batch.check import check
    from sdfcli.export.samples import samples
    from sdfcli.extract.isosurface import isosurface
    from sdfcli.field.device_arrays import sampler_source
    from sdfcli.field.field import Field
    from sdfcli.field.store import load
    from sdfcli.pictures.render import render
    from sdfcli.pictures.slice import slice_image
    from sdfcli.pipeline import build
    from sdfcli.quality.estimate import estimate
    from sdfcli.quality.verification import verify
    from sdfcli.query.contacts import contacts
    from sdfcli.query.first_contact import first_contact
    from sdfcli.query.mesh_distance import MeshDistance
    from sdfcli.query.neighbours import nearest_neighbours
    from sdfcli.query.sphere_tree import SphereTree
    from sdfcli.sequence.build import build_sequence
    from sdfcli.sequence.field_sequence import FieldSequence
    from sdfcli.sequence.file import load_sequence

_HOME = {
    "Field": "field.field",
    "FieldSequence": "sequence.field_sequence",
    "MeshDistance": "query.mesh_distance",
    "SphereTree": "query.sphere_tree",
    "build": "pipeline",
    "build_sequence": "sequence.build",
    "check": "batch.check",
    "contacts": "query.contacts",
    "estimate": "quality.estimate",
    "first_contact": "query.first_contact",
    "flow": "apps.flow.run",
    "isosurface": "extract.isosurface",
    "load": "field.store",
    "load_sequence": "sequence.file",
    "nearest_neighbours": "query.neighbours",
    "render": "pictures.render",
    "sampler_source": "field.device_arrays",
    "samples": "export.samples",
    "slice_image": "pictures.slice",
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

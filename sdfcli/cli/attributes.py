"""Attributes of HDF5 files, as records for `sdfcli schema file`. docs/reference/file.md explains them."""

from __future__ import annotations

from typing import Annotated

from sdfcli.cli.records import Json, Record, SequenceFacts, Vector, one_of, schema_of, stored
from sdfcli.field.schema import INFO, as_json_schema
from sdfcli.field.store import FORMAT, FORMAT_VERSION, PARTS, SEQUENCE
from sdfcli.sequence.file import FORMAT_VERSION as SEQUENCE_VERSION
from sdfcli.sequence.file import MOST_FRAMES
from sdfcli.spatial.morton import LATTICE_BITS

SHA256 = stored("mesh", "sha256")
POSITIVE = {"exclusiveMinimum": 0}


def _in_text(content: Json) -> Json:
    return {"contentMediaType": "application/json", "contentSchema": content}


class Attributes(Record):
    """Attributes of both kinds of files."""

    tool_version: Annotated[str, "sdfcli version that wrote the file"]
    domain_origin: Annotated[Vector, "lower corner x, y, z of the domain, in the mesh's units"]
    domain_length: Annotated[float, POSITIVE, "domain edge, in the mesh's units"]
    content_sha256: Annotated[str, SHA256, "checksum of the data"]
    attributes_sha256: Annotated[str, SHA256, "checksum of the other attributes"]


class FieldAttributes(Attributes):
    """Attributes of a field file's root, and of a sequence frame's group."""

    format: Annotated[str, one_of(FORMAT), "file kind"]
    format_version: Annotated[int, one_of(FORMAT_VERSION), "see [versions](file.md#versions)"]
    lattice_bits: Annotated[int, one_of(LATTICE_BITS), "the domain's edge is 2^20 lattice steps"]
    units: Annotated[str, one_of("those of the mesh"), "the mesh's units, not scaled"]
    sign_convention: Annotated[str, one_of("negative inside"), "sign of distances"]
    nearest_sha256: Annotated[str | None, SHA256, "checksum of the dataset `nearest`, if present"] = None
    leaf_cause_sha256: Annotated[str | None, SHA256, "checksum of the dataset `leaf_cause`, if present"] = None
    bound_sha256: Annotated[str | None, SHA256, "checksum of the dataset `bound`, if present"] = None
    coarse_sha256: Annotated[str | None, SHA256, "`content_sha256` of the overview, if present"] = None
    corners: Annotated[int, {"minimum": 8}, "number of leaf corners, without duplicates"]
    distance_step: Annotated[float | None, POSITIVE, "quantisation step; with the dataset `residual`"] = None
    distance_parts: Annotated[int | None, one_of(*PARTS), "with the dataset `residual_part`"] = None
    info: Annotated[
        str, _in_text(as_json_schema(INFO)), "JSON: the build's parameters and results, see [info](file.md#info)"
    ]


class SequenceAttributes(Attributes):
    """Attributes of a sequence file's root."""

    format: Annotated[str, one_of(SEQUENCE), "file kind"]
    format_version: Annotated[int, one_of(SEQUENCE_VERSION), "see [sequences](file.md#sequences)"]
    frames: Annotated[int, {"minimum": 1, "maximum": MOST_FRAMES}, "frame count"]
    units: Annotated[str, one_of("those of the mesh; seconds"), "the mesh's units, not scaled, and seconds"]
    info: Annotated[str, _in_text(schema_of(SequenceFacts)), "JSON: the build's parameters and results"]


FILES: dict[str, type[Record]] = {"field": FieldAttributes, "sequence": SequenceAttributes}

"""`sdfcli info`: what a field's file says of itself."""

from __future__ import annotations

from sdfcli.cli import options
from sdfcli.cli.build import health_text
from sdfcli.cli.output import error_text, human_bytes, print_json, print_table

MESH = {"triangles", "watertight", "sha256", "diagonal"}
"""What fields say of their mesh, if they come from a build."""


def info(file: options.FieldFile, json: options.Json = False) -> None:
    """Print everything that a field's file says of itself.

    Example: sdfcli info bunny.h5
    """
    from sdfcli.store import load

    field = load(file)
    facts = {
        "file": str(file),
        "bytes": file.stat().st_size,
        "domain_origin": [float(x) for x in field.domain.origin],
        "domain_length": field.domain.length,
        "leaves": len(field.leaf_key),
        "corners": len(field.corner_key),
        "content_sha256": field.content_sha256,
        **field.info,
    }
    if json:
        print_json(facts)
        return
    rows = [("size", human_bytes(facts["bytes"]))]
    low, length = facts["domain_origin"], facts["domain_length"]
    rows.append(("domain", f"a cube of {length:.9g} from ({low[0]:.9g}, {low[1]:.9g}, {low[2]:.9g})"))
    rows.append(("leaves", f"{facts['leaves']:,}"))
    rows.append(("corners", f"{facts['corners']:,}"))
    for name, value in field.info.items():
        if name == "mesh" and isinstance(value, dict) and value.keys() >= MESH:
            rows.append(("mesh", f"{value['triangles']:,} triangles, {health_text(value)}"))
            rows.append(("mesh sha256", value["sha256"]))
            rows.append(("diagonal", f"{value['diagonal']:.9g}"))
        elif isinstance(value, dict):
            rows.append((name, ", ".join(f"{key} {given}" for key, given in value.items())))
        else:
            rows.append((name.replace("_", " "), error_text(value) if isinstance(value, float) else str(value)))
    rows.append(("content sha256", facts["content_sha256"]))
    print_table(str(file), rows)

"""Layers in a USD scene, opened and checked before pxr composes them.

Layers refer to other files, and pxr opens files anywhere during composition. Therefore all layers referenced by any
arc, including arcs in unselected variants, are opened here first: only files in the scene's folder, or below.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdfcli.errors import InputError
from sdfcli.runtime.memory import require

MOST_PRIMS = 10_000_000
"""Maximum prims in a scene, each counted once per non-instanceable reference. With references to references, which
double, a few lines reach any number."""
BYTES = 500
"""Minimum working bytes per prim."""
ARCS = ("references", "payload", "inheritPaths", "specializes")
"""Prim fields that bring in other prims."""
KEPT = ("explicitItems", "addedItems", "prependedItems", "appendedItems")
"""List operations in a field of ARCS, except deleting and reordering."""

Site = tuple[str, Any, bool]
"""A path in the layer stack of a scene or a reference: the first layer's identifier, the path, and whether an arc
targets the path, so that arcs on prims above also count."""


@dataclass
class _Prim:
    """What layers say about a prim, over all its variants."""

    children: set[Any] = field(default_factory=set)
    arcs: list[tuple[str, Any]] = field(default_factory=list)  # layer, and path; None: the layer's default prim
    instanceable: bool = False


class Layers:
    """All layers that may contribute to a scene, root first; they stay open during the object's lifetime."""

    def __init__(self, path: Path, folder: Path) -> None:
        """folder: where all layers are. Raises InputError for an invalid layer, a reference to no file in the folder,
        value clips, and too many prims."""
        self._folder = folder.resolve()
        self.root = _opened(str(path))
        self._opened = {self.root.identifier: self.root}
        self._prims: dict[str, dict[Any, _Prim]] = {}
        waiting = [self.root]
        while waiting:
            layer = waiting.pop()
            known = len(self._opened)
            for name in layer.GetCompositionAssetDependencies():
                self._place(layer, name)
            prims: dict[Any, _Prim] = {}
            self._prims[layer.identifier] = prims
            layer.Traverse(layer.pseudoRoot.path, lambda path, layer=layer, prims=prims: self._note(layer, path, prims))
            waiting.extend(list(self._opened.values())[known:])
        count = _Count(self).total()
        if count > MOST_PRIMS:
            raise InputError(f"more than {MOST_PRIMS:,} prims, of references to references: make them instanceable")
        require(BYTES * count, "reading it")

    def check(self, used: list[Any]) -> None:
        """Raises InputError unless all used layers were checked."""
        for layer in used:
            if not layer.anonymous and layer.identifier not in self._opened:
                raise InputError(f"is composed of {layer.identifier[:80]!a}, too, which it does not name")

    def stack(self, name: str) -> list[str]:
        """A layer and its sublayers, recursively."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            if (name := waiting.pop()) not in found:
                found[name] = None
                layer = self._opened[name]
                waiting.extend(self._place(layer, below) for below in layer.subLayerPaths)
        return list(found)

    def prim(self, name: str, path: Any) -> _Prim | None:
        """A layer's record of a prim; None without one."""
        return self._prims[name].get(path)

    def target(self, name: str, path: Any) -> Any:
        """Path targeted by an arc in a layer: for None the layer's default prim, or an empty path without one."""
        return path or self._opened[name].GetDefaultPrimAsPath()

    def _place(self, layer: Any, name: str) -> str:
        """Opens a layer referenced by `layer`, and returns its identifier; for an empty name, `layer`'s own."""
        from pxr import Ar, Sdf

        if not name:
            return str(layer.identifier)
        place = Sdf.ComputeAssetPathRelativeToLayer(layer, name)
        if place in self._opened:
            return str(place)
        file, options = Sdf.Layer.SplitIdentifier(place)
        if Ar.IsPackageRelativePath(file):
            file = Ar.SplitPackageRelativePathOuter(file)[0]
        inside = Path(file).is_absolute() and Path(file).resolve().is_relative_to(self._folder)
        if options or "`" in name or not inside or not Path(file).is_file():
            raise InputError(f"names {name[:80]!a}, which is no file in its folder")
        opened = _opened(place)
        self._opened[opened.identifier] = opened
        return str(opened.identifier)

    def _note(self, layer: Any, path: Any, prims: dict[Any, _Prim]) -> None:
        """Records a layer's data at a path, and opens the layers referenced there."""
        spec = layer.GetPrimAtPath(path) if path.IsPrimPath() or path.IsPrimVariantSelectionPath() else None
        if spec is None:
            return
        if spec.HasInfo("clips"):
            where = f"{str(path)[:80]!a} has value clips, which other files hold"
            raise InputError(f"{where}: flatten the scene (usdcat --flatten)")
        path = path.StripAllVariantSelections()
        prim = prims.setdefault(path, _Prim())
        prim.instanceable |= spec.HasInfo("instanceable") and spec.instanceable
        if path != (above := path.GetParentPath()):
            prims.setdefault(above, _Prim()).children.add(path)
        for name in ARCS:
            listed = spec.GetInfo(name) if spec.HasInfo(name) else None
            for item in [] if listed is None else [each for kept in KEPT for each in getattr(listed, kept)]:
                asset, target = (item.assetPath, item.primPath) if hasattr(item, "assetPath") else ("", item)
                prim.arcs.append((self._place(layer, asset) if asset else "", target))


class _Count:
    """Upper bound on a scene's prim count, from its layers: in linear time, by summing descendants per site.
    Descendants of an instanceable prim are counted once per referenced site."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._stacks: dict[str, list[str]] = {}
        self._sizes: dict[Site, int] = {}
        self._begun: set[Site] = set()
        self._shared: dict[Site, None] = {}

    def total(self) -> int:
        """The bound; counting stops soon above MOST_PRIMS."""
        layer = self._layers.root
        total = self._size((layer.identifier, layer.pseudoRoot.path, False))
        done = 0
        while done < len(self._shared) and total <= MOST_PRIMS:
            done, shared = len(self._shared), list(self._shared)[done:]
            total += sum(map(self._size, shared))
        return total

    def _size(self, start: Site) -> int:
        waiting = [start]
        while waiting:
            site = waiting[-1]
            if site not in self._begun:  # descendants first; pxr rejects cycles
                self._begun.add(site)
                waiting.extend(set(self._below(site)) - self._begun)
            elif site not in self._sizes:
                self._sizes[waiting.pop()] = 1 + sum(self._sizes.get(each, 0) for each in self._below(site))
            else:
                waiting.pop()
            if len(self._begun) > MOST_PRIMS:
                return MOST_PRIMS + 1
        return self._sizes[start]

    def _below(self, site: Site) -> list[Site]:
        """Sites brought in by a site."""
        name, path, named = site
        if named:
            above = [each for each in path.GetPrefixes() if each != path]
            arcs = [self._moved(arc, path, each) for each in above for arc in self._arcs(name, each)]
            return [(name, path, False), *arcs]
        prims = [prim for layer in self._stack(name) if (prim := self._layers.prim(layer, path))]
        children: dict[Site, None] = {(name, child, False): None for prim in prims for child in prim.children}
        below = [*children, *self._arcs(name, path)]
        if any(prim.instanceable for prim in prims):
            self._shared.update(dict.fromkeys(below))
            return []
        return below

    def _arcs(self, name: str, path: Any) -> list[Site]:
        prims = [prim for layer in self._stack(name) if (prim := self._layers.prim(layer, path))]
        arcs = [(layer or name, target) for prim in prims for layer, target in prim.arcs]
        targets = [(layer, self._layers.target(layer, target)) for layer, target in arcs]
        return [(layer, target, True) for layer, target in targets if target.IsAbsolutePath()]

    def _moved(self, arc: Site, path: Any, above: Any) -> Site:
        return arc[0], path.ReplacePrefix(above, arc[1]), True

    def _stack(self, name: str) -> list[str]:
        if name not in self._stacks:
            self._stacks[name] = self._layers.stack(name)
        return self._stacks[name]


def _opened(place: str) -> Any:
    from pxr import Sdf

    layer = Sdf.Layer.FindOrOpen(place)
    if layer is None:
        raise InputError(f"{Path(place).name[:80]!a} is not a layer of USD")
    return layer

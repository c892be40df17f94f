"""Index selection by query algorithm and device."""

from __future__ import annotations

from sdfcli.backend import Backend
from sdfcli.spatial.binary import BinaryIndex
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order
from sdfcli.spatial.packets import PacketIndex
from sdfcli.spatial.radix_tree import Bvh
from sdfcli.spatial.wide import WideIndex


def walks_radix_tree(query: str) -> bool:
    """Whether a query, one of params.QUERIES, traverses the radix tree, as the thesis's do."""
    return query != "fast"


def index_class(backend: Backend, query: str = "fast") -> type[DistanceIndex]:
    """The index for a query, one of params.QUERIES, on a device."""
    if walks_radix_tree(query):
        return BinaryIndex
    return PacketIndex if backend.warps else WideIndex


def make_index(backend: Backend, order: Order, query: str = "fast", bvh: Bvh | None = None) -> DistanceIndex:
    """Creates the index for a query, one of params.QUERIES. bvh: the radix tree, for queries that traverse it."""
    if walks_radix_tree(query):
        assert bvh is not None
        return BinaryIndex(backend, bvh, query)
    return PacketIndex(backend, order) if backend.warps else WideIndex(backend, order)

"""Fields and exact distances for PyTorch, with gradients; `torch.compile` takes them as operators."""

from sdfcli.torch.field import sample, sample_with_gradient
from sdfcli.torch.mesh import distance, signed_distance
from sdfcli.torch.physicsnemo import signed_distance_field

__all__ = ["distance", "sample", "sample_with_gradient", "signed_distance", "signed_distance_field"]

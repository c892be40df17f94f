"""The commands of water: a file each."""

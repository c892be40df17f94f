"""The commands of benchmarks and profiles: a file each."""

"""The process: files, memory, interrupts, other processes."""

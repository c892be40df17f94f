"""Commands `flow` and `bench flow`, one file each."""

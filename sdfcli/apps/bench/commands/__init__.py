"""Commands `bench`, its sub-commands, and `profile`, one file each."""

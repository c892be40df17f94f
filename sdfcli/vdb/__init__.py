"""VDB trees (Museth 2013): narrow-band level sets in OpenVDB's and NanoVDB's files."""

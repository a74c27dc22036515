"""The command `idbandits`."""

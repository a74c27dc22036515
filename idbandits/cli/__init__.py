"""Command `idbandits`."""

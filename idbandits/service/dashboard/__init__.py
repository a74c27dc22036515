"""Dashboard: pages about experiments, rendered on the server."""

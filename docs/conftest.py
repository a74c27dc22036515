"""Settings of pytest for the pages: scripts of the gallery are run by tests/docs, not imported for their doctests."""

collect_ignore_glob = ["gallery/*.py"]

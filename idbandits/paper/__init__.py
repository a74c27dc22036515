"""The evaluation of the paper: problems, runs, claims and the report."""

"""Measures what the README claims, beside other libraries: `python -m benchmarks --out benchmarks/results.md`."""

"""Benchmarks behind the numbers in README.md and docs: `python -m benchmarks --out benchmarks/results.md`."""

"""Formats of logs other than one column per node."""

from idbandits.logs.read.long_format import Long
from idbandits.logs.read.pyclick_format import PyClick
from idbandits.logs.read.ubi_format import UBI

__all__ = ["UBI", "Long", "PyClick"]

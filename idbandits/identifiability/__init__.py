"""Checks of a diagram: what cannot be learned, what cannot be told apart, what is large."""

from idbandits.identifiability.diagnosis import check, relabellings, warn_of_scales, warn_once

__all__ = ["check", "relabellings", "warn_of_scales", "warn_once"]

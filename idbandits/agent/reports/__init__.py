"""Beliefs shown to users."""

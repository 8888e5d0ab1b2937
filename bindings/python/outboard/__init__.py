"""Outboard: modules for DSPs, built and called from Python."""

__version__ = "0.1.0"

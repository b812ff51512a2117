"""Evolutionary search driven by policies trained to be searched."""

__version__ = "0.1.0"

"""The version, apart from the package's own file, which loads nothing."""

__version__ = "0.1.0"

"""Families of problems that few users need. Each folder registers by entry points and can be deleted alone."""

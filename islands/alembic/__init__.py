"""Migrations of the schema. A package, so that an installed copy carries them."""

"""Settings: one pydantic model for each command, from which its YAML keys, flags, help and bounds are made.

Begin with `run`; `parse` turns values into a model, or their fault into one line. Training settings are in
vpo.training.config.
"""

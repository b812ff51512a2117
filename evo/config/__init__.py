"""Settings: one pydantic model for each command, from which its YAML keys, flags, help and bounds are made.

Begin with `run`; `parse` turns values into a model, or what is wrong with them into one line. How a policy learns is
declared in vpo.training.config.
"""

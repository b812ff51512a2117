"""Problems that few users need, one folder for each plug-in. A folder can be deleted: nothing else imports it.

Each registers by entry points in pyproject.toml, as a package of anyone else would: its problems in the group
"evo.problems" (problems.registry), a token language in "evo.dialects" (vpo.languages.contract).
"""

"""Two bridges to OpenEvolve: its checkpoints become runs (`import_run`), and our policies answer its prompts
(`client`)."""

"""Files that a sandbox worker loads to reach a user's scorer; nothing in the parent imports them."""

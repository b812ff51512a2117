"""Files that a sandbox worker loads to reach a user's scorer. The parent imports `user_file` alone."""

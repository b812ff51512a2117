"""Files that a sandbox worker loads to reach a user's scorer. The parent imports `deferred_package` alone."""

"""Programs judged by test cases: the shapes they are read in, how cases are decided, and the problems that ship."""

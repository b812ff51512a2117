"""ToolRL (rlla_4k, arXiv 2504.13958) as the VPO paper scores it: dialogues answered by calls of typed tools."""

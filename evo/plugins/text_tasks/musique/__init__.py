"""MuSiQue (Trivedi et al. 2022) as the VPO paper scores it: questions over several paragraphs, each hop to be cited."""

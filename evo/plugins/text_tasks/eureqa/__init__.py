"""EUREQA (Li et al. 2024) as the VPO paper scores it: names hidden behind masks, each found from the next one."""

"""The common parts of the VPO paper's text tasks (`toolrl:`, `musique:`, `eureqa:`): words, fields, addresses,
files, sets."""

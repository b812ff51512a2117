"""What the VPO paper's text tasks (`toolrl:`, `musique:`, `eureqa:`) share: words, fields, addresses, files, sets."""

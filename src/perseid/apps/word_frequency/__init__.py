"""Word frequencies over 30 s windows: the query with which paper S measures recovery (S7, S8 figures 11 to 15)."""

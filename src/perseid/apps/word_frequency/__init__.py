"""Word frequencies over 30 s windows: the query with which the SEEP paper measures recovery (S7, S8 figures 11 to 15)."""

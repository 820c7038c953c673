"""The most edited language versions of Wikipedia, every 30 s: the SEEP paper's map/reduce-style query (S7, S8 figure 8)."""

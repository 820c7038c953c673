"""The most edited language versions of Wikipedia, every 30 s: paper S's map/reduce-style query (S7, S8 figure 8)."""

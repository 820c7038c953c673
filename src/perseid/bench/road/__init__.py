"""Linear Road as the benchmark means it: a load that rises to a peak and stays, at the pace of the road, every answer checked (S7, S8)."""

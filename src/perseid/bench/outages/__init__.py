"""The parts of the benchmark of standby."""

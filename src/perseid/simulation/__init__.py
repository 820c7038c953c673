"""The second shell: the engine's own machines in virtual time, one thread, a heap of events, seeded faults (design §4, X4)."""

"""Scale out and recovery by state management, part by part: what ``perseid bench scale`` is made of."""

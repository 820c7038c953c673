"""What runs in a host: the process that holds shards and their state."""

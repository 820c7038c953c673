"""What benchmarks are made of. It is imported on hosts and in Spark's workers, too: nothing heavy may be loaded from here."""

"""Spark's own `StatefulProcessor` classes, run by Perseid's hosts without a change."""

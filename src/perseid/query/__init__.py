"""``transformWithState`` started in Spark's way, run by Perseid: a grouped DataFrame in, a streaming query out."""

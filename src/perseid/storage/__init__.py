"""Durable things under one checkpoint root: lease, ledger, snapshots, manifests, journal. No pyspark here."""

"""Standby: a second copy of a host's shards takes over while the first is slow or dead (H1 to H8).

The modules of this package decide; they are pure. See ``docs/design/standby.md``.
"""

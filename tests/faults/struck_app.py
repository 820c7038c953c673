"""A keyed count as a file of its own, for drivers that plans crash."""

import apps

app = apps.counts("out", 10_000)

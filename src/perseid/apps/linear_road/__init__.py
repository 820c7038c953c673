"""Linear Road: variable tolls on expressways, the benchmark of the SEEP paper (S7).

    forwarder → toll calculator → toll assessment → balance account → collector, between a feeder and a sink

``graph`` puts the operators together, ``feed`` is the data feeder, ``generate`` makes traffic, ``oracle`` works the answers
out slowly and independently, ``results`` compares. The rules are in ``docs/linear-road.md``.
"""

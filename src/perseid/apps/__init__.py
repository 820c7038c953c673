"""The applications of the Meteor Shower paper (M8): transportation modes, bus crowding, traffic signals.

Each is a package with a ``build`` that returns an ``App``, its operators, a generator of data that carries the truth,
and a report of what was inferred and how well. They need the extra ``perseid[apps]``.
"""

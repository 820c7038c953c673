"""The checkpoint schemes against each other, part by part: what ``perseid bench meteor`` is made of."""

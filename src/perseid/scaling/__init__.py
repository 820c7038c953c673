"""How many shards an operator has, which keys each answers for, and when that changes (S3, S5)."""

from perseid.scaling.routing import RoutingTable, even_slots, numbered, partition_routing_state

__all__ = ["RoutingTable", "even_slots", "numbered", "partition_routing_state"]

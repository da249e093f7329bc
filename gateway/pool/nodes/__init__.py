"""What each node's supervisor makes of a pool: how far it is, and how many replicas it runs there."""

from gateway.pool.nodes.repository import NodeState, node_states, states_of_node, write_scale, write_stage

__all__ = ["NodeState", "node_states", "states_of_node", "write_scale", "write_stage"]

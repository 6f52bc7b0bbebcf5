"""The pass manager: ordering, fixpoints, gate, policy, events."""

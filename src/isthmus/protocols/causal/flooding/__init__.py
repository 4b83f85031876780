"""Causal order by flooding an overlay, with static and with changing links."""

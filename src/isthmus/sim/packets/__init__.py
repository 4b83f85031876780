"""The packet network: links with rates and queues, two engines, and compiled end points."""

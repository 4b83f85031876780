"""Networks of the simulator: delays per pair of sites, hosts that take time, LAN broadcast."""

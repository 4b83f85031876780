"""Networks of the simulator: delays per pair of sites, hosts with CPU costs, LAN broadcast."""

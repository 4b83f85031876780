"""The planner of roles: expected latencies of total order by tickets, and the roles that minimise them."""

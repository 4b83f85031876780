"""Real time: the same stacks over UDP sockets, one process a site, or as a library."""

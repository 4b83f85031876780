"""The wire: sockets, datagrams, names, timestamps, emulated delays."""

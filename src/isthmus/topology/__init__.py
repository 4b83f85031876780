"""Where things are: networks as values, from files, shapes, measurements and maps."""

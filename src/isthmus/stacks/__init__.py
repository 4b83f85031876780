"""Every named stack: its layers, options and promises."""

"""Getting messages there: ideal and reliable transports, flow control."""

"""What `isthmus init` copies: a network, a scenario on it, and a program that joins a group there."""

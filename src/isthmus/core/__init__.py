"""The contract that protocols and hosts meet at; it depends on the standard library and msgspec only."""

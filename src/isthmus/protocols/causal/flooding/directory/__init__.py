"""The agreed directory of members that come and go while messages flow."""

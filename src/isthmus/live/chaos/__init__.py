"""`isthmus live --chaos`: live groups under random faults, judged by their traces and by recorders of their own."""

"""What people say about speculative decoding, and what measurements here say to it.

`table` has the claims: the sentence as people hear it, the command that measures it, how the verdict is computed, and
the function that does. `saved_results` reads the files that those commands wrote; nothing is typed in by hand. A claim
whose files are missing cannot be tested yet, and says which command to run.
"""

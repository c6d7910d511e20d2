"""Is a server's text still distributed as its target's?"""

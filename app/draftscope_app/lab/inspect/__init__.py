"""Will a head be served as it was trained?"""

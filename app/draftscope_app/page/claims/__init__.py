"""The page's list of claims: predict a verdict, then see what was measured."""

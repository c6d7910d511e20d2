"""Drafters with trained heads: EAGLE, MTP, Medusa, block drafters."""

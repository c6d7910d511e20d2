"""The base of all other packages: errors, settings, text, assets, versions, prompts, costs. Imports no model code."""

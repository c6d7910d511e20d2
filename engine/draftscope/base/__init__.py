"""What everything else stands on: errors, settings, text, assets, versions, prompts, costs. Loads no model."""

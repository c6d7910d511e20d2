"""Which drafter or tree to use: Sequoia and bandits."""

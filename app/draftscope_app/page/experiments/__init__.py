"""The page's experiments: the shipped result of each as a chart, its command, and a button that runs it here."""

"""The engine as the app sees it: messages, processes, visitors, configuration. No Gradio."""

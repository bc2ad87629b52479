"""What an operator declares: the attach file, its servers, and which of their tools are shown."""

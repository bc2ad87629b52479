"""Where each caller has its session: which worker has it, and how a call gets there."""

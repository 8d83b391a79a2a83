"""The commands of `least-monitor`, one module each; heavy imports wait until a command runs."""

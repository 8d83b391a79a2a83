"""Where incident changes are told, and the outbox that makes sure they arrive."""

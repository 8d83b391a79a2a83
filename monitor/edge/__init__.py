"""Whatever can fail through no fault of ours: sources, store, notifiers, metrics, HTTP."""

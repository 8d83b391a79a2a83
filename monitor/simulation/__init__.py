"""A booking world with incidents whose causes are known: traffic, drift, labels."""

"""The revisions, one a file, in a single line of descent. Append only: what has run stays."""

"""Everything on one machine: embedded Postgres and Valkey, and `tollway up`, which starts all parts.

Place: beside the command line, above every other package. Production runs the parts by themselves
against external servers and never imports this.
"""

"""The exactly-once test's parts: a cluster, a load with its own records, a saboteur, an audit."""

"""Files of tenants, and batches: requests in a file, answered into a file, in the class that waits.

Knows the tables, the blobs and how a batch goes on after a crash. One request is run by whoever is given for it (the
pipeline, in the gateway); HTTP is not known here.
"""

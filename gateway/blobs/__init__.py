"""Where large contents lie: a directory, or an S3-compatible bucket, behind one small protocol.

Knows keys and bytes. Whose they are and how long they stay is for those who name the keys.
"""

from gateway.blobs.destination import open_blobs
from gateway.blobs.store import BlobError, Blobs, DirectoryBlobs

__all__ = ["BlobError", "Blobs", "DirectoryBlobs", "open_blobs"]

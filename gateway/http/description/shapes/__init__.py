"""What the routes answer with, as types: nothing but names and fields, for the description of the API.

A key that may be absent is `NotRequired`; a shape that may hold more than is written allows extra keys. It does not
know how an answer is made: a test compares real answers with these.
"""

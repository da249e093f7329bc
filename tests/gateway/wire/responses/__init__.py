"""Tests of responses as chats."""

"""What has changed, for pages that show it: hints without data, each told to those only who may read what it is about."""

from gateway.live.feed import Change, LiveFeed

__all__ = ["Change", "LiveFeed"]

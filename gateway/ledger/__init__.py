"""Money truth: reserve before an engine sees a request, settle when it has ended, exactly once."""

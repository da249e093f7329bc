"""`tollway bench`: how a server's latencies grow with the rate of requests, and where they break away."""

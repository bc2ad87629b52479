"""DuckDuckGo behind the bus: polite, paced, and honest about being refused."""

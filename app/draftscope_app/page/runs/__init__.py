"""What a visitor starts on the page: runs, forks, checks, lessons, own models."""

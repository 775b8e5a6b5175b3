"""The tools that build, check, lint and grade the course's notebooks."""

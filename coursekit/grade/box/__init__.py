"""What runs inside the sandbox; it imports nothing of coursekit."""

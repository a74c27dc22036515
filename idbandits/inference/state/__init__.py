"""States of learners: what they hold, files of them, and their likelihood."""

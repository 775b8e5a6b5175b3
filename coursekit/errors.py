"""The one exception that coursekit shows to people."""


class CourseError(Exception):
    """Something a person can mend, told in one sentence with file and line.

    The command line prints the message alone and exits with status 1; anything
    else that is raised is a bug of coursekit's and keeps its traceback.
    """

    @classmethod
    def at(cls, path, line, what):
        """An error that points at a line: `path:line: what`."""
        return cls(f"{path}:{line}: {what}")

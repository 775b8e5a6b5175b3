"""Files that are whole or not there."""

import os
import tempfile


def write_whole(path, text):
    """Write a text file; a reader, a crash or a full disk never leaves half of it.

    Raises:
      OSError: it can't be written; what stood there before still does.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise

"""Files that are never seen half written."""

import os
import uuid
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all: a scratch file beside it replaces it once it is safely on the disk."""
    scratch = path.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        with scratch.open("xb") as file:  # open() honours the user's umask; tempfile would make the file private
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # of the same class: errno chooses it
    finally:
        scratch.unlink(missing_ok=True)

"""Files that are never seen half written."""

import os
import uuid
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: a scratch file beside it takes its place once it is safely on the disk.

    What fails is told of the file itself.
    """
    scratch = path.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        with scratch.open("xb") as file:  # a new file of mode 0o666, less what the user's umask forbids
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # a PermissionError, or what it was
    finally:
        scratch.unlink(missing_ok=True)

"""What the operating system tells about a store: its file system and who holds its lock."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["lock_holder", "network_filesystem"]

MOUNTS = "/proc/self/mounts"
LOCKS = "/proc/locks"

# File systems whose locks or shared memory do not reach every host that mounts them. 9p and
# virtiofs stay allowed: a virtual machine's own folder is one host, and often its only disk.
NETWORK = frozenset(
    (
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fuse.ceph",
        "fuse.davfs2",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
    )
)


def network_filesystem(path: Path) -> str | None:
    """Type of the network file system that holds `path`; None on a local or unknown one."""
    try:
        lines = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None  # no /proc: nothing to ask
    where = Path(os.path.realpath(path))
    found, depth = "", -1
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_plain(fields[1]))
        # a later mount on the same point covers an earlier one
        if len(point.parts) >= depth and (point == where or point in where.parents):
            found, depth = fields[2], len(point.parts)
    return found if found in NETWORK else None


def _plain(field: str) -> str:
    """Undo the octal escapes of the mount table."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def lock_holder(path: Path, byte: int) -> int | None:
    """Process that holds a write lock on one byte of a file, where the system tells it.

    Parameters
    ----------
    path : Path
        The locked file. It is looked at, never opened.
    byte : int
        Offset of the byte.

    Returns
    -------
    int or None
        None where there is no ``/proc/locks``, no such lock, or a holder out of sight (another
        container).
    """
    try:
        inode = os.stat(path).st_ino
        lines = Path(LOCKS).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) != 8 or fields[3] != "WRITE":  # waiters carry an arrow and one field more
            continue
        # The device in the table is the file system's, which some file systems do not show in
        # stat: the inode and the byte together are enough.
        if fields[5].rpartition(":")[2] != str(inode):
            continue
        end = fields[7]
        if int(fields[6]) <= byte and (end == "EOF" or byte <= int(end)):
            return int(fields[4]) if int(fields[4]) > 0 else None
    return None

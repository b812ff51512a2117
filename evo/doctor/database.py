"""The database: can it be reached and written, is its schema of this version, do the clocks agree?"""

from __future__ import annotations

from pathlib import Path

from evo.doctor.line import DoctorLine, fail, ok, warn
from islands.db.health import DatabaseHealth, examine_database
from islands.errors import DatabaseUnavailable

CLOCK_WARN, CLOCK_FAIL = 2.0, 60.0
"""Seconds. A writer elsewhere counts as dead 120 s after its last heartbeat (islands.db.lease), by two clocks."""
SLOW_QUERY = 0.02
"""Seconds. A group costs a few queries, one after the other."""
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "ceph", "9p", "glusterfs", "beegfs")


def check_database(address: str) -> list[DoctorLine]:
    try:
        health = examine_database(address)
    except DatabaseUnavailable as error:
        remedy = "start it, or name another with --db or EVO_DB (docker compose up -d postgres starts one)"
        return [fail("database", str(error), remedy)]
    lines = [_reached(health), *_schema(health)]
    if health.clock_ahead is not None:
        lines.append(_clock(health.clock_ahead))
    return lines


def _reached(health: DatabaseHealth) -> DoctorLine:
    if not health.writable:
        remedy = "GRANT CREATE ON SCHEMA public TO the user, and name the primary, not a standby"
        if health.kind == "sqlite":
            remedy = f"make the file and its folder {health.folder} writable for this user, or name another with --db"
        return fail("database", f"{health.address} can be read, not written", remedy)
    if health.folder is not None and (kind := file_system(health.folder)) in _NETWORK:
        remedy = "keep SQLite on a local disk; for several machines use postgresql+psycopg://..."
        return warn("database", f"{health.address} is on {kind}, whose locks SQLite cannot trust", remedy)
    if health.rtt is not None:
        message = f"{health.address} answers in {health.rtt * 1000:.1f} ms"
        if health.rtt > SLOW_QUERY:
            return warn("database", message, "run the search nearer to its database: every group costs a few queries")
        return ok("database", message)
    return ok("database", f"{health.address} {'is there' if health.exists else 'is no file yet; a run makes it'}")


def _schema(health: DatabaseHealth) -> list[DoctorLine]:
    if health.revision is None:
        return [ok("schema", f"no tables yet; the first run makes them ({health.wanted})")] if health.exists else []
    if health.revision == health.wanted:
        return [ok("schema", health.wanted)]
    if health.revision > health.wanted:  # they are numbered
        return [fail("schema", f"{health.revision}; this evo knows {health.wanted}", "upgrade evo on this machine")]
    remedy = "evo runs upgrade, after upgrading evo on every machine that uses it; a command that writes does the same"
    return [warn("schema", f"{health.revision}; this evo wants {health.wanted}", remedy)]


def _clock(ahead: float) -> DoctorLine:
    message = f"the database's is {abs(ahead):.2f} s {'ahead' if ahead >= 0 else 'behind'}"
    remedy = "synchronise both machines (chrony, systemd-timesyncd): a writer that looks silent is taken for dead"
    if abs(ahead) >= CLOCK_FAIL:
        return fail("clock", message, remedy)
    return warn("clock", message, remedy) if abs(ahead) >= CLOCK_WARN else ok("clock", message)


def file_system(folder: Path, mounts: str = "/proc/mounts") -> str:
    """The kind of file system of a folder, "" if unknown."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    path, best = str(folder.resolve()), ("", "")
    for fields in (line.split() for line in lines):
        place, kind = fields[1].replace("\\040", " "), fields[2]
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best[0]):
            best = place, kind
    return best[1]

-- Why: importing the same file twice must not double it, so the store remembers what it took in.

CREATE TABLE sources (
    print         TEXT    NOT NULL PRIMARY KEY,  -- fingerprint of the file's bytes as they lay on disk
    bytes         INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    format        TEXT    NOT NULL,
    first_session INTEGER NOT NULL,
    last_session  INTEGER NOT NULL
) WITHOUT ROWID;

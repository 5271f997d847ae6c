-- Why: the first shape of the store. Envelopes are narrow rows, raw bytes lie once in blocks, views read both.

CREATE TABLE sessions (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    source     TEXT    NOT NULL,  -- stdio, http, import:<format>
    target     TEXT    NOT NULL,
    started_at INTEGER NOT NULL,  -- microseconds since 1970
    knows      INTEGER NOT NULL   -- 1 times, 2 direction, 4 ids, 8 payload, 16 ends
);

CREATE TABLE methods (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- One session is one range of keys, so reading it is one walk. Absent values are NULL, which costs one byte.
CREATE TABLE events (
    key     INTEGER PRIMARY KEY,  -- session << 40 | seq
    at      INTEGER NOT NULL,     -- microseconds since the session's start
    kind    INTEGER NOT NULL,     -- 0 request, 1 notification, 2 result, 3 error, 4 unreadable, 5 fault, 6 stderr, 7 happening
    sender  INTEGER,              -- 0 client, 1 server
    id,                           -- an integer for plain integers, else the raw JSON literal as text
    method  INTEGER,              -- methods.id
    detail  TEXT,                 -- marks of a message, or the happening, as JSON
    print   INTEGER,              -- fingerprint of params
    stream  INTEGER,              -- 0 client, 1 server, 2 stderr, 16… long bodies of one carrier each
    start   INTEGER,
    len     INTEGER,
    carrier INTEGER,
    batch   INTEGER,
    oddities INTEGER,
    reason  TEXT                  -- why unreadable, or which fault
);

-- Raw bytes, each once. A block ends on the edge of a frame where it can.
CREATE TABLE blocks (
    session INTEGER NOT NULL,
    stream  INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    bytes   BLOB    NOT NULL
);
CREATE UNIQUE INDEX blocks_by_place ON blocks (session, stream, start);

-- How much of a spool file has been taken in, written in the transaction that takes it: never twice, never not.
CREATE TABLE spools (
    name    TEXT    PRIMARY KEY,
    session INTEGER,
    taken   INTEGER NOT NULL
);

-- Everything with a body, readable. Bodies that lie over several blocks are put together.
CREATE VIEW messages AS
SELECT
    e.key >> 40 AS session,
    e.key & 1099511627775 AS seq,
    strftime('%Y-%m-%dT%H:%M:%f', (s.started_at + e.at) / 1000000.0, 'unixepoch') AS time,
    e.at / 1000.0 AS ms,
    CASE e.sender WHEN 0 THEN 'client' WHEN 1 THEN 'server' END AS sender,
    CASE e.kind WHEN 0 THEN 'request' WHEN 1 THEN 'notification' WHEN 2 THEN 'result' WHEN 3 THEN 'error'
                WHEN 4 THEN 'unreadable' WHEN 5 THEN 'fault' WHEN 6 THEN 'stderr' END AS kind,
    e.id AS id,
    CASE WHEN e.id IS NULL THEN NULL
         WHEN typeof(e.id) = 'integer' OR e.id GLOB '[-0-9]*' THEN 'number'
         WHEN e.id = 'null' THEN 'null'
         WHEN e.id GLOB '"*' THEN 'string'
         ELSE 'invalid' END AS id_kind,
    m.name AS method,
    CASE WHEN m.name IN ('tools/call', 'prompts/get') THEN json_extract(e.detail, '$.name') END AS tool,
    CASE WHEN e.kind = 3 THEN json_extract(e.detail, '$.code') END AS error_code,
    e.carrier AS carrier,
    e.batch AS batch_index,
    e.reason AS reason,
    CASE WHEN e.kind < 7 THEN e.detail END AS marks,
    e.len AS length,
    (SELECT group_concat(part, '') FROM (
        SELECT CAST(substr(b.bytes, max(e.start - b.start, 0) + 1,
                           min(e.start + e.len - b.start, length(b.bytes)) - max(e.start - b.start, 0)) AS TEXT) AS part
        FROM blocks b
        WHERE b.session = e.key >> 40 AND b.stream = e.stream AND b.start < e.start + e.len
          AND b.start >= (SELECT max(f.start) FROM blocks f
                          WHERE f.session = e.key >> 40 AND f.stream = e.stream AND f.start <= e.start)
        ORDER BY b.start)) AS body
FROM events e
JOIN sessions s ON s.id = e.key >> 40
LEFT JOIN methods m ON m.id = e.method
WHERE e.kind < 7;

-- What happened around the messages: opened, closed, exited, lost, carriers, samples, notes.
CREATE VIEW happenings AS
SELECT
    e.key >> 40 AS session,
    e.key & 1099511627775 AS seq,
    strftime('%Y-%m-%dT%H:%M:%f', (s.started_at + e.at) / 1000000.0, 'unixepoch') AS time,
    e.at / 1000.0 AS ms,
    json_extract(e.detail, '$.what') AS what,
    e.carrier AS carrier,
    e.detail AS detail
FROM events e
JOIN sessions s ON s.id = e.key >> 40
WHERE e.kind = 7;

-- Each request with its answer, if it got one. Ids belong to the side that asked, differ by kind (1 is not "1", though
-- it is 1.0), and may be used again: an answer belongs to the oldest request of its id that is still open. Inside:
-- `level` counts requests less answers, `strays` the answers so far that found nothing open, and the n-th request of
-- an id and the n-th answer that is no stray belong together.
CREATE VIEW exchanges AS
SELECT
    key >> 40 AS session,
    CASE sender WHEN 0 THEN 'client' ELSE 'server' END AS asker,
    id,
    CASE WHEN typeof(id) = 'integer' OR id GLOB '[-0-9]*' THEN 'number'
         WHEN id = 'null' THEN 'null'
         WHEN id GLOB '"*' THEN 'string'
         ELSE 'invalid' END AS id_kind,
    number AS generation,
    (SELECT name FROM methods WHERE methods.id = method) AS method,
    json_extract(detail, '$.name') AS tool,
    key & 1099511627775 AS asked_seq,
    at / 1000.0 AS asked_ms,
    next_key & 1099511627775 AS answered_seq,
    next_at / 1000.0 AS answered_ms,
    (next_at - at) / 1000.0 AS took_ms,
    CASE next_kind WHEN 2 THEN 'result' WHEN 3 THEN 'error' ELSE 'unanswered' END AS outcome,
    CASE next_kind WHEN 3 THEN json_extract(next_detail, '$.code') END AS error_code
FROM (
    SELECT *,
           lead(kind) OVER pair AS next_kind,
           lead(key) OVER pair AS next_key,
           lead(at) OVER pair AS next_at,
           lead(detail) OVER pair AS next_detail
    FROM (
        SELECT *,
               CASE WHEN kind = 0 THEN requests ELSE answers - strays END AS number
        FROM (
            SELECT *, max(0, -min(level) OVER (course ROWS UNBOUNDED PRECEDING)) AS strays,
                   max(0, -min(level) OVER (course ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS strays_before
            FROM (
                SELECT *, requests - answers AS level
                FROM (
                    SELECT *,
                           sum(kind = 0) OVER (course ROWS UNBOUNDED PRECEDING) AS requests,
                           sum(kind > 0) OVER (course ROWS UNBOUNDED PRECEDING) AS answers
                    FROM (
                        SELECT key, at, kind, sender, id, method, detail,
                               key >> 40 AS place,
                               CASE WHEN kind = 0 THEN sender ELSE 1 - sender END AS asker,
                               CASE WHEN typeof(id) = 'text' AND id GLOB '[-0-9]*'
                                     AND CAST(id AS REAL) = CAST(CAST(id AS REAL) AS INTEGER)
                                     AND abs(CAST(id AS REAL)) <= 9007199254740992.0
                                    THEN CAST(CAST(id AS REAL) AS INTEGER) ELSE id END AS plain
                        FROM events
                        WHERE kind IN (0, 2, 3) AND id IS NOT NULL
                    )
                    WINDOW course AS (PARTITION BY place, asker, plain ORDER BY key)
                )
            )
            WINDOW course AS (PARTITION BY place, asker, plain ORDER BY key)
        )
        WHERE kind = 0 OR strays = ifnull(strays_before, 0)
    )
    WINDOW pair AS (PARTITION BY place, asker, plain, number ORDER BY key)
)
WHERE kind = 0;

CREATE VIEW unanswered AS SELECT * FROM exchanges WHERE outcome = 'unanswered';

-- Each cancel with the request it names (the newest of that id), and what became of that. A cancel that names nothing
-- known has no asked_seq.
CREATE VIEW cancels AS
SELECT
    session, seq, ms, sender, method, target_id, target_method, target_tool, asked_seq, answered_seq, outcome,
    CASE WHEN asked_seq IS NULL THEN 'unknown'
         WHEN answered_seq IS NULL THEN 'unanswered'
         WHEN answered_seq < seq THEN 'came after the answer'
         ELSE 'answered' END AS fate
FROM (
    SELECT
        c.session, c.seq, c.ms, c.sender, c.method, c.target_id,
        x.method AS target_method, x.tool AS target_tool, x.asked_seq, x.answered_seq, x.outcome,
        row_number() OVER (PARTITION BY c.session, c.seq ORDER BY x.asked_seq DESC) AS newest
    FROM (
        SELECT
            e.key >> 40 AS session, e.key & 1099511627775 AS seq, e.at / 1000.0 AS ms,
            CASE e.sender WHEN 0 THEN 'client' ELSE 'server' END AS sender,
            m.name AS method,
            CASE json_type(e.detail, '$.' || p.mark)
                WHEN 'text' THEN json_quote(json_extract(e.detail, '$.' || p.mark))
                WHEN 'real' THEN CAST(json_extract(e.detail, '$.' || p.mark) AS TEXT)
                ELSE json_extract(e.detail, '$.' || p.mark) END AS target_id
        FROM methods m
        JOIN (SELECT 'notifications/cancelled' AS method, '"request-id"' AS mark
              UNION ALL SELECT '$/cancelRequest', 'id'
              UNION ALL SELECT '$/cancel_request', '"request-id"') p ON p.method = m.name
        JOIN events e ON e.method = m.id AND e.kind = 1
    ) c
    LEFT JOIN exchanges x ON x.session = c.session AND x.asker = c.sender AND x.id = c.target_id AND x.asked_seq < c.seq
)
WHERE newest = 1;

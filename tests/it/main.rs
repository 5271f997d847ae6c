//! Tests in which a process or a socket is involved, in one binary. One sentence per module on what belongs there.

/// The doors between the rooms: who may use whom, and which packages stand where.
mod doors;

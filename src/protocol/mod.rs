//! protocol: message → meaning.

//! Conversations over HTTP.

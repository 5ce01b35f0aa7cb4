//! What is told of a status.

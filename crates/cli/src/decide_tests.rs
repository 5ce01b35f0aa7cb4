//! The filter, line by line.

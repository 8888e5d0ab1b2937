//! Writes whole images.

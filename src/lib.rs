//! Kymo.

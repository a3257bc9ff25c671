//! Harness and suites.

//! Configuration: what a file says, checked.

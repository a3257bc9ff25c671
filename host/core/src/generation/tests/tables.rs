//! One cause, and its effects.

//! Everything in Tidegate that decides: what a generation is and when it ends, what a lane does with a record, what the writer
//! does with a batch. It touches nothing: no I/O, no clock, no log, no foreign code.
//!
//! The modules are in the order in which a record meets them.

pub mod record;

pub mod buffer;
pub mod consume;
pub mod driver;
pub mod failure;
pub mod generation;
pub mod lane;
pub mod output;
pub mod plugin;
pub mod produce;
pub mod writer;

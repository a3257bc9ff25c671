//! Tables of one cause and its effects, and properties over any order of events.

mod properties;
mod tables;
mod world;

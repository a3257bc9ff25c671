//! Hours of load: an input at a steady rate, an account of what comes out that is kept while it comes, and what a process takes.
//!
//! The ledger of the tests ([`crate::kafka::Ledger`]) keeps every record; this account keeps a bit for each.

mod account;
mod feed;
mod resources;

pub use account::{Account, Watch};
pub use feed::Feed;
pub use resources::{Resources, Sample, Span};

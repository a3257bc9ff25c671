//! What the plugins `filter` and `route` share: a configuration that says which part of a record is looked at, and what becomes of
//! records.
//!
//! ```
//! use tidegate_plugin::{Message, Outputs};
//! use tidegate_select::{Config, Fate, Source};
//!
//! let mut config = Config::parse(r#"{ "field": "/order/status" }"#, &[]).unwrap();
//! let source = Source::take(&mut config);
//! let source = config.finish(source).unwrap();
//!
//! let mut outputs = Outputs::new();
//! let message = Message::new(b"key", br#"{ "order": { "status": "paid" } }"#);
//! let pass_what_is_there = |selected: &tidegate_select::Selected<'_>| if selected.exists() { &Fate::Pass } else { &Fate::Drop };
//! source.send(message, &mut outputs, pass_what_is_there, "there is nothing").unwrap();
//! assert_eq!(outputs.as_slice().len(), 1);
//! ```
//!
//! Nothing is parsed that the configuration does not ask for: values only for a `field`, and of them only the selected part is kept.

mod config;
mod fate;
mod number;
mod pointer;
mod selected;
mod source;

pub use config::Config;
pub use fate::Fate;
pub use number::Number;
pub use selected::{Label, Selected};
pub use source::{KEYS, Source};

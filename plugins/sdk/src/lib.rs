//! Write Tidegate plugins in Rust.
//!
//! A plugin is a type that implements [`Plugin`], handed to [`export!`]:
//!
//! ```
//! use tidegate_plugin::{Context, Failure, Message, Output, Outputs, Plugin};
//!
//! struct Shout;
//!
//! impl Plugin for Shout {
//!     fn init(_: &Context) -> Result<Self, String> {
//!         Ok(Self)
//!     }
//!
//!     fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
//!         let mut output = Output::from(message);
//!         if let Some(value) = &mut output.value {
//!             value.to_mut().make_ascii_uppercase();
//!         }
//!         outputs.push(output);
//!         Ok(())
//!     }
//! }
//!
//! tidegate_plugin::export!(Shout);
//! ```
//!
//! With `crate-type = ["cdylib"]`, `cargo build --release --target wasm32-wasip2` makes the component. The host makes one instance
//! for each partition and generation; `wit/README.md` says what an instance can count on. Tests of a plugin are plain `#[test]`
//! functions that run natively: build a [`Message`], call [`Plugin::process`], look at [`Outputs`].

#[doc(hidden)]
pub mod bindings;
mod export;
pub mod log;
mod message;
mod plugin;

#[doc(hidden)]
pub use export::rt;
pub use message::{Header, Headers, Message, Output, Outputs};
pub use plugin::{CommitPolicy, Context, EndReason, Failure, Plugin};

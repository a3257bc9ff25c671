//! How a [`Plugin`] becomes the exports of a component.

use crate::bindings::exports::tidegate::plugin::transform as wit;
use crate::bindings::tidegate::plugin::types::Header as WitHeader;
use crate::message::{Header, Headers, Message, Output, Outputs};
use crate::plugin::{CommitPolicy, Context, EndReason, Failure, Plugin};
use std::borrow::Cow;
use std::cell::RefCell;
use std::thread::LocalKey;

/// Makes a type that implements [`Plugin`] the plugin of this component. Once a crate.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        const _: () = {
            ::std::thread_local! {
                static INSTANCE: $crate::rt::Slot<$plugin> = const { ::std::cell::RefCell::new(None) };
            }

            struct Export;

            impl $crate::rt::Guest for Export {
                fn init(context: $crate::rt::Context) -> Result<$crate::rt::CommitPolicy, String> {
                    $crate::rt::init(&INSTANCE, context)
                }

                fn process(message: $crate::rt::Message) -> Result<Vec<$crate::rt::Output>, $crate::rt::Failure> {
                    $crate::rt::process(&INSTANCE, message)
                }

                fn generation_ended(reason: $crate::rt::EndReason) -> Result<Vec<$crate::rt::Output>, $crate::rt::Failure> {
                    $crate::rt::generation_ended(&INSTANCE, reason)
                }
            }

    $crate::rt::__export_bindings!(Export with_types_in $crate::rt::bindings);
        };
    };
}

/// What [`export!`](crate::export!) needs; not for others.
pub mod rt {
    pub use super::{Slot, generation_ended, init, process};
    pub use crate::bindings;
    pub use crate::bindings::__export_bindings;
    pub use crate::bindings::exports::tidegate::plugin::transform::{
        CommitPolicy, Context, EndReason, Failure, Guest, Message, Output,
    };
}

/// Where the one instance of a component lies: a component has one thread.
pub type Slot<P> = RefCell<Option<P>>;

/// `init` of the contract.
///
/// # Errors
/// What the plugin says.
pub fn init<P: Plugin>(slot: &'static LocalKey<Slot<P>>, context: wit::Context) -> Result<wit::CommitPolicy, String> {
    let wit::Context { pipeline, transform, topic, partition, generation, config } = context;
    let plugin = P::init(&Context { pipeline, transform, topic, partition, generation, config })?;
    let policy = match plugin.policy() {
        CommitPolicy::AnyTime => wit::CommitPolicy::AnyTime,
        CommitPolicy::GenerationEnd => wit::CommitPolicy::GenerationEnd,
    };
    slot.set(Some(plugin));
    Ok(policy)
}

/// `process` of the contract.
///
/// # Errors
/// What the plugin says.
pub fn process<P: Plugin>(slot: &'static LocalKey<Slot<P>>, message: wit::Message) -> Result<Vec<wit::Output>, wit::Failure> {
    let mut outputs = Outputs::new();
    call(slot, |plugin| plugin.process(message.into(), &mut outputs))?;
    Ok(outputs.into_vec().into_iter().map(Into::into).collect())
}

/// `generation-ended` of the contract.
///
/// # Errors
/// What the plugin says.
pub fn generation_ended<P: Plugin>(
    slot: &'static LocalKey<Slot<P>>,
    reason: wit::EndReason,
) -> Result<Vec<wit::Output>, wit::Failure> {
    let reason = match reason {
        wit::EndReason::Rebalance => EndReason::Rebalance,
        wit::EndReason::Reload => EndReason::Reload,
        wit::EndReason::Shutdown => EndReason::Shutdown,
        wit::EndReason::Limit => EndReason::Limit,
    };
    let mut outputs = Outputs::new();
    call(slot, |plugin| plugin.generation_ended(reason, &mut outputs))?;
    Ok(outputs.into_vec().into_iter().map(Into::into).collect())
}

fn call<P: Plugin>(slot: &'static LocalKey<Slot<P>>, f: impl FnOnce(&mut P) -> Result<(), Failure>) -> Result<(), wit::Failure> {
    slot.with_borrow_mut(|plugin| f(plugin.as_mut().expect("the host calls init first"))).map_err(|failure| match failure {
        Failure::Reject(why) => wit::Failure::Reject(why),
        Failure::Retry(why) => wit::Failure::Retry(why),
        Failure::Fatal(why) => wit::Failure::Fatal(why),
    })
}

// The types below are laid out as those of the bindings are, so that the standard library turns one vector into the other in place.

impl From<wit::Message> for Message<'_> {
    fn from(message: wit::Message) -> Self {
        let wit::Message { offset, timestamp, key, value, headers } = message;
        Self { offset, timestamp, key: key.map(Cow::Owned), value: value.map(Cow::Owned), headers: headers.into() }
    }
}

impl From<Vec<WitHeader>> for Headers<'_> {
    fn from(headers: Vec<WitHeader>) -> Self {
        headers
            .into_iter()
            .map(|WitHeader { key, value }| Header { name: Cow::Owned(key), value: value.map(Cow::Owned) })
            .collect()
    }
}

impl From<Output<'_>> for wit::Output {
    fn from(output: Output<'_>) -> Self {
        let Output { topic, partition, timestamp, key, value, headers } = output;
        Self {
            topic: topic.map(Cow::into_owned),
            partition,
            timestamp,
            key: key.map(Cow::into_owned),
            value: value.map(Cow::into_owned),
            headers: headers
                .into_iter()
                .map(|Header { name, value }| WitHeader { key: name.into_owned(), value: value.map(Cow::into_owned) })
                .collect(),
        }
    }
}

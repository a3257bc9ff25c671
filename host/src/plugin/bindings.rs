//! What `wasmtime` makes of the contract: what the host passes in is borrowed, so that a record crosses without a copy of its own.

#![allow(missing_docs, unreachable_pub, unsafe_code, dead_code, reason = "generated code")]

wasmtime::component::bindgen!({
    path: "../wit/0.1.0",
    world: "plugin",
    ownership: Borrowing { duplicate_if_necessary: true },
});

//! One plugin for one partition and generation: its store, its calls, what goes in and what comes out.

use crate::plugin::bindings::exports::tidegate::plugin::transform::Guest;
use crate::plugin::bindings::tidegate::plugin::types as wit;
use crate::plugin::call::{Call, Ended};
use crate::plugin::component::Loaded;
use crate::plugin::console::{Console, Speaker, printable};
use crate::plugin::imports::{HANDLES, closed_wasi};
use crate::plugin::limits::Usage;
use crate::plugin::trap;
use crate::plugin::waiting::Waits;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_core::output::{OutputRef, Outputs, Target, Topics};
use tidegate_core::plugin::{CommitPolicy, EndReason, Failure, FailureKind, Instance, Place};
use tidegate_core::record::{HeaderRef, HeaderSource, Headers, RecordRef};
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::WasiCtx;

/// What the host keeps for an instance.
pub(crate) struct State {
    pub(crate) wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) console: Arc<Console>,
    pub(crate) usage: Usage,
    call: Call,
    started: Instant,
}

impl State {
    pub(crate) fn waits(&mut self) -> Waits<'_> {
        Waits { table: &mut self.table, call: &self.call, started: self.started }
    }
}

/// What an instance is for: a place in the pipeline, or the probe.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    Probe,
    Serve(&'a Place),
}

/// What an instance took to come to life.
pub(crate) struct Measured {
    pub(crate) instantiate: Duration,
    /// Bytes of linear memory that it has before its first call.
    pub(crate) memory: usize,
    pub(crate) init: Duration,
    pub(crate) memory_after_init: usize,
    /// What `init` answered.
    pub(crate) policy: Result<CommitPolicy, Failure>,
}

/// A live instance.
pub(crate) struct Live {
    store: Store<State>,
    guest: Guest,
    loaded: Arc<Loaded>,
    /// Room for the headers of a record, used again for each; empty between calls.
    headers: Vec<wit::HeaderParam<'static>>,
}

impl Live {
    /// Makes an instance and calls its `init`.
    pub(crate) fn start(loaded: &Arc<Loaded>, purpose: Purpose<'_>) -> Result<(Self, CommitPolicy), Failure> {
        let mut store = new_store(loaded, purpose);
        begin(&mut store);
        let started = instantiate(&mut store, loaded).and_then(|guest| {
            let context = context(loaded, purpose);
            Ok((guest.call_init(&mut store, context)?, guest))
        });
        store.data().call.end();
        match started {
            Ok((Ok(policy), guest)) => {
                let live = Self { store, guest, loaded: Arc::clone(loaded), headers: Vec::new() };
                Ok((live, commit_policy(policy)))
            }
            Ok((Err(refusal), _)) => Err(Failure::new(FailureKind::Init, printable(&refusal))),
            Err(error) => Err(trap::failure(&error, store.data(), &loaded.spec.limits)),
        }
    }

    /// Makes an instance and calls its `init`, and tells what each of the two took.
    pub(crate) fn measure(loaded: &Arc<Loaded>) -> Result<Measured, Failure> {
        let mut store = new_store(loaded, Purpose::Probe);
        begin(&mut store);
        let began = Instant::now();
        let guest = instantiate(&mut store, loaded);
        let instantiate = began.elapsed();
        let memory = store.data().usage.memory();
        let answer = guest.map(|guest| {
            let began = Instant::now();
            let answer = guest.call_init(&mut store, context(loaded, Purpose::Probe));
            (answer, began.elapsed())
        });
        store.data().call.end();
        let failed = |error: &wasmtime::Error| trap::failure(error, store.data(), &loaded.spec.limits);
        let (answer, init) = answer.map_err(|error| failed(&error))?;
        let policy = match answer {
            Ok(Ok(policy)) => Ok(commit_policy(policy)),
            Ok(Err(refusal)) => Err(Failure::new(FailureKind::Init, printable(&refusal))),
            Err(error) => Err(failed(&error)),
        };
        Ok(Measured { instantiate, memory, init, memory_after_init: store.data().usage.memory(), policy })
    }

    /// Runs one call and takes what it made.
    fn call(
        &mut self,
        outputs: &mut Outputs,
        run: impl FnOnce(&Guest, &mut Store<State>) -> wasmtime::Result<Result<Vec<wit::Output>, wit::Failure>>,
    ) -> Result<(), Failure> {
        begin(&mut self.store);
        let returned = run(&self.guest, &mut self.store);
        self.store.data().call.end();
        match returned {
            Ok(Ok(made)) => take(&made, outputs, &self.loaded),
            Ok(Err(failure)) => Err(told(failure)),
            Err(error) => Err(trap::failure(&error, self.store.data(), &self.loaded.spec.limits)),
        }
    }
}

impl Instance for Live {
    fn process(&mut self, record: &RecordRef<'_>, outputs: &mut Outputs) -> Result<(), Failure> {
        let mut headers = reuse(std::mem::take(&mut self.headers));
        let lowered = lower_headers(record.headers, &mut headers);
        let returned = lowered.and_then(|()| {
            let message = wit::Message {
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key,
                value: record.value,
                headers: &headers,
            };
            self.call(outputs, |guest, store| guest.call_process(store, message))
        });
        self.headers = reuse(headers);
        returned
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs) -> Result<(), Failure> {
        let reason = match reason {
            EndReason::Rebalance => wit::EndReason::Rebalance,
            EndReason::Reload => wit::EndReason::Reload,
            EndReason::Shutdown => wit::EndReason::Shutdown,
            EndReason::Limit => wit::EndReason::Limit,
        };
        self.call(outputs, |guest, store| guest.call_generation_ended(store, reason))
    }

    fn near_memory_limit(&self) -> bool {
        self.store.data().usage.near_memory_limit()
    }
}

fn new_store(loaded: &Loaded, purpose: Purpose<'_>) -> Store<State> {
    let parts = &loaded.engine.parts;
    let limits = &loaded.spec.limits;
    let (topic, partition, epoch) = match purpose {
        Purpose::Probe => ("".into(), -1, None),
        Purpose::Serve(place) => (Arc::clone(&place.partition.topic), place.partition.partition, Some(place.epoch)),
    };
    let generation = epoch.map_or(0, |epoch| epoch.0);
    let speaker = Speaker { transform: Arc::clone(&loaded.transform), topic, partition, generation };
    let mut table = ResourceTable::new();
    table.set_max_capacity(HANDLES);
    let state = State {
        wasi: closed_wasi(),
        table,
        console: Arc::new(Console::new(speaker, Arc::clone(&loaded.log_budget))),
        usage: Usage::new(limits),
        call: Call::new(parts.ticker.timing(), Arc::clone(&parts.cancel), epoch, limits.call_time),
        started: Instant::now(),
    };
    let mut store = Store::new(&parts.wasm, state);
    store.limiter(|state| &mut state.usage);
    // What one call may hand over, twice the limits: up to there the answer is a clear refusal, beyond it the call is ended while it hands over.
    let most = limits.output_bytes.saturating_mul(2).saturating_add(limits.outputs.saturating_mul(2 * size_of::<wit::Output>()));
    store.set_hostcall_fuel(most);
    store.epoch_deadline_callback(|store| match store.data().call.must_end() {
        None => Ok(UpdateDeadline::Continue(1)),
        Some(ended @ (Ended::TimedOut | Ended::Cancelled)) => Err(ended.into()),
    });
    store
}

fn begin(store: &mut Store<State>) {
    // The engine asks at the next tick, then at each.
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.console.call_begins();
    state.usage.forget_refusal();
    state.call.begin();
}

fn instantiate(store: &mut Store<State>, loaded: &Loaded) -> wasmtime::Result<Guest> {
    let instance = loaded.pre.instantiate(&mut *store)?;
    loaded.transform_export.load(store, &instance)
}

fn context<'a>(loaded: &'a Loaded, purpose: Purpose<'a>) -> wit::Context<'a> {
    let (topic, partition, generation) = match purpose {
        Purpose::Probe => ("", -1, 0),
        Purpose::Serve(place) => (&*place.partition.topic, place.partition.partition, place.epoch.0),
    };
    let spec = &loaded.spec;
    wit::Context { pipeline: &spec.pipeline, transform: &spec.name, topic, partition, generation, config: &spec.config }
}

fn commit_policy(policy: wit::CommitPolicy) -> CommitPolicy {
    match policy {
        wit::CommitPolicy::AnyTime => CommitPolicy::AnyTime,
        wit::CommitPolicy::GenerationEnd => CommitPolicy::GenerationEnd,
    }
}

fn told(failure: wit::Failure) -> Failure {
    let (kind, message) = match failure {
        wit::Failure::Reject(message) => (FailureKind::Reject, message),
        wit::Failure::Retry(message) => (FailureKind::Retry, message),
        wit::Failure::Fatal(message) => (FailureKind::Fatal, message),
    };
    Failure::new(kind, printable(&message))
}

fn lower_headers<'a>(headers: Headers<'a>, lowered: &mut Vec<wit::HeaderParam<'a>>) -> Result<(), Failure> {
    for header in headers.iter() {
        let key = std::str::from_utf8(header.name).map_err(|_| {
            let message = format!(
                "a header's name is not UTF-8, which plugins can't be given: {}",
                printable(&String::from_utf8_lossy(header.name))
            );
            Failure::new(FailureKind::Reject, message)
        })?;
        lowered.push(wit::HeaderParam { key, value: header.value });
    }
    Ok(())
}

/// The same allocation for headers that live shorter or longer: the standard library collects in place, and nothing is in it.
fn reuse<'b>(mut headers: Vec<wit::HeaderParam<'_>>) -> Vec<wit::HeaderParam<'b>> {
    headers.clear();
    headers.into_iter().map(|_| unreachable!("it was cleared")).collect()
}

/// Checks what a call made and appends it. On an error the caller cuts `outputs` back.
fn take(made: &[wit::Output], outputs: &mut Outputs, loaded: &Loaded) -> Result<(), Failure> {
    let reject = |message: String| Failure::new(FailureKind::Reject, message);
    let limits = &loaded.spec.limits;
    if made.len() > limits.outputs {
        return Err(reject(format!("{} outputs of one call, the limit is {} (limits.outputs)", made.len(), limits.outputs)));
    }
    let mark = outputs.mark();
    let source = Made(made);
    for (index, output) in made.iter().enumerate() {
        outputs.push(&OutputRef {
            target: target(output.topic.as_deref(), &loaded.spec.topics).map_err(reject)?,
            partition: not_negative("partition", output.partition).map_err(reject)?,
            timestamp: not_negative("timestamp", output.timestamp).map_err(reject)?,
            key: output.key.as_deref(),
            value: output.value.as_deref(),
            headers: if output.headers.is_empty() { Headers::NONE } else { Headers::of(&source, index) },
        });
        let (_, bytes) = outputs.since(mark);
        if bytes > limits.output_bytes {
            let message = format!("over {} bytes of outputs in one call, the limit is {}", bytes, limits.output_bytes);
            return Err(reject(format!("{message} (limits.output-size)")));
        }
    }
    Ok(())
}

fn target(topic: Option<&str>, topics: &Topics) -> Result<Target, String> {
    let Some(name) = topic else { return Ok(Target::Onward) };
    topics.find(name).map(Target::Topic).ok_or_else(|| {
        let name = printable(name);
        format!("an output goes to topic '{name}', which the configuration does not name: add it to output.topics, or change the plugin")
    })
}

fn not_negative<N: PartialOrd + From<i32> + std::fmt::Display>(what: &str, number: Option<N>) -> Result<Option<N>, String> {
    match number {
        Some(number) if number < N::from(0) => Err(format!("an output has the {what} {number}: it can't be negative")),
        number => Ok(number),
    }
}

/// What a call returned, as a source of headers.
struct Made<'a>(&'a [wit::Output]);

impl HeaderSource for Made<'_> {
    fn header(&self, record: usize, index: usize) -> Option<HeaderRef<'_>> {
        let header = self.0.get(record)?.headers.get(index)?;
        Some(HeaderRef { name: header.key.as_bytes(), value: header.value.as_deref() })
    }
}

//! The scheduler: whoever is due first acts, and after each step the rules are looked at.

use crate::chance::Chance;
use crate::clock::{Clock, NEVER, Time, millis};
use crate::cluster::{Cluster, SESSION};
use crate::host::{Actor, Host, Note, Sender};
use crate::producer;
use crate::rules::Around;
use crate::scenario::{ACTIVE, Event, Happening, Scenario};
use crate::trace::Trace;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use tidegate_core::driver::Answer;
use tidegate_core::generation::Outcome;
use tidegate_core::produce::{Delivery, ErrorClass};

/// How long hosts may take to be done with everything, once nothing goes wrong any more.
const SETTLE: Time = millis(90_000);
/// After that a call that began while things went wrong has come back, and a member that stood still knows what it is at.
const REST: Time = millis(4000);
/// How long a stop may take beyond its time-out.
const STOP_SLACK: Time = millis(4000);
/// Steps of a run that does not come to an end.
const STEPS: u64 = 400_000;

/// How a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The rule that was broken, and how; none when all is well.
    pub violation: Option<String>,
    /// What happened, in words, if that was asked for.
    pub lines: Vec<String>,
    /// Records whose outputs were committed.
    pub records: u64,
    /// Generations that ended, and how many of those in order.
    pub generations: (u64, u64),
    /// Steps of all parts.
    pub steps: u64,
    /// The longest time for which a revoke was not answered, in microseconds.
    pub longest_revoke: u64,
}

/// What a run is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Records come, and things go wrong.
    Active,
    /// Everything works, until nothing is left to be done, and the group has come to rest.
    Settling { done: Option<Time> },
    /// All hosts were asked to stop.
    Stopping { since: Time },
}

struct World {
    revoke_limit: Time,
    scenario: Scenario,
    clock: Arc<Clock>,
    cluster: Rc<RefCell<Cluster>>,
    hosts: Vec<Host>,
    /// Slots in which a process is to be started.
    starts: Vec<(Time, usize)>,
    /// Slots in which another process has taken the place of one that still runs.
    twins: Vec<usize>,
    next_event: usize,
    next_arrival: usize,
    stage: Stage,
    chance: Chance,
}

/// Runs a scenario to its end, or to the first violation. A panic of the core is one.
pub(crate) fn run(scenario: &Scenario, trace: bool) -> Findings {
    let panicked = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Findings { violation: Some(format!("a panic: {}", text.unwrap_or("without words"))), ..Findings::default() }
    };
    catch_unwind(AssertUnwindSafe(|| run_to_end(scenario, trace))).unwrap_or_else(panicked)
}

fn run_to_end(scenario: &Scenario, trace: bool) -> Findings {
    let clock = Arc::new(Clock::new());
    let mut chance = Chance::new(scenario.seed, 4);
    let streams = Chance::new(scenario.seed, 5);
    let mut cluster = Cluster::new(Arc::clone(&clock), streams, Trace::new(trace), scenario);
    for part in 0..scenario.parts {
        if !chance.one_in(5) {
            cluster.ledger.begin(part, 0);
        }
    }
    let mut world = World {
        revoke_limit: scenario.revoke_limit(),
        scenario: scenario.clone(),
        clock,
        cluster: Rc::new(RefCell::new(cluster)),
        hosts: Vec::new(),
        starts: Vec::new(),
        twins: Vec::new(),
        next_event: 0,
        next_arrival: 0,
        stage: Stage::Active,
        chance,
    };
    let mut steps = 0;
    while world.step() {
        steps += 1;
        if steps > STEPS {
            world.stuck("it takes more steps than any run should");
        }
    }
    world.findings(steps)
}

impl World {
    /// Lets whoever is due first act. False when the run is over.
    fn step(&mut self) -> bool {
        if self.cluster.borrow().violation.is_some() || self.is_over() {
            return false;
        }
        let event = self.scenario.events.get(self.next_event).map_or(NEVER, |event| event.at);
        let arrival = self.scenario.arrivals.get(self.next_arrival).map_or(NEVER, |arrival| arrival.at);
        let broker = self.cluster.borrow().next().unwrap_or(NEVER);
        let start = self.starts.iter().map(|(at, _)| *at).min().unwrap_or(NEVER);
        let calm = if self.stage == Stage::Active { ACTIVE } else { NEVER };
        let (acts, actor, host) = self.next_actor();
        let at = [event, arrival, broker, start, calm, acts].into_iter().min().unwrap_or(NEVER).max(self.clock.step());
        self.clock.begin(at);
        self.check_time(at);
        if event <= at {
            self.next_event += 1;
            let event = self.scenario.events[self.next_event - 1];
            self.happen(event);
        } else if arrival <= at {
            let arrival = self.scenario.arrivals[self.next_arrival];
            self.next_arrival += 1;
            self.cluster.borrow_mut().append(arrival.part, arrival.records, arrival.hidden);
        } else if calm <= at {
            self.calm();
        } else if start <= at {
            self.start_due(at);
        } else if broker <= at {
            self.cluster.borrow_mut().advance();
        } else {
            self.act(host, actor);
        }
        true
    }

    fn next_actor(&self) -> (Time, Actor, usize) {
        let cluster = self.cluster.borrow();
        let next = |(index, host): (usize, &Host)| {
            let (at, actor) = host.next(&cluster);
            (at, actor, index)
        };
        self.hosts.iter().enumerate().map(next).min_by_key(|(at, _, _)| *at).unwrap_or((NEVER, Actor::Driver, 0))
    }

    fn act(&mut self, index: usize, actor: Actor) {
        let outcome = self.hosts[index].act(actor);
        self.look(index, actor);
        if let Some(outcome) = outcome {
            self.ended(index, outcome);
        }
    }

    /// Looks at what a step did.
    fn look(&mut self, index: usize, actor: Actor) {
        let host = &self.hosts[index];
        let cluster = &mut *self.cluster.borrow_mut();
        let process = host.process;
        let mut found = Ok(());
        match actor {
            Actor::Driver => {
                let mail = &mut *host.mail.borrow_mut();
                for note in mail.notes.drain(..) {
                    if let Note::Report(report) = &note {
                        cluster.say(process, || format!("{report:?}"));
                    }
                    found = found.and_then(|()| cluster.conduct[process].noted(process, &note, &cluster.ledger));
                }
                found = found.and_then(|()| host.unsound_marks().map_or(Ok(()), Err));
            }
            Actor::Lane(_) => {
                for call in host.stage.acts().journal.drain(..) {
                    cluster.say_at(call.at, process, || call.to_string());
                    let Cluster { log, ledger, group, clients, conduct, .. } = cluster;
                    let owned = clients[process].member.is_some_and(|member| group.owns(member, call.part));
                    let around = Around {
                        ledger,
                        first_from: &|part, offset| log.first_from(part, offset),
                        range: &|part, from, to| log.range(part, from, to),
                        owned,
                        exact: self.scenario.delivery == Delivery::ExactlyOnce,
                    };
                    found = found.and_then(|()| conduct[process].called(&call, &around));
                }
            }
            Actor::Writer => {}
        }
        if let Err(rule) = found {
            cluster.violated(rule);
        }
    }

    /// A host has come to its end by itself.
    fn ended(&mut self, index: usize, outcome: Outcome) {
        let host = self.hosts.remove(index);
        let (process, slot, asked) = (host.process, host.slot, host.stop_by.is_some());
        self.cluster.borrow_mut().say(process, || format!("ends: {outcome:?}"));
        host.end();
        if let Outcome::Broken(what) = &outcome {
            return self.cluster.borrow_mut().violated(format!("a host found its own invariant broken: {what}"));
        }
        match self.stage {
            // It has written nothing since another process took its place.
            Stage::Stopping { .. } if self.twins.contains(&slot) && is_fenced(&outcome) => {}
            // It had no client, and the last attempt to make one failed just now (decision D15): it owns nothing.
            Stage::Stopping { .. } if matches!(outcome, Outcome::Consumer { fenced: false, forbidden: false, .. }) => {}
            Stage::Stopping { .. } if outcome != Outcome::Stopped => {
                self.cluster.borrow_mut().violated(format!("a stop in order ended as {outcome:?}"));
            }
            Stage::Stopping { .. } => {}
            // Somebody has to do what is left.
            Stage::Settling { .. } if self.hosts.is_empty() && self.starts.is_empty() => self.start_later(slot, millis(1500)),
            // Whoever was fenced must not come back in the place of the one that runs.
            Stage::Active | Stage::Settling { .. } if self.hosts.iter().any(|host| host.slot == slot) => {}
            Stage::Active | Stage::Settling { .. } if !asked => self.start_later(slot, millis(1500)),
            Stage::Active | Stage::Settling { .. } => {}
        }
    }

    fn start_later(&mut self, slot: usize, within: Time) {
        let at = self.clock.now() + self.chance.between(millis(20), within);
        self.starts.push((at, slot));
    }

    fn start_due(&mut self, at: Time) {
        let due = self.starts.iter().position(|(start, _)| *start <= at);
        let Some((_, slot)) = due.map(|index| self.starts.swap_remove(index)) else { return };
        if self.cluster.borrow().is_down() {
            self.start_later(slot, millis(300));
        } else {
            self.start(slot);
        }
    }

    fn start(&mut self, slot: usize) {
        let Scenario { settings, pipeline, latest, .. } = &self.scenario;
        let host = Host::start(&self.cluster, slot, settings.clone(), *pipeline, *latest, &mut self.chance);
        let process = host.process;
        if self.stage == Stage::Active {
            host.stage.acts().pace = self.scenario.pace;
        }
        self.cluster.borrow_mut().say(process, || format!("starts in slot {slot}"));
        self.hosts.push(host);
    }

    /// What the scenario says happens.
    fn happen(&mut self, event: Event) {
        let Event { slot, what, at, .. } = event;
        self.cluster.borrow_mut().say(usize::MAX, || format!("{event}"));
        if let Happening::BrokerDown(time) = what {
            return self.cluster.borrow_mut().go_down(time);
        }
        let index = self.hosts.iter().position(|host| host.slot == slot && host.frozen_until <= at);
        let Some(index) = index else {
            let waits = self.hosts.iter().any(|host| host.slot == slot) || self.starts.iter().any(|(_, start)| *start == slot);
            if matches!(what, Happening::Start) && !waits {
                self.starts.push((at, slot));
            }
            return;
        };
        let host = &mut self.hosts[index];
        match what {
            Happening::Start | Happening::BrokerDown(_) => {}
            Happening::Stop => self.stop(index, Answer::Stop),
            Happening::StopNow => self.stop(index, Answer::StopNow),
            Happening::Kill => {
                let host = self.hosts.remove(index);
                self.cluster.borrow_mut().vanish(host.process);
                self.start_later(slot, millis(2500));
            }
            Happening::Freeze(time) => self.freeze(index, time),
            Happening::Twin(time) => {
                self.freeze(index, SESSION + time);
                self.twins.push(slot);
                self.start_later(slot, SESSION + time);
            }
            Happening::Reload(pipeline) => {
                self.scenario.pipeline = pipeline;
                let chain = pipeline.chain(&host.stage);
                host.mail.borrow_mut().answer(at, Sender::Other, Answer::Chain(chain));
            }
            Happening::Evict => self.cluster.borrow_mut().evict_process(host.process),
            Happening::ConsumerFails => self.cluster.borrow_mut().fail(host.process),
            Happening::OffsetsFail(class, times) => host.faults.borrow_mut().offsets.extend(std::iter::repeat_n(class, times)),
            Happening::CommitFails(class, times) => host.faults.borrow_mut().commits.extend(std::iter::repeat_n(class, times)),
            Happening::AbortFails(class) => host.faults.borrow_mut().aborts.push_back(class),
            Happening::Undelivered => host.faults.borrow_mut().undelivered += 1,
            Happening::Room(room) => host.faults.borrow_mut().room = Some(room),
            Happening::Plugin(fault) => host.stage.acts().faults.push_back(fault),
            Happening::Pace(pace) => host.stage.acts().pace = pace,
            Happening::Client(fault) => fault.apply(&mut self.cluster.borrow_mut().clients[host.process].faults),
        }
    }

    fn freeze(&mut self, index: usize, time: Time) {
        let host = &mut self.hosts[index];
        host.frozen_until = self.clock.now() + time;
        self.cluster.borrow_mut().freeze(host.process, time);
    }

    fn stop(&mut self, index: usize, how: Answer) {
        let host = &mut self.hosts[index];
        let timeout = crate::clock::time(self.scenario.settings.stop_timeout);
        let by = self.clock.now().max(host.frozen_until) + timeout + STOP_SLACK;
        host.stop_by.get_or_insert(by);
        host.mail.borrow_mut().answer(self.clock.now(), Sender::Other, how);
    }

    /// From here on everything works.
    fn calm(&mut self) {
        self.stage = Stage::Settling { done: None };
        let cluster = &mut *self.cluster.borrow_mut();
        cluster.say(usize::MAX, || "from here on nothing goes wrong".to_owned());
        cluster.come_up();
        for client in &mut cluster.clients {
            client.faults = crate::cluster::Faults::default();
        }
        for host in &self.hosts {
            *host.faults.borrow_mut() = producer::Faults::default();
            let mut acts = host.stage.acts();
            acts.faults.clear();
            acts.pace = 200;
        }
        if self.hosts.iter().all(|host| host.stop_by.is_some()) && self.starts.is_empty() {
            self.starts.push((ACTIVE, 0));
        }
    }

    /// Whether everything is done; asks the hosts to stop when all records are.
    fn is_over(&mut self) -> bool {
        match self.stage {
            Stage::Active => false,
            Stage::Settling { done } => {
                let now = self.clock.now();
                let quiet = self.hosts.iter().all(|host| host.frozen_until <= now) && self.starts.is_empty();
                let all = quiet && !self.hosts.is_empty() && self.cluster.borrow().lag() == 0;
                match done.filter(|_| all) {
                    Some(since) if now >= since + REST => self.stop_all(now),
                    Some(_) => {}
                    None => self.stage = Stage::Settling { done: all.then_some(now) },
                }
                false
            }
            Stage::Stopping { .. } => self.hosts.is_empty(),
        }
    }

    fn stop_all(&mut self, now: Time) {
        self.stage = Stage::Stopping { since: now };
        for index in 0..self.hosts.len() {
            self.stop(index, Answer::Stop);
        }
    }

    /// Nothing may take for ever.
    fn check_time(&mut self, at: Time) {
        let late = match self.stage {
            Stage::Active => false,
            Stage::Settling { .. } => at > ACTIVE + SETTLE,
            Stage::Stopping { since } => at > since + SETTLE,
        };
        if late {
            return self.stuck("liveness: records are left, though nothing goes wrong any more");
        }
        let mut found = None;
        let limit = self.revoke_limit;
        for host in &self.hosts {
            let cluster = self.cluster.borrow();
            let awake = host.frozen_until;
            let revoke = cluster.owes_release(host.process).map(|(since, _)| since.max(awake));
            if revoke.is_some_and(|since| at > since + limit) {
                found = Some("liveness: a revoke is not answered in time");
            } else if host.stop_by.is_some_and(|by| at > by.max(awake + STOP_SLACK)) {
                found = Some("liveness: a stop takes longer than it may");
            } else if host.aborting_since().is_some_and(|since| at > since.max(awake) + millis(15_000)) {
                found = Some("liveness: a generation that was given up does not end");
            }
        }
        if let Some(found) = found {
            self.stuck(found);
        }
    }

    fn stuck(&mut self, what: &str) {
        let states: Vec<String> =
            self.hosts.iter().map(|host| format!("\n  process {}: {}", host.process, host.state())).collect();
        let lag = self.cluster.borrow().lag();
        self.cluster.borrow_mut().violated(format!("{what}; {lag} records are left{}", states.concat()));
    }

    fn findings(self, steps: u64) -> Findings {
        drop(self.hosts);
        let Ok(cluster) = Rc::try_unwrap(self.cluster) else { unreachable!("the hosts that shared it are gone") };
        let cluster = cluster.into_inner();
        let ended = |(all, good): (u64, u64), (more, well): (u64, u64)| (all + more, good + well);
        Findings {
            records: cluster.ledger.records,
            generations: cluster.conduct.iter().map(|conduct| conduct.ended).fold((0, 0), ended),
            longest_revoke: cluster.clients.iter().map(|client| client.longest_revoke).max().unwrap_or(0),
            violation: cluster.violation,
            lines: cluster.trace.into_lines(),
            steps,
        }
    }
}

fn is_fenced(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Producer(error) if error.class == ErrorClass::Fenced)
}

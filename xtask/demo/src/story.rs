//! The half minute itself: a host, a second one, a new plugin, two stops, the account.

mod meter;
mod view;

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tidegate_tests::kafka;
use xtask::run::Interrupt;

use crate::Arguments;
use crate::alerts::{Found, Watch};
use crate::brokers::{Brokers, Kind};
use crate::feed::Feed;
use crate::hosts::{Host, Line};
use crate::paint::{clock, count, name};
use crate::progress::Progress;
use crate::quakes::Week;
use crate::screen::Screen;
use crate::totals::Totals;
use crate::words;
use meter::Meter;
use view::View;

/// Names in the example's `pipeline.yaml`.
const INPUT: &str = "quakes";
const OUTPUT: &str = "quake-alerts";
const GROUP: &str = "quake-alerts";
const PLUGIN: &str = "quakes.wasm";

const PARTITIONS: i32 = 8;
/// Hosts by number.
const A: usize = 0;
const B: usize = 1;
/// How long each act goes on, so that there is something to look at.
const ACT: Duration = Duration::from_secs(5);
/// Bound of every wait: reached only where something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells the whole story on brokers of its own. Whatever it starts has ended when this returns.
///
/// # Errors
/// What went wrong, a wrong total among it.
pub(crate) fn tell(arguments: &Arguments, screen: &mut Screen) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let week = Arc::new(Week::read(&arguments.example)?);
    words::introduce(screen, arguments.kind, &week, arguments.rate);
    let folder = TempDir::with_prefix("tidegate-demo-").context("cannot make a temporary folder")?;
    if arguments.kind == Kind::Kafka {
        screen.live("  starting Kafka ...");
    }
    let brokers = Brokers::start(arguments.kind, &folder.path().join("kafka"))?;
    ensure!(!interrupt.is_set(), "interrupted");
    screen.settle();
    // A folder of their own, as in a deployment: the hosts watch it.
    let deployed = folder.path().join("hosts");
    fs::create_dir(&deployed).context("cannot make a folder for the hosts")?;
    let pipeline = fs::read_to_string(arguments.example.join("pipeline.yaml")).context("cannot read pipeline.yaml")?;
    fs::write(deployed.join("pipeline.yaml"), arguments.kind.pipeline(&pipeline)?).context("cannot write pipeline.yaml")?;
    replace(&arguments.first, &deployed.join(PLUGIN))?;
    let bootstrap = brokers.bootstrap()?;
    for topic in [INPUT, OUTPUT] {
        brokers.create_topic(topic, PARTITIONS)?;
    }
    let mut story = Story::begin(arguments, screen, interrupt, week, &deployed, &bootstrap)?;
    let (fed, ends) = story.acts()?;
    let took = story.start.elapsed();
    let alerts = kafka::Kafka::at(&bootstrap).read_all(OUTPUT);
    let expected = story.week.alerts(fed);
    let found = Found::compare(&story.week, fed, &alerts);
    let totals = Totals { kind: arguments.kind, fed, processed: story.committed(), took, expected, found };
    drop(story);
    totals.show(screen);
    let faults = totals.faults();
    ensure!(faults.is_empty(), "the totals do not add up: {}", faults.join("; "));
    words::conclude(screen, arguments.kind, ends, totals.found.repeated);
    Ok(())
}

/// An alert on one line of a terminal: the new field is at the end.
fn shorten(alert: &str) -> String {
    let letters: Vec<char> = alert.chars().collect();
    match letters.len().checked_sub(76) {
        None | Some(0) => alert.to_owned(),
        Some(extra) => letters[..20].iter().chain(&[' ', '.', '.', '.', ' ']).chain(&letters[25 + extra..]).collect(),
    }
}

/// Puts a plugin into place at once, as a deployment should: a copy beside it, then a rename over it.
fn replace(component: &Path, place: &Path) -> Result<()> {
    let beside = place.with_extension("new");
    fs::copy(component, &beside).with_context(|| format!("cannot copy {}", component.display()))?;
    fs::rename(&beside, place).with_context(|| format!("cannot rename {}", beside.display()))
}

struct Story<'a> {
    // Hosts first: they end before the rest does.
    hosts: [Option<Host>; 2],
    views: [View; 2],
    feed: Feed,
    /// Whether the feed was told to end.
    fed: bool,
    alerts: Watch,
    progress: Progress,
    meter: Meter,
    log: (Sender<Line>, Receiver<Line>),
    start: Instant,
    week: Arc<Week>,
    interrupt: Interrupt,
    arguments: &'a Arguments,
    screen: &'a mut Screen,
    folder: &'a Path,
    bootstrap: &'a str,
}

impl<'a> Story<'a> {
    fn begin(
        arguments: &'a Arguments,
        screen: &'a mut Screen,
        interrupt: Interrupt,
        week: Arc<Week>,
        folder: &'a Path,
        bootstrap: &'a str,
    ) -> Result<Self> {
        let progress = Progress::watch(bootstrap, GROUP, INPUT, PARTITIONS)?;
        let bound = (progress.processed.clone(), arguments.kind.backlog());
        let feed = Feed::start(bootstrap, INPUT, Arc::clone(&week), arguments.rate, bound)?;
        let alerts = Watch::start(bootstrap, OUTPUT, PARTITIONS)?;
        Ok(Self {
            hosts: [None, None],
            views: [View::new(A), View::new(B)],
            feed,
            fed: false,
            alerts,
            progress,
            meter: Meter::default(),
            log: mpsc::channel(),
            start: Instant::now(),
            week,
            interrupt,
            arguments,
            screen,
            folder,
            bootstrap,
        })
    }

    /// All acts; how many records were fed, and how many generations ended.
    fn acts(&mut self) -> Result<(u64, u64)> {
        self.chapter("Host A starts; the feed runs already.");
        self.start_host(A)?;
        self.until("host A has all partitions", |story| story.views[A].owned.len() == 8)?;
        self.until("alerts of plugin 1", |story| story.alerts.count() > 0)?;
        self.go_on(ACT)?;

        self.chapter("Host B starts. A has to give it half of the partitions.");
        self.start_host(B)?;
        self.until("host B has partitions", |story| !story.views[B].owned.is_empty() && story.owned() == 8)?;
        self.go_on(ACT)?;

        self.new_plugin()?;
        self.go_on(ACT)?;

        self.chapter("Host B is asked to stop (SIGTERM), while the feed runs. A takes over.");
        self.stop_host(B)?;
        self.until("host A has all partitions again", |story| story.views[A].owned.len() == 8)?;
        self.go_on(ACT)?;

        self.chapter("The feed ends; A processes what is left, and is asked to stop.");
        let fed = self.feed.finish()?;
        self.fed = true;
        self.until("all records are processed", |story| story.progress.processed.count() >= fed)?;
        self.stop_host(A)?;
        self.screen.settle();
        Ok((fed, self.views.iter().map(|view| view.ends).sum()))
    }

    fn start_host(&mut self, host: usize) -> Result<()> {
        let file = self.folder.join("pipeline.yaml");
        self.hosts[host] = Some(Host::start(host, &self.arguments.host, &file, self.bootstrap, self.log.0.clone())?);
        Ok(())
    }

    fn new_plugin(&mut self) -> Result<()> {
        self.chapter("The plugin's file is replaced by version 2: that is the whole deployment.");
        let ends = [A, B].map(|host| self.views[host].reloads);
        replace(&self.arguments.second, &self.folder.join(PLUGIN))?;
        let replaced = Instant::now();
        self.until("an alert of plugin 2", |story| story.alerts.second().is_some())?;
        let (seen, text) = self.alerts.second().context("it was there a moment ago")?;
        let took = seen.saturating_duration_since(replaced).as_millis();
        self.until("both hosts run plugin 2", |story| [A, B].iter().all(|&host| story.views[host].reloads > ends[host]))?;
        self.say(&format!("   {} after {took} ms, committed and read:", self.screen.paint.green("first alert of plugin 2")));
        self.say(&format!("   {}", self.screen.paint.dim(&shorten(&text))));
        Ok(())
    }

    fn stop_host(&mut self, host: usize) -> Result<()> {
        let process = self.hosts[host].as_mut().context("the host was started")?;
        process.terminate()?;
        let asked = Instant::now();
        let mut ended = None;
        // Its place stays empty from here: an end is no surprise any more.
        let mut process = self.hosts[host].take().context("the host was started")?;
        while ended.is_none() {
            ensure!(asked.elapsed() < PATIENCE, "host {} does not stop", name(host));
            self.step()?;
            ended = process.ended()?;
        }
        let took = asked.elapsed().as_millis();
        self.read_rest();
        self.views[host].owned.clear();
        let status = ended.context("it has ended")?;
        ensure!(status.success(), "{}", self.obituary(host, status));
        self.event(host, &format!("has ended, exit code 0, {took} ms after the signal"));
        Ok(())
    }

    /// Lets things happen for a while.
    fn go_on(&mut self, time: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.step()?;
        }
        Ok(())
    }

    fn until(&mut self, what: &str, mut ready: impl FnMut(&Self) -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready(self) {
            if start.elapsed() > PATIENCE {
                bail!("waited {} s for this: {what}; the hosts' last words:\n{}", PATIENCE.as_secs(), self.last_words());
            }
            self.step()?;
        }
        Ok(())
    }

    /// A moment: what the hosts say, what the viewer sees, and whether anything has ended that should not have.
    fn step(&mut self) -> Result<()> {
        ensure!(!self.interrupt.is_set(), "interrupted");
        match self.log.1.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => self.hear(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the log's channel is closed"),
        }
        for host in [A, B] {
            let ended = self.hosts[host].as_mut().map(Host::ended).transpose()?.flatten();
            if let Some(status) = ended {
                self.read_rest();
                bail!("{}", self.obituary(host, status));
            }
        }
        if !self.fed && self.feed.is_over() {
            let fed = self.feed.finish()?;
            bail!("the feed ended by itself after {fed} records");
        }
        self.meter.note(self.progress.processed.count());
        let live = self.status();
        self.screen.live(&live);
        Ok(())
    }

    fn read_rest(&mut self) {
        while let Ok(line) = self.log.1.recv_timeout(Duration::from_millis(100)) {
            self.hear(&line);
        }
    }

    fn hear(&mut self, line: &Line) {
        let at = line.at.saturating_duration_since(self.start);
        for text in self.views[line.host].hear(line, self.screen.paint) {
            self.at(at, line.host, &text);
        }
    }

    fn owned(&self) -> usize {
        self.views.iter().map(|view| view.owned.len()).sum()
    }

    fn status(&self) -> String {
        let paint = self.screen.paint;
        let processed = self.progress.processed.count();
        let waiting = self.feed.delivered().saturating_sub(processed);
        let owners: Vec<String> = self.views.iter().filter_map(|view| view.owner(paint)).collect();
        format!(
            "{}  {} {}  {}  {}  {}",
            paint.dim(&clock(self.start.elapsed())),
            paint.bold(&format!("{:>7} records/s", count(self.meter.rate()))),
            paint.green(&self.meter.bars()),
            paint.dim(&format!("waiting {:>7}", count(waiting))),
            paint.dim(&format!("alerts {:>6}", count(self.alerts.count()))),
            owners.join("  ")
        )
    }

    fn chapter(&mut self, text: &str) {
        let text = self.screen.paint.bold(text);
        self.screen.line("");
        self.say(&text);
    }

    fn say(&mut self, text: &str) {
        let clock = self.screen.paint.dim(&clock(self.start.elapsed()));
        self.screen.line(&format!("{clock}  {text}"));
    }

    fn event(&mut self, host: usize, text: &str) {
        self.at(self.start.elapsed(), host, text);
    }

    fn at(&mut self, time: Duration, host: usize, text: &str) {
        let paint = self.screen.paint;
        self.screen.line(&format!("{}  {}  {text}", paint.dim(&clock(time)), paint.host(host)));
    }

    /// Committed offsets of the group, asked anew.
    fn committed(&self) -> u64 {
        let offsets = kafka::Kafka::at(self.bootstrap).committed(GROUP, INPUT);
        offsets.values().flatten().map(|offset| u64::try_from(*offset).unwrap_or(0)).sum()
    }

    fn obituary(&self, host: usize, status: ExitStatus) -> String {
        format!("host {} ended ({status}); the hosts' last words:\n{}", name(host), self.last_words())
    }

    fn last_words(&self) -> String {
        self.views.iter().flat_map(View::last_words).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn a_long_alert_keeps_its_start_and_its_end() {
        let long = format!("{}{}", "a".repeat(50), "b".repeat(50));
        let short = shorten(&long);
        assert_eq!(short.len(), 76);
        assert!(short.starts_with("aaaa") && short.contains(" ... ") && short.ends_with(&"b".repeat(50)), "{short}");
        assert_eq!(shorten("short"), "short");
    }
}

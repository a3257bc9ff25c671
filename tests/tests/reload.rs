//! Hot reload on real Kafka: a plugin's file is replaced while the host runs, in every way that people and tools replace files.
//!
//! Configurations can't change under a running host, so versions are told apart by what they do: `misbehave` passes values on as they
//! are and tells of itself in `generation-ended`, `uppercase` makes their letters capital. Where it does not matter what a version
//! does, it is the same component with a custom section behind it.

#![expect(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;
use tempfile::TempDir;
use tidegate_tests::host::{Host, Pipeline, field, says};
use tidegate_tests::in_other_modes;
use tidegate_tests::kafka::{ID_HEADER, Kafka, Ledger, PATIENCE, Stored, eventually, unique, wait_committed_to_end};
use tidegate_tests::mode::Mode;
use tidegate_tests::plugins::plugin;

/// A plugin that is slow, commits with its hooks only, and tells there how many records it had.
const COUNTING: &str = r#"{ "do": "sleep:4", "hook": "details", "policy": "generation-end" }"#;

const KEPT: &str = "plugin was not replaced: the old one stays at work";

/// T57: the file is replaced while hundreds of records lie in the buffer. The old plugin gets all of them and its hook, and commits; the
/// new one gets the next ones. In each partition all records of the old one lie before all of the new one, and none is lost or repeated.
#[test]
fn t57_the_old_plugin_drains_the_buffer_and_the_new_one_gets_the_next_record() {
    reload_with_full_buffer(Mode::Cooperative);
}

in_other_modes!(t57, reload_with_full_buffer);

fn reload_with_full_buffer(mode: Mode) {
    let mut scene = Scene::new("t57", 4, "misbehave");
    let host = mode.apply(scene.pipeline(r#"{ "do": "sleep:4", "hook": "details" }"#)).start();
    host.wait_assigned();
    scene.produce(1600);
    scene.wait_for_each_partition();
    scene.rename_over(&component("uppercase"));
    let ended = host.wait_for("the generation that the reload ended", ended_by_reload);
    assert_eq!(field(&ended, "outcome"), "committed");
    // What is buffered is a second of work: on a crowded machine that is less.
    assert!(field(&ended, "drained").as_u64() >= Some(20), "{ended}");
    scene.produce(400);
    let outputs = scene.exact_outputs();
    stop(host);

    scene.assert_old_before_new(&outputs);
    let (old, new) = counts(&outputs);
    assert!(new >= 400, "what came after the reload went through the new plugin: {new}");
    let hooks = scene.hooks();
    assert_eq!(hooks.len(), 4, "one hook a partition, and none of the new plugin: {hooks:?}");
    assert!(hooks.iter().all(|hook| hook.reason == "reload" && hook.generation == hooks[0].generation), "{hooks:?}");
    assert_eq!(hooks.iter().map(|hook| hook.records).sum::<usize>(), old, "the hooks came behind all records of the old plugin");
}

/// T58: whatever is wrong with the new file, it is told, the old plugin goes on, and its generation does not end.
#[test]
fn t58_a_file_that_does_not_load_leaves_the_old_plugin_at_work() {
    let mut scene = Scene::new("t58", 2, "uppercase");
    // Two transforms, since each of the last two faults needs a config of its own; `uppercase` takes any.
    let mut pipeline = scene.pipeline(r#"{ "init": "reject:not today" }"#);
    let second = scene.folder.path().join("second.wasm");
    fs::copy(scene.file.clone(), &second).unwrap();
    let mut transform = pipeline.transforms[0].clone();
    (transform.name, transform.plugin) = ("second".to_owned(), second.clone());
    transform.config = Some(r#"{ "init": "trap" }"#.to_owned());
    pipeline.transforms.push(transform);
    let host = pipeline.start();
    host.wait_assigned();

    let good = component("misbehave");
    let module = b"\0asm\x01\0\0\0\0\x02\x01x".to_vec();
    let faults = [
        (scene.file.clone(), b"hello, world".to_vec(), "no WebAssembly"),
        (scene.file.clone(), good[..good.len() / 2].to_vec(), "half written"),
        (scene.file.clone(), module, "a core WebAssembly module, not a component"),
        (scene.file.clone(), good.clone(), "the plugin refuses its config: not today"),
        (second.clone(), good, "the plugin failed in init"),
    ];
    for (number, (file, bytes, words)) in faults.into_iter().enumerate() {
        rename_over(&file, &bytes);
        let told = host.wait_for_nth(words, number + 1, |line| says(line, KEPT));
        assert!(told.to_string().contains(words), "{words}: {told}");
        scene.produce(20);
        wait_committed_to_end(&scene.kafka, &scene.group, &scene.input);
    }
    let outputs = scene.exact_outputs();
    assert_eq!(counts(&outputs), (0, 100), "all went through the first plugins");
    assert!(host.lines_of("generation is ending").is_empty(), "{}", host.log_text());
    // The file that was there before is no change, and a good one is taken.
    rename_over(&scene.file, &component("uppercase"));
    host.wait_for("the old file is back", |line| says(line, "plugin is at work already"));
    rename_over(&second, &version("uppercase", "2"));
    host.wait_for("a good file", reloaded);
    scene.produce(20);
    scene.exact_outputs();
    stop(host);
}

/// T59: the reload of a host that has nothing to do is done without a record, and the next record goes through the new plugin.
#[test]
fn t59_a_reload_on_an_idle_topic_is_done() {
    let mut scene = Scene::new("t59", 2, "misbehave");
    let host = scene.pipeline("{}").start();
    host.wait_assigned();
    scene.rename_over(&component("uppercase"));
    host.wait_for("the reload", reloaded);
    scene.produce(10);
    let outputs = scene.exact_outputs();
    assert_eq!(counts(&outputs), (0, 10));
    // The same with a generation that had records and is idle by now.
    scene.rename_over(&component("misbehave"));
    host.wait_for_nth("the second reload", 2, reloaded);
    scene.produce(10);
    let outputs = scene.exact_outputs();
    assert_eq!(counts(&outputs).0, 10);
    stop(host);
}

/// T60: a host joins while a reload drains. Each generation that counts has called its hooks once, and nothing is lost or repeated.
#[test]
fn t60_a_join_while_a_reload_drains() {
    let mut scene = Scene::new("t60a", 4, "misbehave");
    let pipeline = scene.pipeline(COUNTING);
    let first = pipeline.start();
    first.wait_assigned();
    scene.produce(1200);
    first.wait_for("a first commit", |line| says(line, "transaction committed"));
    scene.rename_over(&version("misbehave", "2"));
    first.wait_for("the reload begins", |line| says(line, "generation is ending") && field(line, "reason") == "reload");
    let second = pipeline.start();
    scene.both_work_and_each_record_has_one_hook(first, second);
}

/// T60, the other order: the file is replaced while a join drains.
#[test]
fn t60_a_reload_while_a_join_drains() {
    let mut scene = Scene::new("t60b", 4, "misbehave");
    let pipeline = scene.pipeline(COUNTING);
    let first = pipeline.start();
    first.wait_assigned();
    scene.produce(400);
    first.wait_for("a first commit", |line| says(line, "transaction committed"));
    let second = pipeline.start();
    eventually("the join begins", || {
        scene.produce(20);
        first.lines_of("generation is ending").iter().any(|line| field(line, "reason") == "rebalance").then_some(())
    });
    scene.rename_over(&version("misbehave", "2"));
    scene.both_work_and_each_record_has_one_hook(first, second);
}

/// T60: the file is replaced again while the first reload drains. The last one is what serves in the end.
#[test]
fn t60_two_reloads_at_once() {
    let mut scene = Scene::new("t60c", 2, "misbehave");
    let host = scene.pipeline(r#"{ "do": "sleep:4", "hook": "details" }"#).start();
    host.wait_assigned();
    scene.produce(600);
    host.wait_for("a first commit", |line| says(line, "transaction committed"));
    scene.rename_over(&version("misbehave", "2"));
    host.wait_for("the reload begins", |line| says(line, "generation is ending"));
    scene.rename_over(&component("uppercase"));
    host.wait_for_nth("the third plugin", 3, |line| says(line, "plugin loaded"));
    host.wait_for("the reload", reloaded);
    wait_committed_to_end(&scene.kafka, &scene.group, &scene.input);
    scene.produce(50);
    let outputs = scene.exact_outputs();
    assert!(counts(&outputs).1 >= 50, "the third plugin is at work");
    stop(host);
    let (old, _) = counts(&outputs);
    let hooks = scene.hooks();
    assert_eq!(hooks.iter().map(|hook| hook.records).sum::<usize>(), old, "{hooks:?}");
}

/// Every way to put a new file in the place of the old one is one reload, and a file is never taken half written.
#[test]
fn each_way_to_replace_a_file_is_one_reload() {
    let mut scene = Scene::new("ways", 2, "misbehave");
    let (one, two) = (scene.folder.path().join("one.wasm"), scene.folder.path().join("two.wasm"));
    fs::rename(scene.file.clone(), &one).unwrap();
    fs::write(&two, component("uppercase")).unwrap();
    symlink(&one, &scene.file).unwrap();
    let host = scene.pipeline("{}").start();
    host.wait_assigned();
    let mut turn = Turn { host: &host, reloads: 0 };

    // A symlink is swapped for another one by a rename, as `ln -sfn` and deployment tools do.
    symlink(&two, scene.folder.path().join("link")).unwrap();
    fs::rename(scene.folder.path().join("link"), &scene.file).unwrap();
    turn.serves(&mut scene, "uppercase");
    // The file that the link names is written in place.
    fs::write(&two, component("misbehave")).unwrap();
    turn.serves(&mut scene, "misbehave");
    // A new file is renamed over the path.
    scene.rename_over(&component("uppercase"));
    turn.serves(&mut scene, "uppercase");
    // It is rewritten in place by a slow hand.
    let bytes = component("misbehave");
    let mut file = fs::File::create(&scene.file).unwrap();
    for piece in bytes.chunks(bytes.len() / 2 + 1) {
        file.write_all(piece).unwrap();
        file.flush().unwrap();
        // Longer than a file must lie untouched to be looked at.
        std::thread::sleep(Duration::from_millis(400));
    }
    drop(file);
    turn.serves(&mut scene, "misbehave");
    // It is removed and made again.
    fs::remove_file(&scene.file).unwrap();
    fs::write(scene.file.clone(), component("uppercase")).unwrap();
    turn.serves(&mut scene, "uppercase");
    // It is away for a while: that is told, and the plugin goes on.
    fs::remove_file(&scene.file).unwrap();
    host.wait_for("the file is gone", |line| {
        says(line, "the plugin's file is gone: the loaded one stays at work, but a restart would fail")
    });
    scene.produce(10);
    fs::write(scene.file.clone(), component("misbehave")).unwrap();
    turn.serves(&mut scene, "misbehave");

    assert!(host.lines_of(KEPT).is_empty(), "no file was looked at half written: {}", host.log_text());
    scene.exact_outputs();
    stop(host);
}

/// Kubernetes puts a new version of a mounted file beside the old one and swaps a folder's symlink (`..data`).
#[test]
fn the_double_symlink_of_kubernetes_is_swapped() {
    let mut scene = Scene::new("data", 2, "misbehave");
    let folder = scene.folder.path().to_owned();
    let lay_out = |name: &str, package: &str| {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("p.wasm"), component(package)).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    lay_out("..1", "misbehave");
    symlink("..data/p.wasm", folder.join("p.wasm")).unwrap();
    scene.file = folder.join("p.wasm");
    let host = scene.pipeline("{}").start();
    host.wait_assigned();
    let mut turn = Turn { host: &host, reloads: 0 };
    lay_out("..2", "uppercase");
    fs::remove_dir_all(folder.join("..1")).unwrap();
    turn.serves(&mut scene, "uppercase");
    lay_out("..3", "misbehave");
    fs::remove_dir_all(folder.join("..2")).unwrap();
    turn.serves(&mut scene, "misbehave");
    scene.exact_outputs();
    stop(host);
}

/// SIGHUP looks at the file at once. Without a change nothing ends; with one it is one reload, whoever sees it first.
#[test]
fn sighup_asks_for_a_look_at_the_plugins() {
    let mut scene = Scene::new("sighup", 2, "misbehave");
    let host = scene.pipeline("{}").start();
    host.wait_assigned();
    scene.produce(10);
    host.signal("HUP");
    host.wait_for("the answer", |line| says(line, "plugin is at work already"));
    assert!(host.lines_of("generation is ending").is_empty(), "{}", host.log_text());
    let mut turn = Turn { host: &host, reloads: 0 };
    scene.rename_over(&component("uppercase"));
    host.signal("HUP");
    turn.serves(&mut scene, "uppercase");
    scene.exact_outputs();
    stop(host);
}

/// With records flowing: each new file is one reload, and is soon at work. The time from the file in its place to the first committed
/// record through it is printed (`--nocapture`) and not asserted, since a loaded machine says nothing about it.
#[test]
#[expect(clippy::print_stdout, reason = "the measurement is for whoever runs it")]
fn a_new_file_serves_soon_while_records_flow() {
    let scene = Scene::new("soon", 2, "misbehave");
    let host = scene.pipeline("{}").start();
    host.wait_assigned();
    let tail = tail(&scene);
    let flow = Flow::start(&scene);
    let mut versions = tail.iter().map(|message| message.unwrap().payload().unwrap().starts_with(b"VALUE"));
    assert_eq!(versions.next(), Some(false));
    let mut times = Vec::new();
    for round in 0..5 {
        let package = if round % 2 == 0 { "uppercase" } else { "misbehave" };
        // Bytes that no cache of compiled code knows.
        let bytes = version(package, &unique("round"));
        scene.rename_over(&bytes);
        let start = Instant::now();
        assert!(versions.any(|capital| capital == (package == "uppercase")));
        times.push(start.elapsed());
    }
    times.sort();
    println!("new file to first record through it: median {:?} of {times:?}", times[times.len() / 2]);
    let ledger = flow.stop();
    wait_committed_to_end(&scene.kafka, &scene.group, &scene.input);
    ledger.assert_exact(&scene.kafka, &scene.input, &scene.group, &scene.output);
    assert_eq!(host.lines().iter().filter(|line| reloaded(line)).count(), 5, "{}", host.log_text());
    stop(host);
}

/// Topics, a ledger, and a plugin file of its own.
struct Scene {
    kafka: Kafka,
    input: String,
    output: String,
    group: String,
    partitions: i32,
    ledger: Ledger,
    folder: TempDir,
    file: PathBuf,
}

/// What `misbehave` has told in a hook.
#[derive(Debug)]
struct Hook {
    partition: String,
    generation: u64,
    records: usize,
    reason: String,
}

impl Scene {
    fn new(name: &str, partitions: i32, package: &str) -> Self {
        let kafka = Kafka::shared();
        let topic = |end: &str| kafka.topic(&format!("{name}-{end}"), partitions);
        let (input, output) = (topic("in"), topic("out"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugin.wasm");
        fs::write(&file, component(package)).unwrap();
        Self { kafka, input, output, group: unique(name), partitions, ledger: Ledger::new(), folder, file }
    }

    fn pipeline(&self, config: &str) -> Pipeline {
        Pipeline::new(&self.kafka, &self.group, &self.input, &self.output, &self.file).config(config)
    }

    /// `count` is a multiple of the partitions.
    fn produce(&mut self, count: usize) {
        let records = self.ledger.records(count, self.partitions);
        self.kafka.produce(&self.input, records);
    }

    fn rename_over(&self, bytes: &[u8]) {
        rename_over(&self.file, bytes);
    }

    /// Waits until all is committed; the outputs, which are exactly the inputs, but for those of hooks.
    fn exact_outputs(&self) -> Vec<Stored> {
        wait_committed_to_end(&self.kafka, &self.group, &self.input);
        let mut outputs = self.kafka.read_all(&self.output);
        outputs.retain(|output| output.key_text() != "details");
        let report = self.ledger.compare(&outputs);
        assert!(report.is_exact(), "{} is not exactly what went into {}: {report}", self.output, self.input);
        outputs
    }

    /// Waits until a record of each partition has come out.
    fn wait_for_each_partition(&self) {
        eventually("a record of each partition has come out", || {
            let outputs = self.kafka.read_uncommitted(&self.output);
            let begun: BTreeSet<u64> = outputs.iter().map(|output| id(output) % self.modulus()).collect();
            (begun.len() as u64 == self.modulus()).then_some(())
        });
    }

    /// Asserts that in each input partition no record of `misbehave` came behind one of `uppercase`.
    fn assert_old_before_new(&self, outputs: &[Stored]) {
        let ids = |capital: bool| outputs.iter().filter(move |output| is_capital(output) == capital).map(id);
        for partition in 0..self.modulus() {
            let of = |id: &u64| id % self.modulus() == partition;
            let (last, first) = (ids(false).filter(of).max(), ids(true).filter(of).min());
            assert!(
                last < first || first.is_none(),
                "partition {partition}: {last:?} through the old one, {first:?} through the new one"
            );
        }
    }

    /// What the hooks have told.
    fn hooks(&self) -> Vec<Hook> {
        let outputs = self.kafka.read_all(&self.output);
        outputs.iter().filter(|output| output.key_text() == "details").map(|output| Hook::parse(&output.value_text())).collect()
    }

    /// Waits until all is done and stops both hosts of a group, which run `misbehave` with [`COUNTING`]. Asserts that the first one has
    /// done a reload, that the outputs are exact, and that the hooks have counted what went in: each record was of one instance, whose
    /// hook was called once, behind it.
    fn both_work_and_each_record_has_one_hook(&self, first: Host, second: Host) {
        second.wait_assigned();
        first.wait_for("the reload", reloaded);
        self.exact_outputs();
        stop(first);
        // The group would refuse the last commit of a host that does not know yet that the other one has left.
        let partitions = |line: &Value| field(line, "partitions").as_str().unwrap().split(' ').count();
        eventually("the second host has all partitions", || {
            let owned: usize = second.lines_of("partitions assigned").iter().map(partitions).sum();
            (owned == self.modulus() as usize).then_some(())
        });
        stop(second);
        let hooks = self.hooks();
        for partition in 0..self.partitions {
            let name = format!("{}-{partition}", self.input);
            let counted: usize = hooks.iter().filter(|hook| hook.partition == name).map(|hook| hook.records).sum();
            assert_eq!(counted * self.modulus() as usize, self.ledger.len(), "{name}: {hooks:?}");
        }
    }

    /// The ledger deals records over the partitions in turn, so the rest of an id is its partition.
    fn modulus(&self) -> u64 {
        u64::try_from(self.partitions).unwrap()
    }
}

impl Hook {
    /// `PIPELINE/TRANSFORM TOPIC-PARTITION generation G records N reason R`
    fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let [_, partition, "generation", generation, "records", records, "reason", reason] = words[..] else { panic!("{text}") };
        Self {
            partition: partition.to_owned(),
            generation: generation.parse().unwrap(),
            records: records.parse().unwrap(),
            reason: reason.to_owned(),
        }
    }
}

/// Goes through reloads one by one.
struct Turn<'a> {
    host: &'a Host,
    reloads: usize,
}

impl Turn<'_> {
    /// Waits for the next reload. Asserts that it is the only one so far, and that this package serves now.
    fn serves(&mut self, scene: &mut Scene, package: &str) {
        self.reloads += 1;
        self.host.wait_for_nth(&format!("reload {}", self.reloads), self.reloads, reloaded);
        let from = scene.ledger.len() as u64;
        scene.produce(10);
        let outputs = scene.exact_outputs();
        let new = outputs.iter().filter(|output| id(output) >= from);
        assert!(new.into_iter().all(|output| is_capital(output) == (package == "uppercase")), "{package}: {outputs:?}");
        let reloads = self.host.lines().iter().filter(|line| reloaded(line)).count();
        assert_eq!(reloads, self.reloads, "{}", self.host.log_text());
    }
}

/// Records into the input of a scene, about a thousand a second, until it is stopped.
struct Flow {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Ledger>,
}

impl Flow {
    fn start(scene: &Scene) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, topic, partitions) = (Arc::clone(&stop), scene.input.clone(), scene.partitions);
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", scene.kafka.bootstrap()).set("linger.ms", "1").set("acks", "all");
        let producer: BaseProducer = config.create().unwrap();
        let thread = std::thread::spawn(move || {
            let mut ledger = Ledger::new();
            for partition in (0..partitions).cycle().take_while(|_| !seen.load(Ordering::Relaxed)) {
                let made = ledger.record(partition);
                let (key, value) = (made.key.unwrap(), made.value.unwrap());
                let headers = OwnedHeaders::new().insert(Header { key: ID_HEADER, value: made.headers[0].1.as_ref() });
                let record = BaseRecord::to(&topic).partition(partition).key(&key).payload(&value).headers(headers);
                producer.send(record).unwrap();
                producer.poll(Duration::from_millis(1));
            }
            producer.flush(PATIENCE).unwrap();
            ledger
        });
        Self { stop, thread }
    }

    fn stop(self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// A reader of the output, as quick as can be.
fn tail(scene: &Scene) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", scene.kafka.bootstrap()).set("group.id", unique("tail")).set("fetch.wait.max.ms", "10");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..scene.partitions {
        list.add_partition_offset(&scene.output, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    consumer
}

/// The bytes of a component.
fn component(package: &str) -> Vec<u8> {
    fs::read(plugin(package)).unwrap()
}

/// The same component as another file: a custom section with that text lies behind it.
fn version(package: &str, text: &str) -> Vec<u8> {
    let mut bytes = component(package);
    bytes.extend([0, u8::try_from(text.len() + 2).unwrap(), 1, b'v']);
    bytes.extend(text.bytes());
    bytes
}

/// Writes beside the file and renames over it, as careful tools do.
fn rename_over(file: &Path, bytes: &[u8]) {
    let draft = file.with_extension("draft");
    fs::write(&draft, bytes).unwrap();
    fs::rename(draft, file).unwrap();
}

/// Stops a host in order.
fn stop(mut host: Host) {
    host.signal("TERM");
    assert_eq!(host.wait_exit(), 0, "{}", host.log_text());
}

/// New plugins get the next records.
fn reloaded(line: &Value) -> bool {
    says(line, "new plugins take over")
}

fn ended_by_reload(line: &Value) -> bool {
    says(line, "generation ended") && field(line, "reason") == "reload"
}

fn id(output: &Stored) -> u64 {
    output.key_text().parse().unwrap()
}

/// Whether it came through `uppercase`, and not through `misbehave`.
fn is_capital(output: &Stored) -> bool {
    output.value_text().starts_with("VALUE")
}

/// How many of the outputs came through `misbehave`, and how many through `uppercase`.
fn counts(outputs: &[Stored]) -> (usize, usize) {
    let new = outputs.iter().filter(|output| is_capital(output)).count();
    (outputs.len() - new, new)
}

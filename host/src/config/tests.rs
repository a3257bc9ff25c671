//! The whole way from text to [`Config`].

use super::yaml::{Data, Node};
use super::*;

/// Every key that is supported.
const FULL: &str = "\
name: orders-enriched
kafka:
  brokers: [localhost:9092, '[::1]:9093']
  properties: { client.rack: rack-1, linger.ms: 5 }
input:
  topics: [orders]
  group: orders-group
  start: 2026-01-01T00:00:00Z
  on-out-of-range: stop
transforms:
  - name: enrich
    plugin: plugins/enrich.wasm
    config: { currency: EUR, rate: 1.5, codes: [1, '007', true, null] }
    limits:
      memory: 32MiB
      call-time: 500ms
      outputs: 10
      output-size: 1MB
      log-lines: 7
      component-size: 1GiB
    on-failure: { retries: 0, then: stop }
output:
  topic: orders-enriched
  topics: [orders-rejected]
delivery: exactly-once
commit-interval: 250ms
generation-limit: { time: 5s, records: 1000 }
identity: host-1
stop-timeout: 4s
buffer: 16MiB
threads: 3
state-folder: state
cache-folder: /var/cache/tidegate
";

/// The least that is a pipeline, with `more` at its end.
fn least(more: &str) -> String {
    format!(
        "name: p\nkafka: {{ brokers: [b:1] }}\ninput: {{ topics: [in] }}\ntransforms: [{{ name: t, plugin: t.wasm }}]\noutput: {{ topic: out }}\n{more}"
    )
}

fn lookup(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/me".to_owned()),
        "TOPIC" => Some("from-env".to_owned()),
        "INTERVAL" => Some("3s".to_owned()),
        "BAD" => Some("hunter2".to_owned()),
        "TRICKY" => Some("a: b #x >x \" ' \\C ${X}\nkey: v ".to_owned()),
        "NUMBER" => Some("5".to_owned()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<Config, Faults> {
    Config::parse(Path::new("/etc/tidegate/pipeline.yaml"), text, &lookup)
}

/// A configuration that is right, by the reader and by the schema.
fn good(text: &str) -> Config {
    assert_eq!(schema::tests::refused(text), [""; 0], "{text}");
    parse(text).unwrap_or_else(|faults| panic!("{faults}\n{text}"))
}

/// The faults of a text, without the file's name.
fn faults(text: &str) -> Vec<String> {
    let faults = parse(text).expect_err(text);
    faults.to_string().lines().map(|line| line.replace("/etc/tidegate/pipeline.yaml:", "")).collect()
}

/// The only fault of a text, which has to hold these words.
#[track_caller]
fn one_fault(text: &str, words: &[&str]) {
    let found = faults(text);
    assert_eq!(found.len(), 1, "{found:?}\n{text}");
    for words in words {
        assert!(found[0].contains(words), "no `{words}` in `{}`\n{text}", found[0]);
    }
}

#[test]
fn every_key_arrives() {
    let config = good(FULL);
    assert_eq!(config.kafka.brokers, ["localhost:9092", "[::1]:9093"]);
    assert_eq!(config.kafka.properties.get("linger.ms"), Some("5"));
    assert_eq!(config.input.group, "orders-group");
    assert_eq!(config.input.start, Start::At(1_767_225_600_000));
    let transform = &config.transforms[0];
    assert_eq!(transform.plugin, Path::new("/etc/tidegate/plugins/enrich.wasm"));
    assert_eq!(transform.config.as_str(), r#"{"codes":[1,"007",true,null],"currency":"EUR","rate":1.5}"#);
    let limits = Limits {
        memory: 32 << 20,
        call_time: Duration::from_millis(500),
        outputs: 10,
        output_size: 1_000_000,
        log_lines: 7,
        component_size: 1 << 30,
    };
    assert_eq!(transform.limits, limits);
    assert_eq!(transform.retries, 0);
    assert_eq!(config.output_topics().collect::<Vec<_>>(), ["orders-enriched", "orders-rejected"]);
    assert_eq!(config.commit_interval, Duration::from_millis(250));
    assert_eq!(config.generation_limit, GenerationLimit { time: Duration::from_secs(5), records: 1000 });
    assert_eq!(config.identity.as_deref(), Some("host-1"));
    assert_eq!(config.stop_timeout, Duration::from_secs(4));
    assert_eq!((config.buffer, config.threads), (16 << 20, 3));
    assert_eq!(config.state_folder, Path::new("/etc/tidegate/state"));
    assert_eq!(config.cache_folder, Path::new("/var/cache/tidegate"));
}

#[test]
fn defaults_are_those_of_the_table() {
    let config = good(&least(""));
    assert_eq!(config.input.group, "p");
    assert_eq!(config.input.start, Start::Earliest);
    assert_eq!(config.transforms[0].config.as_str(), "null");
    assert_eq!(config.transforms[0].retries, 3);
    assert_eq!(config.transforms[0].limits.memory, 64 << 20);
    assert_eq!(config.commit_interval, Duration::from_millis(100));
    assert_eq!(config.stop_timeout, Duration::from_secs(8));
    assert_eq!(config.buffer, 64 << 20);
    assert!(config.threads >= 1);
    assert_eq!(config.identity, None);
    assert_eq!(config.state_folder, Path::new("/home/me/.local/state/tidegate"));
    assert_eq!(config.cache_folder, Path::new("/home/me/.cache/tidegate"));
    assert_eq!(config.budget, Duration::from_secs(20));
    assert_eq!(config.transaction_timeout, Duration::from_secs(40));
}

#[test]
fn times_follow_from_each_other() {
    let config = good(&least("stop-timeout: 1m\ngeneration-limit: { time: 30s }\n"));
    assert_eq!(config.transaction_timeout, Duration::from_secs(30 + 60 + 10));
    let short = least("")
        .replace("brokers: [b:1]", "brokers: [b:1], properties: { max.poll.interval.ms: 6000, session.timeout.ms: 3000 }");
    let config = good(&short);
    assert_eq!(config.budget, Duration::from_millis(3600));
    assert_eq!(config.transaction_timeout, Duration::from_secs(10 + 8 + 10));
}

/// FIELD-FAULTS B055: every key, at every level, misspelt in several ways.
#[test]
fn a_misspelt_key_is_a_fault_at_its_place_that_names_the_right_one() {
    let mut faults = Faults::new(Path::new("f"));
    let root = yaml::parse(FULL, &mut faults).expect("a tree");
    let mut places = Vec::new();
    collect(&root, &mut places);
    assert!(places.len() > 30, "{}", places.len());
    for (key, at) in places {
        let upper = key.to_uppercase();
        let under = key.replace('-', "_");
        let short = &key[..key.len() - 1];
        let long = format!("{key}x");
        for wrong in [upper.as_str(), under.as_str(), short, long.as_str()] {
            if wrong == key || (wrong == "topic" && key == "topics") || (wrong == "topics" && key == "topic") {
                continue;
            }
            let text = replaced(at, &key, wrong);
            let expected = format!("{}:{}: ", at.line, at.column);
            let found = self::faults(&text);
            let named =
                found.iter().any(|fault| fault.starts_with(&expected) && fault.contains(&format!("did you mean `{key}`?")));
            assert!(named, "{wrong}: {found:?}");
        }
    }
}

/// Keys of the table that a tree holds. Names under `properties` and `config` are free.
fn collect(node: &Node, places: &mut Vec<(String, Position)>) {
    match &node.data {
        Data::Scalar { .. } => {}
        Data::List(items) => items.iter().for_each(|item| collect(item, places)),
        Data::Map(pairs) => {
            for (name, node) in pairs {
                places.push((name.text.clone(), name.at));
                if name.text != "properties" && name.text != "config" {
                    collect(node, places);
                }
            }
        }
    }
}

fn replaced(at: Position, key: &str, wrong: &str) -> String {
    let mut lines: Vec<String> = FULL.lines().map(str::to_owned).collect();
    let line = &mut lines[at.line - 1];
    line.replace_range(at.column - 1..at.column - 1 + key.len(), wrong);
    lines.join("\n")
}

#[test]
fn a_key_at_the_wrong_level_is_told_where_it_belongs() {
    one_fault(&least("group: g\n"), &["6:1: group: ", "belongs under `input`"]);
    one_fault(&least("memory: 1MiB\n"), &["memory: ", "belongs under `transforms.limits`"]);
    one_fault(&least("").replace("topics: [in]", "topics: [in], buffer: 1MiB"), &["input.buffer", "top of the file"]);
    one_fault(&least("colour: red\n"), &["unknown key; known here: name, kafka"]);
    one_fault(&least("retires: 3\n"), &["did you mean `retries`, which belongs under `transforms.on-failure`?"]);
    one_fault(&least("").replace("[b:1]", "[b:1], topics: [a]"), &["belongs under `input` or under `output`"]);
    one_fault(&least("").replace("[b:1]", "[b:1], security.protocol: ssl"), &["belongs under `kafka.properties`"]);
    one_fault(&least("bootstrap.servers: b:1\n"), &["unknown key here; brokers are named by `kafka.brokers`"]);
}

#[test]
fn a_misspelt_word_or_property_is_told_what_it_may_have_been() {
    let property = |property: &str| least("").replace("[b:1]", &format!("[b:1], properties: {{ {property} }}"));
    one_fault(&least("delivery: exactly_once\n"), &["6:11: delivery: ", "did you mean `exactly-once`?"]);
    one_fault(&least("").replace("[in]", "[in], start: latst"), &["input.start: ", "did you mean `latest`?"]);
    one_fault(&least("").replace("[in]", "[in], on-out-of-range: sotp"), &["did you mean `stop`?"]);
    let then = least("").replace("plugin: t.wasm", "plugin: t.wasm, on-failure: { then: Stop }");
    one_fault(&then, &["transforms[0].on-failure.then: `Stop`: ", "did you mean `stop`?"]);
    one_fault(&property("clint.rack: x"), &["kafka.properties.clint.rack: ", "did you mean `client.rack`?"]);
    one_fault(&property("ssl.ca.locaton: x"), &["did you mean `ssl.ca.location`?"]);
    one_fault(&property("nothing.like.it.at.all: x"), &["the Kafka client knows no such property"]);
    one_fault(&property("compression.type: zst"), &["the Kafka client refuses it: ", "did you mean `zstd`?"]);
    one_fault(&property("compression.type: brotli"), &["it is one of none, gzip, snappy, lz4, zstd"]);
    one_fault(&property("linger.ms: soon"), &["the Kafka client refuses it: "]);
    let hidden = &faults(&property("compression.type: '${BAD}'"))[0];
    assert!(hidden.contains("does not take it") && !hidden.contains("hunter2"), "{hidden}");
}

#[test]
fn a_broker_without_a_port_has_that_of_kafka_and_a_home_is_no_folder() {
    let brokers = |list: &str| least("").replace("[b:1]", list);
    assert_eq!(good(&brokers("[127.0.0.1, 'b:1', '[::1]']")).kafka.brokers, ["127.0.0.1:9092", "b:1", "[::1]:9092"]);
    assert!(good(&brokers("b")).summary().contains("  b:9092\n"));
    one_fault(&brokers("[9092]"), &["2:20: kafka.brokers[0]: `9092`: this is a port without a host"]);
    one_fault(&brokers("['a:1,b:1']"), &["each broker is an entry of its own"]);
    one_fault(
        &least("").replace("plugin: t.wasm", "plugin: ~/t.wasm"),
        &["4:33: transforms[0].plugin: ", "`~` does not stand for a home"],
    );
    one_fault(&least("state-folder: ~/x\n"), &["6:15: state-folder: ", "${HOME}/"]);
    let at_home = good(&least("state-folder: ${HOME}/x\n"));
    assert_eq!(at_home.state_folder, Path::new("/home/me/x"));
}

/// For what is found to be wrong later: a plugin that does not load, a topic that does not exist.
#[test]
fn every_value_has_its_place() {
    let places = good(FULL).places;
    let at = |path: &str| (places.of(path).line, places.of(path).column);
    assert_eq!(at("transforms[0].plugin"), (12, 13));
    assert_eq!(at("input.topics[0]"), (6, 12));
    assert_eq!(at("output.topics[0]"), (24, 12));
    assert_eq!(at("output.topic"), (23, 10));
    assert_eq!(at("kafka.brokers[1]"), (3, 29));
    assert_eq!(at("kafka.properties"), (4, 15));
    assert_eq!(good(&least("")).places.of("transforms[0].config"), good(&least("")).places.of("transforms[0]"));
}

#[test]
fn what_is_due_later_is_refused_and_not_ignored() {
    one_fault(&least("dead-letter: { topic: dead }\n"), &["6:1: dead-letter: not supported yet"]);
    one_fault(&least("admin: 127.0.0.1:9644\n"), &["6:1: admin: not supported yet"]);
    one_fault(&least("delivery: twice\n"), &["`exactly-once` or `at-least-once` is wanted"]);
    for then in ["dead-letter", "skip"] {
        let text = least("").replace("plugin: t.wasm", &format!("plugin: t.wasm, on-failure: {{ then: {then} }}"));
        one_fault(&text, &["transforms[0].on-failure.then", "not supported yet", "`stop`"]);
    }
    one_fault(&least("").replace("[in]", "^in.*"), &["input.topics", "pattern", "not supported yet"]);
    one_fault(&least("").replace("[in]", "[in], on-out-of-range: latest"), &["not supported yet"]);
}

/// FIELD-FAULTS B058.
#[test]
fn a_text_stays_as_it_is_written() {
    for written in ["on", "no", "n", "yes", "true", "007", "1e3", "2024-01-01", "0x10", "123", "1_000", ".5", "-"] {
        let config = good(&least("").replace("[in]", &format!("['{written}']")));
        assert_eq!(config.input.topics, [written]);
        if written != "-" {
            let config = good(&least("").replace("[in]", &format!("[{written}]")));
            assert_eq!(config.input.topics, [written]);
            let config = good(&least("").replace("[in]", &format!("[in], group: {written}")));
            assert_eq!(config.input.group, written);
        }
    }
    for nothing in ["~", "null", "NULL"] {
        one_fault(&least("").replace("[in]", &format!("[{nothing}]")), &["input.topics[0]", "quote it"]);
        assert_eq!(good(&least("").replace("[in]", &format!("[in], group: '{nothing}'"))).input.group, nothing);
    }
    one_fault(&least("identity:\n"), &["6:9: identity: a value is missing here"]);
}

/// FIELD-FAULTS B058, for a plugin's configuration: no name becomes a number.
#[test]
fn json_for_plugins_never_guesses() {
    let json = |written: &str| least("").replace("plugin: t.wasm", &format!("plugin: t.wasm, config: {{ a: {written} }}"));
    let same = ["1", "-5", "1.5", "true", "false", "null", "18446744073709551615"];
    for written in same {
        assert_eq!(good(&json(written)).transforms[0].config.as_str(), format!(r#"{{"a":{written}}}"#));
    }
    for text in ["no", "on", "y", "2024-01-01", "EUR", "1.2.3", "tru"] {
        assert_eq!(good(&json(text)).transforms[0].config.as_str(), format!(r#"{{"a":"{text}"}}"#));
    }
    for doubtful in ["007", "0x10", "0o7", "+5", "TRUE", ".inf", "-.INF", ".5", "5.", "99999999999999999999999"] {
        one_fault(&json(doubtful), &["transforms[0].config.a", "quote this"]);
        assert_eq!(good(&json(&format!("'{doubtful}'"))).transforms[0].config.as_str(), format!(r#"{{"a":"{doubtful}"}}"#));
    }
    assert_eq!(good(&json("'${NUMBER}'")).transforms[0].config.as_str(), r#"{"a":"5"}"#);
    one_fault(&json("${NUMBER}"), &["4:55: not YAML", "has to be quoted"]);
    assert_eq!(good(&json("'$${NUMBER}'")).transforms[0].config.as_str(), r#"{"a":"${NUMBER}"}"#);
}

/// FIELD-FAULTS B056 and B057.
#[test]
fn variables_are_put_into_values_and_never_into_the_text() {
    let config = good(&least("commit-interval: ${INTERVAL}\n").replace("topic: out", "topic: 'x-${TOPIC}'"));
    assert_eq!(config.commit_interval, Duration::from_secs(3));
    assert_eq!(config.output.topic.as_deref(), Some("x-from-env"));
    let config = good(&least("").replace("[b:1]", "[b:1], properties: { client.id: '${TRICKY}', client.rack: pa$$w }"));
    assert_eq!(config.kafka.properties.get("client.id"), lookup("TRICKY").as_deref());
    assert_eq!(config.kafka.properties.get("client.rack"), Some("pa$$w"));
    one_fault(
        &least("").replace("[b:1]", "[b:1], properties: { client.id: 'a${UNSET}b' }"),
        &["kafka.properties.client.id", "`UNSET` is not set"],
    );
    one_fault(&least("identity: ${UNSET:-d}\n"), &["identity", "default", "not supported"]);
    assert_eq!(good(&least("identity: $HOME\n")).identity.as_deref(), Some("$HOME"));
}

/// FIELD-FAULTS B059.
#[test]
fn durations_need_a_unit_and_sense() {
    for key in ["commit-interval", "stop-timeout", "generation-limit: { time"] {
        let text = |value: &str| least(&format!("{key}: {value}{}\n", if key.contains('{') { " }" } else { "" }));
        for bad in ["5", "5 s", "0", "0s", "-1s", "'5'", "100000000000000000000s", "20d", "[5s]"] {
            let found = faults(&text(bad));
            assert_eq!(found.len(), 1, "{key} {bad}: {found:?}");
        }
        for fine in ["5s", "1m30s", "1.5s", "'5s'"] {
            good(&text(fine));
        }
    }
    let call_time = |value: &str| least("").replace("t.wasm", &format!("t.wasm, limits: {{ call-time: {value} }}"));
    one_fault(&call_time("0ms"), &["transforms[0].limits.call-time: `0ms`: at least 1ms"]);
    one_fault(&call_time("5"), &["needs a unit"]);
    one_fault(&least("buffer: 64\n"), &["a size needs a unit"]);
    one_fault(&least("buffer: 0B\n"), &["at least 1MiB"]);
    one_fault(&least("threads: 0\n"), &["at least 1"]);
    one_fault(&least("threads: -1\n"), &["negative"]);
}

/// FIELD-FAULTS B060.
#[test]
fn merge_keys_and_duplicates_are_faults_and_aliases_are_not() {
    let text = "name: p\nkafka: { brokers: [b:1] }\ninput: { topics: [in] }\noutput: { topic: out }\ntransforms:\n  - name: a\n    plugin: a.wasm\n    limits: &l { memory: 1MiB }\n  - name: b\n    plugin: b.wasm\n    limits: ";
    assert_eq!(good(&format!("{text}*l\n")).transforms[1].limits.memory, 1 << 20);
    one_fault(&format!("{text}\n      <<: *l\n      outputs: 5\n"), &["12:7: merge keys"]);
    one_fault(&format!("{text}{{ memory: 1MiB, memory: 2MiB }}\n"), &["there twice"]);
    one_fault(&least("name: q\n"), &["6:1: name: this key is there twice: first on line 1"]);
}

/// FIELD-FAULTS B052 and scenario T67.
#[test]
fn what_would_break_a_promise_is_refused() {
    one_fault(&least("").replace("topic: out", "topic: in"), &["output.topic", "its own outputs for ever"]);
    one_fault(&least("").replace("topic: out", "topics: [a, in]"), &["output.topics[1]", "for ever"]);
    one_fault(&least("").replace("topic: out", ""), &["output: a pipeline needs a topic"]);
    assert_eq!(good(&least("").replace("topic: out", "topics: [a]")).output.topic, None);
    let refused = [
        "enable.auto.commit: true",
        "enable.auto.offset.store: TRUE",
        "isolation.level: read_uncommitted",
        "enable.idempotence: false",
        "transactional.id: x",
        "auto.offset.reset: latest",
        "partitioner: consistent",
        "acks: 1",
        "acks: 0",
        "max.in.flight: 6",
        "retries: 0",
        "enable.partition.eof: true",
        "group.id: x",
        "bootstrap.servers: 'x:1'",
        "delivery.report.only.error: false",
        "message.timeout.ms: 0",
        "message.timeout.ms: 40001",
        "delivery.timeout.ms: 300000",
        "transaction.timeout.ms: 39999",
        "socket.timeout.ms: 39901",
        "max.poll.interval.ms: 10000",
        "max.poll.interval.ms: 2999",
        "session.timeout.ms: 300001",
        "plugin.library.paths: /x",
        "clint.rack: x",
        "linger.ms: soon",
    ];
    for property in refused {
        let name = property.split(':').next().expect("a name");
        let text = least("").replace("[b:1]", &format!("[b:1], properties: {{ {property} }}"));
        one_fault(&text, &[&format!("kafka.properties.{name}: ")]);
    }
    let fine = [
        "enable.auto.commit: false",
        "isolation.level: read_committed",
        "acks: -1",
        "transaction.timeout.ms: 40000",
        "message.timeout.ms: 40000",
        "socket.timeout.ms: 39900",
        "group.protocol: consumer",
        "partition.assignment.strategy: range",
        "compression.type: zstd",
    ];
    for property in fine {
        good(&least("").replace("[b:1]", &format!("[b:1], properties: {{ {property} }}")));
    }
    // In a group of KIP-848 the brokers know the session, which may be shorter than the default of a member elsewhere.
    good(&least("").replace("[b:1]", "[b:1], properties: { group.protocol: consumer, max.poll.interval.ms: 6000 }"));
    let both = least("").replace("[b:1]", "[b:1], properties: { group.protocol: consumer, session.timeout.ms: 9000 }");
    one_fault(&both, &["kafka.properties.session.timeout.ms: ", "`group.protocol: consumer`", "leave it out"]);
}

#[test]
fn names_of_transforms_are_unique() {
    let text = least("").replace("plugin: t.wasm }", "plugin: t.wasm }, { name: t, plugin: u.wasm }");
    one_fault(&text, &["transforms[1].name", "another transform is called `t`"]);
    one_fault(&least("").replace("[{ name: t, plugin: t.wasm }]", "[]"), &["transforms: the list is empty"]);
    one_fault(&least("").replace("[in]", "[in, in]"), &["input.topics[1]", "twice"]);
}

/// FIELD-FAULTS B103: no secret, and no value out of the environment, in anything that a person or a log may see.
#[test]
fn secrets_are_shown_nowhere() {
    let properties = "client.id: '${BAD}', sasl.password: hunter2";
    let text = least("")
        .replace("[b:1]", &format!("[b:1], properties: {{ {properties} }}"))
        .replace("t.wasm", "t.wasm, config: { key: hunter2 }");
    let shown = match parse(&text) {
        Ok(config) => format!("{config:?} {config:#?} {}", config.summary()),
        // A client that was built without SASL refuses the property: the refusal is what must not show it.
        Err(faults) => format!("{faults} {faults:?}"),
    };
    assert!(!shown.contains("hunter2"), "{shown}");
    let text = least("")
        .replace("[b:1]", "[b:1], properties: { client.id: '${BAD}' }")
        .replace("t.wasm", "t.wasm, config: { key: hunter2 }");
    let config = good(&text);
    let shown = format!("{config:?} {config:#?} {}", config.summary());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(config.summary().contains("kafka.properties.client.id  ***"), "{}", config.summary());
    assert_eq!(config.kafka.properties.get("client.id"), Some("hunter2"));
    for wrong in [
        least("commit-interval: ${BAD}\n"),
        least("delivery: ${BAD}\n"),
        least("threads: ${BAD}\n"),
        least("").replace("topic: out", "topic: 'a b ${BAD}'"),
        least("").replace("[b:1]", "[b:1], properties: { linger.ms: '${BAD}', ssl.key.password: [hunter2], retries: '${BAD}' }"),
        least("").replace("t.wasm", "t.wasm, config: { db-password: 007hunter2, token: 0x7 }"),
    ] {
        let found = parse(&wrong)
            .map_or_else(|faults| format!("{faults} {faults:?}"), |config| format!("{config:?}{}", config.summary()));
        assert!(!found.contains("hunter2") && !found.contains("0x7"), "{found}");
    }
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let text = "\
nmae: orders
kafka:
  brokers: []
  properties: { enable.auto.commit: true }
input:
  topics: [orders, '^all']
  start: tomorrow
transforms:
  - name: enrich
    plugin: ~
    limits: { memory: 64, call-tme: 1s }
    on-failure: { then: skip }
  - enrich
output:
  topic: orders
commit-interval: 5
commit-interval: 5s
identity: ${NOBODY}
";
    let expected = "\
1:1: nmae: unknown key; did you mean `name`?
1:1: name: this key is missing
3:12: kafka.brokers: the list is empty
4:17: kafka.properties.enable.auto.commit: it has to stay `false`: offsets are committed with the outputs that they belong to, never by themselves
6:20: input.topics[1]: `^all`: a pattern of topics is not supported yet: name each topic
7:10: input.start: `tomorrow`: `earliest`, `latest`, a time such as `2026-01-31T12:00:00Z`, or milliseconds since 1970 are wanted here
10:13: transforms[0].plugin: YAML reads this as nothing: quote it if the text is meant
11:23: transforms[0].limits.memory: `64`: a size needs a unit: `512KiB`, `64MiB`, `1MB`, `100B`
11:27: transforms[0].limits.call-tme: unknown key; did you mean `call-time`?
12:25: transforms[0].on-failure.then: `skip`: not supported yet; for now it is `stop`
13:5: transforms[1]: keys are wanted here: `key: value`, each on a line of its own
15:10: output.topic: `orders` is read by this pipeline (`input.topics`): it would process its own outputs for ever
16:18: commit-interval: `5`: a duration needs a unit: `100ms`, `5s`, `1m30s`, `2h`
17:1: commit-interval: this key is there twice: first on line 16
18:11: identity: environment variable `NOBODY` is not set";
    assert_eq!(faults(text).join("\n"), expected);
}

#[test]
fn files_that_are_no_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let load = |name: &str, bytes: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        Config::load(&file).expect_err(name).to_string()
    };
    assert!(load("empty", b"").contains("empty:1:1: the file is empty"));
    assert!(load("comments", b"# nothing\n").contains("the file is empty"));
    assert!(load("latin", b"name: a\nkafka: \xe4\n").contains("line 2 is not UTF-8"));
    assert!(load("text", b"hello").contains("keys are wanted here"));
    assert!(load("large", &vec![b' '; 2 << 20]).contains("larger than 1MiB"));
    assert!(Config::load(folder.path()).expect_err("a folder").to_string().contains("can't be read"));
    assert!(Config::load(&folder.path().join("none")).expect_err("none").to_string().contains("No such file"));
    let file = folder.path().join("good");
    std::fs::write(&file, format!("\u{feff}{}", least(""))).unwrap();
    let config = Config::load(&file).unwrap();
    assert_eq!(config.transforms[0].plugin, folder.path().join("t.wasm"));
}

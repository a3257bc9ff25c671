//! The fixtures themselves, on a real Kafka: a test that leans on a fixture which sees nothing would pass.

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use tidegate_tests::kafka::{Kafka, Ledger, OwnCluster, Record, assert_committed_to_end, eventually, unique};

#[test]
fn a_record_is_read_back_as_it_was_produced() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("fixture", 3);
    let record = Record {
        partition: Some(2),
        key: None,
        value: Some(b"value".to_vec()),
        headers: vec![("a".to_owned(), Some(b"1".to_vec())), ("a".to_owned(), None), ("b".to_owned(), Some(Vec::new()))],
        timestamp: Some(1_000),
    };
    let empty = Record { value: Some(Vec::new()), ..Record::default() }.to_partition(2);
    let places = kafka.produce(&topic, [record.clone(), empty]);
    assert_eq!(places, [(2, 0), (2, 1)]);

    let stored = kafka.read_at_least(&topic, 2);
    assert_eq!(stored.len(), 2);
    let first = &stored[0];
    assert_eq!((first.partition, first.offset, first.timestamp), (2, 0, Some(1_000)));
    assert_eq!((&first.key, &first.value, &first.headers), (&record.key, &record.value, &record.headers));
    assert_eq!(stored[1].value.as_deref(), Some(&[][..]), "empty is not null");
    assert_eq!(kafka.end_offsets(&topic).into_values().collect::<Vec<_>>(), [0, 0, 2]);
}

#[test]
fn committed_readers_see_neither_aborted_nor_open_transactions() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("fixture", 1);
    let transaction = |value: &str| {
        let mut transaction = kafka.transaction(&unique("fixture"));
        transaction.produce(&topic, [Record::new("k", value)]);
        transaction
    };
    transaction("committed").commit();
    transaction("aborted").abort();
    let open = transaction("open");

    let values = |records: Vec<tidegate_tests::kafka::Stored>| records.iter().map(|r| r.value_text()).collect::<Vec<_>>();
    assert_eq!(values(kafka.read_all(&topic)), ["committed"]);
    assert_eq!(values(kafka.read_uncommitted(&topic)), ["committed", "aborted", "open"]);
    let end_while_open = kafka.end_offsets(&topic)[&0];
    assert_eq!(end_while_open, 5, "three records and two markers");
    open.commit();
    assert_eq!(values(kafka.read_at_least(&topic, 2)), ["committed", "open"]);
}

#[test]
fn members_and_commits_of_a_group_are_seen() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("fixture", 2);
    let group = unique("fixture");
    assert!(kafka.members(&group).is_empty());
    assert_eq!(kafka.committed(&group, &topic).into_values().collect::<Vec<_>>(), [None, None]);
    let mut transaction = kafka.transaction(&unique("fixture"));
    transaction.produce(&topic, [Record::new("a", "1").to_partition(0)]);
    transaction.commit();

    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.bootstrap())
        .set("group.id", &group)
        .set("client.id", "probe")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    consumer.subscribe(&[&topic]).unwrap();
    eventually("both partitions are assigned", || {
        consumer.poll(std::time::Duration::from_millis(10));
        (consumer.assignment().unwrap().count() == 2).then_some(())
    });
    let members = kafka.wait_for_members(&group, &topic, 1);
    assert_eq!(members[0].client, "probe");

    let commit = |offset| {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Offset(offset)).unwrap();
        consumer.commit(&list, CommitMode::Sync).unwrap();
    };
    commit(0);
    let too_early = std::panic::catch_unwind(|| assert_committed_to_end(&kafka, &group, &topic));
    assert!(too_early.is_err(), "offset 0 was taken for the end");
    commit(1);
    assert_eq!(kafka.committed(&group, &topic).into_values().collect::<Vec<_>>(), [Some(1), None]);
    assert_committed_to_end(&kafka, &group, &topic);
    commit(2);
    assert_committed_to_end(&kafka, &group, &topic);
}

#[test]
fn a_topic_grows_and_goes() {
    let kafka = Kafka::shared();
    let topic = kafka.topic("fixture", 1);
    kafka.grow_topic(&topic, 3);
    assert_eq!(kafka.partitions(&topic), [0, 1, 2]);
    kafka.delete_topic(&topic);
    eventually("the topic is gone", || kafka.partitions(&topic).is_empty().then_some(()));
}

#[test]
fn records_survive_a_killed_node() {
    let mut cluster = OwnCluster::start(3);
    let kafka = cluster.kafka();
    let topic = unique("fixture");
    kafka.create_topic(&topic, 3, 3);
    let mut ledger = Ledger::new();
    kafka.produce(&topic, ledger.records(300, 3));
    cluster.kill(2);
    kafka.produce(&topic, ledger.records(300, 3));
    cluster.restart(2);
    cluster.freeze(1);
    kafka.produce(&topic, ledger.records(300, 3));
    cluster.thaw(1);
    kafka.produce(&topic, ledger.records(300, 3));
    let report = ledger.compare(&kafka.read_all(&topic));
    assert!(report.is_exact(), "{report}");
}

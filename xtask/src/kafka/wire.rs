//! The few requests by which a cluster is asked whether it serves, and who is where, written by hand over a socket.
//!
//! Each uses its oldest version that Kafka 4 still answers, which is the simplest to write. This is no client: one connection a
//! request, answers are read only as far as they matter here.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Bound of connecting, and of each read and write.
const PATIENCE: Duration = Duration::from_secs(5);
/// Answers here are a few hundred bytes: anything longer is not Kafka.
const ANSWER: usize = 1 << 20;

const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;
const DESCRIBE_GROUPS: i16 = 15;
const INIT_PRODUCER_ID: i16 = 22;
const INCREMENTAL_ALTER_CONFIGS: i16 = 44;
const CONSUMER_GROUP_DESCRIBE: i16 = 69;

const GROUP: u8 = 0;
const TRANSACTION: u8 = 1;

/// How many brokers the node at `address` knows to be alive.
pub fn brokers(address: SocketAddr) -> io::Result<usize> {
    let no_topics = 0_i32.to_be_bytes();
    let answer = call(address, METADATA, 1, &no_topics)?;
    let count = Answer(&answer).int32()?;
    usize::try_from(count).map_err(|_| malformed())
}

/// Whether the group's coordinator has loaded its part of the offsets topic, which the first such question creates.
pub fn group_is_served(address: SocketAddr, group: &str) -> io::Result<bool> {
    let Some(coordinator) = coordinator(address, GROUP, group)? else { return Ok(false) };
    let mut body = 1_i32.to_be_bytes().to_vec();
    body.extend(text(group));
    let answer = call(coordinator, DESCRIBE_GROUPS, 0, &body)?;
    let mut answer = Answer(&answer);
    let groups = answer.int32()?;
    Ok(groups == 1 && answer.int16()? == 0)
}

/// Whether the coordinator of a transactional id gives out producer ids, for which it has to have its topic loaded.
pub fn transaction_is_served(address: SocketAddr, id: &str) -> io::Result<bool> {
    let Some(coordinator) = coordinator(address, TRANSACTION, id)? else { return Ok(false) };
    let mut body = text(id);
    body.extend(60_000_i32.to_be_bytes());
    let answer = call(coordinator, INIT_PRODUCER_ID, 0, &body)?;
    let mut answer = Answer(&answer);
    let _throttle = answer.int32()?;
    Ok(answer.int16()? == 0)
}

/// Where a group's coordinator listens; none while there is none.
pub fn coordinator_of_group(address: SocketAddr, group: &str) -> io::Result<Option<SocketAddr>> {
    coordinator(address, GROUP, group)
}

/// Where the coordinator of a transactional id listens; none while there is none.
pub fn coordinator_of_transaction(address: SocketAddr, id: &str) -> io::Result<Option<SocketAddr>> {
    coordinator(address, TRANSACTION, id)
}

/// A member of a group in which the broker assigns (KIP-848).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Id that it gave itself.
    pub id: String,
    /// Its `client.id`.
    pub client: String,
    /// What it holds, in order.
    pub partitions: Vec<(String, i32)>,
}

/// Members of a group in which the broker assigns, with what they hold; none while it is not stable, or not there.
pub fn members(address: SocketAddr, group: &str) -> io::Result<Vec<Member>> {
    let Some(coordinator) = coordinator(address, GROUP, group)? else { return Ok(Vec::new()) };
    // The newer form of request and answer: lengths are varints plus one, and each part ends with its tagged fields, of which there are none.
    let mut body = vec![0, 2, compact(group.len())];
    body.extend(group.as_bytes());
    body.extend([0, 0]);
    let answer = call(coordinator, CONSUMER_GROUP_DESCRIBE, 0, &body)?;
    let mut answer = Answer(&answer);
    answer.skip(1 + 4)?;
    let (_groups, error) = (answer.length()?, answer.int16()?);
    let (_message, _group, state) = (answer.compact_text()?, answer.compact_text()?, answer.compact_text()?);
    if error != 0 || state != "Stable" {
        return Ok(Vec::new());
    }
    let (_epoch, _assigned, _assignor) = (answer.int32()?, answer.int32()?, answer.compact_text()?);
    (0..answer.length()?).map(|_| answer.member()).collect()
}

/// Sets after how many milliseconds without a sign of life a group in which the broker assigns puts a member out.
pub fn set_session(address: SocketAddr, group: &str, millis: u32) -> io::Result<()> {
    const GROUP_RESOURCE: u8 = 32;
    const SET: u8 = 0;
    let one = 1_i32.to_be_bytes();
    let setting = [text("consumer.session.timeout.ms"), vec![SET], text(&millis.to_string())].concat();
    let body = [one.as_slice(), &[GROUP_RESOURCE], &text(group), &one, &setting, &[0]].concat();
    let answer = call(address, INCREMENTAL_ALTER_CONFIGS, 0, &body)?;
    let mut answer = Answer(&answer);
    let (_throttle, _resources, error) = (answer.int32()?, answer.int32()?, answer.int16()?);
    if error == 0 { Ok(()) } else { Err(io::Error::other(format!("Kafka refuses it: {}", answer.text()?))) }
}

fn coordinator(address: SocketAddr, kind: u8, key: &str) -> io::Result<Option<SocketAddr>> {
    let mut body = text(key);
    body.push(kind);
    let answer = call(address, FIND_COORDINATOR, 1, &body)?;
    let mut answer = Answer(&answer);
    let _throttle = answer.int32()?;
    let error = answer.int16()?;
    let _message = answer.text()?;
    let _node = answer.int32()?;
    let host = answer.text()?;
    let port = answer.int32()?;
    if error != 0 {
        return Ok(None);
    }
    format!("{host}:{port}").parse().map(Some).map_err(|_| malformed())
}

fn call(address: SocketAddr, key: i16, version: i16, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    request.extend(key.to_be_bytes());
    request.extend(version.to_be_bytes());
    let correlation = 1_i32.to_be_bytes();
    request.extend(correlation);
    request.extend(text("xtask"));
    request.extend(body);
    let length = i32::try_from(request.len()).map_err(|_| malformed())?;
    socket.write_all(&[length.to_be_bytes().as_slice(), &request].concat())?;
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| malformed())?;
    if length > ANSWER {
        return Err(malformed());
    }
    let mut answer = vec![0; length];
    socket.read_exact(&mut answer)?;
    answer.strip_prefix(&correlation).map(<[u8]>::to_vec).ok_or_else(malformed)
}

/// A string as the protocol has it: two bytes of length, then the bytes.
fn text(value: &str) -> Vec<u8> {
    let length = i16::try_from(value.len()).expect("names here are short");
    [length.to_be_bytes().as_slice(), value.as_bytes()].concat()
}

/// The length of a short compact text or array: a varint of one byte, plus one.
fn compact(length: usize) -> u8 {
    u8::try_from(length + 1).ok().filter(|length| *length < 0x80).expect("names here are short")
}

/// The rest of an answer.
struct Answer<'a>(&'a [u8]);

impl Answer<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(*head)
    }

    fn int16(&mut self) -> io::Result<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> io::Result<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn skip(&mut self, bytes: usize) -> io::Result<&[u8]> {
        let (head, rest) = self.0.split_at_checked(bytes).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(head)
    }

    /// The length of a compact text or array, null as 0.
    fn length(&mut self) -> io::Result<usize> {
        let (mut length, mut shift) = (0, 0);
        loop {
            let [byte] = self.take()?;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 || shift > 28 {
                return Ok(length.saturating_sub(1));
            }
        }
    }

    /// A compact string; null reads as empty.
    fn compact_text(&mut self) -> io::Result<String> {
        let length = self.length()?;
        self.skip(length).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn member(&mut self) -> io::Result<Member> {
        let (id, _instance, _rack) = (self.compact_text()?, self.compact_text()?, self.compact_text()?);
        let (_epoch, client, _host) = (self.int32()?, self.compact_text()?, self.compact_text()?);
        for _ in 0..self.length()? {
            self.compact_text()?;
        }
        let _pattern = self.compact_text()?;
        let (partitions, _target) = (self.assignment()?, self.assignment()?);
        self.skip(1)?;
        Ok(Member { id, client, partitions })
    }

    fn assignment(&mut self) -> io::Result<Vec<(String, i32)>> {
        let mut partitions = Vec::new();
        for _ in 0..self.length()? {
            self.skip(16)?;
            let topic = self.compact_text()?;
            for _ in 0..self.length()? {
                partitions.push((topic.clone(), self.int32()?));
            }
            self.skip(1)?;
        }
        self.skip(1)?;
        partitions.sort();
        Ok(partitions)
    }

    /// A string; null reads as empty.
    fn text(&mut self) -> io::Result<String> {
        let length = usize::try_from(self.int16()?.max(0)).map_err(|_| malformed())?;
        let (head, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(String::from_utf8_lossy(head).into_owned())
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an answer of Kafka")
}

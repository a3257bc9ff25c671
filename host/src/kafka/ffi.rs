//! Every foreign call that rdkafka has no safe function for; the only file of this module with unsafe code.
//!
//! Three rules make the functions here safe to call:
//! - Nothing reads through a client that is gone: what needs a living client takes a reference to it.
//! - A message keeps its client alive: librdkafka's destroy waits for every one of them (FACTS F3), so a message never dangles.
//! - The descriptor that librdkafka writes to belongs to the client's context, which rdkafka drops after the client.
#![expect(unsafe_code, reason = "librdkafka is C; each block says why it holds")]

use super::transaction::Fault;
use rdkafka::TopicPartitionList;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as sys;
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;
use tidegate_core::consume::Fence;
use tidegate_core::record::HeaderRef;

/// A context that owns the descriptor which its client's queues write to.
pub(super) trait WakeContext: ClientContext {
    /// The descriptor; an eventfd, which takes 8 bytes at a time.
    fn wake_fd(&self) -> BorrowedFd<'_>;
}

/// What is added to the eventfd at each wake-up.
const WAKE: [u8; 8] = 1_u64.to_ne_bytes();

/// Makes the client write to its descriptor when its main queue gets something.
pub(super) fn wake_by_main_queue<C: WakeContext>(client: &Client<C>) {
    // SAFETY: the client lives. The handle is used once and destroyed here; the setting stays with the queue behind it, and the
    // descriptor lives longer than the client by the contract of `WakeContext`.
    unsafe {
        let queue = sys::rd_kafka_queue_get_consumer(client.native_ptr());
        if !queue.is_null() {
            enable_wake(queue, client.context().wake_fd());
            sys::rd_kafka_queue_destroy(queue);
        }
    }
}

/// # Safety
/// `queue` is a live handle, and `fd` outlives the client that it belongs to.
unsafe fn enable_wake(queue: *mut sys::rd_kafka_queue_t, fd: BorrowedFd<'_>) {
    // SAFETY: as the caller promises; librdkafka copies the payload.
    unsafe { sys::rd_kafka_queue_io_event_enable(queue, fd.as_raw_fd(), WAKE.as_ptr().cast(), WAKE.len()) }
}

/// The queue of one partition, split off from the main queue.
pub(super) struct PartitionQueue(NonNull<sys::rd_kafka_queue_t>);

// SAFETY: a handle is a counted reference to a queue that librdkafka guards with its own lock.
unsafe impl Send for PartitionQueue {}

impl PartitionQueue {
    /// Splits it off and lets it write to the context's descriptor. Before the partition is assigned, or else its first records
    /// go to the main queue (FACTS F1).
    pub(super) fn split<C: WakeContext>(client: &Client<C>, topic: &CStr, partition: i32) -> Option<Self> {
        // SAFETY: the client lives and the topic is a C string; a partition that does not exist yields null.
        unsafe {
            let queue = NonNull::new(sys::rd_kafka_queue_get_partition(client.native_ptr(), topic.as_ptr(), partition))?;
            sys::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            enable_wake(queue.as_ptr(), client.context().wake_fd());
            Some(Self(queue))
        }
    }

    /// Takes up to `max` messages without waiting. Fewer mean that the queue is empty. `client` is the one that it was split from.
    pub(super) fn take<C: ClientContext>(&self, _client: &Client<C>, max: usize, into: &mut Vec<Message>) {
        into.clear();
        into.reserve(max);
        // SAFETY: the client lives, so the queue may be served. `Message` is a transparent wrapper of a non-null pointer, the buffer
        // has room for `max` of them, and librdkafka writes as many valid pointers as it says, which are ours from then on.
        unsafe {
            let taken = sys::rd_kafka_consume_batch_queue(self.0.as_ptr(), 0, into.as_mut_ptr().cast(), max);
            into.set_len(usize::try_from(taken).unwrap_or(0));
        }
    }
}

impl Drop for PartitionQueue {
    fn drop(&mut self) {
        // SAFETY: the handle is ours. It holds a reference of its own to the queue and touches nothing else, so it may be given back
        // before and after the client is gone (rd_kafka_queue_destroy).
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

/// A message that librdkafka handed over: a record, or an error of its partition.
#[repr(transparent)]
pub(super) struct Message(NonNull<sys::rd_kafka_message_t>);

// SAFETY: it has one owner, and librdkafka lets any thread read and destroy it. It is not `Sync`: looking up headers parses them
// into the message.
unsafe impl Send for Message {}

impl Message {
    /// Code and text when it is an error.
    pub(super) fn error(&self) -> Option<(i32, String)> {
        let code = self.code();
        if code == 0 {
            return None;
        }
        // SAFETY: the text belongs to the message and is copied before anything can change it.
        let text = unsafe { text(sys::rd_kafka_message_errstr(self.0.as_ptr())) };
        Some((code, text))
    }

    /// Whether it is a record.
    pub(super) fn is_record(&self) -> bool {
        self.code() == 0
    }

    /// Read as a number: a broker may send a code that the Rust enumeration does not know.
    fn code(&self) -> i32 {
        // SAFETY: the message lives, and the enumeration is a C int.
        unsafe { (&raw const (*self.0.as_ptr()).err).cast::<i32>().read() }
    }

    pub(super) fn offset(&self) -> i64 {
        self.native().offset
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        let native = self.native();
        // SAFETY: pointer and length describe bytes that live as long as the message. Null is null, any other pointer may be empty.
        unsafe { bytes(native.key, native.key_len) }
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        let native = self.native();
        // SAFETY: as for the key.
        unsafe { bytes(native.payload, native.len) }
    }

    /// Milliseconds since 1970; none when the broker has none.
    pub(super) fn timestamp(&self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives, and the kind is written to a local.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.0.as_ptr(), &raw mut kind) };
        (time != -1).then_some(time)
    }

    /// The header at `index`; none past the last.
    pub(super) fn header(&self, index: usize) -> Option<HeaderRef<'_>> {
        let none = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        let mut headers = ptr::null_mut();
        let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the message lives; it owns the headers, which are parsed once and then stay as they are, so the name (a C string)
        // and the value live as long as the borrow of the message.
        unsafe {
            if sys::rd_kafka_message_headers(self.0.as_ptr(), &raw mut headers) != none
                || sys::rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut len) != none
            {
                return None;
            }
            Some(HeaderRef { name: CStr::from_ptr(name).to_bytes(), value: bytes(value, len) })
        }
    }

    fn native(&self) -> &sys::rd_kafka_message_t {
        // SAFETY: the message lives until it is dropped, and nothing changes these fields.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: it has one owner, and its client waits for it (FACTS F3).
        unsafe { sys::rd_kafka_message_destroy(self.0.as_ptr()) }
    }
}

/// The metadata of the group as a consumer has it, to be checked and then passed to the producer as one piece (decision D9).
#[derive(Debug)]
pub struct GroupMetadata(NonNull<sys::rd_kafka_consumer_group_metadata_t>);

// SAFETY: a plain copy of some numbers and strings with one owner; nothing changes it.
unsafe impl Send for GroupMetadata {}

impl GroupMetadata {
    /// What the consumer has now; none when it has none (a static member after it left: FACTS D1).
    pub(super) fn of<C: ClientContext>(client: &Client<C>) -> Option<Self> {
        // SAFETY: the client lives; null means none.
        NonNull::new(unsafe { sys::rd_kafka_consumer_group_metadata(client.native_ptr()) }).map(Self)
    }

    /// The membership that it stands for.
    pub(super) fn fence(&self) -> Fence {
        Fence { generation: self.generation(), member_id: self.member_id() }
    }

    fn generation(&self) -> i32 {
        // SAFETY: the pointer is ours and not null.
        unsafe { sys::rd_kafka_consumer_group_metadata_generation_id(self.0.as_ptr()) }
    }

    fn member_id(&self) -> String {
        // SAFETY: the pointer is ours and not null; the text is copied.
        unsafe { text(sys::rd_kafka_consumer_group_metadata_member_id(self.0.as_ptr())) }
    }
}

impl Drop for GroupMetadata {
    fn drop(&mut self) {
        // SAFETY: it has one owner.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.0.as_ptr()) }
    }
}

/// A commit by a consumer that is not answered yet.
pub(super) struct PendingCommit(NonNull<sys::rd_kafka_queue_t>);

// SAFETY: a handle to a queue that librdkafka guards with its own lock.
unsafe impl Send for PendingCommit {}

impl PendingCommit {
    /// Sends these offsets.
    pub(super) fn send<C: ClientContext>(client: &Client<C>, offsets: &TopicPartitionList) -> Result<Self, RDKafkaErrorCode> {
        // SAFETY: client and list live, the list is copied; without a callback the answer is an event of the queue, which is ours.
        let (pending, code) = unsafe {
            let queue =
                NonNull::new(sys::rd_kafka_queue_new(client.native_ptr())).ok_or(RDKafkaErrorCode::CriticalSystemResource)?;
            let pending = Self(queue);
            let (native, offsets) = (client.native_ptr(), offsets.ptr());
            (pending, sys::rd_kafka_commit_queue(native, offsets, queue.as_ptr(), None, ptr::null_mut()))
        };
        result_of(code).map(|()| pending)
    }

    /// The answer, if it comes in time: the first error of a partition counts. `client` is the one that sent it.
    pub(super) fn wait<C: ClientContext>(&self, _client: &Client<C>, timeout: Duration) -> Option<Result<(), RDKafkaErrorCode>> {
        // SAFETY: queue and client live. The event is ours, and list and errors belong to it, which is destroyed behind their last use.
        unsafe {
            let event = NonNull::new(sys::rd_kafka_queue_poll(self.0.as_ptr(), millis(timeout)))?.as_ptr();
            let mut answer = result_of(sys::rd_kafka_event_error(event));
            let list = sys::rd_kafka_event_topic_partition_list(event);
            if let Some(list) = list.as_ref() {
                for index in 0..usize::try_from(list.cnt).unwrap_or(0) {
                    answer = answer.and_then(|()| result_of((*list.elems.add(index)).err));
                }
            }
            sys::rd_kafka_event_destroy(event);
            Some(answer)
        }
    }
}

impl Drop for PendingCommit {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and giving it back touches nothing of the client.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) }
    }
}

fn result_of(code: sys::rd_kafka_resp_err_t) -> Result<(), RDKafkaErrorCode> {
    if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code.into()) }
}

/// A topic as the producer knows it. To be dropped before its client.
pub(super) struct Topic(NonNull<sys::rd_kafka_topic_t>);

// SAFETY: a counted reference to an object that librdkafka guards with its own lock.
unsafe impl Send for Topic {}

impl Topic {
    pub(super) fn of<C: ClientContext>(client: &Client<C>, name: &CStr) -> Option<Self> {
        // SAFETY: the client lives, the name is a C string; null for the settings means the client's own.
        NonNull::new(unsafe { sys::rd_kafka_topic_new(client.native_ptr(), name.as_ptr(), ptr::null_mut()) }).map(Self)
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and the client still lives.
        unsafe { sys::rd_kafka_topic_destroy(self.0.as_ptr()) }
    }
}

/// Headers on their way to the producer.
pub(super) struct HeaderList(NonNull<sys::rd_kafka_headers_t>);

impl HeaderList {
    pub(super) fn of<'a>(headers: impl Iterator<Item = HeaderRef<'a>>, count: usize) -> Self {
        // SAFETY: librdkafka aborts the process rather than return null here.
        let list = Self(unsafe { NonNull::new_unchecked(sys::rd_kafka_headers_new(count)) });
        for header in headers {
            let (value, len) = header.value.map_or((ptr::null(), 0), |value| (value.as_ptr(), value.len()));
            // SAFETY: pointers and lengths describe live slices, which are copied; a null value is a null header. The call can't
            // fail on a list that is not read-only.
            unsafe {
                let name = header.name;
                sys::rd_kafka_header_add(list.0.as_ptr(), name.as_ptr().cast(), len_of(name.len()), value.cast(), len_of(len));
            }
        }
        list
    }
}

impl Drop for HeaderList {
    fn drop(&mut self) {
        // SAFETY: the list is ours, since `produce` forgets what it gave away.
        unsafe { sys::rd_kafka_headers_destroy(self.0.as_ptr()) }
    }
}

fn len_of(len: usize) -> isize {
    isize::try_from(len).expect("a slice is never longer than isize::MAX")
}

/// A record to be produced. `None` is null, which is not empty.
pub(super) struct Produce<'a> {
    pub(super) topic: &'a Topic,
    /// -1 lets the partitioner choose.
    pub(super) partition: i32,
    /// 0 is now.
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Option<HeaderList>,
}

/// Queues a copy of a record. The topic is one of this client.
pub(super) fn produce<C: ClientContext>(client: &Client<C>, record: Produce<'_>) -> Result<(), Fault> {
    use sys::rd_kafka_vtype_t as kind;
    let mut fields = [ptr_field(kind::RD_KAFKA_VTYPE_RKT); 7];
    fields[0].u.rkt = record.topic.0.as_ptr();
    fields[1] = ptr_field(kind::RD_KAFKA_VTYPE_PARTITION);
    fields[1].u.i32_ = record.partition;
    fields[2] = ptr_field(kind::RD_KAFKA_VTYPE_MSGFLAGS);
    fields[2].u.i = sys::RD_KAFKA_MSG_F_COPY;
    fields[3] = ptr_field(kind::RD_KAFKA_VTYPE_TIMESTAMP);
    fields[3].u.i64_ = record.timestamp;
    fields[4] = ptr_field(kind::RD_KAFKA_VTYPE_KEY);
    fields[4].u.mem = memory(record.key);
    fields[5] = ptr_field(kind::RD_KAFKA_VTYPE_VALUE);
    fields[5].u.mem = memory(record.value);
    let mut count = 6;
    if let Some(headers) = &record.headers {
        fields[6] = ptr_field(kind::RD_KAFKA_VTYPE_HEADERS);
        fields[6].u.headers = headers.0.as_ptr();
        count = 7;
    }
    // SAFETY: the client lives, `count` fields are set to the member of the union that their kind asks for, and key and value are
    // copied before the call returns.
    let error = unsafe { sys::rd_kafka_produceva(client.native_ptr(), fields.as_ptr(), count) };
    // SAFETY: the error, if any, is ours.
    let result = unsafe { outcome(error) };
    if result.is_ok() {
        // The client owns the headers now; after an error they are still ours.
        std::mem::forget(record.headers);
    }
    result
}

fn ptr_field(kind: sys::rd_kafka_vtype_t) -> sys::rd_kafka_vu_t {
    sys::rd_kafka_vu_t { vtype: kind, u: sys::rd_kafka_vu_s__bindgen_ty_1 { ptr: ptr::null_mut() } }
}

fn memory(bytes: Option<&[u8]>) -> sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
    let (start, size) = bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
    sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: start.cast_mut().cast::<c_void>(), size }
}

/// Waits until the broker has answered for all that was produced; false when time is up. Failed reports must be polled between
/// two calls, or they count as outstanding for ever (FACTS A7).
pub(super) fn flush<C: ClientContext>(client: &Client<C>, timeout: Duration) -> bool {
    // SAFETY: the client lives.
    let code = unsafe { sys::rd_kafka_flush(client.native_ptr(), millis(timeout)) };
    code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// Adds offsets to the open transaction.
pub(super) fn send_offsets<C: ClientContext>(
    client: &Client<C>,
    offsets: &TopicPartitionList,
    group: &GroupMetadata,
    timeout: Duration,
) -> Result<(), Fault> {
    // SAFETY: client, list and metadata live during the call, which copies them.
    unsafe {
        let native = client.native_ptr();
        outcome(sys::rd_kafka_send_offsets_to_transaction(native, offsets.ptr(), group.0.as_ptr(), millis(timeout)))
    }
}

/// Names the brokers once more, which wakes a call that waits for a coordinator that is gone (FACTS D8).
pub(super) fn add_brokers<C: ClientContext>(client: &Client<C>, brokers: &CStr) {
    // SAFETY: the client lives, and the list is a C string that is copied. How many were added does not matter.
    unsafe { sys::rd_kafka_brokers_add(client.native_ptr(), brokers.as_ptr()) };
}

/// The manual of all properties, as librdkafka prints it: a table in Markdown. Empty when there is no memory for it.
pub(super) fn manual() -> String {
    let (mut start, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the stream writes to a buffer of its own, whose place and size are known once it is closed; only then are they read, and
    // the buffer, which is ours from then on, is freed behind that. librdkafka only writes.
    unsafe {
        let stream = libc::open_memstream(&raw mut start, &raw mut size);
        if stream.is_null() {
            return String::new();
        }
        sys::rd_kafka_conf_properties_show(stream);
        let closed = libc::fclose(stream) == 0;
        let manual = if closed { bytes(start.cast(), size) } else { None };
        let manual = String::from_utf8_lossy(manual.unwrap_or_default()).into_owned();
        libc::free(start.cast());
        manual
    }
}

/// # Safety
/// `error` is null or an error that the caller owns; it is destroyed here.
unsafe fn outcome(error: *mut sys::rd_kafka_error_t) -> Result<(), Fault> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, and ours by the contract; the text is copied before the error goes.
    unsafe {
        let fault = Fault {
            code: sys::rd_kafka_error_code(error).into(),
            fatal: sys::rd_kafka_error_is_fatal(error) != 0,
            retriable: sys::rd_kafka_error_is_retriable(error) != 0,
            abort: sys::rd_kafka_error_txn_requires_abort(error) != 0,
            message: text(sys::rd_kafka_error_string(error)),
        };
        sys::rd_kafka_error_destroy(error);
        Err(fault)
    }
}

/// # Safety
/// `start` is null or points to `len` bytes that live for `'a`.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: as the caller promises.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast(), len) })
}

/// # Safety
/// `start` is null or a C string.
unsafe fn text(start: *const std::ffi::c_char) -> String {
    if start.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(start) }.to_string_lossy().into_owned()
}

/// Milliseconds as librdkafka takes them; what does not fit is the longest that does, never its "for ever".
fn millis(timeout: Duration) -> c_int {
    c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX)
}

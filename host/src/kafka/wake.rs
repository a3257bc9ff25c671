//! Waiting without polling: one descriptor that librdkafka writes to, and one for the other threads of the process.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The two descriptors. librdkafka holds the number of one, so it lives as long as the client's context.
#[derive(Debug)]
pub(super) struct Signal {
    client: OwnedFd,
    process: OwnedFd,
}

/// Wakes the driver out of its wait, from any thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Signal>);

impl Waker {
    /// Ends the wait that goes on, or else the next one.
    pub fn wake(&self) {
        // It can only fail when the counter is full, and then the wait ends anyway.
        let _full = write(&self.0.process, &1_u64.to_ne_bytes());
    }
}

impl Signal {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Arc::new(Self { client: eventfd(0, flags)?, process: eventfd(0, flags)? }))
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker(Arc::clone(self))
    }

    /// What librdkafka writes to.
    pub(super) fn client_fd(&self) -> BorrowedFd<'_> {
        self.client.as_fd()
    }

    /// Whether librdkafka has written since the last time that this was asked.
    pub(super) fn client_woke(&self) -> bool {
        drain(&self.client)
    }

    /// Waits for a write to either descriptor.
    pub(super) fn wait(&self, timeout: Duration) {
        let mut fds = [PollFd::new(&self.client, PollFlags::IN), PollFd::new(&self.process, PollFlags::IN)];
        let timeout = Timespec { tv_sec: timeout.as_secs().try_into().unwrap_or(1), tv_nsec: timeout.subsec_nanos().into() };
        // An interruption by a signal ends the wait early, which the driver takes for a wake-up without cause.
        if poll(&mut fds, Some(&timeout)).is_ok() && fds[1].revents().contains(PollFlags::IN) {
            drain(&self.process);
        }
    }
}

fn drain(fd: &OwnedFd) -> bool {
    let mut count = [0_u8; 8];
    loop {
        match read(fd, &mut count) {
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_waker_ends_the_wait_and_is_not_taken_for_the_client() {
        let signal = Signal::new().unwrap();
        let waker = signal.waker();
        let other = std::thread::spawn(move || waker.wake());
        let begin = Instant::now();
        signal.wait(Duration::from_secs(60));
        assert!(begin.elapsed() < Duration::from_secs(30));
        other.join().unwrap();
        assert!(!signal.client_woke());
    }

    #[test]
    fn a_write_of_the_client_is_told_once() {
        let signal = Signal::new().unwrap();
        write(signal.client_fd(), &1_u64.to_ne_bytes()).unwrap();
        signal.wait(Duration::from_secs(60));
        assert!(signal.client_woke());
        assert!(!signal.client_woke());
    }
}

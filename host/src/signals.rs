//! What the operating system asks of the process: stop, stop at once, look at the plugins again.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io;
use std::thread::{self, JoinHandle};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// First SIGTERM or SIGINT: stop in order.
    Stop,
    /// A further one: abort and leave.
    StopNow,
    /// SIGHUP: look at the plugins again.
    Reload,
}

/// A thread that listens. Dropping it ends the thread; the signals that it listened to are then without effect, they do not kill.
#[derive(Debug)]
pub struct Listener {
    signals: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Begins to listen. `on_request` is called on a thread of the listener's own.
    ///
    /// # Errors
    /// When the system refuses the handlers or the thread.
    pub fn start(mut on_request: impl FnMut(Request) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let handle = signals.handle();
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut stopping = false;
            for signal in signals.forever() {
                on_request(match signal {
                    SIGHUP => Request::Reload,
                    _ if stopping => Request::StopNow,
                    _ => Request::Stop,
                });
                stopping |= signal != SIGHUP;
            }
        })?;
        Ok(Self { signals: handle, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.signals.close();
        // The callback may be what drops the listener: then the thread ends right after it.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the thread that listens to signals has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// One test for all: signals go to the whole process.
    #[test]
    fn signals_become_requests() {
        let (tell, told) = mpsc::channel();
        let listener = Listener::start(move |request| tell.send(request).unwrap()).unwrap();
        for (signal, request) in [
            (SIGHUP, Request::Reload),
            (SIGTERM, Request::Stop),
            (SIGHUP, Request::Reload),
            (SIGINT, Request::StopNow),
            (SIGTERM, Request::StopNow),
        ] {
            signal_hook::low_level::raise(signal).unwrap();
            assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(request));
        }
        drop(listener);
        assert!(told.recv().is_err(), "the thread has ended");
    }
}

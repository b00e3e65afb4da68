//! A terminal of a test's own: what writes to it takes it that people look.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{InMemoryTerm, TermLike};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const ROWS: u16 = 24;
const SOON: Duration = Duration::from_mins(1);

pub struct Terminal {
    columns: u16,
    /// The end that programs write to.
    end: OwnedFd,
    written: Arc<Written>,
    reading: JoinHandle<()>,
}

#[derive(Default)]
struct Written {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
}

impl Terminal {
    pub fn of(columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: ROWS,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::<u8>::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let end = open(&name, flags, Mode::empty()).unwrap();
        let written = Arc::new(Written::default());
        let taken = Arc::clone(&written);
        let reading = std::thread::spawn(move || take(File::from(master), &taken));
        Self {
            columns,
            end,
            written,
            reading,
        }
    }

    /// Returns what a program writes to it by.
    pub fn output(&self) -> Stdio {
        Stdio::from(self.end.try_clone().unwrap())
    }

    /// Waits until it has been written.
    pub fn until(&self, text: &str) {
        let bytes = self.written.bytes.lock().unwrap();
        let is_missing = |bytes: &mut Vec<u8>| !String::from_utf8_lossy(bytes).contains(text);
        let (bytes, waited) = self
            .written
            .more
            .wait_timeout_while(bytes, SOON, is_missing)
            .unwrap();
        assert!(
            !waited.timed_out(),
            "{text:?} is not in {:?}",
            String::from_utf8_lossy(&bytes)
        );
    }

    /// Waits until no program has it any more; returns all that was written, and what is to be seen at the end.
    pub fn close(self) -> (String, String) {
        drop(self.end);
        self.reading.join().unwrap();
        let written = String::from_utf8(self.written.bytes.lock().unwrap().clone()).unwrap();
        let screen = InMemoryTerm::new(ROWS, self.columns);
        screen.write_str(&written).unwrap();
        (written, screen.contents())
    }
}

/// Takes what is written until nobody has the other end, which the system calls an error.
fn take(mut master: File, written: &Written) {
    let mut some = [0; 4096];
    while let Ok(length @ 1..) = master.read(&mut some) {
        written.bytes.lock().unwrap().extend(&some[..length]);
        written.more.notify_all();
    }
}

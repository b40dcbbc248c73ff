//! The executor in a child process: talks to its driver over the socket that it finds in place of
//! standard input, runs tasks one at a time, asks
//! the driver for blocks, and exits when the driver is gone.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use firesteel_closure::{ExecutableHash, SameExecutable};
use firesteel_shuffle::{MapOutput, Scratch, Slice};
use firesteel_storage::{Evict, MemoryStore};
use firesteel_task::{Environment, KillSwitch, SparkFiles, TaskIdentity};
use firesteel_types::{BroadcastId, ShuffleId, TaskFailure, TaskId};

use crate::runner::run_encoded;
use crate::{Forgotten, FromChild, ToChild, read_frame, write_frame};

/// Says which role a process has; `executor` is the only one so far.
pub const ROLE: &str = "FIRESTEEL_ROLE";

/// Whether this process is to be an executor.
pub(crate) fn is_executor() -> bool {
    std::env::var_os(ROLE).is_some_and(|role| role == "executor")
}

/// Called before `main`: is an executor until it exits.
pub(crate) fn take_over() -> ! {
    #[cfg(feature = "cluster")]
    if std::env::var_os(crate::node::DRIVER_URL).is_some() {
        crate::node::become_executor();
    }
    let code = match std::panic::catch_unwind(serve) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            eprintln!("firesteel executor: {error}");
            1
        }
        Err(_) => 2,
    };
    std::process::exit(code);
}

/// Where the task that runs now can be killed.
type Running = Arc<Mutex<Option<(TaskId, Arc<KillSwitch>)>>>;

struct Assignment {
    identity: TaskIdentity,
    body: Vec<u8>,
    files: Option<PathBuf>,
    kill: Arc<KillSwitch>,
}

/// Before `main`, Rust has not yet told the system that a write to a closed pipe is an error to be
/// returned and not a signal to die of. A handler, because a program started from here (`pipe`) gets
/// the default back, which an ignored signal would not.
pub(crate) fn survive_broken_pipes() -> io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGPIPE, unread).map(drop)
}

fn serve() -> io::Result<()> {
    survive_broken_pipes()?;
    firesteel_storage::raise_open_file_limit();
    let mut stream = take_socket()?;
    write_frame(&mut stream, &FromChild::Hello(ExecutableHash::current()?))?;
    let ToChild::Hello(hash, settings) = read_frame(&mut stream)? else {
        return Err(io::Error::other("the driver did not say hello"));
    };
    let peer = SameExecutable::verify(hash)?
        .ok_or_else(|| io::Error::other("the driver runs another executable"))?;
    let (assignments, assigned) = channel();
    let (answers, answered) = channel();
    let reader = stream.try_clone()?;
    let scratch = Scratch::with_settings(settings);
    let blocks = Arc::new(MemoryStore::new(scratch.memory().clone()));
    let evictor: Arc<dyn Evict> = blocks.clone();
    scratch.memory().set_evictor(Arc::downgrade(&evictor));
    let environment =
        RemoteEnvironment { blocks, scratch, channel: Mutex::new((stream, answered)) };
    let environment = Arc::new(environment);
    let shared = environment.clone();
    std::thread::spawn(move || {
        // The driver is gone, or has stopped: so has this process.
        let gone = listen(reader, &shared.blocks, &assignments, &answers);
        shared.scratch.remove_files();
        std::process::exit(i32::from(
            gone.is_err_and(|e| e.kind() != io::ErrorKind::UnexpectedEof),
        ));
    });
    work(&environment, peer, assigned)
}

/// Takes the socket away from standard input, where tasks that read it now find nothing.
fn take_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.peer_addr().map_err(|_| {
        io::Error::other("standard input is no socket: only drivers start executors")
    })?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

fn listen(
    mut stream: UnixStream,
    blocks: &MemoryStore,
    assignments: &Sender<Assignment>,
    answers: &Sender<ToChild>,
) -> io::Result<()> {
    let running = Running::default();
    loop {
        match read_frame(&mut stream)? {
            ToChild::Run { identity, body, files } => {
                let kill = Arc::new(KillSwitch::default());
                *lock(&running) = Some((identity.task, kill.clone()));
                let _ = assignments.send(Assignment { identity, body, files, kill });
            }
            ToChild::Forget(forgotten) => forgotten.into_iter().for_each(|it| forget(blocks, it)),
            ToChild::Kill { task, reason } => match &*lock(&running) {
                Some((current, kill)) if *current == task => kill.throw(&reason),
                _ => {}
            },
            answer => {
                let _ = answers.send(answer);
            }
        }
    }
}

fn forget(blocks: &MemoryStore, forgotten: Forgotten) {
    match forgotten {
        Forgotten::Outdated(rdd, epoch) => drop(blocks.take_outdated(rdd, epoch)),
        Forgotten::Broadcast(id) => blocks.remove_broadcast(id),
        Forgotten::BroadcastCopies(id) => blocks.drop_broadcast(id),
        Forgotten::Shuffle(shuffle) => drop(blocks.remove_shuffle(shuffle)),
        Forgotten::MapOutput(..) | Forgotten::Result(_) | Forgotten::Code(_) => {}
        Forgotten::Everything => blocks.clear(),
    }
}

fn work(
    environment: &Arc<RemoteEnvironment>,
    peer: SameExecutable,
    assigned: Receiver<Assignment>,
) -> io::Result<()> {
    for Assignment { identity, body, files, kill } in assigned {
        if let Some(root) = files {
            SparkFiles::set_root_directory(root);
        }
        let report = run_encoded(&body, peer, identity, kill, environment.clone());
        let (stream, _) = &mut *lock(&environment.channel);
        write_frame(stream, &FromChild::Done(Box::new(report)))?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Asks the driver for what is not in this process.
struct RemoteEnvironment {
    blocks: Arc<MemoryStore>,
    scratch: Scratch,
    channel: Mutex<(UnixStream, Receiver<ToChild>)>,
}

impl RemoteEnvironment {
    fn ask(&self, question: &FromChild) -> Result<ToChild, TaskFailure> {
        let (stream, answers) = &mut *lock(&self.channel);
        let lost = |what: String| TaskFailure::Error { message: format!("driver lost: {what}") };
        write_frame(stream, question).map_err(|error| lost(error.to_string()))?;
        answers.recv().map_err(|error| lost(error.to_string()))
    }
}

fn out_of_turn<T>(answer: &ToChild) -> Result<T, TaskFailure> {
    Err(TaskFailure::Error { message: format!("the driver answered out of turn: {answer:?}") })
}

impl Environment for RemoteEnvironment {
    fn blocks(&self) -> &MemoryStore {
        &self.blocks
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        task: TaskId,
        output: MapOutput,
    ) -> Result<(), TaskFailure> {
        match self.ask(&FromChild::PutMapOutput { shuffle, map, task, output })? {
            ToChild::Stored(result) => result,
            other => out_of_turn(&other),
        }
    }

    fn fetch_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
    ) -> Result<Slice, TaskFailure> {
        match self.ask(&FromChild::FetchMapOutput { shuffle, map, reduce })? {
            ToChild::Slice(result) => result.map(|(bytes, records)| Slice::whole(bytes, records)),
            other => out_of_turn(&other),
        }
    }

    fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        match self.ask(&FromChild::FetchBroadcast(id))? {
            ToChild::Broadcast(result) => result,
            other => out_of_turn(&other),
        }
    }
}

//! The crate over real sockets on the loopback interface, through its public interface.

mod connections;
mod hostile;
mod messages;
mod stage;
mod streams;
mod tls;

//! ZooKeeper's messages as bytes: numbers with the highest byte first, texts and bytes after their length.

/// Kinds of nodes.
pub(super) const PERSISTENT: i32 = 0;
pub(super) const EPHEMERAL_SEQUENTIAL: i32 = 3;

/// Kinds of requests.
pub(super) mod kind {
    pub(in super::super) const CREATE: i32 = 1;
    pub(in super::super) const DELETE: i32 = 2;
    pub(in super::super) const EXISTS: i32 = 3;
    pub(in super::super) const GET_DATA: i32 = 4;
    pub(in super::super) const SET_DATA: i32 = 5;
    pub(in super::super) const GET_CHILDREN: i32 = 8;
    pub(in super::super) const CHECK: i32 = 13;
    pub(in super::super) const MULTI: i32 = 14;
    pub(in super::super) const AUTH: i32 = 100;
    pub(in super::super) const CLOSE_SESSION: i32 = -11;
}

/// The number of a request that proves who asks.
pub(super) const AUTH_REQUEST: i32 = -4;
/// Read, write, create, delete, administer.
const ALL_RIGHTS: i32 = 31;

/// Who has all rights on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Everybody who reaches the ensemble, as Spark has it.
    World,
    /// Who has proved the same as this session.
    Session,
}
/// Whatever version a node has.
const ANY_VERSION: i32 = -1;
/// Bytes about a node that nobody here reads.
const STAT: usize = 68;

/// Why a server refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) i32);

impl Code {
    pub(super) const NO_NODE: Code = Code(-101);
    pub(super) const NO_AUTH: Code = Code(-102);
    pub(super) const NODE_EXISTS: Code = Code(-110);
    pub(super) const SESSION_EXPIRED: Code = Code(-112);
    pub(super) const AUTH_FAILED: Code = Code(-115);
}

/// A part of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// The node is there.
    Check {
        path: String,
    },
    Create {
        path: String,
        data: Vec<u8>,
    },
    Set {
        path: String,
        data: Vec<u8>,
    },
    Delete {
        path: String,
    },
}

/// Bytes to be sent.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// A request; `number` comes back with the answer.
    pub(super) fn request(number: i32, kind: i32) -> Self {
        Writer::default().int(number).int(kind)
    }

    pub(super) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn bytes(mut self, value: &[u8]) -> Self {
        self = self.int(i32::try_from(value.len()).expect("less than 2 GB"));
        self.0.extend(value);
        self
    }

    pub(super) fn create(self, path: &str, data: &[u8], flags: i32, owner: Owner) -> Self {
        let created = self.bytes(path.as_bytes()).bytes(data).int(1).int(ALL_RIGHTS);
        let owned = match owner {
            Owner::World => created.bytes(b"world").bytes(b"anyone"),
            Owner::Session => created.bytes(b"auth").bytes(b""),
        };
        owned.int(flags)
    }

    /// A name and a password, for the scheme `digest`.
    pub(super) fn auth(credentials: &str) -> Self {
        let request = Writer::request(AUTH_REQUEST, kind::AUTH).int(0);
        request.bytes(b"digest").bytes(credentials.as_bytes())
    }

    pub(super) fn multi(mut self, ops: &[Op], owner: Owner) -> Self {
        for op in ops {
            let kind = match op {
                Op::Check { .. } => kind::CHECK,
                Op::Create { .. } => kind::CREATE,
                Op::Set { .. } => kind::SET_DATA,
                Op::Delete { .. } => kind::DELETE,
            };
            self = self.int(kind).bool(false).int(-1);
            self = match op {
                Op::Check { path } | Op::Delete { path } => {
                    self.bytes(path.as_bytes()).int(ANY_VERSION)
                }
                Op::Set { path, data } => self.bytes(path.as_bytes()).bytes(data).int(ANY_VERSION),
                Op::Create { path, data } => self.create(path, data, PERSISTENT, owner),
            };
        }
        self.int(-1).bool(true).int(-1)
    }

    /// With its length before it.
    pub(super) fn framed(self) -> Vec<u8> {
        Writer::default().bytes(&self.0).0
    }
}

/// Bytes that came. What is not there reads as `None`.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        self.take(4).map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        self.take(8).map(|bytes| i64::from_be_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// A length of -1 is no bytes.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.bytes().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
    }

    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.int()?;
        (0..count).map(|_| self.text()).collect()
    }

    /// Whether every part of a transaction was done: else why not.
    pub(super) fn multi(&mut self) -> Option<Result<(), Code>> {
        loop {
            let (kind, done, error) = (self.int()?, self.take(1)?[0] != 0, self.int()?);
            match kind {
                _ if done => return Some(Ok(())),
                -1 => {
                    let code = self.int()?;
                    // The others in it say that they were not done because of one that failed.
                    if code != 0 && code != -2 || error != 0 && error != -2 {
                        return Some(Err(Code(if code == 0 { error } else { code })));
                    }
                }
                kind::CREATE => {
                    self.text()?;
                }
                kind::SET_DATA => {
                    self.take(STAT)?;
                }
                kind::DELETE | kind::CHECK => {}
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_not() {
        let bytes = Writer::default().int(-7).long(1 << 40).bytes(b"text").framed();
        let mut reader = Reader(&bytes[4..]);
        assert_eq!(reader.int(), Some(-7));
        assert_eq!(reader.long(), Some(1 << 40));
        assert_eq!(reader.text().as_deref(), Some("text"));
        assert_eq!(reader.int(), None);
        let cut = Writer::default().int(100).framed();
        assert_eq!(Reader(&cut[4..]).bytes(), None, "shorter than it says");
    }

    #[test]
    fn a_transaction_that_was_not_done_says_why() {
        let done = Writer::default().int(kind::CHECK).bool(false).int(0);
        let done = done.int(-1).bool(true).int(-1).framed();
        assert_eq!(Reader(&done[4..]).multi(), Some(Ok(())));
        let failed = Writer::default().int(-1).bool(false).int(-101).int(-101);
        let failed = failed.int(-1).bool(true).int(-1).framed();
        assert_eq!(Reader(&failed[4..]).multi(), Some(Err(Code::NO_NODE)));
        assert_eq!(Reader(&failed[4..12]).multi(), None);
    }
}

//! What is known about a failed read or write beyond its text: whether trying again can help.

use std::io;

use crate::Compression;

/// Rides inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The bytes came as they are, but are not what the file's name says.
    #[error(
        "it is damaged: its {compression} data is corrupt or cut off ({source}); no line of it can be \
         trusted, restore the file"
    )]
    Damaged { compression: Compression, source: io::Error },
    /// The bytes did not come.
    #[error(transparent)]
    Raw(io::Error),
    /// The store does not let us in, or the name cannot be used; the text says what to set.
    #[error("{0}")]
    Refused(String),
}

impl Fault {
    pub(crate) fn damaged(compression: Compression, source: io::Error) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, Fault::Damaged { compression, source })
    }

    pub(crate) fn raw(source: io::Error) -> io::Error {
        match source.get_ref().is_some_and(|inner| inner.is::<Fault>()) {
            true => source,
            false => io::Error::new(source.kind(), Fault::Raw(source)),
        }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, Fault::Refused(reason.into()))
    }
}

/// The fault inside of an error, if there is one.
pub(crate) fn fault_of(error: &io::Error) -> Option<&Fault> {
    error.get_ref()?.downcast_ref()
}

/// Whether trying again cannot help: the data is damaged, or access is refused.
pub fn is_final(error: &io::Error) -> bool {
    matches!(fault_of(error), Some(Fault::Damaged { .. } | Fault::Refused(_)))
}

/// Whether a download that failed so may do better a little later: nothing says that the file is not there, that it is not for us,
/// or that it does not fit.
pub fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
    let is_settled = matches!(error.kind(), InvalidInput | NotFound | PermissionDenied);
    !is_settled && !is_final(error) && !is_full(error)
}

/// Whether there is no room for more bytes.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

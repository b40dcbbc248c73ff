//! Rules of the master's core: these events, those effects.

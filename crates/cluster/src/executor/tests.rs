//! Rules of the executor's core: these events, those effects.

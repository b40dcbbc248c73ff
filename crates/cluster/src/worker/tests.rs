//! Rules of the worker's core: these events, those effects.

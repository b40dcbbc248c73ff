//! Rules of the application's core: these events, those effects.

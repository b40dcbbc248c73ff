//! Closures as data: [`Pure`] captures nothing, [`Shared`] brings its environment along.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{Data, Decoder, Encoder, Wire, WireError};

/// A shippable function from a tuple of arguments to `Out`.
pub trait Call<Args, Out>: Wire + Clone {
    fn call(&self, args: Args) -> Out;
}

/// What a function must be to become a [`Pure`], beside capturing nothing. Every closure without captures is one.
#[diagnostic::on_unimplemented(
    message = "this closure captures a variable, which would not travel to an executor",
    label = "captures a variable",
    note = "pass what it needs before the items: `rdd.with(value).map(|value, item| ...)`, several values as a tuple"
)]
pub trait Closure: Copy + Send + Sync + 'static {}

impl<F: Copy + Send + Sync + 'static> Closure for F {}

/// A closure that captures nothing. Zero-sized: on the wire it is nothing at all.
///
/// ```compile_fail
/// let n = std::env::args().count();
/// firesteel_closure::Pure::new(move |x: usize| x + n); // captures `n`: refused when compiled
/// ```
pub struct Pure<F>(PhantomData<fn() -> F>);

impl<F: Closure> Pure<F> {
    /// Takes the closure; refuses one that captures at compile time.
    #[inline(always)]
    pub fn new(_closure: F) -> Self {
        const { Self::CAPTURES_NOTHING };
        Pure(PhantomData)
    }

    const CAPTURES_NOTHING: () = assert!(
        size_of::<F>() == 0,
        "this closure captures variables, which would not travel to an executor: \
         pass them with `rdd.with((a, b)).map(|(a, b), x| ...)`"
    );

    #[inline(always)]
    fn get(&self) -> &F {
        const { Self::CAPTURES_NOTHING };
        // SAFETY: `F` is zero-sized (checked when compiled, one line above), so a well-aligned
        // dangling pointer is valid for reads of all of its zero bytes. A value of `F` is known to
        // exist: `self` came from `new`, which was given one, or from `decode` in a process of the
        // same executable in which `new` was given one (a `Decoder` is only made for such bytes).
        // What a zero-sized value proves in one process (a captured token that a CPU feature is there)
        // is taken to hold in the other: both run one executable on machines of one kind.
        // `F: Copy`, so that one more value of it is an ordinary copy and nothing is dropped twice;
        // `F: Send + Sync + 'static`, so any thread may use it at any time.
        unsafe { NonNull::<F>::dangling().as_ref() }
    }
}

impl<F> Clone for Pure<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Pure<F> {}

impl<F> fmt::Debug for Pure<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<F>())
    }
}

impl<F: Closure> Wire for Pure<F> {
    fn encode(&self, _: &mut Encoder) -> Result<(), WireError> {
        Ok(())
    }

    fn decode(_: &mut Decoder<'_>) -> Result<Self, WireError> {
        const { Self::CAPTURES_NOTHING };
        Ok(Pure(PhantomData))
    }
}

/// A closure that captures nothing, with an environment it is given by reference.
pub struct Shared<E, F> {
    env: Arc<E>,
    closure: Pure<F>,
}

impl<E: Data, F: Closure> Shared<E, F> {
    /// Pairs them; refuses a closure that captures at compile time.
    #[inline(always)]
    pub fn new(env: Arc<E>, closure: F) -> Self {
        Shared { env, closure: Pure::new(closure) }
    }
}

impl<E, F> Clone for Shared<E, F> {
    fn clone(&self) -> Self {
        Shared { env: self.env.clone(), closure: self.closure }
    }
}

impl<E: Data, F: Closure> Wire for Shared<E, F> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.put(&*self.env)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(Shared { env: Arc::new(input.take()?), closure: Pure::decode(input)? })
    }
}

macro_rules! callable {
    ($($arg:ident),*) => {
        impl<F, Out, $($arg),*> Call<($($arg,)*), Out> for Pure<F>
        where
            F: Fn($($arg),*) -> Out + Closure,
        {
            #[inline(always)]
            #[allow(non_snake_case)]
            fn call(&self, ($($arg,)*): ($($arg,)*)) -> Out {
                (self.get())($($arg),*)
            }
        }

        impl<E, F, Out, $($arg),*> Call<($($arg,)*), Out> for Shared<E, F>
        where
            E: Data,
            F: Fn(&E, $($arg),*) -> Out + Closure,
        {
            #[inline(always)]
            #[allow(non_snake_case)]
            fn call(&self, ($($arg,)*): ($($arg,)*)) -> Out {
                (self.closure.get())(&self.env, $($arg),*)
            }
        }
    };
}
callable!(A);
callable!(A, B);
callable!(A, B, C);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SameExecutable;

    fn through_the_wire<W: Wire>(value: &W) -> W {
        let mut out = Encoder::new();
        value.encode(&mut out).unwrap();
        let bytes = out.into_bytes();
        let mut input = Decoder::new(&bytes, SameExecutable::this_process());
        let back = W::decode(&mut input).unwrap();
        assert!(input.is_empty());
        back
    }

    #[test]
    fn a_pure_closure_is_nothing_on_the_wire_and_still_itself() {
        let triple = Pure::new(|x: u64| x * 3);
        assert_eq!(size_of_val(&triple), 0);
        assert_eq!(through_the_wire(&triple).call((14,)), 42);
    }

    #[test]
    fn an_environment_travels_with_its_closure() {
        let env = Arc::new((vec![10u64, 20], String::from("x")));
        let pick = Shared::new(env, |(table, tag): &(Vec<u64>, String), i: usize| {
            format!("{tag}{}", table[i])
        });
        assert_eq!(through_the_wire(&pick).call((1,)), "x20");
    }

    #[test]
    fn function_items_are_closures_too() {
        fn shout(text: String) -> String {
            text.to_uppercase()
        }
        assert_eq!(through_the_wire(&Pure::new(shout)).call(("a".into(),)), "A");
    }

    #[test]
    fn a_decoder_of_cut_off_bytes_reports_an_error() {
        let pick = Shared::new(Arc::new(vec![1u64, 2, 3]), |t: &Vec<u64>, i: usize| t[i]);
        fn decode_as<W: Wire>(_: &W, bytes: &[u8]) -> Result<W, WireError> {
            W::decode(&mut Decoder::new(bytes, SameExecutable::this_process()))
        }
        let mut out = Encoder::new();
        pick.encode(&mut out).unwrap();
        let bytes = out.into_bytes();
        assert!(decode_as(&pick, &bytes).is_ok());
        assert!(matches!(
            decode_as(&pick, &bytes[..bytes.len() - 1]),
            Err(WireError::Decode { .. })
        ));
    }
}

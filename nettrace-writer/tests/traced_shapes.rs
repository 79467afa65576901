//! `#[traced]` on functions of every shape: they compile as if the attribute were not there, and
//! names of their own are not confused with those of written code.
#![deny(warnings, clippy::all, clippy::pedantic, reason = "written code must cause no lint")]

mod span_support;

use crate::span_support::{block_on, seen, texts};

/// Functions that must compile as if the attribute were not there.
mod shapes {
    use std::{
        cell::{Ref, RefCell},
        fmt::Debug,
        future::ready,
        rc::Rc,
    };

    use nettrace_writer::traced;

    pub(super) struct Store {
        pub(super) items: Vec<String>,
    }

    impl Store {
        #[traced(provider = "Calls")]
        pub(super) fn first(&mut self) -> Result<&mut String, String> {
            let first = self.items.first_mut().ok_or("empty")?;
            first.push('!');
            Ok(first)
        }

        #[traced(provider = "Calls", ret)]
        pub(super) fn longer<'a>(&'a self, other: &'a str) -> &'a str {
            self.items
                .iter()
                .map(String::as_str)
                .find(|item| item.len() > other.len())
                .unwrap_or(other)
        }

        #[traced(provider = "Calls")]
        pub(super) fn iterate(&self) -> impl Iterator<Item = &str> + '_ {
            self.items.iter().map(String::as_str)
        }

        #[traced(provider = "Calls")]
        pub(super) fn try_iterate(
            &self,
        ) -> Result<impl Iterator<Item = &String> + '_, std::fmt::Error> {
            const NONE: usize = 0;
            if self.items.len() == NONE {
                Err(std::fmt::Error)?;
            }
            Ok(self.items.iter())
        }

        #[traced(provider = "Calls")]
        pub(super) fn into_items(mut self) -> Vec<String> {
            self.items.push(String::new());
            self.items
        }

        #[traced(provider = "Calls")]
        pub(super) fn count(self: Rc<Self>) -> Result<usize, ()> {
            match self.items.len() {
                0 => Err(()),
                len => Ok(len),
            }
        }

        #[traced(provider = "Calls")]
        pub(super) fn grow(&mut self, item: String) -> &mut Self {
            self.items.push(item);
            self
        }
    }

    #[traced(provider = "Calls")]
    pub(super) fn adder(by: u32) -> impl Fn(u32) -> u32 {
        move |number| number + by
    }

    type Adder = dyn Fn(u32) -> u32;

    #[traced(provider = "Calls")]
    pub(super) fn boxed(by: Option<u32>) -> Result<Box<Adder>, Box<dyn Debug>> {
        let by = by.ok_or_else(|| Box::new("none") as Box<dyn Debug>)?;
        Ok(Box::new(move |number| number + by))
    }

    #[traced(provider = "Calls", fields = [number])]
    pub(super) fn patterns(
        (a, b): (u8, u8),
        _: (),
        mut number: u16,
        [c, ..]: [u8; 2],
    ) -> Result<u16, u8> {
        number += u16::from(a);
        'outer: for turn in 0..a {
            for step in 0..c {
                if step == b + turn {
                    continue 'outer;
                }
                number += 1;
            }
        }
        if number == 0 { Err(b) } else { Ok(number) }
    }

    #[traced(provider = "Calls")]
    pub(super) fn sized<T, const N: usize>(values: [T; N], more: &[T; N]) -> Result<[T; N], T>
    where
        T: Copy + PartialEq,
    {
        if values == *more { Ok(values) } else { Err(more[0]) }
    }

    /// # Safety
    ///
    /// The pointer is of a number.
    #[traced(provider = "Calls")]
    #[allow(unsafe_code, reason = "the shape")]
    pub(super) unsafe fn read(pointer: *const u32) -> Result<u32, ()> {
        // SAFETY: by the contract of this function.
        Ok(unsafe { *pointer })
    }

    #[traced(provider = "Calls", name = "twice")]
    pub(super) extern "C" fn twice_in_c(number: u32) -> u32 {
        number * 2
    }

    #[must_use]
    #[inline]
    #[traced(provider = "Calls")]
    pub(crate) fn documented(cell: &RefCell<u8>) -> Ref<'_, u8> {
        #![allow(unused_variables, reason = "an inner attribute")]
        let unused = 1;
        cell.borrow()
    }

    #[traced(provider = "Calls", fields = [name, title, copied: Option<&str> = title])]
    pub(super) fn boxes(name: Box<str>, title: Option<&str>) -> Box<str> {
        name
    }

    #[rustfmt::skip]
    #[deny(unused_braces)]
    #[traced(provider = "Calls")]
    pub(super) fn on_one_line(number: u32) -> u32 { number }

    #[rustfmt::skip]
    #[deny(unused_braces)]
    #[traced(provider = "Calls")]
    pub(super) async fn awaited_on_one_line(number: u32) -> u32 { ready(number).await }

    #[traced(provider = "Calls", name = "borrowed")]
    #[track_caller]
    pub(super) fn borrowed<'a, T: Copy>(cell: &'a RefCell<T>, _: T) -> Ref<'a, T> {
        cell.borrow()
    }

    #[traced(provider = "Calls")]
    #[track_caller]
    pub(super) fn caller() -> u32 {
        std::panic::Location::caller().line()
    }

    #[traced(provider = "Calls", fields = [depth])]
    pub(super) fn recurse(depth: u32) -> Result<u32, String> {
        if depth == 0 { Ok(0) } else { Ok(recurse(depth - 1)? + 1) }
    }

    pub(super) trait Shape {
        #[traced(provider = "Calls", name = "area")]
        fn area(&self, scale: u32) -> u32 {
            self.side() * self.side() * scale
        }

        fn side(&self) -> u32;
    }

    pub(super) struct Square;

    impl Shape for Square {
        #[traced(provider = "Calls")]
        fn side(&self) -> u32 {
            #[traced(provider = "Calls", fields = [r#type])]
            fn nested(r#type: u32) -> u32 {
                r#type
            }
            nested(3)
        }
    }

    macro_rules! function {
        ($name:ident, $level:ident, $field:ident: $ty:ty, $value:expr) => {
            #[traced(provider = "Calls", level = $level, fields = [$field, more: u8 = $value])]
            pub(super) fn $name($field: $ty) -> Result<$ty, ()> {
                Ok($field)
            }
        };
    }

    function!(by_macro, Error, field: u16, 1 + 1);
}

#[test]
fn functions_of_every_shape_work() {
    use shapes::Shape as _;
    let seven = 7;
    let mut store = shapes::Store { items: vec!["a".to_owned()] };
    let starts = seen(|| {
        store.first().unwrap().push('?');
        assert_eq!(store.longer("x"), "a!?");
        assert_eq!(store.iterate().count(), 1);
        assert_eq!(store.try_iterate().map(Iterator::count), Ok(1));
        assert_eq!(store.grow("b".to_owned()).items.len(), 2);
        let items = store.into_items();
        assert_eq!(std::rc::Rc::new(shapes::Store { items }).count(), Ok(3));
        assert_eq!(shapes::adder(1)(2), 3);
        assert_eq!(shapes::boxed(Some(1)).ok().map(|add| add(2)), Some(3));
        assert!(shapes::boxed(None).is_err());
        assert_eq!(shapes::patterns((1, 2), (), 3, [4, 5]), Ok(6));
        assert_eq!(shapes::sized([1], &[2]), Err(2));
        #[allow(unsafe_code, reason = "the shape")]
        // SAFETY: it is the address of a number.
        let read = unsafe { shapes::read(&raw const seven) };
        assert_eq!(read, Ok(7));
        assert_eq!(shapes::twice_in_c(4), 8);
        assert_eq!(*shapes::documented(&5.into()), 5);
        assert_eq!(*shapes::borrowed(&6.into(), 1), 6);
        assert_eq!(*shapes::boxes("n".into(), None), *"n");
        assert_eq!(shapes::on_one_line(6), 6);
        assert_eq!(block_on(shapes::awaited_on_one_line(6)), 6);
        assert_eq!(shapes::caller(), line!());
        assert_eq!(shapes::recurse(2), Ok(2));
        assert_eq!(shapes::Square.area(2), 18);
        assert_eq!(shapes::by_macro(7), Ok(7));
    });
    let starts = starts.iter().filter(|event| event.opcode == 1);
    assert_eq!(
        starts.map(|event| &*event.text).collect::<Vec<_>>(),
        [
            "firstStart()",
            "longerStart()",
            "iterateStart()",
            "try_iterateStart()",
            "growStart()",
            "into_itemsStart()",
            "countStart()",
            "adderStart()",
            "boxedStart()",
            "boxedStart()",
            "patternsStart(number=3)",
            "sizedStart()",
            "readStart()",
            "twiceStart()",
            "documentedStart()",
            "borrowedStart()",
            "boxesStart(name=n, title=[], copied=[])",
            "on_one_lineStart()",
            "awaited_on_one_lineStart()",
            "callerStart()",
            "recurseStart(depth=2)",
            "recurseStart(depth=1)",
            "recurseStart(depth=0)",
            "areaStart()",
            "sideStart()",
            "nestedStart(type=3)",
            "sideStart()",
            "nestedStart(type=3)",
            "by_macroStart(field=7, more=2)",
        ]
    );
}

/// Names that written code must not use, and a crate with another name.
mod bare {
    #![no_implicit_prelude]
    #![allow(
        non_upper_case_globals,
        non_camel_case_types,
        dead_code,
        reason = "names that written code might use"
    )]
    #![deny(unused_qualifications)]

    pub(crate) mod inner {
        pub(crate) use ::nettrace_writer as tracing;
    }

    pub(crate) struct Option;
    pub(crate) struct Result;
    pub(crate) struct Ok;
    pub(crate) struct Some;
    pub(crate) struct str;
    pub(crate) const duration: () = ();
    pub(crate) const outcome: () = ();
    pub(crate) const ret: () = ();
    pub(crate) mod std {}
    pub(crate) mod core {}

    #[inner::tracing::traced(
        crate = inner::tracing, provider = "Calls", ret, fields = [end, output]
    )]
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "a reference to record")]
    pub(crate) fn names(
        mut end: ::core::primitive::u8,
        output: &::core::primitive::bool,
    ) -> ::core::primitive::u8 {
        let _ = Option;
        let (span, events) = (1, 2);
        end += <::core::primitive::u8 as ::core::convert::From<_>>::from(*output);
        end + span + events
    }

    #[inner::tracing::traced(crate = inner::tracing, provider = "Calls", ret, err = debug, polls)]
    pub(crate) async fn awaited(
        future: ::core::primitive::u8,
    ) -> ::core::result::Result<::core::primitive::u8, ()> {
        ::core::future::ready(()).await;
        ::core::result::Result::Ok(future)
    }
}

#[test]
fn locals_are_not_confused_with_arguments() {
    let expected = ["namesStart(end=1, output=true)", "namesStop(outcome=ok, ret=[5])"];
    assert_eq!(texts(|| assert_eq!(bare::names(1, &true), 5)), expected);
    assert_eq!(
        texts(|| assert_eq!(span_support::block_on(bare::awaited(3)), Ok(3))),
        [
            "awaitedStart()",
            "awaitedResume()",
            "awaitedSuspend()",
            "awaitedStop(outcome=ok, polls=1, ret=[3], err=[])",
        ]
    );
}

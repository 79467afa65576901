#![allow(unused)]

use nettrace_macros::traced;

#[traced(fields = [size, self, missing, pair, kind, 7], feilds = [])]
fn load<T>(size: T, kind: impl Clone, (pair, _): (u8, u8)) {}

#[traced(fields = path)]
fn no_list(path: &str) {}

#[traced(fields = [a], fields = [a])]
const fn constant(a: u8) {}

#[traced(fields = [size = items.capacity_hint(), size: u8 = 1, size = 2 as u8, text: T = text])]
fn expressions<T>(items: &[u8], text: T) {}

struct User {
    id: String,
}

impl User {
    #[traced(fields = [self.id, display(self.id), self.id.len])]
    fn load(&self) {}
}

#[traced(fields = [id, rest, name = id])]
fn parts(User { id }: User, [_, rest @ ..]: [u8; 4]) {}

fn main() {}

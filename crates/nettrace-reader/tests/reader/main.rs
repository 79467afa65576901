//! Reads whole streams, most of them made by hand. They are one program, because a program for each
//! file would take the linker longer than the tests take.

mod damage;
mod endless;
mod heph;
mod items;
mod reading;
mod readings_agree;
mod runtime;
mod sorting;
mod unusual_streams;
mod v5;
mod verifying;
